package eval

import (
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
)

// binding is a program with the values of one scope. It is immutable once made.
type binding struct {
	program *program
	scope   *Scope
	// ctx has the variables that are the same for all instances.
	ctx *hcl.EvalContext
	// values are the values of the sources; those of local sources are missing (cty.NilVal).
	values []cty.Value
	// failed are the diagnostics of making the binding; if they contain errors, nothing is evaluated. The slice has
	// no spare capacity, so that appending to it copies it.
	failed diag.List
}

// bind fetches everything that does not depend on the repetition.
func (p *program) bind(s *Scope) *binding {
	b := &binding{program: p, scope: s, ctx: s.base, failed: slices.Clone(p.invalid)}
	if !b.failed.HasErrors() && s.options.Static != nil {
		b.failed = append(b.failed, CheckReferences(p.refs, s.options.Static, s.options.CheckBlock)...)
	}
	if !b.failed.HasErrors() && len(p.sources)+len(p.calls) > 0 {
		b.load()
	}
	b.failed = slices.Clip(b.failed)
	return b
}

// load fetches the shared values and makes the context from them.
func (b *binding) load() {
	p, s := b.program, b.scope
	b.ctx = s.base.NewChild()
	b.ctx.Variables = make(map[string]cty.Value, len(p.shared))
	b.ctx.Functions = b.functions()
	b.values = make([]cty.Value, len(p.sources))
	// Named values come first, because instance keys are computed from them.
	for i, src := range p.sources {
		if !repeats(src.subject) {
			b.values[i] = b.fetch(src.subject, src.rng, &b.failed)
		}
	}
	for _, root := range p.shared {
		if !root.any(func(n int) bool { return repeats(p.sources[n].subject) }) {
			b.ctx.Variables[root.name] = root.value(b.values)
		}
	}
	for i, src := range p.sources {
		if repeats(src.subject) && !src.local {
			b.values[i] = b.collection(src, b.ctx, Once, cty.NilVal, &b.failed)
		}
	}
	for _, root := range p.shared {
		if _, done := b.ctx.Variables[root.name]; !done {
			b.ctx.Variables[root.name] = root.value(b.values)
		}
	}
}

// functions returns the provider functions that are called; nil if there are none.
func (b *binding) functions() map[string]function.Function {
	if len(b.program.calls) == 0 {
		return nil
	}
	out := make(map[string]function.Function, len(b.program.calls))
	for _, c := range b.program.calls {
		name := c.Function.String()
		if _, ok := out[name]; ok {
			continue
		}
		fn, diags := b.scope.options.Data.Function(c.Function, c.Range)
		b.failed = b.failed.Append(diags)
		if !diags.HasErrors() {
			out[name] = fn
		}
	}
	return out
}

// context returns the context in which one instance is evaluated.
func (b *binding) context(rep Repetition, self cty.Value) (*hcl.EvalContext, diag.List) {
	p := b.program
	if b.failed.HasErrors() || (!p.repeats() && len(p.local) == 0) {
		return b.ctx, b.failed
	}
	ctx, diags := b.repetition(rep, self)
	if diags.HasErrors() || len(p.local) == 0 {
		return ctx, diags
	}
	values := make([]cty.Value, len(b.values))
	copy(values, b.values)
	for i, src := range p.sources {
		if src.local {
			values[i] = b.collection(src, ctx, rep, self, &diags)
		}
	}
	for _, root := range p.local {
		ctx.Variables[root.name] = root.value(values)
	}
	return ctx, diags
}

// whole is context with every resource and module complete, as the user understands the expression and as
// diagnostics show it. Where evaluation in context succeeds, it gives the same values.
func (b *binding) whole(rep Repetition, self cty.Value) (*hcl.EvalContext, diag.List) {
	if b.failed.HasErrors() {
		return b.ctx, b.failed
	}
	ctx, diags := b.repetition(rep, self)
	values := make([]cty.Value, len(b.values))
	copy(values, b.values)
	for i, src := range b.program.sources {
		if src.instances != nil {
			values[i] = b.fetch(src.subject, src.rng, &diags)
		}
	}
	for _, roots := range [][]*branch{b.program.shared, b.program.local} {
		for _, root := range roots {
			ctx.Variables[root.name] = root.value(values)
		}
	}
	return ctx, diags
}

// exact reports whether context and whole are the same.
func (b *binding) exact() bool {
	for _, src := range b.program.sources {
		if src.instances != nil {
			return false
		}
	}
	return true
}

// repetition returns a child of the shared context with count, each and self, as far as they are used.
func (b *binding) repetition(rep Repetition, self cty.Value) (*hcl.EvalContext, diag.List) {
	p := b.program
	diags := b.failed
	ctx := b.ctx.NewChild()
	ctx.Variables = make(map[string]cty.Value, 2+len(p.local))
	if len(p.count) > 0 {
		v := rep.CountIndex
		if v == cty.NilVal {
			v = cty.UnknownVal(cty.Number)
			for _, r := range p.count {
				diags = append(diags, noCount(r.Range))
			}
		}
		ctx.Variables["count"] = cty.ObjectVal(map[string]cty.Value{"index": v})
	}
	if len(p.each) > 0 {
		attrs := make(map[string]cty.Value, 2)
		for _, r := range p.each {
			v, d := rep.each(r)
			attrs[r.path[1]] = v
			diags = diags.Append(d)
		}
		ctx.Variables["each"] = cty.ObjectVal(attrs)
	}
	if len(p.self) > 0 {
		if self == cty.NilVal {
			self = cty.DynamicVal
			for _, r := range p.self {
				diags = append(diags, invalidSelf(r.path[0], r.Range))
			}
		}
		ctx.Variables[p.self[0].path[0]] = self // in the config block of an action it is called caller
	}
	return ctx, diags
}

// each returns the value of each.key or each.value.
func (rep Repetition) each(r Reference) (cty.Value, *diag.Diagnostic) {
	switch {
	case r.path[1] == "key" && rep.EachKey != cty.NilVal:
		return rep.EachKey, nil
	case r.path[1] == "value" && rep.EachValue != cty.NilVal:
		return rep.EachValue, nil
	case r.path[1] == "value":
		return cty.DynamicVal, diag.New(diag.Error, "each.value cannot be used in this context",
			"There is no each.value here: the block has no for_each argument, or the element that this instance was "+
				"made for is no longer in it. Remove the reference.",
			&r.Range)
	default:
		return cty.DynamicVal, noEach(r.Range)
	}
}

func noCount(rng hcl.Range) *diag.Diagnostic {
	return diag.New(diag.Error, `Reference to "count" in non-counted context`,
		`"count" exists only in module, resource and data blocks that have the count argument.`, &rng)
}

func noEach(rng hcl.Range) *diag.Diagnostic {
	return diag.New(diag.Error, `Reference to "each" in context without for_each`,
		`"each" exists only in module and resource blocks that have the for_each argument.`, &rng)
}

func invalidSelf(name string, rng hcl.Range) *diag.Diagnostic {
	if name == "caller" {
		return diag.New(diag.Error, `Invalid "caller" reference`, `There is no "caller" here: no object triggers the `+
			`action, because it is invoked by the option -invoke.`, &rng)
	}
	return diag.New(diag.Error, `Invalid "self" reference`,
		`There is no "self" here. It exists only in provisioner and connection blocks of a resource and in its postconditions.`, &rng)
}

// collection returns the value of a resource or a module call: complete, or an object with only the instances that
// are looked up. An index has the same result in that object as in the complete value, because HCL converts the
// index to the key of the element.
func (b *binding) collection(src source, ctx *hcl.EvalContext, rep Repetition, self cty.Value,
	diags *diag.List) cty.Value {
	if src.instances == nil {
		return b.fetch(src.subject, src.rng, diags)
	}
	elements := make(map[string]cty.Value, len(src.instances))
	for _, in := range src.instances {
		key := in.key
		if in.expr != nil {
			var ok bool
			if key, ok = in.expr.key(ctx, rep); !ok {
				return b.fetch(src.subject, src.rng, diags)
			}
		}
		v, ok, more := b.element(src, key)
		if !ok || more.HasErrors() {
			return b.fetch(src.subject, src.rng, diags)
		}
		*diags = diags.Append(more)
		elements[indexName(key)] = v
	}
	return cty.ObjectVal(elements)
}

func indexName(key addr.Key) string {
	if n, ok := key.Int(); ok {
		return strconv.Itoa(n)
	}
	s, _ := key.Str()
	return s
}

func (b *binding) element(src source, key addr.Key) (cty.Value, bool, diag.List) {
	data := b.scope.options.Data
	if r, ok := src.subject.(addr.Resource); ok {
		return data.ResourceInstance(r, key, src.rng)
	}
	return data.ModuleInstance(src.subject.(addr.ModuleCall), key, src.rng)
}

// fetch requests one value. After an error the value is unknown, so that there are no consequential errors.
func (b *binding) fetch(subject addr.Named, rng hcl.Range, diags *diag.List) cty.Value {
	o := &b.scope.options
	var v cty.Value
	var more diag.List
	switch subject := subject.(type) {
	case addr.Variable:
		v, more = o.Data.Variable(subject, rng)
	case addr.Local:
		v, more = o.Data.Local(subject, rng)
	case addr.Resource:
		v, more = o.Data.Resource(subject, rng)
	case addr.ModuleCall:
		v, more = o.Data.Module(subject, rng)
	case addr.Output:
		test, ok := o.Data.(TestData)
		if !ok {
			panic("eval: an expression of a test in a scope that has no outputs")
		}
		v, more = test.Output(subject, rng)
	case addr.PathAttr:
		return o.Paths.value(subject.Name)
	case addr.EngineAttr:
		if subject.Name == "applying" {
			return cty.BoolVal(o.Applying).Mark(marks.Ephemeral)
		}
		return cty.StringVal(o.Workspace)
	default:
		panic("eval: cannot fetch a " + subject.String())
	}
	*diags = diags.Append(more)
	if v == cty.NilVal {
		v = cty.DynamicVal
	}
	if more.HasErrors() {
		v = cty.UnknownVal(v.Type())
	}
	return v
}

func (p Paths) value(name string) cty.Value {
	switch name {
	case "cwd":
		return cty.StringVal(p.Cwd)
	case "module":
		return cty.StringVal(p.Module)
	default:
		return cty.StringVal(p.Root)
	}
}
