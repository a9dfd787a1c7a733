package drivers_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-exec/tfexec"
)

// service is `coordinator serve` in a process of its own, with all that a driver needs to reach it in the environment.
type service struct {
	t           *testing.T
	host, token string
	http        *http.Client
}

// newService starts a service. It ends with the test.
func newService(t *testing.T) *service {
	t.Helper()
	home := t.TempDir()
	command := exec.CommandContext(t.Context(), binary, "serve", "-listen=127.0.0.1:0")
	command.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TF_CLI_CONFIG_FILE=" + mirror}
	command.Stderr = t.Output()
	out, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	t.Cleanup(func() {
		if err := command.Process.Signal(os.Interrupt); err != nil {
			t.Logf("the service had ended: %v", err)
		}
		_ = command.Wait() // it was interrupted
	})
	s := &service{t: t}
	for lines := bufio.NewScanner(out); s.host == "" && lines.Scan(); {
		if host, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "tofu login "); ok {
			s.host = host
		}
	}
	if s.host == "" {
		t.Fatal("the service has not told where it is")
	}
	token, err := os.ReadFile(filepath.Join(home, ".local", "share", "millipede", "admin.token"))
	must(t, err)
	s.token = strings.TrimSpace(string(token))
	authority := filepath.Join(home, ".local", "share", "millipede", "tls", "ca.pem")
	text, err := os.ReadFile(authority)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	s.http = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
	t.Setenv("SSL_CERT_FILE", authority)
	t.Setenv("TF_TOKEN_"+s.host, s.token)
	return s
}

// do asks the API for something, and reads the answer into v.
func (s *service) do(method, path, body string, v any) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "https://"+s.host+"/api/v2/"+path, strings.NewReader(body))
	must(s.t, err)
	r.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := s.http.Do(r)
	must(s.t, err)
	text, err := io.ReadAll(answer.Body)
	must(s.t, err)
	must(s.t, answer.Body.Close())
	if answer.StatusCode/100 != 2 {
		s.t.Fatalf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	if v != nil {
		must(s.t, json.Unmarshal(text, v))
	}
}

// cloud is a block by which a configuration has its state, and its runs, at the service.
func (s *service) cloud(workspaces string) string {
	return fmt.Sprintf("terraform {\n  cloud {\n    hostname = %q\n    organization = \"main\"\n    workspaces {\n"+
		"      %s\n    }\n  }\n}\n", s.host, workspaces)
}

const data = `
variable "size" {
  default = "small"
}

resource "terraform_data" "a" {
  input = var.size
}

output "size" {
  value = terraform_data.a.output
}

output "secret" {
  value     = "hidden"
  sensitive = true
}
`

func TestExecDrivesRunsOfAService(t *testing.T) {
	s := newService(t)
	tf, dir := inDir(t, s.cloud(`name = "one"`)+data)
	ctx := t.Context()
	if v, _, err := tf.Version(ctx, true); err != nil || v.String() != "1.12.6" {
		t.Errorf("the version is %s, %v", v, err)
	}
	changes, err := tf.Plan(ctx, tfexec.Out("plan"), tfexec.Var("size=large"))
	must(t, err)
	plan, err := tf.ShowPlanFile(ctx, "plan")
	must(t, err)
	if !changes || len(plan.ResourceChanges) != 1 || !plan.ResourceChanges[0].Change.Actions.Create() ||
		plan.Variables["size"].Value != "large" {
		t.Errorf("%t, the plan is %+v", changes, plan)
	}
	text, err := tf.ShowPlanFileRaw(ctx, "plan")
	must(t, err)
	if !strings.Contains(text, "Plan: 1 to add, 0 to change, 0 to destroy.") {
		t.Errorf("the plan is shown as %s", text)
	}
	must(t, tf.Apply(ctx, tfexec.DirOrPlan("plan")))
	outputs, err := tf.Output(ctx)
	must(t, err)
	if string(outputs["size"].Value) != `"large"` || string(outputs["secret"].Value) != `"hidden"` {
		t.Errorf("the outputs are %v", outputs)
	}
	if changes, err = tf.Plan(ctx, tfexec.Var("size=large")); err != nil || changes {
		t.Errorf("after the apply there is something to do, or %v", err)
	}
	if err := tf.Apply(ctx, tfexec.DirOrPlan("plan")); err == nil || !strings.Contains(err.Error(), "applied") {
		t.Errorf("a plan was applied twice: %v", err)
	}
	must(t, tf.Apply(ctx)) // with the default of the variable
	if r := onlyResource(t, tf); r.AttributeValues["output"] != "small" {
		t.Errorf("%+v", r.AttributeValues)
	}
	var runs struct {
		Data []struct{ Attributes struct{ Status string } }
	}
	s.do(http.MethodGet, "workspaces/"+s.workspace("one")+"/runs", "", &runs)
	if len(runs.Data) != 3 || runs.Data[0].Attributes.Status != "applied" {
		t.Errorf("the service knows of %+v", runs.Data)
	}
	must(t, tf.Destroy(ctx))
	if state, err := tf.Show(ctx); err != nil || state.Values != nil && len(state.Values.RootModule.Resources) > 0 {
		t.Errorf("%+v, %v", state.Values, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "terraform.tfstate")); !os.IsNotExist(err) {
		t.Errorf("there is a state beside the configuration: %v", err)
	}
}

// workspace returns the identity of a workspace.
func (s *service) workspace(name string) string {
	s.t.Helper()
	var w struct{ Data struct{ ID string } }
	s.do(http.MethodGet, "organizations/main/workspaces/"+name, "", &w)
	return w.Data.ID
}

func TestExecWorksOnAStateOfAService(t *testing.T) {
	s := newService(t)
	tf, _ := inDir(t, s.cloud(`name = "one"`)+data)
	ctx := t.Context()
	must(t, tf.Import(ctx, "terraform_data.a", "imported"))
	if r := onlyResource(t, tf); r.AttributeValues["id"] != "imported" {
		t.Errorf("%+v", r.AttributeValues)
	}
	must(t, tf.Taint(ctx, "terraform_data.a"))
	must(t, tf.Untaint(ctx, "terraform_data.a"))
	must(t, tf.StateMv(ctx, "terraform_data.a", "terraform_data.b"))
	pulled, err := tf.StatePull(ctx)
	must(t, err)
	must(t, tf.StateRm(ctx, "terraform_data.b"))
	var document map[string]any
	must(t, json.Unmarshal([]byte(pulled), &document))
	document["serial"] = document["serial"].(float64) + 10
	pushed, err := json.Marshal(document)
	must(t, err)
	file := filepath.Join(t.TempDir(), "pushed.tfstate")
	must(t, os.WriteFile(file, pushed, 0o600))
	must(t, tf.StatePush(ctx, file))
	if r := onlyResource(t, tf); r.Address != "terraform_data.b" || r.AttributeValues["id"] != "imported" {
		t.Errorf("what was pushed is %+v", r)
	}

	id := s.workspace("one")
	s.do(http.MethodPost, "workspaces/"+id+"/actions/lock", `{"data":{"type":"","attributes":{"reason":"held"}}}`, nil)
	if err := tf.StateRm(ctx, "terraform_data.b"); err == nil || !strings.Contains(err.Error(), "main/one") {
		t.Errorf("the workspace is locked, and the removal says %v", err)
	}
	must(t, tf.ForceUnlock(ctx, "main/one"))
	must(t, tf.StateRm(ctx, "terraform_data.b"))
}

func TestExecChangesWorkspacesOfAService(t *testing.T) {
	s := newService(t)
	s.do(http.MethodPost, "organizations/main/workspaces", `{"data":{"type":"workspaces","attributes":{"name":"one"},`+
		`"relationships":{"tags":{"data":[{"type":"tags","attributes":{"name":"app"}}]}}}}`, nil)
	tf, _ := inDir(t, s.cloud(`tags = ["app"]`)+data)
	ctx := t.Context()
	must(t, tf.WorkspaceNew(ctx, "two"))
	all, current, err := tf.WorkspaceList(ctx)
	must(t, err)
	if current != "two" || !slices.Equal(all, []string{"one", "two"}) {
		t.Errorf("selected is %s of %v", current, all)
	}
	must(t, tf.Apply(ctx))
	must(t, tf.WorkspaceSelect(ctx, "one"))
	if state, err := tf.Show(ctx); err != nil || state.Values != nil && len(state.Values.RootModule.Resources) > 0 {
		t.Errorf("the state of the other workspace is here, too: %v", err)
	}
	if err := tf.WorkspaceDelete(ctx, "two"); err == nil {
		t.Error("a workspace that still manages something was deleted")
	}
	must(t, tf.WorkspaceDelete(ctx, "two", tfexec.Force(true)))
}
