package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/internal/environ"
)

// A run in a service read every file of the service's user, so that somebody who may only plan saw the key of the
// service, its environment, and the names of its files.
func TestARunReadsOnlyItsOwnConfiguration(t *testing.T) {
	home := t.TempDir()
	s, _ := serveUnder(t, environ.Variables{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "MILLIPEDE_CANARY=canary"}, "",
		t.Output())
	key := filepath.Join(home, ".config", "millipede", "service.key")
	secret, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(home, "other.tfstate")
	state := `{"version":4,"terraform_version":"1.12.6","serial":1,"lineage":"x","outputs":{"o":{"value":"canary",` +
		`"type":"string"}},"resources":[]}`
	if err := os.WriteFile(other, []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := s.client.Workspaces.Create(t.Context(), "main", client.WorkspaceCreateOptions{Name: client.String("one"),
		WorkingDirectory: client.String("deep/root")})
	if err != nil {
		t.Fatal(err)
	}
	try := func(text string) (*client.Run, string) {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"deep/root/main.tf": text, "deep/root/mod/main.tf": `output "o" { value = file("${path.module}/../../near.txt") }`,
			"deep/near.txt": "near", "deep/root/own.tfstate": strings.ReplaceAll(state, "canary", "own"),
		} {
			name = filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := s.runDir(w, dir, client.RunCreateOptions{PlanOnly: client.Bool(true),
			Variables: []*client.RunVariable{{Key: "v", Value: `"of the run"`}}})
		return r, s.log(s.client.Plans.Logs(t.Context(), r.Plan.ID))
	}
	for _, expression := range []string{
		`file("` + key + `")`, `filebase64("/proc/self/environ")`, `fileexists("` + key + `")`,
		`fileset("` + home + `", "**")`, `fileset("../../..", "**")`, `file("../../../run.tfvars")`,
		`templatefile("` + key + `", {})`, `filesha256("` + key + `")`, `fileexists("/nosuch")`,
		`data.terraform_remote_state.x.outputs.o`, `module.m.o`,
	} {
		text := "variable \"v\" {}\noutput \"x\" { value = " + expression + " }\n"
		if strings.HasPrefix(expression, "data.") {
			text += "data \"terraform_remote_state\" \"x\" {\n  backend = \"local\"\n  config = { path = \"" + other +
				"\" }\n}\n"
		}
		if strings.HasPrefix(expression, "module.") {
			text += "module \"m\" { source = \"" + home + "\" }\n"
		}
		r, log := try(text)
		if r.Status != client.RunErrored || !strings.Contains(strings.Join(strings.Fields(log), " "), "files of its own") ||
			!strings.Contains(log, "main.tf line") || strings.Contains(log, "canary") ||
			strings.Contains(log, strings.TrimSpace(string(secret))) {
			t.Errorf("%s: the run is %s\n%s", expression, r.Status, log)
		}
	}
	r, log := try(`
variable "v" {}
module "m" { source = "./mod" }
data "terraform_remote_state" "x" {
  backend = "local"
  config  = { path = "${path.cwd}/own.tfstate" }
}
output "x" { value = "${module.m.o}, ${file("../near.txt")}, ${data.terraform_remote_state.x.outputs.o}, ${var.v}" }
`)
	if r.Status != client.RunPlannedAndFinished || !strings.Contains(log, "near, near, own, of the run") {
		t.Errorf("its own files: the run is %s\n%s", r.Status, log)
	}
}
