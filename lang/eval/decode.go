package eval

import (
	"fmt"
	"maps"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/dynblock"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// Eval evaluates the body of an object that exists once, or of one instance if sharing is not worthwhile. See
// Bound.Eval.
func (t *Template) Eval(s *Scope, rep Repetition, self cty.Value) (cty.Value, diag.List) {
	return t.Bind(s).Eval(rep, self)
}

// Bound is a template with the values of one scope. It is safe for concurrent use, and valid as long as the
// complete values to which its body refers do not change. Values that are looked up by a key that depends on count,
// each or self are requested at every Eval.
type Bound struct {
	template *Template
	binding  *binding

	once sync.Once
	// frozen is the part of the value that is the same in all instances, set by once: the shared attributes and
	// groups of the outermost layout. It is nil if the fast decoder failed on one of them.
	frozen map[string]cty.Value
	// marked is set if frozen contains a mark.
	marked bool
	// scratch holds copies of frozen, in which every evaluation replaces the values that are not shared.
	scratch sync.Pool
}

// Bind fetches the values that the body needs and that are the same in all instances.
func (t *Template) Bind(s *Scope) *Bound {
	return &Bound{template: t, binding: t.program.bind(s)}
}

// Eval evaluates the body for one instance: dynamic blocks are expanded, and the result has the type that the
// schema implies. self is cty.NilVal if there is none. On errors the result is incomplete, but of that type.
//
// There are two decoders. The fast one handles only common cases without errors; in all others, hcldec and dynblock
// decode the body again, with every reference complete. So the diagnostics are theirs.
func (b *Bound) Eval(rep Repetition, self cty.Value) (cty.Value, diag.List) {
	ctx, diags := b.binding.context(rep, self)
	if diags.HasErrors() {
		return cty.UnknownVal(b.template.shape.implied), diags
	}
	if beyond := b.template.program.within(ctx); len(beyond) > 0 {
		return cty.UnknownVal(b.template.shape.implied), diags.Append(beyond)
	}
	v, marked, ok := b.fast(ctx)
	if !ok {
		return b.slow(rep, self)
	}
	if marked {
		v, diags = b.checkMarks(v, rep, self, diags)
	}
	return v, diags
}

// Expanded returns the body with its dynamic blocks expanded for one instance. ConfigRange finds source ranges in it.
func (b *Bound) Expanded(rep Repetition, self cty.Value) hcl.Body {
	if !b.template.dynamic {
		return b.template.body
	}
	ctx, diags := b.binding.context(rep, self)
	if diags.HasErrors() {
		return b.template.body
	}
	return dynblock.Expand(b.template.body, ctx)
}

// slow decodes using hcldec.
func (b *Bound) slow(rep Repetition, self cty.Value) (cty.Value, diag.List) {
	t := b.template
	ctx, diags := b.binding.whole(rep, self)
	if diags.HasErrors() {
		return cty.UnknownVal(t.shape.implied), diags
	}
	body := t.body
	if t.dynamic {
		body = dynblock.Expand(body, ctx, dynblock.OptCheckForEach(blocksWithin()))
	}
	v, decodeDiags := hcldec.Decode(fix(body, t.shape), t.shape.spec, ctx)
	if t.shape.implied.HasDynamicTypes() {
		if err := syntax.CheckValue(v); err != nil {
			v = cty.UnknownVal(t.shape.implied)
			decodeDiags = append(decodeDiags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Value too large",
				Detail:  "The arguments of this block cannot be used: " + err.Error() + ".",
				Subject: t.body.MissingItemRange().Ptr()})
		}
	}
	diags = diags.Append(explainFunctions(decodeDiags))
	v, diags = b.checkMarks(v, rep, self, diags)
	return v, inSourceOrder(diags)
}

// checkMarks reports ephemeral values that would be stored, and deprecated values.
func (b *Bound) checkMarks(v cty.Value, rep Repetition, self cty.Value, diags diag.List) (cty.Value, diag.List) {
	if !containsMarks(v) {
		return v, diags
	}
	var found diag.List
	if b.template.block == nil || !b.template.block.Ephemeral {
		found = refuseEphemeral(v, b.template.block)
	}
	v, warnings := warnDeprecated(v, func(path cty.Path) *diag.Diagnostic {
		d := diag.New(diag.Warning, "", "This value", nil)
		d.Path = path.Copy()
		return d
	})
	found = append(found, warnings...)
	if len(found) == 0 {
		return v, diags
	}
	return v, append(diags[:len(diags):len(diags)], AtSource(found, b.Expanded(rep, self))...)
}

// fast decodes using the layout. It gives up (ok is false) on any error or uncommon case.
func (b *Bound) fast(ctx *hcl.EvalContext) (v cty.Value, marked, ok bool) {
	l := b.template.layout
	if l == nil {
		return cty.NilVal, false, false
	}
	b.once.Do(b.freeze)
	if b.frozen == nil {
		return cty.NilVal, false, false
	}
	d := decoder{marked: b.marked}
	values := borrow(&b.scratch, b.frozen)
	defer b.scratch.Put(values)
	for i := range l.attrs {
		if a := &l.attrs[i]; !a.shared {
			if values[a.name], ok = d.attr(a, ctx); !ok {
				return cty.NilVal, false, false
			}
		}
	}
	for i := range l.groups {
		if g := &l.groups[i]; !g.shared {
			if values[g.name], ok = d.group(g, ctx); !ok {
				return cty.NilVal, false, false
			}
		}
	}
	return cty.ObjectVal(values), d.marked, true
}

// borrow returns a map with at least the entries of the original. cty.ObjectVal copies its argument, so the map can
// be returned to the pool.
func borrow(pool *sync.Pool, original map[string]cty.Value) map[string]cty.Value {
	if m, ok := pool.Get().(map[string]cty.Value); ok {
		return m
	}
	return maps.Clone(original)
}

// freeze evaluates the parts that all instances share.
func (b *Bound) freeze() {
	l := b.template.layout
	d := decoder{}
	values := maps.Clone(l.shape.absent)
	var ok bool
	for i := range l.attrs {
		if a := &l.attrs[i]; a.shared {
			if values[a.name], ok = d.attr(a, b.binding.ctx); !ok {
				return
			}
		}
	}
	for i := range l.groups {
		if g := &l.groups[i]; g.shared {
			if values[g.name], ok = d.group(g, b.binding.ctx); !ok {
				return
			}
		}
	}
	b.frozen, b.marked = values, d.marked
}

// maxBlocks is how many blocks the dynamic blocks of one body may produce, with those inside them.
const maxBlocks = 50_000

// blocksWithin returns a check of for_each arguments that counts the blocks they produce.
func blocksWithin() func(cty.Value, hcl.Expression, *hcl.EvalContext) hcl.Diagnostics {
	blocks := 0
	return func(each cty.Value, expr hcl.Expression, ctx *hcl.EvalContext) hcl.Diagnostics {
		each, _ = each.Unmark()
		if each.IsKnown() && !each.IsNull() && each.CanIterateElements() {
			blocks += each.LengthInt()
		}
		if blocks <= maxBlocks {
			return nil
		}
		return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Too many blocks",
			Detail:  fmt.Sprintf("Dynamic blocks may produce up to %d blocks in one body.", maxBlocks),
			Subject: expr.Range().Ptr(), Expression: expr, EvalContext: ctx}}
	}
}

// decoder decodes using layouts, and records whether it has seen a mark.
type decoder struct {
	marked bool
	blocks int // that dynamic blocks have produced
}

func (d *decoder) body(l *layout, ctx *hcl.EvalContext) (v cty.Value, ok bool) {
	values := borrow(&l.scratch, l.shape.absent)
	defer l.scratch.Put(values)
	for i := range l.attrs {
		if values[l.attrs[i].name], ok = d.attr(&l.attrs[i], ctx); !ok {
			return cty.NilVal, false
		}
	}
	for i := range l.groups {
		if values[l.groups[i].name], ok = d.group(&l.groups[i], ctx); !ok {
			return cty.NilVal, false
		}
	}
	return cty.ObjectVal(values), true
}

func (d *decoder) attr(a *attrLayout, ctx *hcl.EvalContext) (cty.Value, bool) {
	v, diags := a.expr.Value(ctx)
	if len(diags) > 0 || a.want == cty.DynamicPseudoType && syntax.CheckValue(v) != nil {
		return cty.NilVal, false
	}
	v, err := syntax.Convert(v, a.want)
	if err != nil {
		return cty.NilVal, false
	}
	d.marked = d.marked || containsMarks(v)
	return v, true
}

// group decodes all blocks of a type into one value.
func (d *decoder) group(g *groupLayout, ctx *hcl.EvalContext) (v cty.Value, ok bool) {
	bs := g.shape
	keyed := bs.nesting == schema.NestingMap
	var elements []cty.Value
	var byKey map[string]cty.Value
	if keyed {
		byKey = make(map[string]cty.Value, len(g.blocks))
	}
	add := func(label string, v cty.Value) bool {
		if !keyed {
			elements = append(elements, v)
			return true
		}
		_, twice := byKey[label]
		byKey[label] = v
		return !twice
	}
	for i := range g.blocks {
		block := &g.blocks[i]
		if block.dynamic == nil {
			v, ok := d.body(block.body, ctx)
			if !ok || !add(block.label, v) {
				return cty.NilVal, false
			}
			continue
		}
		known, ok := d.expand(block, ctx, add)
		if !ok {
			return cty.NilVal, false
		}
		if !known {
			if bs.nesting == schema.NestingSingle || bs.nesting == schema.NestingGroup {
				return cty.NilVal, false
			}
			return cty.UnknownVal(bs.result), true
		}
	}
	return bs.assemble(elements, byKey)
}

// assemble makes the value of all blocks of a type. A disallowed number of blocks is left to hcldec.
func (bs *blockShape) assemble(elements []cty.Value, byKey map[string]cty.Value) (cty.Value, bool) {
	n := len(elements) + len(byKey)
	if n < bs.min || (bs.max > 0 && n > bs.max) {
		return cty.NilVal, false
	}
	if n == 0 {
		return bs.none, true
	}
	switch bs.nesting {
	case schema.NestingSingle, schema.NestingGroup:
		return elements[0], n == 1
	case schema.NestingMap:
		if bs.loose {
			return cty.ObjectVal(byKey), true
		}
		return cty.MapVal(byKey), true
	case schema.NestingSet:
		if bs.loose {
			return cty.NilVal, false // the types of the elements must be unified first
		}
		return cty.SetVal(elements), true
	default:
		if bs.loose {
			return cty.TupleVal(elements), true
		}
		return cty.ListVal(elements), true
	}
}

// expand decodes the blocks that a dynamic block produces. known is false if their number is not known yet.
func (d *decoder) expand(block *blockLayout, ctx *hcl.EvalContext, add func(label string, v cty.Value) bool) (
	known, ok bool) {
	dyn := block.dynamic
	each, diags := dyn.forEach.Value(ctx)
	if len(diags) > 0 || each.IsMarked() || each.IsNull() {
		return false, false
	}
	if !each.IsKnown() {
		ty := each.Type()
		iterable := ty == cty.DynamicPseudoType || ty.IsCollectionType() || ty.IsTupleType() || ty.IsObjectType()
		return false, iterable && dyn.label == nil
	}
	if !each.CanIterateElements() {
		return false, false
	}
	if d.blocks += each.LengthInt(); d.blocks > maxBlocks {
		return false, false
	}
	inner := ctx.NewChild()
	for it := each.ElementIterator(); it.Next(); {
		k, v := it.Element()
		inner.Variables = map[string]cty.Value{
			dyn.iterator: cty.ObjectVal(map[string]cty.Value{"key": k, "value": v}),
		}
		label := ""
		if dyn.label != nil {
			if label, ok = labelValue(dyn.label, inner); !ok {
				return false, false
			}
		}
		made, ok := d.body(block.body, inner)
		if !ok || !add(label, made) {
			return false, false
		}
	}
	return true, true
}

func labelValue(expr hcl.Expression, ctx *hcl.EvalContext) (string, bool) {
	v, diags := expr.Value(ctx)
	if len(diags) > 0 {
		return "", false
	}
	v, err := convert.Convert(v, cty.String)
	if err != nil || v.IsNull() || !v.IsKnown() || v.IsMarked() {
		return "", false
	}
	return v.AsString(), true
}
