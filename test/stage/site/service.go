package site

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/people"
	"github.com/millipede-iac/millipede/test/stage/process"
)

// Service is a service process with its own directory, in which it can be restarted, at the same address.
type Service struct {
	*process.Process
	// Home is its home directory; Data is its data directory.
	Home, Data string
	// Address is its address, Token the administrator's token.
	Address, Token string
	// Env is added to its environment at the next start.
	Env []string
	// Alter, if set, changes the command before it is started.
	Alter func(*exec.Cmd)
	// Client is a client of its API without retries; HTTP is for other requests.
	Client *client.Client
	HTTP   *http.Client

	site *Site
	args []string
}

// Service starts a service with the organization main, and returns when it is ready.
func (s *Site) Service(args ...string) *Service {
	s.T.Helper()
	return s.ServiceAt(s.T.TempDir(), args...)
}

// ServiceAt is Service with a home directory.
func (s *Site) ServiceAt(home string, args ...string) *Service {
	s.T.Helper()
	v := s.serviceAt(home, args...)
	v.Start()
	return v
}

// NewService is Service, but the caller starts it.
func (s *Site) NewService(args ...string) *Service {
	s.T.Helper()
	return s.serviceAt(s.T.TempDir(), args...)
}

func (s *Site) serviceAt(home string, args ...string) *Service {
	return &Service{site: s, Home: home, Data: filepath.Join(home, ".local", "share", "millipede"), args: args}
}

// Begin starts or restarts the service, and returns immediately.
func (v *Service) Begin() {
	v.site.T.Helper()
	listen := "127.0.0.1:0"
	if v.Address != "" {
		listen = strings.TrimPrefix(v.Address, "https://")
	}
	// The providers of tests write to a record, and to the objects of their cloud.
	c := v.site.Command(append([]string{"serve", "-listen=" + strings.Replace(listen, "localhost", "127.0.0.1", 1),
		"-allow-write=" + filepath.Dir(v.site.Record)}, v.args...)...)
	c.Env = append(append(c.Env, "HOME="+v.Home, "XDG_DATA_HOME=", "XDG_CONFIG_HOME="), v.Env...)
	if v.Alter != nil {
		v.Alter(c)
	}
	v.Process = Started(v.site.T, "service", c)
}

// Start starts or restarts the service, and returns when it is ready.
func (v *Service) Start() {
	t := v.site.T
	t.Helper()
	v.Begin()
	line, err := v.Await(Waiting(t), "tofu login ")
	if err != nil {
		t.Fatal(err)
	}
	if v.Address != "" {
		return
	}
	v.Address = "https://" + strings.TrimPrefix(strings.TrimSpace(line), "tofu login ")
	text, err := os.ReadFile(filepath.Join(v.Data, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	v.Token = strings.TrimSpace(string(text))
	v.Connect()
}

// Move starts the stopped service with another home, to which its data was moved. Its address is the same.
func (v *Service) Move(home string, args ...string) {
	v.site.T.Helper()
	v.Home, v.Data, v.args = home, filepath.Join(home, ".local", "share", "millipede"), append(v.args, args...)
	v.Start()
	v.Connect()
}

// Connect creates the clients, with the current authority and token.
func (v *Service) Connect() {
	t := v.site.T
	t.Helper()
	text, err := os.ReadFile(filepath.Join(v.Data, "tls", "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	v.HTTP = &http.Client{Transport: transport}
	v.Client, err = client.NewClient(&client.Config{Address: v.Address, Token: v.Token,
		HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
}

// Environ returns the environment with which a command of the site uses the service.
func (v *Service) Environ() []string {
	host := strings.TrimPrefix(v.Address, "https://")
	return []string{"SSL_CERT_FILE=" + filepath.Join(v.Data, "tls", "ca.pem"),
		"TF_TOKEN_" + strings.NewReplacer(".", "_", "-", "__").Replace(host) + "=" + v.Token}
}

// Workspace creates a workspace whose runs use the site's cloud and record: they do not get the service's own
// environment.
func (v *Service) Workspace(name string) *client.Workspace {
	v.site.T.Helper()
	w, err := people.Workspace(v.site.T.Context(), v.Client, name, map[string]string{"FLEET_CLOUD": v.site.Cloud,
		"FLEET_RECORD": v.site.Record})
	if err != nil {
		v.site.T.Fatal(err)
	}
	return w
}

// Upload creates a configuration version with a directory's files.
func (v *Service) Upload(ctx context.Context, w *client.Workspace, dir string) (*client.ConfigurationVersion, error) {
	return people.Upload(ctx, v.Client, w, dir)
}

// Apply queues a run that is applied automatically, with a configuration.
func (v *Service) Apply(w *client.Workspace, configuration string) *client.Run {
	t := v.site.T
	t.Helper()
	dir, yes := t.TempDir(), true
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := v.Upload(t.Context(), w, dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := v.Client.Runs.Create(t.Context(), client.RunCreateOptions{Workspace: w, ConfigurationVersion: c,
		AutoApply: &yes})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Over reports whether a run has ended.
func Over(s client.RunStatus) bool { return people.Over(s) }

// Ends waits for the end of a run, and checks its status.
func (v *Service) Ends(id string, want client.RunStatus) *client.Run {
	t := v.site.T
	t.Helper()
	var r *client.Run
	Eventually(t, "the run has ended", func() bool {
		var err error
		if r, err = v.Client.Runs.Read(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return Over(r.Status)
	})
	if r.Status != want {
		t.Errorf("the run %s is %s, not %s:\n%s", id, r.Status, want, v.Logs(r))
	}
	return r
}

// Logs returns the logs of a run as shown to people.
func (v *Service) Logs(r *client.Run) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return people.Logs(ctx, v.Client, r)
}

// Ask sends a request below /api/millipede/v1/; in is sent as JSON unless it is nil. It returns the status and the
// response.
func (v *Service) Ask(method, path string, in any) (int, string) {
	v.site.T.Helper()
	return v.ask(method, "/api/millipede/v1/"+path, in, v.Token)
}

// Ready returns the status and the response of /readyz, for which no token is needed.
func (v *Service) Ready() (int, string) {
	v.site.T.Helper()
	return v.ask(http.MethodGet, "/readyz", nil, "")
}

func (v *Service) ask(method, path string, in any, token string) (int, string) {
	t := v.site.T
	t.Helper()
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, v.Address+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := v.HTTP.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// ShareKey gives a service the key of another one, as members of a group need it.
func ShareKey(t testing.TB, from, to *Service) {
	t.Helper()
	key := filepath.Join(".config", "millipede", "service.key")
	text, err := os.ReadFile(filepath.Join(from.Home, key))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(filepath.Join(to.Home, key)), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(to.Home, key), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Add adds arguments to the next start.
func (v *Service) Add(args ...string) { v.args = append(v.args, args...) }
