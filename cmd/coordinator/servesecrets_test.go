package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	client "github.com/hashicorp/go-tfe"
)

// leaky is a configuration that does not protect its secrets: it does not declare them as sensitive, and prints them.
const leaky = `
terraform {
  cloud {
    organization = "main"
    workspaces { name = "one" }
  }
}
variable "undeclared" {}
variable "declared" { sensitive = true }
resource "terraform_data" "a" {
  input = [var.undeclared, var.declared]
  provisioner "local-exec" { command = "echo the key is $CLOUD_KEY" }
}
output "ok" { value = "fine" }
`

// safe is a text that several goroutines write and that is read meanwhile.
type safe struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// The engine did not treat sensitive variables of a workspace as sensitive if the configuration did not declare them
// so: plans, logs and documents showed them. Programs that a run starts print their environment. Every read of the run
// returned the values of -var.
func TestASecretIsInNoAnswerLogOrFile(t *testing.T) {
	home := t.TempDir()
	said := &safe{}
	s, _ := serveTo(t, home, "", said, "-log-level=debug", "-log-format=json", "-metrics=127.0.0.1:0")
	ctx := t.Context()
	w, err := s.client.Workspaces.Create(ctx, "main", client.WorkspaceCreateOptions{Name: client.String("one")})
	if err != nil {
		t.Fatal(err)
	}
	for key, category := range map[string]client.CategoryType{
		"undeclared": client.CategoryTerraform, "CLOUD_KEY": client.CategoryEnv,
	} {
		if _, err := s.client.Variables.Create(ctx, w.ID, client.VariableCreateOptions{
			Key: &key, Value: client.String("canary-" + key), Category: &category, Sensitive: client.Bool(true),
		}); err != nil {
			t.Fatal(err)
		}
	}
	r := s.run(w, leaky, client.RunCreateOptions{
		Variables: []*client.RunVariable{{Key: "declared", Value: `"canary-declared"`}},
	})
	texts := map[string]string{
		"the plan's log":        s.log(s.client.Plans.Logs(ctx, r.Plan.ID)),
		"the apply's log":       s.log(s.client.Applies.Logs(ctx, r.Apply.ID)),
		"what the service said": said.String(),
	}
	if r.Status != client.RunApplied || !strings.Contains(texts["the apply's log"], "the key is (sensitive value)") {
		t.Fatalf("%s: %s", r.Status, texts["the apply's log"])
	}
	for _, path := range []string{
		"workspaces/" + w.ID + "?include=outputs,current_run,current_state_version", "workspaces/" + w.ID + "/vars",
		"workspaces/" + w.ID + "/runs", "organizations/main/runs/queue", "organizations/main/workspaces",
		"runs/" + r.ID + "?include=workspace,plan,apply,configuration_version,created_by",
		"runs/" + r.ID + "/run-events", "plans/" + r.Plan.ID, "applies/" + r.Apply.ID,
		"plans/" + r.Plan.ID + "/json-output-redacted", "workspaces/" + w.ID + "/current-state-version?include=outputs",
		"workspaces/" + w.ID + "/current-state-version-outputs", "workspaces/" + w.ID + "/configuration-versions",
	} {
		texts[path] = s.get(path)
	}
	run := "/app/main/one/runs/" + r.ID
	for path, must := range map[string]string{
		"/app/main": "one", "/app/main/one": r.ID, "/app/main/one/state": "terraform_data.a",
		"/app/main/one/versions": r.ID, "/app/main/one/variables": "undeclared", "/app/main/one/settings": "one",
		run: "terraform_data.a", run + "/changes?address=terraform_data.a": "terraform_data.a",
		run + "/timeline/plan": "terraform_data", run + "/timeline/apply": "terraform_data",
		run + "/timeline/apply?outline=yes": "terraform_data", run + "/timeline/apply?story=yes": "attempts",
		run + "/log/apply?from=0": "the key is", "/app/settings/audit": "admin", "/app/settings/workers": "default",
	} {
		if texts[path] = s.page(path); !strings.Contains(texts[path], must) {
			t.Errorf("%s does not show %s: %s", path, must, texts[path])
		}
	}
	metrics := regexp.MustCompile(`"msg":"metrics","address":"([^"]+)"`).FindStringSubmatch(said.String())
	if metrics == nil {
		t.Fatalf("it does not say where its metrics are:\n%s", said)
	}
	answer, err := http.Get("http://" + metrics[1] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	scrape, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if texts["metrics"] = string(scrape); err != nil || !strings.Contains(texts["metrics"], `resource_type="terraform_data"`) {
		t.Errorf("the metrics are %s (%v)", scrape, err)
	}
	for where, text := range texts {
		if strings.Contains(text, "canary") {
			t.Errorf("%s tells a secret: %s", where, text)
		}
	}
	if full := s.get("plans/" + r.Plan.ID + "/json-output"); !strings.Contains(full, `"undeclared":{}`) {
		t.Errorf("the plan's document tells the value of a variable that nobody may read back: %s", full)
	}
	s.stop()
	texts["what the service said"] = said.String()
	logged := false
	for line := range strings.Lines(said.String()) {
		var e struct{ Msg, Run, Address, Attempt string }
		if json.Unmarshal([]byte(line), &e) == nil && e.Msg == "an operation started" && e.Run == r.ID {
			logged = logged || e.Address == "terraform_data.a"
		}
	}
	if !logged || strings.Contains(said.String(), "canary") || strings.Contains(said.String(), s.token) {
		t.Errorf("an operation is not logged with its run, or a secret is logged:\n%s", said.String())
	}
	err = filepath.WalkDir(home, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte("canary")) || bytes.Contains(data, []byte("PRIVATE KEY")) {
			t.Errorf("%s tells a secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// page returns a page of the service for the administrator, who logs in first.
func (s *served) page(path string) string {
	s.t.Helper()
	if s.http.Jar == nil {
		s.http.Jar, _ = cookiejar.New(nil) // it never fails
		form := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(s.page("/app/login"))
		if form == nil {
			s.t.Fatal("the page to log in has no form")
		}
		answer, err := s.http.PostForm(s.address+"/app/login", url.Values{"username": {"admin"}, "password": {s.token},
			"form": {form[1]}, "to": {"/app"}})
		if err != nil {
			s.t.Fatal(err)
		}
		answer.Body.Close()
	}
	answer, err := s.http.Get(s.address + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Errorf("%s: %d, %v", path, answer.StatusCode, err)
	}
	return string(text)
}

// get asks the API for a path as the administrator.
func (s *served) get(path string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.address+"/api/v2/"+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	reply, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		s.t.Errorf("%s: %d, %v", path, reply.StatusCode, err)
	}
	return string(text)
}
