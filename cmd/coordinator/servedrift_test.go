package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"
)

// ask sends a request with the administrator's token, and returns the answer.
func (s *served) ask(method, path, body string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.address+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/vnd.api+json")
	r.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		s.t.Fatal(answer.Status, string(text), err)
	}
	return string(text)
}

func TestAWorkspaceIsReadThroughWithTheConfigurationOfItsLastApply(t *testing.T) {
	s, _ := serveIn(t, t.TempDir(), "")
	w, err := s.client.Workspaces.Create(t.Context(), "main", client.WorkspaceCreateOptions{Name: client.String("one")})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "m"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"main.tf": `
variable "who" {}
module "m" {
  source = "./m"
  for_each = toset(["x", "y z"])
  who = var.who
}
resource "terraform_data" "b" {
  count = 2
  input = [for m in module.m : m.id]
}
`,
		"m/main.tf": `
variable "who" {}
resource "terraform_data" "a" { input = var.who }
output "id" { value = terraform_data.a.id }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := client.RunCreateOptions{Variables: []*client.RunVariable{{Key: "who", Value: `"me"`}}}
	if r := s.runDir(w, dir, o); r.Status != client.RunApplied {
		t.Fatal(r.Status, s.log(s.client.Plans.Logs(t.Context(), r.Plan.ID)))
	}
	s.ask(http.MethodPatch, "/api/v2/workspaces/"+w.ID,
		`{"data":{"type":"workspaces","attributes":{"drift-period":"1m","refresh":"changed"}}}`)
	var d struct {
		Objects                   int
		Ended, Failure, Unwatched string
		Drifted                   []any
	}
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for until := time.Now().Add(2 * time.Minute); d.Ended == ""; <-again.C {
		text := s.ask(http.MethodGet, "/api/millipede/v1/workspaces/"+w.ID+"/drift", "")
		if err := json.Unmarshal([]byte(text), &d); err != nil || time.Now().After(until) {
			t.Fatal(text, err)
		}
	}
	if d.Objects != 4 || d.Failure != "" || d.Unwatched != "" || len(d.Drifted) > 0 {
		t.Errorf("it says %+v", d)
	}
	state, err := s.client.StateVersions.ReadCurrent(t.Context(), w.ID)
	if err != nil || state.Serial != 1 {
		t.Errorf("the state is %+v, %v", state, err)
	}
	// The objects that plans read are a setting, too.
	r := s.runDir(w, dir, o)
	if text := s.log(s.client.Plans.Logs(t.Context(), r.Plan.ID)); !strings.Contains(text, "4 objects were not read") {
		t.Errorf("the plan has read everything: %s: %s", r.Status, text)
	}
}
