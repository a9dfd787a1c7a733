package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// loadTested loads a tree with its test files.
func loadTested(files map[string]string) (*Tree, diag.List) {
	m := newMemory(files)
	return NewLoader(m).LoadTree(TreeOptions{Locator: beside{m}, TestDir: DefaultTestDir})
}

func TestTestFilesAreFoundBesideTheConfigurationAndBelow(t *testing.T) {
	run := `run "a" {}`
	tree, diags := loadTested(map[string]string{
		"main.tf": "", "b.tftest.hcl": run, "a.tftest.json": `{"run": {"a": {"command": "plan"}}}`,
		"c.tftest.hcl": run, "c.tofutest.hcl": run, ".d.tftest.hcl": run, "other/e.tftest.hcl": run,
		"tests/f.tftest.hcl": run, "tests/deep/g.tftest.hcl": run,
	})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	var names []string
	for _, f := range tree.Tests {
		names = append(names, f.Name)
	}
	if want := []string{"a.tftest.json", "b.tftest.hcl", "c.tofutest.hcl", "tests/f.tftest.hcl"}; !slices.Equal(names,
		want) {
		t.Errorf("found %v, want %v", names, want)
	}
	if tree.Tests[0].Runs[0].Apply || !tree.Tests[1].Runs[0].Apply {
		t.Error("the command of a run is not what it says, or apply")
	}
}

func TestMistakesInTestFiles(t *testing.T) {
	for sentence, c := range map[string]struct{ text, says string }{
		"no test block":       {`resource "a" "b" {}`, "Unsupported block type"},
		"a name that is none": {`run "a b" {}`, "Invalid run block name"},
		"an unknown command":  {`run "a" { command = destroy }`, `Invalid "command" keyword`},
		"an unknown mode":     {"run \"a\" {\n plan_options {\n mode = fast\n }\n}", `Invalid "mode" keyword`},
		"no refresh in refresh-only": {"run \"a\" {\n plan_options {\n mode = refresh-only\n refresh = false\n }\n}",
			"Incompatible plan options"},
		"two blocks of variables": {"variables {}\nvariables {}", `Multiple "variables" blocks`},
		"two in a run":            {"run \"a\" {\n variables {}\n variables {}\n}", `Multiple "variables" blocks`},
		"two plan_options": {"run \"a\" {\n plan_options {}\n plan_options {}\n}",
			`Multiple "plan_options" blocks`},
		"a module without a source": {"run \"a\" {\n module {}\n}", `Missing "source" attribute for module block`},
		"a source without dots": {"run \"a\" {\n module {\n source = \"setup\"\n }\n}",
			"Invalid module source address"},
		"a source with a variable": {"run \"a\" {\n module {\n source = var.x\n }\n}", "Variables not allowed"},
		"an assertion of nothing": {"run \"a\" {\n assert {\n condition = true\n error_message = \"e\"\n }\n}",
			"Invalid assert expression"},
		"two mocks of one provider": {"mock_provider \"a\" {}\nmock_provider \"a\" {}",
			"Duplicated `mock_provider` block"},
		"two mocks of one type": {"mock_provider \"a\" {\n mock_data \"a_b\" {}\n mock_data \"a_b\" {}\n}",
			"Duplicated `mock_data` block"},
		"for_each without an alias": {`mock_provider "a" { for_each = [] }`, `Alias required when using "for_each"`},
		"defaults that are none": {"mock_provider \"a\" {\n mock_data \"a_b\" {\n defaults = 1\n }\n}",
			"Object expected"},
		"a target with a key": {"override_resource {\n target = a_b.c[0]\n}", "Resource instance address with " +
			"keys is not allowed"},
		"a module as a resource": {"override_resource {\n target = module.a\n}", "Module address is not allowed"},
		"a resource as a module": {"override_module {\n target = a_b.c\n}", "Module address expected"},
		"values with references": {"override_resource {\n target = a_b.c\n values = { a = var.b }\n}",
			"Variables not allowed"},
		"no target": {"override_resource {}", "Missing required argument"},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, diags := loadTested(map[string]string{"main.tf": "", "a.tftest.hcl": c.text})
			if !diags.HasErrors() || !strings.Contains(describe(diags), c.says) {
				t.Errorf("the diagnostics are\n%s", describe(diags))
			}
		})
	}
}

func TestTheProvidersOfTestFilesAndTheirModulesAreRequired(t *testing.T) {
	tree, diags := loadTested(map[string]string{
		"main.tf": `resource "aa_x" "x" {}`,
		"setup/main.tf": "terraform {\n required_providers {\n  bb = {\n   source = \"acme/bb\"\n   version = \"> " +
			"1.0\"\n  }\n }\n}\nresource \"bb_y\" \"y\" {}",
		"a.tftest.hcl": "provider \"bb\" {}\nprovider \"cc\" {}\nrun \"a\" {\n module {\n source = " +
			"\"./setup\"\n }\n}\n",
	})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	var got []string
	for p, constraints := range tree.Requirements() {
		got = append(got, p.Display()+strings.Join(constraints, ","))
	}
	slices.Sort(got)
	if want := []string{"acme/bb> 1.0", "hashicorp/aa", "hashicorp/cc"}; !slices.Equal(got, want) {
		t.Errorf("required are %q, want %q", got, want)
	}
	if len(tree.Modules) != 1 || tree.Tests[0].Runs[0].Tree.Root.SourceDir != "setup" {
		t.Error("the module of a run is no tree of its own")
	}
}

func TestOneBlockOfATestFileIsOneProvider(t *testing.T) {
	module := func(source string) string {
		return "terraform {\n required_providers {\n  x = {\n   source = \"" + source +
			"\"\n  }\n }\n}\nresource \"x_y\" \"y\" {}"
	}
	_, diags := loadTested(map[string]string{
		"main.tf": module("acme/one"), "setup/main.tf": module("acme/two"),
		"a.tftest.hcl": "provider \"x\" {}\nrun \"a\" {}\nrun \"b\" {\n module {\n source = \"./setup\"\n }\n}\n",
	})
	if !strings.Contains(describe(diags), "Provider type mismatch") {
		t.Errorf("the diagnostics are\n%s", describe(diags))
	}
}

// A provider that a run passes was only found if the file has exactly its block, although a block of the same name with
// another alias determines the source of all of them.
func TestARunCannotTakeOneProviderForAnother(t *testing.T) {
	const blocks = "provider \"x\" {\n alias = \"other\"\n}\n"
	for sentence, c := range map[string]struct {
		blocks, passed string
		refused        bool
	}{
		"the name is that of another provider's block":  {blocks, "y = x", true},
		"the block itself is another provider's":        {blocks, "y = x.other", true},
		"the name is that of the provider":              {blocks, "x = x.other", false},
		"no block of the file says whose the name is":   {"", "y = z", false},
		"a block of another name is another provider's": {blocks, "y = z", false},
	} {
		_, diags := loadTested(map[string]string{
			"main.tf": "resource \"x_y\" \"y\" {}\nresource \"y_z\" \"z\" {}\n",
			"a.tftest.hcl": c.blocks + "run \"a\" {\n providers = {\n  x = x.other\n }\n}\n" +
				"run \"b\" {\n providers = {\n  " + c.passed + "\n }\n}\n",
		})
		if strings.Contains(describe(diags), "Provider type mismatch") != c.refused {
			t.Errorf("%s: the diagnostics are\n%s", sentence, describe(diags))
		}
	}
}

// Tests of a configuration without a run were refused because of an import block that OpenTofu checks only when it
// imports or installs.
func TestWithoutARunNobodyAsksForTheProvidersOfImports(t *testing.T) {
	const module = "resource \"x_y\" \"y\" {}\nimport {\n to = x_y.y\n id = \"1\"\n provider = x.other\n}\n"
	for sentence, c := range map[string]struct {
		run      string
		runsOnly bool
		refused  bool
	}{
		"the tests have no run":           {"", true, false},
		"the tests have a run":            {"run \"a\" {}\n", true, true},
		"the configuration is used alone": {"", false, true},
	} {
		m := newMemory(map[string]string{"main.tf": module, "a.tftest.hcl": c.run})
		_, diags := NewLoader(m).LoadTree(TreeOptions{Locator: beside{m}, TestDir: DefaultTestDir,
			RunsOnly: c.runsOnly})
		if strings.Contains(describe(diags), "Invalid import provider argument") != c.refused {
			t.Errorf("%s: the diagnostics are\n%s", sentence, describe(diags))
		}
	}
}

// asWritten does not change any expression of the module.
func asWritten(e hcl.Expression, all bool) (cty.Value, bool, hcl.Diagnostics) {
	if !all {
		return cty.NilVal, false, nil
	}
	v, diags := e.Value(nil)
	return v, true, diags
}

func TestARunSeesTheProvidersAndOverridesOfItsFile(t *testing.T) {
	tree, diags := loadTested(map[string]string{
		"main.tf": `
provider "aa" { region = "real" }
provider "aa" {
  alias  = "b"
  region = "real"
}
resource "aa_x" "x" {}
module "m" { source = "./m" }
`,
		"m/main.tf": `
variable "v" {
  default = 1
  validation {
    condition     = var.v > 0
    error_message = "v"
  }
  validation {
    condition     = var.v > local.l - 1
    error_message = "l"
  }
}
locals { l = 1 }
resource "aa_x" "in" {}
output "o" { value = aa_x.in.id }
output "p" { value = aa_x.in.id }
`,
		"a.tftest.hcl": `
provider "aa" { region = "test" }
provider "unused" {}
mock_provider "aa" { alias = "b" }
override_resource { target = aa_x.x }
run "all" {
  override_module {
    target  = module.m
    outputs = { o = "given" }
  }
}
run "one" { providers = { aa = aa.b } }
`,
	})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	file := tree.Tests[0]
	all, diags := tree.ForTest(file, file.Runs[0], asWritten)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	providers := all.Root.Module.Providers
	if attrs, _ := providers[addr.LocalProvider{
		Name: "aa"}].Config.JustAttributes(); attrs["region"].Expr.Range().Filename != "a.tftest.hcl" {
		t.Error("the provider is not that of the file")
	}
	if providers[addr.LocalProvider{Name: "aa", Alias: "b"}].Mock == nil || len(providers) != 2 {
		t.Errorf("the providers are %v", providers)
	}
	x := addr.ConfigResource{Resource: addr.Resource{Mode: addr.Managed, Type: "aa_x", Name: "x"}}
	if all.Override(x) == nil || tree.Override(x) != nil {
		t.Error("the resource is not overridden, or is so outside of the run")
	}
	m := all.Modules["m"].Module
	if len(m.Resources)+len(m.Locals) != 0 || len(m.Variables["v"].Validations) != 1 {
		t.Error("more than its variables is left of an overridden module")
	}
	for name, want := range map[string]cty.Value{"o": cty.StringVal("given"), "p": cty.NullVal(cty.DynamicPseudoType)} {
		if v, _ := m.Outputs[name].Expr.Value(nil); !v.RawEquals(want) {
			t.Errorf("output %s is %#v", name, v)
		}
	}
	if len(tree.Modules["m"].Module.Resources) != 1 {
		t.Error("the tree itself was changed")
	}

	one, diags := tree.ForTest(file, file.Runs[1], asWritten)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	providers = one.Root.Module.Providers
	if providers[addr.LocalProvider{Name: "aa"}].Mock == nil ||
		providers[addr.LocalProvider{Name: "aa", Alias: "b"}].Mock != nil {
		t.Error("the run does not have the providers that it names, and only those")
	}
}
