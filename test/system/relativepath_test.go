package system

import (
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// Relative paths in the configuration are relative to the coordinator's working directory, wherever the worker runs.
func TestARelativePathIsRelativeToTheCoordinatorsDirectory(t *testing.T) {
	t.Parallel()
	s := site.New(t, `
resource "terraform_data" "note" {
  input = "kept"
  provisioner "local-exec" {
    command = "echo ${self.output} > note.txt"
  }
}
output "note" {
  value = terraform_data.note.output
}
`)
	s.Server()
	s.Worker("default")
	s.Must("init")
	s.Must("apply", "-auto-approve")
	if got := strings.TrimSpace(s.Read("note.txt")); got != "kept" {
		t.Errorf("the command wrote %q", got)
	}
	s.Write("main.tf", `
data "terraform_remote_state" "self" {
  backend = "local"
  config = {
    path = "earlier.tfstate"
  }
}
output "copy" {
  value = data.terraform_remote_state.self.outputs.note
}
`)
	s.Write("earlier.tfstate", s.Read("terraform.tfstate"))
	s.Must("apply", "-auto-approve")
	if got := strings.TrimSpace(s.Must("output", "-raw", "copy")); got != "kept" {
		t.Errorf("the copied output is %q", got)
	}
}
