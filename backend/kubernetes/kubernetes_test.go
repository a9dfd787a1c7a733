package kubernetes_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/backendtest"
	"github.com/millipede-iac/millipede/backend/kubernetes"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	fake "github.com/millipede-iac/millipede/test/stage/clouds/kubernetes"
)

const secrets = "/api/v1/namespaces/default/secrets"

func authority(s *fake.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func place(env map[string]string) backend.Place {
	return backend.Place{Kinds: backend.Kinds{kubernetes.Kind()},
		Environ: environ.Variables{"PATH=" + os.Getenv("PATH")}.With(environ.Of(env)...)}
}

func arguments(s *fake.Server, more map[string]cty.Value) cty.Value {
	args := map[string]cty.Value{
		"secret_suffix": cty.StringVal("state"), "host": cty.StringVal(s.URL), "token": cty.StringVal(fake.Token),
		"cluster_ca_certificate": cty.StringVal(authority(s)),
	}
	maps.Copy(args, more)
	return cty.ObjectVal(args)
}

func opened(t *testing.T, s *fake.Server, more map[string]cty.Value) backend.Backend {
	t.Helper()
	b, diags := place(nil).Open(t.Context(), "kubernetes", arguments(s, more))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return b
}

func TestTheBackendKeepsTheContract(t *testing.T) {
	servers := map[string]*fake.Server{}
	backendtest.Run(t, backendtest.Suite{Open: func(t *testing.T) backend.Backend {
		if servers[t.Name()] == nil {
			servers[t.Name()] = fake.New(t)
		}
		return opened(t, servers[t.Name()], nil)
	}})
}

func TestTheObjectsAreThoseOfOpenTofu(t *testing.T) {
	s := fake.New(t)
	b := opened(t, s, map[string]cty.Value{"labels": cty.MapVal(map[string]cty.Value{"team": cty.StringVal("a")})})
	if _, err := b.Lock(t.Context(), "w1", backendtest.Info("1", "OperationTypeApply")); err != nil {
		t.Fatal(err)
	}
	if err := b.Write(t.Context(), "w1", []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	lease, secret := s.Get("leases/lock-tfstate-w1-state"), s.Get("secrets/tfstate-w1-state")
	labels := map[string]any{
		"tfstate": "true", "tfstateSecretSuffix": "state", "tfstateWorkspace": "w1",
		"app.kubernetes.io/managed-by": "terraform", "team": "a",
	}
	for name, o := range map[string]fake.Object{"lease": lease, "secret": secret} {
		if got := o["metadata"].(map[string]any)["labels"].(map[string]any); !maps.Equal(got, labels) {
			t.Errorf("the labels of the %s are %v, want %v", name, got, labels)
		}
	}
	want := `{"ID":"1","Operation":"OperationTypeApply","Info":"","Who":"me@here","Version":"1.12.6",` +
		`"Created":"2026-11-22T04:54:54.319205105Z","Path":""}`
	annotations := lease["metadata"].(map[string]any)["annotations"].(map[string]any)
	if got := annotations["app.terraform.io/lock-info"]; got != want {
		t.Errorf("the lock is %s, want %s", got, want)
	}
	if got := lease["spec"].(map[string]any)["holderIdentity"]; got != "1" {
		t.Errorf("the holder is %v", got)
	}
	if got := secret["metadata"].(map[string]any)["annotations"].(map[string]any)["encoding"]; got != "gzip" {
		t.Errorf("the encoding is %v", got)
	}
	if err := b.Unlock(t.Context(), "w1", "1"); err != nil {
		t.Fatal(err)
	}
	lease = s.Get("leases/lock-tfstate-w1-state")
	if lease == nil || lease["spec"].(map[string]any)["holderIdentity"] != nil {
		t.Errorf("after the release the lease is %v", lease)
	}
	if err := b.Delete(t.Context(), "w1"); err != nil {
		t.Fatal(err)
	}
	if s.Get("leases/lock-tfstate-w1-state") != nil || s.Get("secrets/tfstate-w1-state") != nil {
		t.Error("objects of a deleted workspace are left")
	}
}

// split stores a state as Terraform does when it is too large for one secret, here in small pieces.
func split(t *testing.T, s *fake.Server, data []byte, size int) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(data); err != nil || w.Close() != nil {
		t.Fatal("compressing")
	}
	for n := 0; packed.Len() > 0; n++ {
		name := "tfstate-default-state"
		if n > 0 {
			name += fmt.Sprintf("-part-%d", n)
		}
		s.Put(secrets, fake.Object{
			"metadata": map[string]any{"name": name, "labels": map[string]any{
				"tfstate": "true", "tfstateSecretSuffix": "state", "tfstateWorkspace": "default",
				"app.kubernetes.io/managed-by": "terraform",
			}},
			"data": map[string]any{"tfstate": base64.StdEncoding.EncodeToString(packed.Next(size))},
		})
	}
}

func noise(n int) []byte {
	random, data := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

func TestWhatTerraformHasSplitIsReadAndJoined(t *testing.T) {
	s := fake.New(t)
	data := noise(1200)
	split(t, s, data, 100) // parts 10, 11, 12: their order is that of numbers, not of names
	b := opened(t, s, nil)
	if got, err := b.Read(t.Context(), "default"); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("read %d bytes, %v, want %d", len(got), err, len(data))
	}
	if err := b.Write(t.Context(), "default", []byte(`{"small":1}`)); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		if s.Get(fmt.Sprintf("secrets/tfstate-default-state-part-%d", n)) != nil {
			t.Errorf("part %d was not deleted", n)
		}
	}
	if got, err := b.Read(t.Context(), "default"); err != nil || string(got) != `{"small":1}` {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestAStateThatDoesNotFitIsRefusedWithBothSizes(t *testing.T) {
	s := fake.New(t)
	err := opened(t, s, nil).Write(t.Context(), "default", noise(1<<20))
	if err == nil || !strings.Contains(err.Error(), "1048576") || len(s.Requests()) > 0 {
		t.Errorf("the error is %v after %v", err, s.Requests())
	}
}

// Two processes that locked at the same time both saw no lease, or a free one; OpenTofu then fails with a conflict that
// names no holder.
func TestWhoLosesTheRaceForALockLearnsWhoHoldsIt(t *testing.T) {
	for _, claim := range []string{"a new lease", "a free lease"} {
		t.Run(claim, func(t *testing.T) {
			s := fake.New(t)
			b, other := opened(t, s, nil), opened(t, s, nil)
			if claim == "a free lease" {
				if _, err := other.Lock(t.Context(), "default", journal.LockInfo{ID: "0"}); err != nil {
					t.Fatal(err)
				}
				if err := other.Unlock(t.Context(), "default", "0"); err != nil {
					t.Fatal(err)
				}
			}
			raced := false
			s.Before(func(method, _ string) {
				if method != "GET" && !raced {
					raced = true
					if _, err := other.Lock(t.Context(), "default",
						journal.LockInfo{ID: "2", Who: "faster"}); err != nil {
						t.Error(err)
					}
				}
			})
			_, err := b.Lock(t.Context(), "default", journal.LockInfo{ID: "1"})
			var held *journal.Held
			if !errors.As(err, &held) || held.Holder.ID != "2" || held.Holder.Who != "faster" {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestAWriteThatAnotherOneOvertakesFails(t *testing.T) {
	s := fake.New(t)
	b, other := opened(t, s, nil), opened(t, s, nil)
	if err := b.Write(t.Context(), "default", []byte("1")); err != nil {
		t.Fatal(err)
	}
	raced := false
	s.Before(func(method, _ string) {
		if method == "PUT" && !raced {
			raced = true
			if err := other.Write(t.Context(), "default", []byte("2")); err != nil {
				t.Error(err)
			}
		}
	})
	if err := b.Write(t.Context(), "default", []byte("3")); err == nil || !strings.Contains(err.Error(), "409") {
		t.Errorf("the error is %v", err)
	}
	if got, _ := b.Read(t.Context(), "default"); string(got) != "2" {
		t.Errorf("the state is %q", got)
	}
}

func TestAnObjectThatIsNotOursIsNotDeleted(t *testing.T) {
	s := fake.New(t)
	s.Put(secrets, fake.Object{"metadata": map[string]any{"name": "tfstate-w1-state"}})
	if err := opened(t, s, nil).Delete(t.Context(), "w1"); err == nil || s.Get("secrets/tfstate-w1-state") == nil {
		t.Errorf("the error is %v", err)
	}
}

func TestABusyServerIsAskedAgainAndARefusalSaysWhy(t *testing.T) {
	s := fake.New(t)
	b := opened(t, s, nil)
	s.Fail(429, 429)
	if err := b.Write(t.Context(), "default", []byte("1")); err != nil {
		t.Error(err)
	}
	s.Fail(403)
	if _, err := b.Read(t.Context(), "default"); err == nil || !strings.Contains(err.Error(), "denies access") {
		t.Errorf("the error is %v", err)
	}
	wrong := opened(t, s, map[string]cty.Value{"token": cty.StringVal("s3cret-token")})
	_, err := wrong.Read(t.Context(), "default")
	if err == nil || !strings.Contains(err.Error(), "does not accept the credentials") ||
		strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error is %v", err)
	}
}

func TestCredentialsAreFoundInEachPlace(t *testing.T) {
	s := fake.New(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	write("ca.crt", authority(s))
	write("token", fake.Token+"\n")
	answer := `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",` +
		`"status":{"token":"` + fake.Token + `"}}`
	config := func(user string) string {
		return "apiVersion: v1\nkind: Config\ncurrent-context: a\n" +
			"contexts:\n- name: a\n  context: {cluster: c, user: u}\n- name: other\n  context: {cluster: none, " +
			"user: u}\n" +
			"clusters:\n- name: c\n  cluster: {server: '" + s.URL + "', certificate-authority: ca.crt}\n" +
			"users:\n- name: u\n  user: " + user + "\n- name: v\n  user: {token: wrong}\n"
	}
	byToken := write("token.yaml", config("{token: "+fake.Token+"}"))
	byFile := write("file.yaml", config("{tokenFile: token}"))
	// The file takes precedence, as in Kubernetes' own library.
	byBoth := write("both.yaml", config("{token: wrong, tokenFile: token}"))
	byName := write("name.yaml", config("{username: "+fake.Username+", password: "+fake.Password+"}"))
	byExec := write("exec.yaml", config("{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, "+
		"'echo \"$ANSWER\"'], env: [{name: ANSWER, value: '"+answer+"'}]}}"))
	nobody := write("nobody.yaml", config("{token: wrong}"))
	str := cty.StringVal
	block := cty.ListVal([]cty.Value{cty.ObjectVal(map[string]cty.Value{
		"api_version": str("client.authentication.k8s.io/v1"), "command": str("sh"),
		"args": cty.ListVal([]cty.Value{str("-c"), str(`echo "$ANSWER"`)}),
		"env":  cty.MapVal(map[string]cty.Value{"ANSWER": str(answer)}),
	})})
	for claim, c := range map[string]struct {
		args map[string]cty.Value
		env  map[string]string
	}{
		"a token":                 {args: map[string]cty.Value{"config_path": str(byToken)}},
		"a file of a token":       {args: map[string]cty.Value{"config_path": str(byFile)}},
		"a file beside a token":   {args: map[string]cty.Value{"config_path": str(byBoth)}},
		"a name and a password":   {args: map[string]cty.Value{"config_path": str(byName)}},
		"a program":               {args: map[string]cty.Value{"config_path": str(byExec)}},
		"the environment's path":  {env: map[string]string{"KUBE_CONFIG_PATH": byToken}},
		"the environment's paths": {env: map[string]string{"KUBE_CONFIG_PATHS": dir + "/none:" + byToken}},
		"the home directory": {
			args: map[string]cty.Value{"config_path": str("~/token.yaml")}, env: map[string]string{"HOME": dir},
		},
		"the first of several": {
			args: map[string]cty.Value{"config_paths": cty.ListVal([]cty.Value{str(byToken), str(nobody)})},
		},
		"a token over the kubeconfig": {
			args: map[string]cty.Value{"config_path": str(nobody), "token": str(fake.Token)},
		},
		"an exec block": {args: map[string]cty.Value{"config_path": str(nobody), "exec": block}},
		"another context with a cluster": {args: map[string]cty.Value{
			"config_path": str(byToken), "config_context": str("other"), "config_context_cluster": str("c"),
		}},
		"no kubeconfig": {env: map[string]string{
			"KUBE_HOST": s.URL, "KUBE_USER": fake.Username, "KUBE_PASSWORD": fake.Password,
			"KUBE_INSECURE": "true",
		}},
	} {
		t.Run(claim, func(t *testing.T) {
			args := map[string]cty.Value{"secret_suffix": str("state")}
			maps.Copy(args, c.args)
			b, diags := place(c.env).Open(t.Context(), "kubernetes", cty.ObjectVal(args))
			if diags.HasErrors() {
				t.Fatal(diags.Err())
			}
			if _, err := b.Read(t.Context(), "default"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A kubeconfig whose user impersonates another one was refused.
func TestAUserOfAKubeconfigMayActAsAnother(t *testing.T) {
	s := fake.New(t)
	dir := t.TempDir()
	open := func(user string) (backend.Backend, diag.List) {
		file := filepath.Join(dir, "config")
		text := "current-context: a\ncontexts:\n- name: a\n  context: {cluster: c, user: u}\n" +
			"clusters:\n- name: c\n  cluster: {server: '" + s.URL + "', insecure-skip-tls-verify: true}\n" +
			"users:\n- name: u\n  user: {token: " + fake.Token + ", " + user + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return place(nil).Open(t.Context(), "kubernetes", cty.ObjectVal(map[string]cty.Value{
			"secret_suffix": cty.StringVal("state"), "config_path": cty.StringVal(file),
		}))
	}
	b, diags := open("as: deployer, as-uid: '7', as-groups: [g1, g2], as-user-extra: {a/reason: [one, two]}")
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	if _, err := b.Read(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Impersonate-User": {"deployer"}, "Impersonate-Uid": {"7"}, "Impersonate-Group": {"g1", "g2"},
		"Impersonate-Extra-A%2freason": {"one", "two"},
	}
	if got := s.Acting(); !reflect.DeepEqual(got, want) {
		t.Errorf("the request has the headers %v, want %v", got, want)
	}
	if _, diags := open("as-groups: [g1]"); !strings.Contains(diags.Err().Error(), "Incomplete impersonation") {
		t.Errorf("groups without a user: %v", diags.Err())
	}
}

func TestWrongArgumentsAreDiagnostics(t *testing.T) {
	s := fake.New(t)
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("clusters: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for claim, c := range map[string]struct{ name, value, want string }{
		"a suffix in capitals":         {"secret_suffix", "State", "lower-case"},
		"no suffix":                    {"secret_suffix", "", "lower-case"},
		"a namespace with a slash":     {"namespace", "a/b", "not the name of a namespace"},
		"a host with another scheme":   {"host", "ftp://x", "http:// or https://"},
		"a certificate without a key":  {"client_certificate", "x", "need each other"},
		"an authority that is not PEM": {"cluster_ca_certificate", "x", "PEM"},
		"no host":                      {"host", "", "KUBECONFIG is not read"},
		"a kubeconfig that is none":    {"config_path", broken, "clusters"},
		"a context without kubeconfig": {"config_context", "a", "no context"},
		"outside of a cluster":         {"in_cluster_config", "true", "no service account"},
		"an unknown argument":          {"hots", "x", "not expected"},
	} {
		t.Run(claim, func(t *testing.T) {
			args := arguments(s, map[string]cty.Value{c.name: cty.StringVal(c.value)})
			_, diags := place(nil).Open(t.Context(), "kubernetes", args)
			if !diags.HasErrors() || !strings.Contains(diags[0].Detail, c.want) || len(diags[0].Path) == 0 {
				t.Errorf("the problems are %v, want one with %q and a path", diags.Err(), c.want)
			}
		})
	}
}

// The holder of a lease that an operator had released did not notice that, and overwrote the changes of the next
// holder.
func TestALeaseThatWasStolenIsNoticed(t *testing.T) {
	s := fake.New(t)
	p := place(nil)
	p.LockCheck = 10 * time.Millisecond
	b, diags := p.Open(t.Context(), "kubernetes", arguments(s, nil))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	lock, err := b.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
	if err != nil {
		t.Fatal(err)
	}
	other := opened(t, s, nil)
	if err := other.Unlock(t.Context(), "default", "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Lock(t.Context(), "default", backendtest.Info("2", "OperationTypePlan")); err != nil {
		t.Fatal(err)
	}
	<-lock.Lost
	for _, b := range []backend.Backend{b, other} {
		if err := backend.Close(b); err != nil {
			t.Error(err)
		}
	}
}

// A host without a scheme was accessed by http if the configuration had no certificates, and the token was sent there
// in plain text.
func TestASecretDoesNotGoToAHostInTheClear(t *testing.T) {
	s := fake.New(t)
	host := strings.TrimPrefix(s.URL, "https://")
	for claim, c := range map[string]struct {
		more map[string]cty.Value
		want string
	}{
		"a token":    {map[string]cty.Value{}, "x509"},
		"a password": {map[string]cty.Value{"token": cty.NullVal(cty.String), "password": cty.StringVal("p")}, "x509"},
		// to a request in the clear
		"nothing": {map[string]cty.Value{"token": cty.NullVal(cty.String)}, "answered 400"},
	} {
		t.Run(claim, func(t *testing.T) {
			args := map[string]cty.Value{"host": cty.StringVal(host), "cluster_ca_certificate": cty.NullVal(cty.String)}
			maps.Copy(args, c.more)
			b, diags := place(nil).Open(t.Context(), "kubernetes", arguments(s, args))
			if diags.HasErrors() {
				t.Fatal(diags.Err())
			}
			_, err := b.Read(t.Context(), "default") // the fake speaks https, with a certificate that nobody knows
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}
