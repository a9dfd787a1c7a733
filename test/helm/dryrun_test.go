package helm

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

var servers = flag.String("servers", "", "the folder of etcd and kube-apiserver, for the dry run; "+
	"make servers-kubernetes builds them in test/stage/servers/bin")

// resources are the paths of the kinds of objects that an API server knows without more definitions.
var resources = map[string]string{
	"StatefulSet": "apis/apps/v1/namespaces/infra/statefulsets", "Service": "api/v1/namespaces/infra/services",
	"ServiceAccount": "api/v1/namespaces/infra/serviceaccounts", "ConfigMap": "api/v1/namespaces/infra/configmaps",
	"NetworkPolicy":           "apis/networking.k8s.io/v1/namespaces/infra/networkpolicies",
	"PodDisruptionBudget":     "apis/policy/v1/namespaces/infra/poddisruptionbudgets",
	"HorizontalPodAutoscaler": "apis/autoscaling/v2/namespaces/infra/horizontalpodautoscalers",
	"CronJob":                 "apis/batch/v1/namespaces/infra/cronjobs", "Job": "apis/batch/v1/namespaces/infra/jobs",
}

// foreign are the kinds of other projects, whose definitions are not here.
var foreign = map[string]bool{"ScaledObject": true, "ServiceMonitor": true, "PrometheusRule": true}

// An API server checks and admits each object, and stores none. The namespace warns of pods that are not "restricted",
// the strictest of Kubernetes's own standards.
func TestAnAPIServerAcceptsEachObjectAndWarnsOfNone(t *testing.T) {
	if *servers == "" {
		t.Skip("without -servers")
	}
	ask := cluster(t)
	status, warnings, text := ask("api/v1/namespaces", []byte(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {
		"name": "infra", "labels": {"pod-security.kubernetes.io/warn": "restricted"}}}`))
	if status != http.StatusCreated {
		t.Fatalf("the namespace: %d %s %s", status, warnings, text)
	}
	accepted, passed := 0, map[string]int{}
	for set, values := range sets(t) {
		all, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range all {
			var head struct{ Kind string }
			if err := yaml.Unmarshal([]byte(object), &head); err != nil {
				t.Fatal(err)
			}
			path := resources[head.Kind]
			if path == "" {
				if !foreign[head.Kind] {
					t.Errorf("the test does not know where objects of the kind %s are", head.Kind)
				}
				passed[head.Kind]++
				continue
			}
			body, err := yaml.YAMLToJSON([]byte(object))
			if err != nil {
				t.Fatal(err)
			}
			status, warnings, text := ask(path+"?dryRun=All&fieldValidation=Strict", body)
			if status != http.StatusCreated || len(warnings) > 0 {
				t.Errorf("%s: %s: %d %v\n%s", set, title(t, object), status, warnings, text)
				continue
			}
			accepted++
		}
	}
	t.Logf("%d objects were accepted; not tried, for want of their definitions: %v", accepted, passed)

	// And it does check: a field that does not exist, a privilege.
	all, err := render(t, sets(t)["smallest"])
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range all {
		if title(t, object) != "StatefulSet/m-service" {
			continue
		}
		body, err := yaml.YAMLToJSON([]byte(object))
		if err != nil {
			t.Fatal(err)
		}
		path := resources["StatefulSet"] + "?dryRun=All&fieldValidation=Strict"
		if status, _, _ := ask(path, bytes.Replace(body, []byte(`"serviceName"`), []byte(`"servicename"`), 1)); status < 400 {
			t.Errorf("an object with a wrong field is accepted: %d", status)
		}
		if _, warnings, _ := ask(path, bytes.Replace(body, []byte(`"runAsNonRoot":true`), []byte(`"runAsNonRoot":false`),
			1)); len(warnings) == 0 {
			t.Error("root causes no warning")
		}
	}
}

// cluster starts etcd and an API server, and returns a function that creates an object there.
func cluster(t *testing.T) func(path string, body []byte) (int, []string, string) {
	t.Helper()
	const token = "the-token-of-an-administrator"
	dir := t.TempDir()
	clients, peers := "http://"+free(t), "http://"+free(t)
	start(t, "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", clients,
		"--advertise-client-urls", clients, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers,
		"--log-level", "error", "--unsafe-no-fsync")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	accounts, tokens := filepath.Join(dir, "accounts.pem"), filepath.Join(dir, "tokens.csv")
	private := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := errors.Join(os.WriteFile(accounts, private, 0o600),
		os.WriteFile(tokens, []byte(token+`,admin,admin,"system:masters"`+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	address := free(t)
	_, at, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	start(t, "kube-apiserver", "--etcd-servers", clients, "--bind-address", "127.0.0.1", "--secure-port", at,
		"--cert-dir", dir, "--service-account-issuer", "https://issuer.example", "--service-account-key-file", accounts,
		"--service-account-signing-key-file", accounts, "--token-auth-file", tokens, "--authorization-mode", "RBAC",
		"--disable-admission-plugins", "ServiceAccount", "--service-cluster-ip-range", "10.0.0.0/24")
	client := &http.Client{Timeout: 30 * time.Second}
	t.Cleanup(func() { client.CloseIdleConnections() })
	request := func(method, path string, body []byte) (int, []string, string, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+address+"/"+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(r)
		if err != nil {
			return 0, nil, "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return answer.StatusCode, answer.Header.Values("Warning"), string(text), err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for ready := false; !ready; {
		if authority, err := os.ReadFile(filepath.Join(dir, "apiserver.crt")); err == nil {
			trusted := x509.NewCertPool()
			trusted.AppendCertsFromPEM(authority)
			client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}
			status, _, _, err := request(http.MethodGet, "api/v1/namespaces/default", nil)
			ready = err == nil && status == http.StatusOK
		}
		select {
		case <-ctx.Done():
			t.Fatal("the API server has not started in time")
		case <-time.After(200 * time.Millisecond):
		}
	}
	return func(path string, body []byte) (int, []string, string) {
		status, warnings, text, err := request(http.MethodPost, path, body)
		if err != nil {
			t.Fatal(err)
		}
		return status, warnings, text
	}
}

// free returns an address of this machine on which nobody listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start starts a server, which is killed with the test.
func start(t *testing.T, name string, args ...string) {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(*servers, name))
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	c := exec.Command(program, args...)
	c.Dir, c.Stdout, c.Stderr = t.TempDir(), &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, said.String()[max(0, said.Len()-3000):])
		}
	})
}
