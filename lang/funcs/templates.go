package funcs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// renderer makes the functions that render templates.
type renderer struct {
	dir   directory
	depth int // how many templates may be nested in each other
	// funcs is what templates can call beside the template functions themselves.
	funcs map[string]function.Function
}

const defaultTemplateDepth = 1024

func newRenderer(dir directory, depth int, funcs map[string]function.Function) *renderer {
	if depth == 0 {
		depth = defaultTemplateDepth
	}
	return &renderer{dir: dir, depth: depth, funcs: funcs}
}

func (r *renderer) functions() family {
	return family{
		"templatefile":   {r.templateFile(0), "Reads a file as a template and renders it with the given variables."},
		"templatestring": {r.templateString(0), "Renders a string as a template with the given variables."},
	}
}

// templateFile and templateString leave the type of their result open: finding it takes a rendering, and one at each
// level for the type and one for the value would double the work with each level of nesting.

func (r *renderer) templateFile(level int) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{withMarks("path", cty.String), plain("vars", cty.DynamicPseudoType)},
		Type:   function.StaticReturnType(cty.DynamicPseudoType),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			path, pathMarks := args[0].Unmark()
			src, err := r.dir.text(path.AsString(), pathMarks)
			if err != nil {
				return cty.NilVal, err
			}
			name := path.AsString()
			if len(pathMarks) > 0 {
				name = show(name, pathMarks)
			}
			v, err := r.render(name, src, args[1], level)
			if err != nil {
				return cty.NilVal, err
			}
			return v.WithMarks(pathMarks), nil
		},
	})
}

func (r *renderer) templateString(level int) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{withMarks("data", cty.String), withMarks("vars", cty.DynamicPseudoType)},
		Type:   function.StaticReturnType(cty.DynamicPseudoType),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			src, srcMarks := args[0].Unmark()
			vars, varsMarks := args[1].Unmark()
			v, err := r.render("templatestring", src.AsString(), vars, level)
			if err != nil {
				return cty.NilVal, err
			}
			return v.WithMarks(srcMarks, varsMarks), nil
		},
	})
}

// render evaluates a template that is nested in level other ones. The errors about its variables are about the second
// argument of the calling function.
func (r *renderer) render(name, src string, vars cty.Value, level int) (cty.Value, error) {
	if level > r.depth {
		return cty.NilVal, tooDeepError{limit: r.depth}
	}
	if ty := vars.Type(); !ty.IsObjectType() && !ty.IsMapType() {
		return cty.NilVal, function.NewArgErrorf(1, "the variables must be an object or a map, not %s",
			ty.FriendlyName())
	}
	variables := vars.AsValueMap()
	for _, v := range slices.Sorted(maps.Keys(variables)) {
		if !hclsyntax.ValidIdentifier(v) {
			return cty.NilVal, function.NewArgErrorf(1, "%q cannot name a variable: a name is a letter or an "+
				"underscore, and then letters, digits, underscores and dashes", v)
		}
	}
	expr, diags := hclsyntax.ParseTemplate([]byte(src), name, hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	for _, ref := range expr.Variables() {
		if _, ok := variables[ref.RootName()]; !ok {
			return cty.NilVal, function.NewArgErrorf(1,
				"the template refers to %q (at %s), and no variable has that name", ref.RootName(), ref.SourceRange())
		}
	}

	v, diags := expr.Value(r.context(variables, level+1))
	if diags.HasErrors() {
		return cty.NilVal, asTooDeep(diags)
	}
	return v, nil
}

// context is what a template at level sees. The template functions stand in the outer context: only they differ by
// level, and so the big map is shared by all templates.
func (r *renderer) context(variables map[string]cty.Value, level int) *hcl.EvalContext {
	file, text := r.templateFile(level), r.templateString(level)
	outer := &hcl.EvalContext{Functions: map[string]function.Function{
		"templatefile": file, "core::templatefile": file,
		"templatestring": text, "core::templatestring": text,
	}}
	ctx := outer.NewChild()
	ctx.Functions = r.funcs
	ctx.Variables = variables
	return ctx
}

// tooDeepError says that templates are nested beyond the limit. It rises through all the calls as it is, so that the
// message names each call once rather than repeating the levels inside one another.
type tooDeepError struct {
	limit int
	calls []string // the innermost first; a call that occurs again, as in a loop, is there once
}

func (e tooDeepError) Error() string {
	return fmt.Sprintf("templates are nested in each other more than %d levels deep, by the calls at %s", e.limit,
		strings.Join(e.calls, ", "))
}

// maxCalls is how many calls a tooDeepError names.
const maxCalls = 16

// asTooDeep returns diags as an error: the tooDeepError that caused them if there is one, with the call that it came
// through added.
func asTooDeep(diags hcl.Diagnostics) error {
	for _, d := range diags {
		extra, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d)
		if !ok {
			continue
		}
		var e tooDeepError
		if !errors.As(extra.FunctionCallError(), &e) {
			continue
		}
		if call := d.Subject.String(); len(e.calls) < maxCalls && !slices.Contains(e.calls, call) {
			e.calls = append(e.calls, call)
		}
		return e
	}
	return diags
}
