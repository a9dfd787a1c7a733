package view

import (
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/schema"
)

// guarded returns the difference of a value that may be sensitive or unknown as a whole, and calls known for a
// value that is neither. Sensitive values are wrapped in a delta of the given kind.
func guarded(p pair, hide deltaKind, known func(pair) *delta) *delta {
	if was, is := p.before.isSensitive(), p.after.isSensitive(); was || is {
		open := p
		open.before, open.after = p.before.bare(), p.after.bare()
		d := &delta{kind: hide, inner: guarded(open, hide, known), hidBefore: was, hidAfter: is,
			forces: p.forces.ends()}
		d.action = d.inner.action
		if d.action == plan.NoOp && was != is && !(p.missing(p.before) && p.missing(p.after)) {
			d.action = plan.Update // a visible part changes
		}
		return d
	}
	if !p.after.isUnknown() {
		return known(p)
	}
	d := &delta{kind: unknownDelta, action: plan.Create, forces: p.forces.ends()}
	if !p.missing(p.before) {
		d.action = plan.Update
		past := p
		past.after, past.openEnded = nil, true
		d.inner = known(past)
	}
	return d
}

// diffAttribute returns the difference of an attribute. parent is the action of the object or block that contains
// it, as far as it is known.
func diffAttribute(p pair, a *schema.Attribute, parent plan.Action) *delta {
	switch {
	case a.WriteOnly:
		// It has no values; it is shown together with its parent.
		if parent == plan.NoOp && p.forces.ends() {
			parent = plan.Update
		}
		return &delta{kind: writeOnlyDelta, action: parent, forces: p.forces.ends()}
	case a.Nested != nil:
		return diffNested(p, a.Nested, a.Nested.Nesting)
	default:
		return diffType(p, a.Type)
	}
}

// diffNested returns the difference of a nested attribute.
func diffNested(p pair, o *schema.Object, nesting schema.Nesting) *delta {
	single := func(p pair) *delta { return diffNested(p, o, schema.NestingSingle) }
	return guarded(p, sensitiveDelta, func(p pair) *delta {
		switch nesting {
		case schema.NestingMap:
			// The children come from before and after; those of an unknown map are unknown.
			p.openEnded = false
			return diffMapping(p, nestedMapDelta, single)
		case schema.NestingList:
			return diffInPlace(p, nestedListDelta, single)
		case schema.NestingSet:
			return diffSet(p, nestedSetDelta, single)
		default:
			return diffObject(p, nestedObjectDelta, slices.Sorted(maps.Keys(o.Attributes)),
				func(name string, p pair, parent plan.Action) *delta {
					return diffAttribute(p, o.Attributes[name], parent)
				})
		}
	})
}

// diffType returns the difference of two values of a type.
func diffType(p pair, ty cty.Type) *delta {
	return guarded(p, sensitiveDelta, func(p pair) *delta {
		p.openEnded = false
		switch {
		case ty == cty.NilType || ty == cty.DynamicPseudoType:
			return diffDynamic(p)
		case ty.IsObjectType():
			types := ty.AttributeTypes()
			return diffObject(p, objectDelta, slices.Sorted(maps.Keys(types)),
				func(name string, p pair, _ plan.Action) *delta {
					return diffType(p, types[name])
				})
		case ty.IsMapType():
			return diffMapping(p, mapDelta, func(p pair) *delta { return diffType(p, ty.ElementType()) })
		case ty.IsListType():
			return diffSequence(p, func(p pair) *delta { return diffType(p, ty.ElementType()) },
				func(b, a *datum) bool {
					return ty.ElementType().IsObjectType() || linesInCommon(b, a)
				})
		case ty.IsTupleType():
			return diffTuple(p, ty.TupleElementTypes())
		case ty.IsSetType():
			return diffSet(p, setDelta, func(p pair) *delta { return diffType(p, ty.ElementType()) })
		default:
			return diffPrimitive(p)
		}
	})
}

func diffPrimitive(p pair) *delta {
	return &delta{action: p.action(), before: p.before, after: p.after, forces: p.forces.ends()}
}

// diffDynamic returns the difference of two values whose type is known only from the values.
func diffDynamic(p pair) *delta {
	p.forces = pathSet{} // the parts cannot be identified well enough to say that one forces a replacement
	return guarded(p, sensitiveDelta, func(p pair) *delta {
		p.openEnded = false
		b, a := kindOf(p.before), kindOf(p.after)
		came, went := b == nullKind && p.missing(p.before), a == nullKind && p.missing(p.after)
		if b != a && !came && !went {
			before, after := p, p
			before.after, after.before = nil, nil
			return &delta{kind: retypedDelta, action: plan.Update, inner: diffDynamic(before),
				other: diffDynamic(after)}
		}
		var d *delta
		switch max(a, b) {
		case mappingKind:
			d = diffMapping(p, objectDelta, diffDynamic)
		case sequenceKind:
			d = diffSequence(p, diffDynamic, func(b, a *datum) bool {
				return kindOf(b) == mappingKind && kindOf(a) == mappingKind || linesInCommon(b, a)
			})
		default:
			d = diffPrimitive(p)
		}
		return d
	})
}

func kindOf(d *datum) datumKind {
	if d == nil {
		return nullKind
	}
	return d.kind
}

// diffObject returns the difference of values with fixed attributes.
func diffObject(p pair, kind deltaKind, names []string, attribute func(name string, p pair,
	parent plan.Action) *delta) *delta {
	d := &delta{kind: kind, action: p.base(), forces: p.forces.ends()}
	for _, name := range names {
		child := p.attr(name)
		ad := attribute(name, child, d.action)
		if ad.action == plan.NoOp && child.missing(child.before) && child.missing(child.after) {
			continue // null before and after: not counted as unchanged
		}
		d.names, d.items = append(d.names, name), append(d.items, ad)
		d.action = merge(d.action, ad.action)
	}
	return d
}

// diffMapping returns the difference of values whose keys are part of the value.
func diffMapping(p pair, kind deltaKind, element func(pair) *delta) *delta {
	d := &delta{kind: kind, action: p.base(), forces: p.forces.ends()}
	keys := map[string]bool{}
	for _, side := range []*datum{p.before, p.after} {
		if side != nil {
			for k := range side.attrs {
				keys[k] = true
			}
		}
	}
	d.names = slices.Sorted(maps.Keys(keys))
	for _, k := range d.names {
		ed := element(p.element(k))
		d.items = append(d.items, ed)
		d.action = merge(d.action, ed.action)
	}
	return d
}

// diffSequence returns the difference of lists; elements that moved are matched by their content.
func diffSequence(p pair, element func(pair) *delta, pairUp func(b, a *datum) bool) *delta {
	d := &delta{kind: listDelta, action: p.base(), forces: p.forces.ends()}
	// Elements are either all shown or none: their indexes before and after differ.
	align(itemKeys(p.before), itemKeys(p.after),
		func(b, a int) bool { return pairUp(p.before.items[b], p.after.items[a]) },
		func(b, a int) {
			child := p.item(b, a)
			child.shown = everywhere
			d.add(element(child))
		})
	return d
}

// diffInPlace returns the difference of lists, comparing elements of the same index.
func diffInPlace(p pair, kind deltaKind, element func(pair) *delta) *delta {
	d := &delta{kind: kind, action: p.base(), forces: p.forces.ends()}
	for i := range max(p.before.len(), p.after.len()) {
		d.add(element(p.item(i, i).settled()))
	}
	return d
}

func diffTuple(p pair, types []cty.Type) *delta {
	d := &delta{kind: listDelta, action: p.base(), forces: p.forces.ends()}
	for i, ty := range types {
		d.add(diffType(p.item(i, i).settled(), ty))
	}
	return d
}

// diffSet returns the difference of sets: an element is on both sides, added or removed.
func diffSet(p pair, kind deltaKind, element func(pair) *delta) *delta {
	d := &delta{kind: kind, action: p.base(), forces: p.forces.ends()}
	partner, fresh := pairs(itemKeys(p.before), itemKeys(p.after), func(b, a int) bool {
		x, y := p.before.items[b], p.after.items[a]
		return x.sensitive == y.sensitive && !y.unknown
	})
	add := func(b, a int) {
		child := p.item(b, a)
		child.shown = everywhere
		d.add(element(child))
	}
	for b, a := range partner {
		add(b, a)
	}
	for a, isNew := range fresh {
		if isNew {
			add(-1, a)
		}
	}
	return d
}

func (d *delta) add(item *delta) {
	d.items = append(d.items, item)
	d.action = merge(d.action, item.action)
}

func itemKeys(d *datum) []string {
	out := make([]string, d.len())
	for i := range out {
		out[i] = d.items[i].key()
	}
	return out
}

// diffBody returns the difference of two objects by the schema of a block.
func diffBody(p pair, b *schema.Block) *delta {
	return guarded(p, sensitiveBlockDelta, func(p pair) *delta {
		d := &delta{kind: bodyDelta, action: p.base(), forces: p.forces.ends()}
		names := slices.Sorted(maps.Keys(b.Attributes))
		// Write-only attributes are shown if something else changes, so they are compared last.
		slices.SortStableFunc(names,
			func(x, y string) int { return last(b.Attributes[x].WriteOnly) - last(b.Attributes[y].WriteOnly) })
		found := make(map[string]*delta, len(names))
		for _, name := range names {
			if ad := diffBodyAttribute(p.attr(name), b.Attributes[name], d.action); ad != nil {
				found[name] = ad
				d.action = merge(d.action, ad.action)
			}
		}
		d.names = slices.Sorted(maps.Keys(found))
		for _, name := range d.names {
			d.items = append(d.items, found[name])
		}
		p.openEnded = false // of an unknown block only the attributes are certain
		for _, name := range slices.Sorted(maps.Keys(b.Blocks)) {
			if bd, action, ok := diffBlocks(p.attr(name), name, b.Blocks[name]); ok {
				d.blocks = append(d.blocks, bd)
				d.action = merge(d.action, action)
			}
		}
		return d
	})
}

func last(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// diffBodyAttribute returns the difference of an attribute of a block; nil if there is nothing to show.
func diffBodyAttribute(p pair, a *schema.Attribute, parent plan.Action) *delta {
	// Old SDKs have no null strings: an empty string means that there is none.
	p.before, p.after = withoutEmpty(p.before), withoutEmpty(p.after)
	d := diffAttribute(p, a, parent)
	if d.action == plan.NoOp && p.missing(p.before) && p.missing(p.after) && !a.WriteOnly {
		return nil
	}
	return d
}

func withoutEmpty(d *datum) *datum {
	if d != nil && d.kind == stringKind && d.text == "" {
		return &datum{sensitive: d.sensitive}
	}
	return d
}

// diffBlocks returns the differences of the nested blocks of one type.
func diffBlocks(p pair, name string, nb *schema.NestedBlock) (blockDelta, plan.Action, bool) {
	out := blockDelta{name: name, forces: p.forces.ends(), hidBefore: p.before.isSensitive(),
		hidAfter: p.after.isSensitive()}
	body := func(p pair) *delta { return diffBody(p, &nb.Block) }
	if p.after.isUnknown() {
		if nb.Nesting != schema.NestingSingle && nb.Nesting != schema.NestingGroup && p.before != nil &&
			len(p.before.items)+len(p.before.attrs) == 0 {
			p.before = nil
		}
		unknown := &delta{kind: unknownDelta, action: plan.Create, forces: out.forces}
		if !p.missing(p.before) {
			unknown.action = plan.Update
			past := p
			past.before, past.after, past.openEnded = p.before.bare(), nil, true
			unknown.inner = diffBody(past, &nb.Block)
		}
		out.items = []*delta{unknown}
		return out, unknown.action, true
	}
	open := p
	open.before, open.after = p.before.bare(), p.after.bare()
	var d *delta
	switch nb.Nesting {
	case schema.NestingSet:
		d = diffSet(open, nestedSetDelta, body)
	case schema.NestingList:
		d = diffInPlace(open, nestedListDelta, body)
	case schema.NestingMap:
		d = diffMapping(open, nestedMapDelta, body)
		out.labels = d.names
	default:
		one := body(p)
		d = &delta{items: []*delta{one}, action: one.action}
	}
	out.items = d.items
	if d.action == plan.NoOp && p.missing(p.before) && p.missing(p.after) {
		return out, d.action, false
	}
	return out, d.action, true
}
