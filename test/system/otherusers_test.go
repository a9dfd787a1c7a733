//go:build linux

package system

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// nobody is the ID of a user who may read only files that everybody may read.
const nobody = 65534

// Every command failed in a read-only working directory or in that of another user, also a command that only reads:
// with "mkdir .millipede: permission denied", or because only the owner can read the store.
func TestReadingCommandsWorkInAnotherUsersDirectory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	s := site.New(t, `
resource "terraform_data" "a" {
  input = "x"
}
output "x" {
  value = terraform_data.a.output
}
`)
	s.Write("ok.tftest.hcl", "run \"plans\" {\n  command = plan\n}\n")
	for dir := s.Dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	own := t.TempDir() // a directory that belongs to the user nobody
	for _, dir := range []string{own, filepath.Dir(own)} {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(own, "coordinator")
	text, err := os.ReadFile(site.Built.Coordinator)
	if err == nil {
		err = os.WriteFile(binary, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	asNobody := func(env []string, input string, args ...string) string {
		t.Helper()
		c := s.Command(args...)
		c.Path, c.Args[0] = binary, binary
		c.Env = append(c.Env, "HOME="+own, "TMPDIR="+own, "TF_CLI_CONFIG_FILE=/dev/null")
		c.Env = append(c.Env, env...)
		c.Stdin = strings.NewReader(input)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", args, err, site.Tail(string(out)))
		}
		return string(out)
	}
	looks := func() {
		t.Helper()
		for _, args := range [][]string{
			{"validate"}, {"graph"}, {"providers", "schema", "-json"}, {"plan", "-lock=false"}, {"test"},
			{"output"}, {"show"},
			{"state", "pull"}, {"workspace", "list"}, {"workspace", "show"}, {"runs", "list"}, {"version"},
		} {
			asNobody(nil, "", args...)
		}
	}
	s.Must("init")
	looks() // before the first apply
	s.Must("apply", "-auto-approve")
	looks()
	site.Wants(t, asNobody(nil, "", "output", "-raw", "x"), "x")
	site.Wants(t, asNobody(nil, "", "state", "list"), "terraform_data.a")
	site.Wants(t, asNobody(nil, "", "plan", "-lock=false", "-no-color"), "No changes.")
	site.Wants(t, asNobody(nil, "terraform_data.a.output\n", "console"), `"x"`)

	// With its own directory for the state and for Millipede's files, that user can run all other commands, too.
	s.Write("main.tf", `
terraform {
  backend "local" {
    path = "`+own+`/terraform.tfstate"
  }
}
resource "terraform_data" "b" {
}
`)
	env := []string{"TF_DATA_DIR=" + filepath.Join(own, "data")}
	for _, args := range [][]string{
		{"init", "-reconfigure"}, {"validate"}, {"plan"}, {"apply", "-auto-approve"}, {"output"}, {"state", "list"},
		{"show"}, {"test"}, {"destroy", "-auto-approve"},
	} {
		asNobody(env, "", args...)
	}
}
