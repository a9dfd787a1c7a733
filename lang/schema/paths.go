package schema

import "github.com/zclconf/go-cty/cty"

// AttributeAt returns the attribute at a path through a value of this block, or nil if the path leads to a block or
// does not exist. Index steps through collections are ignored.
func (b *Block) AttributeAt(path cty.Path) *Attribute {
	block := b
	var object *Object
	for i, step := range path {
		get, ok := step.(cty.GetAttrStep)
		if !ok {
			continue
		}
		var attr *Attribute
		if object != nil {
			attr = object.Attributes[get.Name]
		} else if attr = block.Attributes[get.Name]; attr == nil {
			nb := block.Blocks[get.Name]
			if nb == nil {
				return nil
			}
			block = &nb.Block
			continue
		}
		if attr == nil {
			return nil
		}
		if attr.Nested == nil || i == len(path)-1 {
			return attr
		}
		object = attr.Nested
		if onlyIndexes(path[i+1:]) {
			return attr
		}
	}
	return nil
}

func onlyIndexes(path cty.Path) bool {
	for _, s := range path {
		if _, ok := s.(cty.IndexStep); !ok {
			return false
		}
	}
	return true
}

// SensitivePaths returns the paths in v whose values the schema declares sensitive, null ones included. v must be of
// the block's implied type; it may be null, unknown in part, and marked (marks are ignored).
func (b *Block) SensitivePaths(v cty.Value) []cty.Path {
	if !b.ContainsSensitive() {
		return nil
	}
	return b.paths(v, nil, true, func(a *Attribute) bool { return a.Sensitive })
}

// DeprecatedPaths returns the paths in v whose attributes the schema declares deprecated, null ones included.
func (b *Block) DeprecatedPaths(v cty.Value) []cty.Path {
	return b.paths(v, nil, true, func(a *Attribute) bool { return a.Deprecated })
}

// ContainsDeprecated reports whether an attribute of the block, at any depth, is deprecated.
func (b *Block) ContainsDeprecated() bool {
	return b.any(func(a *Attribute) bool { return a.Deprecated })
}

// WriteOnlyPaths returns the paths in v whose attributes the schema declares write-only and which are not null.
func (b *Block) WriteOnlyPaths(v cty.Value) []cty.Path {
	if !b.ContainsWriteOnly() {
		return nil
	}
	return b.paths(v, nil, false, func(a *Attribute) bool { return a.WriteOnly })
}

func (b *Block) paths(v cty.Value, prefix cty.Path, nulls bool, test func(*Attribute) bool) []cty.Path {
	v, _ = v.Unmark()
	if v == cty.NilVal || v.IsNull() || !v.IsKnown() {
		return nil
	}
	out := attributePaths(b.Attributes, v, prefix, nulls, test)
	for name, nb := range b.Blocks {
		if !nb.Block.any(test) {
			continue
		}
		at := appendStep(prefix, cty.GetAttrStep{Name: name})
		child, _ := v.GetAttr(name).Unmark()
		if nb.Nesting == NestingSingle || nb.Nesting == NestingGroup {
			out = append(out, nb.Block.paths(child, at, nulls, test)...)
			continue
		}
		eachElement(child, at, func(ev cty.Value, p cty.Path) {
			out = append(out, nb.Block.paths(ev, p, nulls, test)...)
		})
	}
	return out
}

func attributePaths(attrs map[string]*Attribute, v cty.Value, prefix cty.Path, nulls bool,
	test func(*Attribute) bool) []cty.Path {
	var out []cty.Path
	for name, a := range attrs {
		if !a.any(test) {
			continue
		}
		at := appendStep(prefix, cty.GetAttrStep{Name: name})
		if test(a) {
			if child, _ := v.GetAttr(name).Unmark(); nulls || !child.IsNull() {
				out = append(out, at)
			}
			continue
		}
		child, _ := v.GetAttr(name).Unmark()
		if child.IsNull() || !child.IsKnown() {
			continue
		}
		if a.Nested.Nesting == NestingSingle || a.Nested.Nesting == NestingGroup {
			out = append(out, attributePaths(a.Nested.Attributes, child, at, nulls, test)...)
			continue
		}
		eachElement(child, at, func(ev cty.Value, p cty.Path) {
			if ev, _ = ev.Unmark(); !ev.IsNull() && ev.IsKnown() {
				out = append(out, attributePaths(a.Nested.Attributes, ev, p, nulls, test)...)
			}
		})
	}
	return out
}

// eachElement calls fn for every element of a known collection, tuple or object.
func eachElement(v cty.Value, prefix cty.Path, fn func(cty.Value, cty.Path)) {
	if v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
		return
	}
	object := v.Type().IsObjectType()
	for it := v.ElementIterator(); it.Next(); {
		k, ev := it.Element()
		k, _ = k.Unmark()
		if object {
			fn(ev, appendStep(prefix, cty.GetAttrStep{Name: k.AsString()}))
		} else {
			fn(ev, appendStep(prefix, cty.IndexStep{Key: k}))
		}
	}
}

func appendStep(prefix cty.Path, step cty.PathStep) cty.Path {
	p := make(cty.Path, len(prefix)+1)
	copy(p, prefix)
	p[len(prefix)] = step
	return p
}
