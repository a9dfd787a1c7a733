package values

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/funcs"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
)

// fakeSchemas has the schemas of every provider of these tests.
var fakeSchemas = &provider.Schemas{
	Provider: schema.Schema{Block: &schema.Block{Attributes: map[string]*schema.Attribute{
		"region": {Type: cty.String, Optional: true},
		"token":  {Type: cty.String, Optional: true},
	}}},
	Managed: map[string]schema.Schema{
		"fake_thing": {Version: 2, Block: &schema.Block{Attributes: map[string]*schema.Attribute{
			"id":     {Type: cty.String, Computed: true},
			"name":   {Type: cty.String, Optional: true},
			"secret": {Type: cty.String, Optional: true, Sensitive: true},
			"old":    {Type: cty.String, Optional: true, Deprecated: true, DeprecationMessage: "use name"},
		}}},
		"fake_plain": {
			Block: &schema.Block{Attributes: map[string]*schema.Attribute{"id": {Type: cty.String, Computed: true}}},
		},
	},
	Data: map[string]schema.Schema{"fake_lookup": {Block: &schema.Block{Attributes: map[string]*schema.Attribute{
		"key":   {Type: cty.String, Required: true},
		"value": {Type: cty.String, Computed: true},
	}}}},
	Ephemeral: map[string]schema.Schema{"fake_token": {Block: &schema.Block{Attributes: map[string]*schema.Attribute{
		"value": {Type: cty.String, Computed: true},
	}}}},
}

type beside struct{}

func (beside) Locate(config.ModuleRequest) (config.Installed, diag.List) {
	return config.Installed{Dir: "child"}, nil
}

// load returns the code of a configuration; child is that of the module "child", if there is one.
func load(t *testing.T, text string, child ...string) *Code {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("main.tf", text)
	if len(child) > 0 {
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
	return NewCode(tree, NewSchemas(known))
}

// store returns the values of a configuration in a phase.
func store(t *testing.T, phase Phase, inputs map[string]Input, text string, child ...string) *Store {
	t.Helper()
	return NewStore(Options{
		Code: load(t, text, child...), Phase: phase, Inputs: inputs, Workspace: "w", Cwd: "/cwd",
		Functions: funcs.Table(funcs.Options{BaseDir: "."}),
	})
}

// given is a value from the command line.
func given(v cty.Value) Input { return Input{Value: v, Source: `-var="x=..."`} }

// evaluate evaluates an expression in a module.
func evaluate(t *testing.T, m *Module, text string) (cty.Value, diag.List) {
	t.Helper()
	expr, problems := hclsyntax.ParseExpression([]byte(text), "expression", hcl.InitialPos)
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	return m.Scope.Expr(expr, cty.DynamicPseudoType, eval.Once, cty.NilVal)
}

// is fails the test unless an expression in a module has the given value.
func is(t *testing.T, m *Module, text string, want cty.Value) {
	t.Helper()
	got, diags := evaluate(t, m, text)
	if diags.HasErrors() || !got.RawEquals(want) {
		t.Errorf("%s is %#v, want %#v; %v", text, got, want, diags)
	}
}

// says fails the test unless a diagnostic contains the text; an empty text means that no errors are expected.
func says(t *testing.T, diags diag.List, text string) {
	t.Helper()
	if text == "" {
		if diags.HasErrors() {
			t.Error(diags.Err())
		}
		return
	}
	for _, d := range diags {
		if strings.Contains(d.Summary+"; "+d.Detail, text) {
			return
		}
	}
	t.Errorf("no diagnostic contains %q: %v", text, diags)
}

// resource returns a resource block of the root module.
func (s *Store) resource(name string) *Resource {
	return s.Root().ResourceBlock(addr.Resource{Mode: addr.Managed, Type: "fake_thing", Name: name})
}

// thing is an object of type fake_thing.
func thing(id string) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{
		"id": cty.StringVal(id), "name": cty.NullVal(cty.String),
		"secret": cty.NullVal(cty.String), "old": cty.NullVal(cty.String),
	})
}
