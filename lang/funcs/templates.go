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

	"github.com/millipede-iac/millipede/lang/syntax"
)

// renderer builds the functions that render templates.
type renderer struct {
	dir   directory
	depth int // the maximum depth of nested templates
	// funcs are the functions that templates can call besides the template functions themselves.
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

// templateFile and templateString have a dynamic result type: computing it requires rendering, and rendering once
// for the type and once for the value would double the work with each level of nesting.

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

// render evaluates a template at the given nesting level. Errors about its variables refer to the second argument
// of the calling function.
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
	expr, diags := syntax.ParseTemplate([]byte(src), name, hcl.InitialPos)
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

// context returns the context of a template at a level. The template functions are in the outer context: only they
// differ by level, so the big map is shared by all templates.
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

// tooDeepError means that templates are nested beyond the limit. It is passed unchanged through all the calls, so
// that the message lists each call once instead of nesting the errors of all levels.
type tooDeepError struct {
	limit int
	calls []string // the innermost first; repeated calls, as in a loop, are listed once
}

func (e tooDeepError) Error() string {
	return fmt.Sprintf("templates are nested in each other more than %d levels deep, by the calls at %s", e.limit,
		strings.Join(e.calls, ", "))
}

// maxCalls is the maximum number of calls that a tooDeepError lists.
const maxCalls = 16

// asTooDeep returns diags as an error: the tooDeepError that caused them if there is one, with the current call
// added.
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
