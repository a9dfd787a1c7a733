package suite

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/funcs"
)

// scope evaluates the expressions of a test file: they can refer to the outputs of earlier runs, and to
// variables that are given outside of the file.
type scope struct {
	file     *config.TestFile
	declared map[string]*config.Variable
	given    map[string]config.VariableValue
	ctx      *hcl.EvalContext
}

// scope returns the scope of a run of a configuration.
func (f *fileRunner) scope(ctx context.Context, tree *config.Tree) (*scope, diag.List) {
	s := &scope{file: f.file.Config, declared: tree.Root.Module.Variables}
	runs, diags := f.outputs(ctx)
	given, more := f.Given.All(s.declared)
	diags = diags.Append(more)
	s.given = given
	vars := make(map[string]cty.Value, len(given)+len(s.declared))
	for name, v := range s.declared {
		if !v.Required() {
			vars[name] = v.Default
		}
	}
	for name, g := range given {
		vars[name] = withDefaults(s.declared[name], g.Value)
	}
	s.ctx = &hcl.EvalContext{
		Variables: map[string]cty.Value{"run": runs, "var": cty.ObjectVal(vars)},
		Functions: funcs.Table(funcs.Options{BaseDir: f.Session.Dir, Env: f.Session.Env, Files: f.Session.Files,
			Now: f.Session.Now, TemplateDepth: f.Session.TemplateDepth}),
	}
	return s, diags
}

// withDefaults adds the defaults of optional attributes of a variable's type.
func withDefaults(v *config.Variable, given cty.Value) cty.Value {
	if v == nil || v.TypeDefaults == nil || given.IsNull() {
		return given
	}
	return v.TypeDefaults.Apply(given)
}

// inputs returns the values of the configuration's variables: from the run, from the file, or from the command
// line.
func (s *scope) inputs(r *Run) (map[string]values.Input, diag.List) {
	out := map[string]values.Input{}
	var diags diag.List
	for _, name := range slices.Sorted(maps.Keys(s.declared)) {
		if e := s.expr(r, name); e != nil {
			v, more := e.Value(s.ctx)
			diags = diags.Append(more)
			if !more.HasErrors() {
				out[name] = values.Input{Value: v, Range: e.Range().Ptr()}
			}
		} else if g, ok := s.given[name]; ok {
			out[name] = values.InputOf(name, g)
		}
		if _, ok := out[name]; !ok && s.declared[name].Required() {
			diags = diags.Append(diag.New(diag.Error, "No value for required variable",
				fmt.Sprintf("The root module input variable %q is not set, and has no default value. Set it in a variables "+
					"block of the run or of the file, or with the -var or -var-file option.", name),
				s.declared[name].Range.Ptr()))
		}
	}
	return out, diags
}

// expr returns the expression for a variable in the run or the file, or nil.
func (s *scope) expr(r *Run, name string) hcl.Expression {
	if e, ok := r.Config.Variables[name]; ok {
		return e
	}
	if e, ok := s.file.Variables[name]; ok {
		return e
	}
	return nil
}

// all returns the values of all variables, declared or not, because assertions can also refer to undeclared
// ones.
func (s *scope) all(r *Run) (map[string]cty.Value, diag.List) {
	out := map[string]cty.Value{}
	for name, g := range s.given {
		out[name] = g.Value
	}
	var diags diag.List
	for _, given := range []map[string]hcl.Expression{s.file.Variables, r.Config.Variables} {
		for name, e := range given {
			v, more := e.Value(s.ctx)
			diags = diags.Append(more)
			out[name] = v
		}
	}
	return out, diags
}

// forProviders returns a function that evaluates expressions in provider blocks which the module itself cannot
// evaluate: if there are earlier runs, those that refer to runs or to variables that are given but not
// declared. In these expressions, variables have the values of the run.
func (s *scope) forProviders(inputs map[string]values.Input) func(hcl.Expression, bool) (cty.Value, bool,
	hcl.Diagnostics) {
	vars := s.ctx.Variables["var"].AsValueMap()
	if vars == nil {
		vars = map[string]cty.Value{}
	}
	for name, in := range inputs {
		if in.Value != cty.NilVal && !in.Value.IsNull() {
			vars[name] = in.Value
		}
	}
	ctx := s.ctx.NewChild()
	ctx.Variables = map[string]cty.Value{"var": cty.ObjectVal(vars)}
	earlier := s.ctx.Variables["run"].LengthInt() > 0
	return func(e hcl.Expression, all bool) (cty.Value, bool, hcl.Diagnostics) {
		if !all && (!earlier || !slices.ContainsFunc(e.Variables(), s.foreign)) {
			return cty.NilVal, false, nil
		}
		v, diags := e.Value(ctx)
		if diags.HasErrors() && !all {
			return cty.NilVal, false, nil // the module reports the error
		}
		return v, true, diags
	}
}

// foreign reports whether a traversal refers to something that modules do not have.
func (s *scope) foreign(t hcl.Traversal) bool {
	switch t.RootName() {
	case "run":
		return true
	case "var":
		if len(t) < 2 {
			return false
		}
		attr, ok := t[1].(hcl.TraverseAttr)
		return ok && s.declared[attr.Name] == nil
	default:
		return false
	}
}
