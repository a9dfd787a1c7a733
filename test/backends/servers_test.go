package backends

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	cloud "github.com/millipede-iac/millipede/internal/cloud/azure"
	"github.com/millipede-iac/millipede/test/stage/clouds/amazon"
	"github.com/millipede-iac/millipede/test/stage/clouds/azure"
	"github.com/millipede-iac/millipede/test/stage/clouds/intercept"
	"github.com/millipede-iac/millipede/test/stage/process"
)

var servers = flag.String("servers", "", "the folder test/stage/servers, in which npm ci has installed the servers: "+
	"the tests use these servers, too")

// others start servers of other projects, which are more faithful than our fakes.
var others = map[string]func(t *testing.T) *world{
	"azurerm on azurite": func(t *testing.T) *world {
		address := "http://" + serve(t, "azurite-blob", []string{"AZURITE_ACCOUNTS=" + azure.Account + ":" + azure.AccessKey},
			func(port string) []string {
				return []string{"--blobHost", "127.0.0.1", "--inMemoryPersistence", "--skipApiVersionCheck", "--silent",
					"--blobPort", port}
			})
		host := azure.Account + ".blob.core.windows.net"
		container(t, address, host)
		to, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		p := intercept.New(t, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // the host names the account, and is signed
		}})
		env := p.Env()
		env["ARM_ACCESS_KEY"] = azure.AccessKey
		return &world{kind: "azurerm", env: env, body: `
			storage_account_name = "` + azure.Account + `"
			container_name       = "states"
			key                  = "a/b.tfstate"`}
	},
	"s3 with dynalite": func(t *testing.T) *world {
		address := "http://" + serve(t, "dynalite", nil, func(port string) []string {
			return []string{"--createTableMs", "0", "--port", port}
		})
		w := worlds["s3"](t)
		env := maps.Clone(w.env)
		env["AWS_ENDPOINT_URL_DYNAMODB"] = address
		table(t, address)
		return &world{kind: "s3", env: env, body: w.body}
	},
	"gcs on fake-gcs-server": func(t *testing.T) *world {
		data := t.TempDir() // each directory in it is a bucket
		if err := os.Mkdir(filepath.Join(data, "states"), 0o700); err != nil {
			t.Fatal(err)
		}
		address := "http://" + serve(t, "fake-gcs-server", nil, func(port string) []string {
			return []string{"-scheme", "http", "-backend", "memory", "-data", data, "-host", "127.0.0.1", "-port", port,
				"-public-host", "127.0.0.1:" + port, "-log-level", "error"}
		})
		return &world{kind: "gcs", env: map[string]string{
			"GOOGLE_OAUTH_ACCESS_TOKEN": "token", "GOOGLE_STORAGE_CUSTOM_ENDPOINT": address + "/storage/v1/",
		}, body: `
			bucket = "states"
			prefix = "a/b"`}
	},
	// versitygw checks the signatures of requests.
	"s3 on versitygw": func(t *testing.T) *world {
		const region = "eu-west-1"
		data, metadata := t.TempDir(), t.TempDir()
		if err := os.Mkdir(filepath.Join(data, "states"), 0o700); err != nil { // a bucket
			t.Fatal(err)
		}
		address := "http://" + serve(t, "versitygw", nil, func(port string) []string {
			return []string{"--port", "127.0.0.1:" + port, "--access", amazon.AccessKey, "--secret", amazon.SecretKey,
				"--region", region, "--quiet", "posix", "--sidecar", metadata, data}
		})
		return &world{kind: "s3", env: map[string]string{
			"AWS_ACCESS_KEY_ID": amazon.AccessKey, "AWS_SECRET_ACCESS_KEY": amazon.SecretKey, "AWS_REGION": region,
			"AWS_ENDPOINT_URL_S3": address,
		}, body: `
			bucket                      = "states"
			key                         = "a/b.tfstate"
			use_lockfile                = true
			use_path_style              = true
			skip_credentials_validation = true
			skip_requesting_account_id  = true
			skip_metadata_api_check     = true`}
	},
	"kubernetes on kube-apiserver": cluster,
}

// The coordinator runs in both directories; with the variable TOFU, OpenTofu runs in the second one.
func TestServersOfOthersSupportEveryStepOfAUser(t *testing.T) {
	if *servers == "" {
		t.Skip("-servers names no folder with servers (make servers)")
	}
	for name, make := range others {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			walk(t, make(t))
		})
	}
}

// freePort returns a port of 127.0.0.1 on which nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}

// serve starts a server on a free port, waits until it listens, and returns its address without a scheme. name is the
// absolute path of a program, or the name of a program in test/stage/servers, which is written in Go or for Node.
func serve(t *testing.T, name string, env []string, args func(port string) []string) string {
	t.Helper()
	port := freePort(t)
	address := net.JoinHostPort("127.0.0.1", port)
	program := name
	if !filepath.IsAbs(program) {
		program = filepath.Join(*servers, "bin", name)
		if _, err := os.Stat(program); err != nil {
			program = filepath.Join(*servers, "node_modules", ".bin", name)
		}
	}
	cmd := exec.Command(program, args(port)...)
	cmd.Dir, cmd.Env = t.TempDir(), append(env, "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir())
	p, err := process.Start(name, cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	eventually(t, name+" listens", func() bool {
		select {
		case <-p.Done():
			t.Fatalf("%s ended:\n%s", name, p.Output())
		default:
		}
		conn, err := net.Dial("tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err == nil
	})
	return address
}

// send sends a request that must succeed. It prepares a server.
func send(t *testing.T, r *http.Request) {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		text, _ := httputil.DumpResponse(answer, true)
		t.Fatalf("%s %s: %s", r.Method, r.URL, text)
	}
}

// container creates a container for blobs.
func container(t *testing.T, address, host string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address+"/states?restype=container", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	r.Header.Set("X-Ms-Version", "2021-12-02")
	r.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
	key, err := base64.StdEncoding.DecodeString(azure.AccessKey)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(cloud.StringToSign(azure.Account, r.Method, r.URL, r.Header, 0)))
	r.Header.Set("Authorization", fmt.Sprintf("SharedKey %s:%s", azure.Account,
		base64.StdEncoding.EncodeToString(mac.Sum(nil))))
	send(t, r)
}

// table creates the table of locks.
func table(t *testing.T, address string) {
	t.Helper()
	body := `{"TableName":"locks","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"LockID","KeyType":` +
		`"HASH"}],"AttributeDefinitions":[{"AttributeName":"LockID","AttributeType":"S"}]}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.CreateTable")
	r.Header.Set("X-Amz-Date", time.Now().UTC().Format("20060102T150405Z"))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+amazon.AccessKey+
		"/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=00") // dynalite does not check it
	send(t, r)
}

// cluster starts the control plane of a Kubernetes cluster: etcd, and an API server with an administrator's token.
func cluster(t *testing.T) *world {
	if _, err := os.Stat(filepath.Join(*servers, "bin", "kube-apiserver")); err != nil {
		t.Skip("there is no kube-apiserver (make servers-kubernetes builds it): ", err)
	}
	const token = "the-token-of-an-administrator"
	peers := "http://" + net.JoinHostPort("127.0.0.1", freePort(t))
	etcd := "http://" + serve(t, "etcd", nil, func(port string) []string {
		clients := "http://127.0.0.1:" + port
		return []string{"--data-dir", t.TempDir(), "--listen-client-urls", clients, "--advertise-client-urls", clients,
			"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers,
			"--log-level", "error", "--unsafe-no-fsync"}
	})
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	accounts, tokens := filepath.Join(dir, "accounts.pem"), filepath.Join(dir, "tokens.csv")
	for file, content := range map[string][]byte{
		accounts: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
		tokens:   []byte(token + `,admin,admin,"system:masters"` + "\n"),
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := "https://" + serve(t, "kube-apiserver", nil, func(port string) []string {
		return []string{"--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", port, "--cert-dir", dir,
			"--service-account-issuer", "https://issuer.example", "--service-account-key-file", accounts,
			"--service-account-signing-key-file", accounts, "--token-auth-file", tokens, "--authorization-mode", "RBAC",
			"--disable-admission-plugins", "ServiceAccount", "--service-cluster-ip-range", "10.0.0.0/24"}
	})
	authority, err := os.ReadFile(filepath.Join(dir, "apiserver.crt")) // it is written before the server listens
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	t.Cleanup(client.CloseIdleConnections)
	eventually(t, "the API server has created the default namespace", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/api/v1/namespaces/default", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := client.Do(r)
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	return &world{kind: "kubernetes", env: map[string]string{
		// OpenTofu requires the name of a file; the file need not exist.
		"KUBE_CONFIG_PATH": filepath.Join(dir, "none"), "KUBE_TOKEN": token, "KUBE_CLUSTER_CA_CERT_DATA": string(authority),
	}, body: `
			host          = "` + address + `"
			secret_suffix = "state"`}
}
