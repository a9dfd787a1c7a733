package validating

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/funcs"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

var fakeSchemas = &provider.Schemas{
	Provider: schema.Schema{
		Block: &schema.Block{Attributes: map[string]*schema.Attribute{"region": {Type: cty.String, Optional: true}}},
	},
	Managed: map[string]schema.Schema{"fake_thing": {Block: &schema.Block{Attributes: map[string]*schema.Attribute{
		"id":   {Type: cty.String, Computed: true},
		"name": {Type: cty.String, Optional: true},
	}}}, "fake_known": {Block: &schema.Block{}}},
	Identities: map[string]schema.Identity{"fake_known": {Body: &schema.Object{Nesting: schema.NestingSingle,
		Attributes: map[string]*schema.Attribute{"id": {Type: cty.String, Required: true}},
	}}},
	Data: map[string]schema.Schema{"fake_lookup": {Block: &schema.Block{Attributes: map[string]*schema.Attribute{
		"key": {Type: cty.String, Required: true}, "value": {Type: cty.String, Computed: true},
	}}}},
	Ephemeral: map[string]schema.Schema{"fake_token": {Block: &schema.Block{Attributes: map[string]*schema.Attribute{
		"value": {Type: cty.String, Computed: true},
	}}}},
}

type beside struct{}

func (beside) Locate(config.ModuleRequest) (config.Installed, diag.List) {
	return config.Installed{Dir: "child"}, nil
}

// validator returns the program that validates a configuration.
func validator(t *testing.T, text string, child ...string) *Validator {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("main.tf", text)
	if len(child) > 0 {
		if err := os.Mkdir(filepath.Join(dir, "child"), 0o700); err != nil {
			t.Fatal(err)
		}
		write("child/main.tf", child[0])
	}
	tree, diags := config.NewLoader(config.OS{Base: dir}).LoadTree(config.TreeOptions{Locator: beside{}})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	known := map[addr.Provider]*provider.Schemas{}
	for _, n := range tree.Modules {
		for _, r := range n.Module.Resources {
			known[r.Source] = fakeSchemas
		}
		for l := range n.Module.Providers {
			known[n.Module.ProviderFor(l.Name)] = fakeSchemas
		}
	}
	code := values.NewCode(tree, values.NewSchemas(known))
	return &Validator{
		Static: graph.Build(tree, nil, code), Code: code,
		Store: values.NewStore(values.Options{
			Code: code, Phase: values.Validating, Functions: funcs.Table(funcs.Options{BaseDir: "."}),
		}),
		Package: func(p addr.Provider) wire.Package { return wire.Package{Source: p.String()} },
	}
}

// all executes the program. answer returns the responses of the providers; nil means that they accept everything.
func (v *Validator) all(t *testing.T, answer func(*wire.Task) *wire.Result) (diags diag.List, asked []*wire.Task) {
	t.Helper()
	if v.Graph().Len() != len(v.Static.Nodes) {
		t.Fatal("some blocks were not validated")
	}
	for i := range v.Static.Nodes {
		if d := v.Describe(i); !d.Hidden || d.Address != v.Static.Nodes[i].Address() {
			t.Errorf("the description for views is %+v", d)
		}
		step := v.Prepare(t.Context(), i)
		v.Accept(i, &step)
		diags = diags.Append(step.Diags)
		if step.Task == nil {
			continue
		}
		asked = append(asked, step.Task)
		result := &wire.Result{}
		if answer != nil {
			result = answer(step.Task)
		}
		step = v.Complete(t.Context(), i, result)
		v.Accept(i, &step)
		diags = diags.Append(step.Diags)
	}
	return diags, asked
}

// OpenTofu's validate refuses and accepts the same configurations.
func TestWhatValidationFinds(t *testing.T) {
	thing := func(body string) string { return "resource \"fake_thing\" \"a\" {\n" + body + "\n}\n" }
	for sentence, c := range map[string]struct{ text, says string }{
		"a sound configuration passes": {`
variable "v" {
  type = number
  validation {
    condition     = var.v > 0
    error_message = "must be positive"
  }
}
locals { l = var.v + 1 }
resource "fake_thing" "a" {
  count = var.v
  name  = "a${count.index}"
}
resource "fake_thing" "b" {
  for_each = toset([for a in fake_thing.a : a.name])
  name     = each.value
}
data "fake_lookup" "d" { key = fake_thing.a[0].id }
ephemeral "fake_token" "t" {}
output "o" { value = data.fake_lookup.d.value }
check "c" {
  assert {
    condition     = length(fake_thing.a) > 0
    error_message = "none"
  }
}`, ""},
		"an argument that the type does not have": {thing(`nosuch = 1`), `Unsupported argument`},
		"an argument of another type":             {thing(`name = ["x"]`), "Incorrect attribute value type"},
		"a required argument that is missing":     {`data "fake_lookup" "d" {}`, "Missing required argument"},
		"a resource type that is not there":       {`resource "fake_nosuch" "a" {}`, "Invalid resource type"},
		"a data source that is not there":         {`data "fake_nosuch" "a" {}`, "Invalid data source"},
		"an ephemeral type that is not there":     {`ephemeral "fake_nosuch" "a" {}`, "Invalid ephemeral resource"},
		"an attribute that the type does not have": {thing("") + "output \"o\" { value = fake_thing.a.nosuch }\n",
			"Unsupported attribute"},
		"a resource that is not declared": {
			`output "o" { value = fake_thing.a.id }`, "Reference to undeclared resource",
		},
		"a variable that is not declared": {`locals { l = var.nosuch }`, "Reference to undeclared input variable"},
		"a function that does not exist":  {`locals { l = nosuch(1) }`, "Call to unknown function"},
		"a count that is no number":       {thing(`count = "x"`), "Incorrect value type"},
		"a for_each over a list":          {thing(`for_each = ["a"]`), "Invalid for_each argument"},
		"a depends_on of what is not declared": {
			thing(`depends_on = [fake_thing.nosuch]`), "Reference to undeclared resource",
		},
		"a depends_on of an attribute": {
			thing("") + "output \"o\" {\n value = 1\n depends_on = [fake_thing.a.id]\n}\n",
			"Invalid depends_on reference",
		},
		"an import by what is not declared": {"import {\n to = fake_thing.a\n id = var.nosuch\n}\n" + thing(""),
			"Reference to undeclared input variable"},
		"an import by an identity, where the type has none": {
			"import {\n to = fake_thing.a\n identity = { id = \"x\" }\n}\n" + thing(""), "identity schema"},
		"an import by an identity that lacks an attribute": {
			"import {\n to = fake_known.a\n identity = { nosuch = \"x\" }\n}\nresource \"fake_known\" \"a\" {}\n",
			`attribute "id" is required`},
		"an import by an identity passes": {
			"import {\n to = fake_known.a\n identity = { id = \"x\" }\n}\nresource \"fake_known\" \"a\" {}\n", ""},
		"imports for each of what is only known later pass": {
			"variable \"ids\" {}\nimport {\n for_each = var.ids\n to = fake_thing.a[each.key]\n" +
				" id = each.value\n}\n" + thing("for_each = var.ids"), ""},
		"an import by null for one of each": {"import {\n for_each = { a = \"1\", b = null }\n" +
			" to = fake_thing.a[each.key]\n id = each.value\n}\n" + thing(`for_each = toset(["a", "b"])`),
			"cannot be null"},
		"an import by a sensitive ID for one of each": {"import {\n for_each = { a = sensitive(\"1\") }\n" +
			" to = fake_thing.a[each.key]\n id = each.value\n}\n" + thing(`for_each = toset(["a"])`),
			"cannot be sensitive"},
		"an ignore_changes of what is not there": {thing("lifecycle {\n ignore_changes = [nosuch]\n}"), "nosuch"},
		"an ignore_changes of what the provider decides is useless": {thing("lifecycle {\n ignore_changes = [id]\n}"),
			"Redundant ignore_changes element"},
		"a prevent_destroy that is no bool": {thing("lifecycle {\n prevent_destroy = \"x\"\n}"), "prevent_destroy"},
		"a replace_triggered_by of nothing": {thing("lifecycle {\n replace_triggered_by = [fake_thing.nosuch]\n}"),
			"Undeclared resource in replace_triggered_by"},
		"a provisioner without what it needs": {thing("provisioner \"local-exec\" {\n}"), "command"},
		"a provisioner that misuses self": {
			thing("provisioner \"local-exec\" {\n command = self.nosuch\n}"), "Unsupported attribute",
		},
		"a connection over WinRM": {
			thing("connection {\n type = \"winrm\"\n host = \"h\"\n}\nprovisioner \"remote-exec\" {\n inline = " +
				"[\"x\"]\n}"),
			"WinRM connection type is deprecated",
		},
		"a provisioner's own WinRM connection": {
			thing("provisioner \"remote-exec\" {\n inline = [\"x\"]\n connection {\n type = \"winrm\"\n host = " +
				"\"h\"\n }\n}"),
			"WinRM connection type is deprecated",
		},
		"a provider argument that is not there": {"provider \"fake\" {\n nosuch = 1\n}\n" + thing(""),
			"Unsupported argument"},
		"an output that is secret without saying so": {`variable "v" {
  sensitive = true
}
output "o" { value = var.v }`, "Output refers to sensitive values"},
	} {
		t.Run(sentence, func(t *testing.T) {
			diags, _ := validator(t, c.text).all(t, nil)
			if c.says == "" {
				if len(diags) > 0 {
					t.Error(diags)
				}
				return
			}
			for _, d := range diags {
				if strings.Contains(d.Summary+"; "+d.Detail, c.says) {
					return
				}
			}
			t.Errorf("no diagnostic contains %q: %v", c.says, diags)
		})
	}
}

func TestOneMistakeDoesNotHideAnother(t *testing.T) {
	diags, _ := validator(t, `
resource "fake_thing" "a" { nosuch = 1 }
resource "fake_thing" "b" { name = fake_thing.a.alsonot }
locals { l = var.undeclared }
`).all(t, nil)
	var errors int
	for _, d := range diags {
		if d.Severity == diag.Error {
			errors++
		}
	}
	if errors != 3 {
		t.Errorf("%d mistakes were found, want 3: %v", errors, diags)
	}
}

func TestAProviderIsAskedOnceAboutEachBlock(t *testing.T) {
	const text = `
provider "fake" { region = "eu" }
resource "fake_thing" "single" { name = "s" }
resource "fake_thing" "many" {
  count = 3
  name  = "m"
}
data "fake_lookup" "d" { key = "k" }
module "child" {
  source = "./child"
  count  = 2
}`
	const child = `resource "fake_thing" "c" { name = "c" }`
	kinds := func(v *Validator) string {
		diags, asked := v.all(t, nil)
		if diags.HasErrors() {
			t.Fatal(diags.Err())
		}
		count := map[string]int{}
		for _, task := range asked {
			count[task.Validate.Kind]++
			if task.Provider.Package.Source == "" || task.Validate.Config == nil {
				t.Errorf("a task is incomplete: %+v", task)
			}
		}
		var out []string
		for _, kind := range []string{"provider", "managed", "data"} {
			out = append(out, kind+" "+string(rune('0'+count[kind])))
		}
		return strings.Join(out, ", ")
	}
	if got := kinds(validator(t, text, child)); got != "provider 1, managed 3, data 1" {
		t.Errorf("the provider validated %s", got)
	}
	sparing := validator(t, text, child)
	sparing.SkipPlanned = true
	if got := kinds(sparing); got != "provider 1, managed 2, data 0" {
		t.Errorf("blocks that planning validates anyway were not left out: %s", got)
	}
}

// Planning validated a data source with the provider only when it read it. A data source that was deferred to the apply
// was not validated, so a plan succeeded whose apply had to fail.
func TestAProviderIsAskedAboutDataThatPlanningMayPutOff(t *testing.T) {
	for name, text := range map[string]string{
		"an unknown argument": `data "fake_lookup" "d" { key = fake_thing.a.name }`,
		"a dependency":        "data \"fake_lookup\" \"d\" {\n  key = \"k\"\n  depends_on = [fake_thing.a]\n}",
		"a condition": "data \"fake_lookup\" \"d\" {\n  key = \"k\"\n  lifecycle {\n    precondition {\n" +
			"      condition     = fake_thing.a.name != \"\"\n      error_message = \"none\"\n    }\n  }\n}",
	} {
		v := validator(t, "resource \"fake_thing\" \"a\" {}\n"+text)
		v.SkipPlanned = true
		diags, asked := v.all(t, nil)
		if diags.HasErrors() || len(asked) != 1 || asked[0].Validate.Kind != "data" {
			t.Errorf("%s: the provider validated %v, with %v", name, asked, diags)
		}
	}
}

func TestWhatAProviderObjectsToPointsToTheArgument(t *testing.T) {
	v := validator(t, "provider \"fake\" {\n  region = \"mars\"\n}\n"+
		"resource \"fake_thing\" \"a\" {\n  name = \"bad\"\n}\nresource \"fake_thing\" \"b\" {\n  count = 1\n}\n")
	diags, _ := v.all(t, func(task *wire.Task) *wire.Result {
		block := fakeSchemas.Managed["fake_thing"].Block
		path := cty.GetAttrPath("name")
		if task.Validate.Kind == "provider" {
			block, path = fakeSchemas.Provider.Block, cty.GetAttrPath("region")
		}
		config, err := coding.DecodeValue(task.Validate.Config, block.ImpliedType())
		if err != nil {
			t.Fatal(err)
		}
		given, _ := path.Apply(config)
		if given.IsNull() {
			path = nil // it is about the whole
		}
		return &wire.Result{
			Diagnostics: wire.DiagsToWire(diag.List{{Severity: diag.Error, Summary: "bad value", Path: path}}),
		}
	})
	lines := map[string]int{}
	for _, d := range diags {
		if d.Subject == nil {
			t.Fatalf("the diagnostic %v has no source line", d)
		}
		lines[d.Address] = d.Subject.Start.Line
	}
	for address, line := range map[string]int{"fake_thing.a": 5, "fake_thing.b": 7} {
		if lines[address] != line {
			t.Errorf("the diagnostic about %s is in line %d, want %d", address, lines[address], line)
		}
	}
	if len(diags) != 3 {
		t.Errorf("%d problems, want 3: %v", len(diags), diags)
	}
}
