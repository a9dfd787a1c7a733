package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/internal/environ"
)

// served is a service in this process, as `coordinator serve` creates it.
type served struct {
	t      *testing.T
	client *client.Client
	// http, address and token are those of the client.
	http           *http.Client
	address, token string
	// certificate is the file with the authority that its certificate is from.
	certificate string
	// stop interrupts it, and returns its exit code.
	stop func() int
}

// serveIn starts a service over a home directory.
func serveIn(t *testing.T, home, token string) (*served, string) {
	t.Helper()
	return serveTo(t, home, token, t.Output())
}

// serveTo is serveIn with the service's output, and more options.
func serveTo(t *testing.T, home, token string, stderr io.Writer, more ...string) (*served, string) {
	t.Helper()
	return serveUnder(t, environ.Variables{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, token, stderr, more...)
}

// serveUnder is serveTo with an environment.
func serveUnder(t *testing.T, environment environ.Variables, token string, stderr io.Writer, more ...string) (
	*served, string) {
	t.Helper()
	out, said := io.Pipe()
	home, _ := environment.Lookup("HOME")
	a := newApp(strings.NewReader(""), said, stderr, environment)
	code := make(chan int, 1)
	go func() { code <- a.Run(context.Background(), append([]string{"serve", "-listen=127.0.0.1:0"}, more...)) }()
	address := ""
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if rest, ok := strings.CutPrefix(line, "tofu login "); ok {
			address = "https://" + rest
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if token == "" {
		text, err := os.ReadFile(filepath.Join(home, ".local", "share", "millipede", "admin.token"))
		if err != nil {
			t.Fatal(err)
		}
		token = strings.TrimSpace(string(text))
	}
	certificate := filepath.Join(home, ".local", "share", "millipede", "tls", "ca.pem")
	text, err := os.ReadFile(certificate)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	c, err := client.NewClient(&client.Config{Address: address, Token: token,
		HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, client: c, http: &http.Client{Transport: transport}, address: address, token: token,
		certificate: certificate}
	s.stop = sync.OnceValue(func() int {
		a.Interrupts.Demand("")
		transport.CloseIdleConnections()
		return <-code
	})
	t.Cleanup(func() { s.stop() }) // files that it still writes would make the removal of the directory fail
	return s, token
}

// run uploads a configuration, applies it, and returns the run once it has ended.
func (s *served) run(w *client.Workspace, text string, o client.RunCreateOptions) *client.Run {
	s.t.Helper()
	dir := s.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return s.runDir(w, dir, o)
}

// runDir is run with the configuration in a directory.
func (s *served) runDir(w *client.Workspace, dir string, o client.RunCreateOptions) *client.Run {
	s.t.Helper()
	r, err := s.tryRun(w, dir, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// tryRun is runDir for any goroutine.
func (s *served) tryRun(w *client.Workspace, dir string, o client.RunCreateOptions) (*client.Run, error) {
	ctx, no, yes := s.t.Context(), false, true
	cv, err := s.client.ConfigurationVersions.Create(ctx, w.ID,
		client.ConfigurationVersionCreateOptions{AutoQueueRuns: &no})
	if err == nil {
		err = s.client.ConfigurationVersions.Upload(ctx, cv.UploadURL, dir)
	}
	if err != nil {
		return nil, err
	}
	o.Workspace, o.ConfigurationVersion, o.AutoApply = w, cv, &yes
	r, err := s.client.Runs.Create(ctx, o)
	over := []client.RunStatus{client.RunApplied, client.RunErrored, client.RunPlannedAndFinished, client.RunCanceled,
		"force_canceled"}
	for err == nil && !slices.Contains(over, r.Status) {
		r, err = s.client.Runs.Read(ctx, r.ID)
	}
	return r, err
}

// log returns the log of a phase as people read it.
func (s *served) log(r io.Reader, err error) string {
	s.t.Helper()
	if err != nil {
		s.t.Error(err)
		return ""
	}
	text, err := io.ReadAll(r)
	if err != nil {
		s.t.Error(err)
	}
	return string(text)
}

func (s *served) output(w *client.Workspace, name string) string {
	s.t.Helper()
	all, err := s.client.StateVersionOutputs.ReadCurrent(s.t.Context(), w.ID)
	if err != nil {
		s.t.Error(err)
		return ""
	}
	for _, o := range all.Items {
		if o.Name == name {
			return fmt.Sprint(o.Value)
		}
	}
	return ""
}

const servedConfiguration = `
terraform {
  cloud {
    organization = "main"
    workspaces { name = "one" }
  }
}
variable "x" {}
variable "secret" { sensitive = true }
resource "terraform_data" "a" { input = var.x }
output "o" { value = "${terraform_data.a.output} in ${terraform.workspace}" }
output "s" {
  value     = var.secret
  sensitive = true
}
`

// seed matches the seeds of curve key pairs.
var seed = regexp.MustCompile(`\bSX[A-Z2-7]{56}\b`)

// A service plans and applies for a program that does not know it; confirmed changes exist after a restart; and its
// directory has no secret in plain text.
func TestAServiceCarriesRunsOut(t *testing.T) {
	home := t.TempDir()
	s, token := serveIn(t, home, "")
	ctx := t.Context()
	w, err := s.client.Workspaces.Create(ctx, "main", client.WorkspaceCreateOptions{Name: client.String("one")})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"secret": "canary-variable", "x": "from the workspace"} {
		if _, err := s.client.Variables.Create(ctx, w.ID, client.VariableCreateOptions{
			Key: &key, Value: &value, Category: client.Category(client.CategoryTerraform),
			Sensitive: client.Bool(key == "secret"),
		}); err != nil {
			t.Fatal(err)
		}
	}
	r := s.run(w, servedConfiguration, client.RunCreateOptions{})
	plan := s.log(s.client.Plans.Logs(ctx, r.Plan.ID))
	if r.Status != client.RunApplied || !strings.Contains(plan, "Plan: 1 to add") {
		t.Fatalf("%s: %s", r.Status, plan)
	}
	if got := s.output(w, "o"); got != "from the workspace in one" {
		t.Errorf("the output is %q", got)
	}
	if apply := s.log(s.client.Applies.Logs(ctx, r.Apply.ID)); !strings.Contains(apply, "1 added") ||
		strings.Contains(plan+apply, "canary") {
		t.Errorf("the logs: %s%s", plan, apply)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	err = filepath.WalkDir(filepath.Join(home, ".local"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "canary-variable") {
			t.Errorf("%s tells the secret", path)
		}
		if seed.Match(data) {
			t.Errorf("%s tells the seed of a key pair", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	s, _ = serveIn(t, home, token)
	again := s.run(w, servedConfiguration,
		client.RunCreateOptions{Variables: []*client.RunVariable{{Key: "x", Value: `"from the run"`}}})
	if got := s.output(w, "o"); again.Status != client.RunApplied || got != "from the run in one" {
		t.Errorf("after a start: %s, %q", again.Status, got)
	}
	idle := s.run(w, servedConfiguration,
		client.RunCreateOptions{Variables: []*client.RunVariable{{Key: "x", Value: `"from the run"`}}})
	if idle.Status != client.RunPlannedAndFinished {
		t.Errorf("nothing to do: %s", idle.Status)
	}
	broken := s.run(w, "resource \"terraform_data\" \"a\" { input = nosuch.thing }", client.RunCreateOptions{})
	if text := s.log(s.client.Plans.Logs(ctx, broken.Plan.ID)); broken.Status != client.RunErrored ||
		!strings.Contains(text, "main.tf line 1") {
		t.Errorf("%s: %s", broken.Status, text)
	}
	// A client that read the log of an apply that never began waited for it for ever.
	if text := s.log(s.client.Applies.Logs(ctx, broken.Apply.ID)); text != "" {
		t.Errorf("the log of an apply that did not come: %s", text)
	}
	gone := s.run(w, servedConfiguration, client.RunCreateOptions{IsDestroy: client.Bool(true)})
	if gone.Status != client.RunApplied {
		t.Errorf("destroyed: %s: %s", gone.Status, s.log(s.client.Plans.Logs(ctx, gone.Plan.ID)))
	}
	s.stop()
}

// Each phase of a run had a NATS server and a worker of its own. Now all phases use one connection, and must not share
// environments, limits, places and results.
func TestTwentyWorkspacesHaveRunsAtOnce(t *testing.T) {
	s, _ := serveIn(t, t.TempDir(), "")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(`
resource "terraform_data" "a" {
  count = 5
  input = "${terraform.workspace}-${count.index}"
  provisioner "local-exec" {
    command = "test \"$OWN\" = 'of ${terraform.workspace}' -a \"$TFC_WORKSPACE_NAME\" = ${terraform.workspace}"
  }
}
output "o" { value = join(" ", terraform_data.a[*].output) }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	one := func(name string) error {
		w, err := s.client.Workspaces.Create(t.Context(), "main",
			client.WorkspaceCreateOptions{Name: client.String(name)})
		if err != nil {
			return err
		}
		if _, err := s.client.Variables.Create(t.Context(), w.ID, client.VariableCreateOptions{
			Key: client.String("OWN"), Value: client.String("of " + name),
			Category: client.Category(client.CategoryEnv),
		}); err != nil {
			return err
		}
		r, err := s.tryRun(w, dir, client.RunCreateOptions{})
		if err != nil {
			return err
		}
		want := strings.ReplaceAll("W-0 W-1 W-2 W-3 W-4", "W", name)
		if got := s.output(w, "o"); r.Status != client.RunApplied || got != want {
			return fmt.Errorf("%s, %q: %s%s", r.Status, got, s.log(s.client.Plans.Logs(t.Context(), r.Plan.ID)),
				s.log(s.client.Applies.Logs(t.Context(), r.Apply.ID)))
		}
		return nil
	}
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if err := one(fmt.Sprintf("w%d", i)); err != nil {
				t.Errorf("workspace %d: %v", i, err)
			}
		})
	}
	group.Wait()
	s.stop()
}

// Every phase needed the store of its workspace exclusively: a speculative plan ended with "Error acquiring the state
// lock" while another run applied, or made that run end with this error.
func TestPlansThatApplyNothingWaitForNobody(t *testing.T) {
	s, _ := serveIn(t, t.TempDir(), "")
	w, err := s.client.Workspaces.Create(t.Context(), "main", client.WorkspaceCreateOptions{Name: client.String("one")})
	if err != nil {
		t.Fatal(err)
	}
	dir, begun, goOn := t.TempDir(), filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "go-on")
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), fmt.Appendf(nil, `
resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "touch %s; while [ ! -e %s ]; do sleep 0.05; done"
  }
}
`, begun, goOn), 0o600); err != nil {
		t.Fatal(err)
	}
	applied := make(chan *client.Run, 1)
	go func() {
		r, err := s.tryRun(w, dir, client.RunCreateOptions{})
		if err != nil {
			t.Error(err)
		}
		applied <- r
	}()
	for _, err := os.Stat(begun); err != nil && !t.Failed(); _, err = os.Stat(begun) {
		runtime.Gosched()
	}
	yes := true
	for what, o := range map[string]client.RunCreateOptions{
		"only looked at": {PlanOnly: &yes, Message: client.String("a")},
		"again":          {PlanOnly: &yes, Message: client.String("b")},
	} {
		if r := s.runDir(w, dir, o); r.Status != client.RunPlannedAndFinished {
			t.Errorf("%s: %s: %s", what, r.Status, s.log(s.client.Plans.Logs(t.Context(), r.Plan.ID)))
		}
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := <-applied; r != nil && r.Status != client.RunApplied {
		t.Errorf("%s: %s", r.Status, s.log(s.client.Applies.Logs(t.Context(), r.Apply.ID)))
	}
	s.stop()
}

// The variables of a run concern only the run. These would make the service use another program's plugins, or write to
// other directories of its own.
func TestARunDoesNotReachIntoTheService(t *testing.T) {
	home := t.TempDir()
	s, _ := serveIn(t, home, "")
	w, err := s.client.Workspaces.Create(t.Context(), "main", client.WorkspaceCreateOptions{Name: client.String("one")})
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(home, "elsewhere")
	for key, value := range map[string]string{
		"MILLIPEDE_NATS": "nats://127.0.0.1:1", "TF_REATTACH_PROVIDERS": "this cannot be read", "TF_DATA_DIR": data,
	} {
		if _, err := s.client.Variables.Create(t.Context(), w.ID, client.VariableCreateOptions{
			Key: &key, Value: &value, Category: client.Category(client.CategoryEnv),
		}); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.tf": `resource "terraform_data" "a" {}`, "millipede.hcl": "nats {\n  url = \"nats://127.0.0.1:1\"\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := s.runDir(w, dir, client.RunCreateOptions{})
	if r.Status != client.RunApplied {
		t.Errorf("%s: %s", r.Status, s.log(s.client.Plans.Logs(t.Context(), r.Plan.ID)))
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the run has written to a directory that it has chosen: %v", err)
	}
	s.stop()
}
