package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
)

// Static evaluates, in one module of the tree, the expressions that OpenTofu evaluates before it plans: module sources
// and versions, backends, encryption, for_each of provider blocks. Such expressions can use variables, locals, path,
// terraform.workspace and functions; nothing else is known so early. It is not safe for concurrent use.
type Static struct {
	module    *Module
	path      addr.Module
	rootDir   string
	workspace string
	cwd       string
	functions func() map[string]function.Function
	// variable returns the value given to a variable of the module, or its default.
	variable func(*Variable) (cty.Value, diag.List)

	values map[addr.Named]evaluated
}

type evaluated struct {
	value cty.Value
	diags diag.List
}

// StaticUse describes the use of a value, for errors.
type StaticUse struct {
	// Subject names it, for diagnostics: module.a.source, backend.s3.
	Subject string
	// Range is its source range.
	Range hcl.Range
}

// Value evaluates an expression. With errors the value is unknown.
func (s *Static) Value(e hcl.Expression, use StaticUse) (cty.Value, diag.List) {
	return s.value(e, []StaticUse{use})
}

func (s *Static) value(e hcl.Expression, stack []StaticUse) (cty.Value, diag.List) {
	if v, ok := literal(e); ok {
		return v, nil
	}
	ctx, diags := s.context(e.Variables(), stack)
	diags = append(diags, s.noProviderFunctions(e, stack)...)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	v, more := e.Value(ctx)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	return v, diags
}

// literal returns the value of a string literal, which most of these expressions are.
func literal(e hcl.Expression) (cty.Value, bool) {
	t, ok := e.(*hclsyntax.TemplateExpr)
	if !ok || !t.IsStringLiteral() {
		return cty.NilVal, false
	}
	v, diags := t.Value(nil)
	return v, !diags.HasErrors()
}

// Context returns the context for expressions that use these variables.
func (s *Static) Context(uses []hcl.Traversal, use StaticUse) (*hcl.EvalContext, diag.List) {
	return s.context(uses, []StaticUse{use})
}

func (s *Static) context(uses []hcl.Traversal, stack []StaticUse) (*hcl.EvalContext, diag.List) {
	var diags diag.List
	var refs []*addr.Reference
	for _, trav := range uses {
		ref, more := addr.ParseReference(trav)
		diags = append(diags, more...)
		if ref != nil {
			diags = append(diags, s.allowed(ref, stack)...)
			refs = append(refs, ref)
		}
	}
	ctx := &hcl.EvalContext{Functions: s.functions()}
	if diags.HasErrors() {
		return ctx, diags
	}
	objects := map[string]map[string]cty.Value{}
	for _, ref := range refs {
		root, name := rootAndName(ref.Subject)
		if objects[root] == nil {
			objects[root] = map[string]cty.Value{}
		}
		if _, done := objects[root][name]; done {
			continue
		}
		v, more := s.named(ref, stack)
		diags = append(diags, more...)
		objects[root][name] = v
	}
	ctx.Variables = map[string]cty.Value{}
	for root, attrs := range objects {
		ctx.Variables[root] = cty.ObjectVal(attrs)
	}
	return ctx, diags
}

func rootAndName(n addr.Named) (root, name string) {
	root, name, _ = strings.Cut(n.String(), ".")
	return root, name
}

// allowed reports references to objects that have no value before planning.
func (s *Static) allowed(ref *addr.Reference, stack []StaticUse) diag.List {
	summary := "Dynamic value in static context"
	switch ref.Subject.(type) {
	case addr.Variable, addr.Local, addr.PathAttr, addr.EngineAttr:
		return nil
	case addr.ModuleOutput:
		summary = "Module output not supported in static context"
	}
	return diag.Errors(summary, fmt.Sprintf(
		"%s is needed before anything is planned, and %s has no value by then. Variables and locals made of "+
			"variables have.",
		s.name(top(stack)), ref.Subject), &ref.Range)
}

// noProviderFunctions reports calls of provider functions, which would need a running provider.
func (s *Static) noProviderFunctions(e hcl.Expression, stack []StaticUse) diag.List {
	native, ok := e.(hclsyntax.Expression)
	if !ok {
		return nil
	}
	var diags diag.List
	hclsyntax.VisitAll(native, func(n hclsyntax.Node) hcl.Diagnostics { //nolint:errcheck // the visitor returns none
		if call, ok := n.(*hclsyntax.FunctionCallExpr); ok && strings.HasPrefix(call.Name, "provider::") {
			diags = append(diags, diag.New(diag.Error, "Provider function in static context", fmt.Sprintf(
				"%s is needed before anything is planned, and no provider runs by then that could answer %s.",
				s.name(top(stack)), call.Name), &call.NameRange))
		}
		return nil
	})
	return diags
}

func top(stack []StaticUse) StaticUse { return stack[len(stack)-1] }

// name describes the evaluated expression, with its module.
func (s *Static) name(u StaticUse) string {
	if s.path.IsRoot() {
		return u.Subject
	}
	return s.path.String() + ":" + u.Subject
}

func (s *Static) named(ref *addr.Reference, stack []StaticUse) (cty.Value, diag.List) {
	switch n := ref.Subject.(type) {
	case addr.PathAttr:
		return s.pathAttr(n, ref.Range)
	case addr.EngineAttr:
		return s.engineAttr(n, ref.Range)
	case addr.Variable:
		v := s.module.Variables[n.Name]
		switch {
		case v == nil:
			return cty.DynamicVal, diag.Errors("Undefined variable", "The module declares no variable "+n.Name+
				".", &ref.Range)
		case v.ConstSet && !v.Const:
			return cty.DynamicVal, diag.Errors("Unable to use variable in static context",
				fmt.Sprintf("%s is needed before anything is planned, and the variable %q says const = false.",
					s.name(top(stack)), n.Name), &ref.Range)
		}
		given, diags := s.once(n, v.Range, stack, func([]StaticUse) (cty.Value, diag.List) { return s.variable(v) })
		if diags.HasErrors() {
			return cty.DynamicVal, diags
		}
		value, more := s.converted(v, given)
		return value, append(diags[:len(diags):len(diags)], more...)
	case addr.Local:
		l := s.module.Locals[n.Name]
		if l == nil {
			return cty.DynamicVal, diag.Errors("Undefined local", "The module declares no local value "+n.Name+
				".", &ref.Range)
		}
		return s.once(n, l.Range, stack, func(stack []StaticUse) (cty.Value,
			diag.List) {
			return s.value(l.Expr, stack)
		})
	default:
		panic("config: a reference that is not allowed was evaluated")
	}
}

// once evaluates a named value at its first use, and reports its errors.
func (s *Static) once(n addr.Named, rng hcl.Range, stack []StaticUse, f func([]StaticUse) (cty.Value, diag.List)) (
	cty.Value, diag.List) {
	use := StaticUse{n.String(), rng}
	for _, u := range stack {
		if u.Subject == use.Subject {
			return cty.DynamicVal, diag.Errors("Circular reference", s.name(use)+" depends on itself.", &rng)
		}
	}
	done, ok := s.values[n]
	if !ok {
		done.value, done.diags = f(append(stack[:len(stack):len(stack)], use))
		if s.values == nil {
			s.values = map[addr.Named]evaluated{}
		}
		s.values[n] = done
	}
	diags := done.diags
	if diags.HasErrors() {
		waiting := top(stack)
		diags = append(diags[:len(diags):len(diags)], diag.New(diag.Error, "Unable to compute static value",
			fmt.Sprintf("%s depends on %s, which has no value.", s.name(waiting), s.name(use)), &waiting.Range))
	}
	return done.value, diags
}

// converted returns the value of a variable, converted to its type.
func (s *Static) converted(v *Variable, given cty.Value) (cty.Value, diag.List) {
	name := addr.Variable{Name: v.Name}.String()
	if !s.path.IsRoot() {
		name = s.path.String() + "." + name
	}
	value, diags := v.Convert(name, VariableValue{Value: given})
	if v.Sensitive {
		value = value.Mark(marks.Sensitive)
	}
	if v.Ephemeral {
		value = value.Mark(marks.Ephemeral)
	}
	return value, diags
}

func (s *Static) pathAttr(n addr.PathAttr, rng hcl.Range) (cty.Value, diag.List) {
	switch n.Name {
	case "module":
		return cty.StringVal(filepath.ToSlash(s.module.SourceDir)), nil
	case "root":
		return cty.StringVal(filepath.ToSlash(s.rootDir)), nil
	case "cwd":
		if s.cwd == "" {
			return cty.DynamicVal, diag.Errors("Failed to get working directory",
				"The working directory cannot be determined.", &rng)
		}
		return cty.StringVal(filepath.ToSlash(s.cwd)), nil
	default:
		return cty.DynamicVal, diag.Errors(`Invalid "path" attribute`,
			"path has no attribute "+n.Name+"."+suggestion(n.Name, []string{"cwd", "module", "root"}), &rng)
	}
}

func (s *Static) engineAttr(n addr.EngineAttr, rng hcl.Range) (cty.Value, diag.List) {
	switch n.Name {
	case "workspace":
		return cty.StringVal(s.workspace), nil
	case "applying":
		return cty.DynamicVal, diag.Errors("Invalid attribute in static context",
			n.String()+" is known when something is planned or applied, and this is needed before.", &rng)
	default:
		return cty.DynamicVal, diag.Errors(`Invalid "`+n.Prefix+`" attribute`,
			n.Prefix+" has no attribute "+n.Name+" here; it has workspace.", &rng)
	}
}

// Text evaluates an expression to a string, which must not be sensitive, ephemeral, null or unknown.
func (s *Static) Text(e hcl.Expression, use StaticUse) (string, diag.List) {
	at := e.Range()
	v, diags := s.Value(e, use)
	if diags.HasErrors() {
		return "", diags
	}
	if marks.Contains(v, marks.Sensitive) {
		return "", append(diags, diag.New(diag.Error, "Sensitive value not allowed",
			s.name(use)+" is stored and shown, so it must not depend on sensitive values.", &at))
	}
	if marks.Contains(v, marks.Ephemeral) {
		return "", append(diags, diag.New(diag.Error, "Ephemeral value not allowed",
			s.name(use)+" is stored, so it must not depend on ephemeral values.", &at))
	}
	v, _ = v.Unmark()
	text, err := convert.Convert(v, cty.String)
	switch {
	case err != nil:
		return "", append(diags, diag.New(diag.Error, "Unsuitable value type", "This has to be a string: "+
			conversionText(err)+".", &at))
	case text.IsNull():
		return "", append(diags, diag.New(diag.Error, "Unsuitable value type",
			"This has to be a string, and it is null.", &at))
	case !text.IsKnown():
		return "", append(diags, diag.New(diag.Error, "Unsuitable value type", "This has to be a string that is "+
			"known before planning.", &at))
	}
	return text.AsString(), diags
}

// ForEach evaluates the for_each of a provider block.
func (s *Static) ForEach(e hcl.Expression, use StaticUse) (map[string]cty.Value, diag.List) {
	v, diags := s.Value(e, use)
	if diags.HasErrors() {
		return nil, diags
	}
	at := e.Range()
	invalid := func(detail string) (map[string]cty.Value, diag.List) {
		return nil, append(diags, diag.New(diag.Error, "Invalid for_each argument", detail, &at))
	}
	switch {
	case marks.Has(v, marks.Sensitive):
		return invalid("The keys are shown in addresses, so they must not depend on sensitive values.")
	case marks.Has(v, marks.Ephemeral):
		return invalid("The keys are stored in addresses, so they must not depend on ephemeral values.")
	}
	v, _ = v.Unmark()
	ty := v.Type()
	isSet := ty.IsSetType()
	switch {
	case !ty.IsMapType() && !ty.IsObjectType() && !isSet && ty != cty.DynamicPseudoType:
		return invalid("for_each takes a map or a set of strings, and this is " + ty.FriendlyName() + ".")
	case v.IsNull():
		return invalid("for_each takes a map or a set of strings, and this is null.")
	case !v.IsKnown():
		return invalid("The keys have to be known before anything is planned.")
	case isSet && ty.ElementType() != cty.String && ty.ElementType() != cty.DynamicPseudoType:
		return invalid("for_each takes a set of strings, and this is a set of " + ty.ElementType().FriendlyName() + ".")
	case isSet && !v.IsWhollyKnown():
		return invalid("The keys have to be known before anything is planned.")
	}
	out := map[string]cty.Value{}
	for it := v.ElementIterator(); it.Next(); {
		key, value := it.Element()
		if key, _ = key.Unmark(); key.IsNull() {
			return invalid("A set of keys cannot hold null.")
		}
		out[key.AsString()] = value
	}
	return out, diags
}
