package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
)

// providers is a tree in which a provider is passed in many ways.
var providers = map[string]string{
	"main.tf": `
terraform {
  required_providers {
    acme = { source = "acme/acme" }
  }
}
provider "acme" {
  alias    = "by"
  for_each = toset(["x", "y"])
}
provider "acme" {
  alias = "one"
}
module "inherits" {
  source = "./inherits"
}
module "takes" {
  source   = "./takes"
  for_each = toset(["x"])
  providers = {
    corp   = acme.by[each.key]
    corp.b = acme.one
  }
}
resource "acme_r" "a" {
  provider = acme.one
}
resource "acme_r" "b" {}
resource "other_r" "c" {}
`,
	"inherits/main.tf": `
terraform {
  required_providers {
    acme = { source = "acme/acme" }
  }
}
resource "acme_r" "a" {}
`,
	"takes/main.tf": `
terraform {
  required_providers {
    corp = {
      source                = "acme/acme"
      configuration_aliases = [corp.b]
    }
  }
}
module "deep" {
  source = "./deep"
  providers = {
    corp = corp
  }
}
resource "corp_r" "a" {}
resource "corp_r" "b" {
  provider = corp.b
}
`,
	"takes/deep/main.tf": `
terraform {
  required_providers {
    corp = { source = "acme/acme" }
  }
}
resource "corp_r" "a" {}
`,
}

func TestReferencesToProvidersLeadToTheirBlocks(t *testing.T) {
	tree := mustLoad(t, providers)
	if diags := tree.Check(); diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	const acme = `provider["registry.opentofu.org/acme/acme"]`
	for name, c := range map[string]struct {
		module   addr.Module
		resource string
		config   string
		block    bool
		key      addr.Module // whose call chooses the instance
	}{
		"an alias in the same module": {"", "acme_r.a", acme + ".one", true, "-"},
		"required without a block":    {"", "acme_r.b", acme, false, "-"},
		"only implied": {"", "other_r.c",
			`provider["registry.opentofu.org/hashicorp/other"]`, false, "-"},
		"inherited from the caller":                      {"inherits", "acme_r.a", acme, false, "-"},
		"passed under another name, with a key":          {"takes", "corp_r.a", acme + ".by", true, "takes"},
		"passed under an alias":                          {"takes", "corp_r.b", acme + ".one", true, "-"},
		"passed on, the key was chosen one level higher": {"takes.deep", "corp_r.a", acme + ".by", true, "takes"},
	} {
		t.Run(name, func(t *testing.T) {
			n := tree.Modules[c.module]
			target, _ := addr.ParseTarget(c.resource)
			r := n.Module.Resources[target.Resource]
			got, diags := n.ResolveProvider(r.Provider)
			if diags.HasErrors() {
				t.Fatal(diags.Err())
			}
			if got.Config.String() != c.config || (got.Block != nil) != c.block ||
				got.Config != n.ProviderFor(r.Provider) {
				t.Errorf("%s, block %v", got.Config, got.Block != nil)
			}
			if c.key == "-" != (got.Key == nil) || got.KeyCall != nil && got.KeyCall.Path != c.key {
				t.Errorf("key %v of %v", got.Key, got.KeyCall)
			}
		})
	}
	if got := tree.Root.ProviderInstances[addr.LocalProvider{Name: "acme", Alias: "by"}]; len(got) != 2 {
		t.Errorf("instances %v", got)
	}
}

func TestProvidersThatAreNowhereAreMissed(t *testing.T) {
	tree, diags := load(map[string]string{
		"main.tf": "resource \"a_b\" \"c\" {\n  provider = a.nope\n}\nmodule \"m\" {\n  source = \"./m\"\n  " +
			"providers = {\n    a = a.gone\n  }\n}\n",
		"m/m.tf": "terraform {\n  required_providers {\n    a = { source = \"hashicorp/a\" }\n  }\n}\nresource " +
			"\"a_b\" \"c\" {}\n",
	})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	const want = "error main.tf:1 Provider configuration not present\n" +
		"error main.tf:7 missing provider provider[\"registry.opentofu.org/hashicorp/a\"].gone\n"
	if got := describe(tree.Check()); got != want {
		t.Error(got)
	}
}

func TestRequirementsComeFromAllThatIsUsed(t *testing.T) {
	tree := mustLoad(t, map[string]string{
		"main.tf": "terraform {\n  required_providers {\n    a = {\n      source = \"x/a\"\n      version = \"~> " +
			"1.0\"\n    }\n  }\n}\n" +
			"module \"m\" {\n  source = \"./m\"\n}\nresource \"b_r\" \"r\" {}\nresource \"terraform_data\" \"d\" " +
			"{}\nimport {\n  to = c_r.r\n  id = \"1\"\n}\n",
		"m/m.tf": "terraform {\n  required_providers {\n    a = {\n      source = \"x/a\"\n      version = \">= " +
			"1.2\"\n    }\n  }\n}\nprovider \"d\" {\n  version = \"2.0\"\n}\n",
	})
	var got []string
	reqs := tree.Requirements()
	for p, constraints := range reqs {
		got = append(got, p.Display()+" "+strings.Join(constraints, "; "))
	}
	slices.Sort(got)
	want := []string{"hashicorp/b ", "hashicorp/c ", "hashicorp/d 2.0", "terraform.io/builtin/terraform ",
		"x/a >= 1.2; ~> 1.0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestAModuleBlockSetsWhatItsModuleDeclares(t *testing.T) {
	tree := mustLoad(t, map[string]string{
		"main.tf": "module \"m\" {\n  source = \"./m\"\n  extra = 1\n  blk {}\n}\nmodule \"n\" {\n  source = " +
			"\"./m\"\n  needed = null\n}\n",
		"m/m.tf": "variable \"needed\" {}\nvariable \"other\" {\n  default = 1\n}\n",
	})
	const want = "error main.tf:1 Missing required argument\nerror main.tf:3 Unsupported argument\nerror main.tf:4 " +
		"Unsupported block type\n"
	if got := describe(tree.Check()); got != want {
		t.Error(got)
	}
}
