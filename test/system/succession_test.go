package system_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
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

// show and state show replaced the providers of Terraform's registry in the state without looking at the
// configuration. So they failed wherever the configuration requires such a provider by its full name: only that one is
// installed then.
func TestProvidersThatNameTerraformsRegistryAreShown(t *testing.T) {
	t.Parallel()
	s := site.New(t, `
terraform {
  required_providers {
    fleet = { source = "registry.terraform.io/millipede/fleet" }
  }
}

resource "fleet_machine" "a" {
  name = "a"
}
`)
	// The mirror has OpenTofu's registry only.
	mirror := t.TempDir()
	built := filepath.Join(filepath.Dir(site.Built.CLIConfig), "mirror", "registry.opentofu.org")
	within := filepath.Join("millipede", "fleet", "1.0.0", runtime.GOOS+"_"+runtime.GOARCH)
	place := filepath.Join(mirror, "registry.terraform.io", within)
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(built, within), place); err != nil {
		t.Fatal(err)
	}
	s.Must("init", "-plugin-dir="+mirror)
	s.Must("apply", "-auto-approve")
	for _, command := range [][]string{
		{"show"}, {"show", "-json"}, {"show", "-json", "terraform.tfstate"}, {"state", "show", "fleet_machine.a"},
	} {
		s.Must(command...)
	}
	if shown := s.Must("show", "-json"); !strings.Contains(shown, `"provider_name":"registry.terraform.io/millipede/fleet"`) {
		t.Errorf("show names another provider:\n%s", shown)
	}
}
