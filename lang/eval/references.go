package eval

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// Reference is one use of a named object in an expression, found without evaluating it.
type Reference struct {
	*addr.Reference
	// Key is the expression in the brackets of b[count.index] if the subject is a resource or a module call and the
	// instance depends on a value; else nil. It uses no name that is bound by a for expression.
	Key hcl.Expression
	// KeyByRepetition is set if Key depends only on count.index, each.key and each.value, so that the instance is
	// known as soon as the repetition of the referring object is.
	KeyByRepetition bool

	// path contains the names from the root of the scope to the subject: data, aws_ami, x.
	path []string
}

// InstanceKey returns the key of the referenced instance, if the referring object has this repetition. ok is false
// if the reference is to all instances, or if the key is unknown.
func (r Reference) InstanceKey(s *Scope, rep Repetition) (key addr.Key, ok bool) {
	switch subject := r.Subject.(type) {
	case addr.ResourceRef:
		return subject.Key, subject.Key != addr.NoKey
	case addr.ModuleCallInstance:
		return subject.Key, subject.Key != addr.NoKey
	case addr.ModuleOutput:
		return subject.Call.Key, subject.Call.Key != addr.NoKey
	}
	if r.Key == nil {
		return addr.NoKey, false
	}
	v, diags := PrepareExpr(r.Key).Eval(s, cty.DynamicPseudoType, rep, cty.NilVal)
	if diags.HasErrors() {
		return addr.NoKey, false
	}
	return keyOf(v)
}

// keyOf converts the value of an index to an instance key.
func keyOf(v cty.Value) (addr.Key, bool) {
	if v == cty.NilVal || v.IsMarked() || !v.IsKnown() || v.IsNull() {
		return addr.NoKey, false
	}
	key, err := addr.ParseKey(v)
	return key, err == nil
}

// ProviderFunction is the name of a function that a provider defines: provider::NAME::FUNCTION or
// provider::NAME::ALIAS::FUNCTION.
type ProviderFunction struct {
	Provider addr.LocalProvider
	Name     string
}

// String returns the name in the form of a call.
func (f ProviderFunction) String() string {
	if f.Provider.Alias == "" {
		return "provider::" + f.Provider.Name + "::" + f.Name
	}
	return "provider::" + f.Provider.Name + "::" + f.Provider.Alias + "::" + f.Name
}

// Call is one call of a provider's function.
type Call struct {
	Function ProviderFunction
	// Range is the range of the function's name.
	Range hcl.Range
}

// parseProviderFunction parses the name of a called function. is reports whether it is in the namespace of
// providers.
func parseProviderFunction(name string) (f ProviderFunction, is bool, err error) {
	parts := strings.Split(name, "::")
	if len(parts) < 2 || parts[0] != "provider" {
		return f, false, nil
	}
	switch len(parts) {
	case 3:
		return ProviderFunction{addr.LocalProvider{Name: parts[1]}, parts[2]}, true, nil
	case 4:
		return ProviderFunction{addr.LocalProvider{Name: parts[1], Alias: parts[2]}, parts[3]}, true, nil
	default:
		return f, true, fmt.Errorf("%q does not name a provider's function: write provider::NAME::FUNCTION or "+
			"provider::NAME::ALIAS::FUNCTION", name)
	}
}

// ExprReferences returns the references of an expression, in the order of the source. Nil has none.
func ExprReferences(expr hcl.Expression) ([]Reference, diag.List) {
	e := PrepareExpr(expr)
	return e.References(), e.Invalid()
}

// BodyReferences returns the references of a body that is decoded with this schema; see Template.References.
func BodyReferences(body hcl.Body, block *schema.Block) ([]Reference, diag.List) {
	t := PrepareBody(body, block)
	return t.References(), t.Invalid()
}

// finding is an entry that finder collects.
type finding struct {
	parse   func(hcl.Traversal) (*addr.Reference, diag.List)
	refs    []Reference
	calls   []Call
	invalid diag.List
	loops   []hclsyntax.Expression
}

// expression collects the references in expr. hidden are root names that an enclosing construct binds. It returns
// false if evaluating expr again may give another result although no referenced value has changed.
func (f *finding) expression(expr hcl.Expression, hidden []string) (pure bool) {
	w := &finder{finding: f, hidden: hidden, pure: true}
	switch e := expr.(type) {
	case nil:
	case hclsyntax.Expression:
		hclsyntax.Walk(e, w) //nolint:errcheck // no visitor returns diagnostics
	default:
		if json.IsJSONExpression(expr) {
			w.json(expr)
			break
		}
		for _, t := range expr.Variables() {
			w.traversal(t, nil)
		}
		w.pure = false
	}
	return w.pure
}

// finder walks one expression.
type finder struct {
	*finding
	hidden []string
	scopes []map[string]struct{}
	// keys maps collections to their index expressions, which are visited before the collection itself.
	keys map[*hclsyntax.ScopeTraversalExpr]hclsyntax.Expression
	pure bool
}

// impure are the functions whose result depends on more than their arguments, or which may call such functions.
var impure = map[string]bool{
	"uuid": true, "timestamp": true, "bcrypt": true, "templatefile": true, "templatestring": true,
}

// Enter implements hclsyntax.Walker.
func (w *finder) Enter(n hclsyntax.Node) hcl.Diagnostics {
	switch n := n.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		if !w.bound(n.Traversal.RootName()) {
			w.traversal(n.Traversal, w.keys[n])
		}
	case *hclsyntax.IndexExpr:
		if c, ok := n.Collection.(*hclsyntax.ScopeTraversalExpr); ok && w.free(n.Key) {
			if w.keys == nil {
				w.keys = map[*hclsyntax.ScopeTraversalExpr]hclsyntax.Expression{}
			}
			w.keys[c] = n.Key
		}
	case *hclsyntax.FunctionCallExpr:
		w.call(n.Name, n.NameRange)
	case hclsyntax.ChildScope:
		w.scopes = append(w.scopes, n.LocalNames)
	}
	return nil
}

// Exit implements hclsyntax.Walker.
func (w *finder) Exit(n hclsyntax.Node) hcl.Diagnostics {
	if _, ok := n.(hclsyntax.ChildScope); ok {
		w.scopes = w.scopes[:len(w.scopes)-1]
	}
	return nil
}

// bound reports whether a root name is bound by a construct that encloses the current position of the walk.
func (w *finder) bound(name string) bool {
	if slices.Contains(w.hidden, name) {
		return true
	}
	for _, names := range w.scopes {
		if _, ok := names[name]; ok {
			return true
		}
	}
	return false
}

// free reports whether a key uses no bound name and is deterministic.
func (w *finder) free(key hclsyntax.Expression) bool {
	for _, t := range key.Variables() {
		if w.bound(t.RootName()) {
			return false
		}
	}
	pure := true
	hclsyntax.VisitAll(key, func(n hclsyntax.Node) hcl.Diagnostics { //nolint:errcheck // the visitor returns none
		if c, ok := n.(*hclsyntax.FunctionCallExpr); ok && impure[strings.TrimPrefix(c.Name, "core::")] {
			pure = false
		}
		return nil
	})
	return pure
}

func (w *finder) call(name string, rng hcl.Range) {
	if impure[strings.TrimPrefix(name, "core::")] {
		w.pure = false
	}
	f, is, err := parseProviderFunction(name)
	switch {
	case !is:
	case err != nil:
		w.invalid = w.invalid.Append(diag.New(diag.Error, "Unable to parse provider function",
			capitalize(err.Error())+".", &rng))
	default:
		w.calls = append(w.calls, Call{f, rng})
	}
}

func (w *finder) traversal(t hcl.Traversal, key hclsyntax.Expression) {
	ref, diags := w.parse(t)
	w.invalid = w.invalid.Append(diags)
	if ref == nil {
		return
	}
	r := Reference{Reference: ref, path: scopePath(ref.Subject, t)}
	if key != nil && len(ref.Remaining) == 0 && repeats(ref.Subject) {
		r.Key, r.KeyByRepetition = key, true
		for _, t := range key.Variables() {
			if root := t.RootName(); root != "count" && root != "each" {
				r.KeyByRepetition = false
			}
		}
	}
	w.refs = append(w.refs, r)
}

// json walks a JSON expression, whose strings are templates.
func (w *finder) json(expr hcl.Expression) {
	if pairs, diags := hcl.ExprMap(expr); !diags.HasErrors() {
		for _, p := range pairs {
			w.json(p.Key)
			w.json(p.Value)
		}
		return
	}
	if list, diags := hcl.ExprList(expr); !diags.HasErrors() {
		for _, e := range list {
			w.json(e)
		}
		return
	}
	if native := jsonTemplate(expr); native != nil {
		hclsyntax.Walk(native, w) //nolint:errcheck // the visitor returns none
		if syntax.Counts(native) {
			w.loops = append(w.loops, native)
		}
	}
}

// jsonTemplate returns the template in a JSON string; nil if expr is not a string, or the string not a template.
// HCL itself parses it again at every evaluation.
func jsonTemplate(expr hcl.Expression) hclsyntax.Expression {
	// Without a context, Value returns the text of a JSON string unevaluated.
	v, diags := expr.Value(nil)
	if diags.HasErrors() || v.Type() != cty.String || v.IsNull() {
		return nil
	}
	rng := expr.Range()
	start := rng.Start
	start.Byte, start.Column = start.Byte+1, start.Column+1 // after the quote
	native, diags := syntax.ParseTemplate([]byte(v.AsString()), rng.Filename, start)
	if diags.HasErrors() {
		return nil // reported when the expression is evaluated
	}
	return native
}

// repeats reports whether a subject may have several instances.
func repeats(subject addr.Named) bool {
	switch subject.(type) {
	case addr.Resource, addr.ModuleCall:
		return true
	default:
		return false
	}
}

// scopePath returns the names of the subject in a traversal.
func scopePath(subject addr.Named, t hcl.Traversal) []string {
	length := 2
	switch subject.(type) {
	case addr.Self:
		length = 1
	case addr.Resource, addr.ResourceRef:
		switch t.RootName() {
		case "resource", "data", "ephemeral", "list", "action":
			length = 3
		}
	}
	path := make([]string, 0, length)
	for _, step := range t[:length] {
		switch step := step.(type) {
		case hcl.TraverseRoot:
			path = append(path, step.Name)
		case hcl.TraverseAttr:
			path = append(path, step.Name)
		default:
			panic("eval: a reference that is not made of names")
		}
	}
	return path
}

// inSourceOrder sorts diagnostics by position, stably: HCL finds some of them by iterating over maps.
func inSourceOrder(diags diag.List) diag.List {
	position := func(d *diag.Diagnostic) hcl.Range {
		if d.Subject == nil {
			return hcl.Range{}
		}
		return *d.Subject
	}
	slices.SortStableFunc(diags, func(a, b *diag.Diagnostic) int {
		ra, rb := position(a), position(b)
		return cmp.Or(cmp.Compare(ra.Filename, rb.Filename), cmp.Compare(ra.Start.Byte, rb.Start.Byte))
	})
	return diags
}

func capitalize(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
