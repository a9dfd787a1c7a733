package system_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/site"
)

// A directory in which Terraform has run has a state and a lock file that name its registry. init looked for the
// packages in that registry and failed, and so did every command after it.
func TestADirectoryOfTerraformCanBeUsedWithoutChanges(t *testing.T) {
	t.Parallel()
	s := site.New(t, `
terraform {
  required_providers {
    fleet = { source = "millipede/fleet" }
  }
}

resource "fleet_machine" "a" {
  name = "a"
}
`)
	s.Must("init")
	s.Must("apply", "-auto-approve")
	const file = "terraform.tfstate"
	old := strings.ReplaceAll(s.Read(file), "registry.opentofu.org/", "registry.terraform.io/")
	if !strings.Contains(old, "registry.terraform.io/millipede/fleet") {
		t.Fatalf("the state does not name the provider:\n%s", old)
	}
	for _, name := range []string{".millipede", ".terraform", ".terraform.lock.hcl"} {
		if err := os.RemoveAll(filepath.Join(s.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.Write(file, old)
	s.Must("init")
	s.Unchanged()
	if now := s.Read(file); now != old {
		t.Errorf("a plan has changed the state:\n%s", now)
	}
	s.Must("show", "-json")
	s.Must("state", "show", "fleet_machine.a")
	s.Write("more.tf", "resource \"fleet_machine\" \"b\" {\n  name = \"b\"\n}\n")
	s.Must("apply", "-auto-approve")
	if now := s.Read(file); strings.Contains(now, "registry.terraform.io") {
		t.Errorf("an apply leaves the old provider in the state:\n%s", now)
	}
	s.CreatedOnce(2)
	s.Must("destroy", "-auto-approve")
}
