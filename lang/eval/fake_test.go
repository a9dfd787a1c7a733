package eval

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// fakeData is a module instance in memory, with resources and modules by their address; instances are taken out of
// these.
type fakeData struct {
	variables, locals, outputs map[string]cty.Value
	resources, modules         map[string]cty.Value
	// wholes counts the calls of Resource and Module by name.
	wholes map[string]int
	// withoutInstances makes every look-up of an instance use the whole resource.
	withoutInstances bool
}

func (f *fakeData) Variable(a addr.Variable, rng hcl.Range) (cty.Value, diag.List) {
	return f.get(f.variables, a, a.Name, rng)
}

func (f *fakeData) Local(a addr.Local, rng hcl.Range) (cty.Value, diag.List) {
	return f.get(f.locals, a, a.Name, rng)
}

func (f *fakeData) Output(a addr.Output, rng hcl.Range) (cty.Value, diag.List) {
	return f.get(f.outputs, a, a.Name, rng)
}

func (f *fakeData) Resource(a addr.Resource, rng hcl.Range) (cty.Value, diag.List) {
	f.count(a.String())
	return f.get(f.resources, a, a.String(), rng)
}

func (f *fakeData) ResourceInstance(a addr.Resource, k addr.Key, _ hcl.Range) (cty.Value, bool, diag.List) {
	return f.element(f.resources[a.String()], k)
}

func (f *fakeData) Module(a addr.ModuleCall, rng hcl.Range) (cty.Value, diag.List) {
	f.count(a.String())
	return f.get(f.modules, a, a.Name, rng)
}

func (f *fakeData) ModuleInstance(a addr.ModuleCall, k addr.Key, _ hcl.Range) (cty.Value, bool, diag.List) {
	return f.element(f.modules[a.Name], k)
}

func (f *fakeData) Function(p ProviderFunction, rng hcl.Range) (function.Function, diag.List) {
	if p.Name == "upper" {
		return stdlib.UpperFunc, nil
	}
	return function.Function{}, diag.Errors("Function not found in provider", p.String(), &rng)
}

func (f *fakeData) get(from map[string]cty.Value, what addr.Named, name string, rng hcl.Range) (cty.Value, diag.List) {
	if v, ok := from[name]; ok {
		return v, nil
	}
	return cty.DynamicVal, diag.Errors("Reference to undeclared "+fmt.Sprintf("%T", what), name, &rng)
}

func (f *fakeData) count(name string) {
	if f.wholes != nil {
		f.wholes[name]++
	}
}

func (f *fakeData) element(whole cty.Value, k addr.Key) (cty.Value, bool, diag.List) {
	if f.withoutInstances || whole == cty.NilVal || whole.IsMarked() || whole.IsNull() || !whole.IsKnown() {
		return cty.NilVal, false, nil
	}
	if n, ok := k.Int(); ok && whole.Type().IsTupleType() && n >= 0 && n < whole.LengthInt() {
		return whole.Index(cty.NumberIntVal(int64(n))), true, nil
	}
	if s, ok := k.Str(); ok && whole.Type().IsObjectType() && whole.Type().HasAttribute(s) {
		return whole.GetAttr(s), true, nil
	}
	return cty.NilVal, false, nil
}

// fakeStatic declares the objects of a fakeData, and the properties of resources.
type fakeStatic struct {
	*fakeData
	facts map[string]StaticResource
}

func (fakeStatic) Module() addr.Module { return addr.RootModule }

func (f fakeStatic) Declares(n addr.Named) bool { return slices.Contains(f.Names(n), nameOf(n)) }

func nameOf(n addr.Named) string {
	_, name, _ := strings.Cut(n.String(), ".")
	return name
}

func (f fakeStatic) Names(like addr.Named) []string {
	var from map[string]cty.Value
	switch like.(type) {
	case addr.Variable:
		from = f.variables
	case addr.Local:
		from = f.locals
	case addr.Output:
		from = f.outputs
	case addr.ModuleCall:
		from = f.modules
	}
	var out []string
	for name := range from {
		out = append(out, name)
	}
	return out
}

func (f fakeStatic) Resource(a addr.Resource) (StaticResource, bool) {
	if facts, ok := f.facts[a.String()]; ok {
		return facts, true
	}
	_, ok := f.resources[a.String()]
	return StaticResource{}, ok
}

var testFunctions = map[string]function.Function{
	"upper": stdlib.UpperFunc, "length": stdlib.LengthFunc, "core::upper": stdlib.UpperFunc, "range": stdlib.RangeFunc,
	"uuid": counting(),
}

// counting is an impure function: it returns another number at each call.
func counting() function.Function {
	n := int64(0)
	return function.New(&function.Spec{
		Type: function.StaticReturnType(cty.String),
		Impl: func([]cty.Value, cty.Type) (cty.Value, error) {
			n++
			return cty.StringVal(fmt.Sprint("call ", n)), nil
		},
	})
}

func testScope(d *fakeData) *Scope {
	return New(Options{
		Data: d, Functions: testFunctions,
		Paths: Paths{Cwd: "/cwd", Module: "mod", Root: "."}, Workspace: "blue",
	})
}

func parseExpr(t testing.TB, src string) hcl.Expression {
	t.Helper()
	e, diags := syntax.ParseExpression([]byte(src), "test.tf", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return e
}

func parseBody(t testing.TB, src string) hcl.Body {
	t.Helper()
	f, diags := syntax.ParseConfig([]byte(src), "test.tf", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return f.Body
}

func parseJSONBody(t testing.TB, src string) hcl.Body {
	t.Helper()
	f, diags := syntax.ParseJSON([]byte(src), "test.tf.json")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return f.Body
}

func noErrors(t testing.TB, diags diag.List) {
	t.Helper()
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
}

// summaries returns the summaries of diagnostics, for comparison.
func summaries(diags diag.List) string {
	var out []string
	for _, d := range diags {
		out = append(out, d.Summary)
	}
	return strings.Join(out, "; ")
}

func obj(pairs ...any) cty.Value {
	m := map[string]cty.Value{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = val(pairs[i+1])
	}
	return cty.ObjectVal(m)
}

func val(x any) cty.Value {
	switch x := x.(type) {
	case cty.Value:
		return x
	case string:
		return cty.StringVal(x)
	case int:
		return cty.NumberIntVal(int64(x))
	case bool:
		return cty.BoolVal(x)
	default:
		panic(x)
	}
}

func countRep(n int) Repetition { return Repetition{CountIndex: cty.NumberIntVal(int64(n))} }

func optional(ty cty.Type) *schema.Attribute { return &schema.Attribute{Type: ty, Optional: true} }
