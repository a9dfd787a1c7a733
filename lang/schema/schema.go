// Package schema describes the structure of provider objects and the cty type that it implies.
//
// It contains no values and implements no protocol: provider/rpc makes schemas, and the language decodes bodies
// using them.
package schema

import (
	"sync/atomic"

	"github.com/zclconf/go-cty/cty"
)

// Nesting is how a nested block or a nested attribute repeats.
type Nesting byte

const (
	// NestingInvalid is the zero value; a schema that contains it is invalid.
	NestingInvalid Nesting = iota
	// NestingSingle is at most one, null when absent.
	NestingSingle
	// NestingGroup is exactly one, present even if absent in configuration (blocks only).
	NestingGroup
	// NestingList is a list (or a tuple, if an element's type is dynamic).
	NestingList
	// NestingSet is a set.
	NestingSet
	// NestingMap is a map by label or key.
	NestingMap
)

// StringKind says whether a description is plain text or Markdown.
type StringKind byte

const (
	// Plain text.
	Plain StringKind = iota
	// Markdown text.
	Markdown
)

// Schema is the structure of one kind of object, with the version to which stored objects are upgraded.
type Schema struct {
	Version int64
	Block   *Block
}

// Identity is the structure of the identity of a resource type. Nil if a type has none.
type Identity struct {
	Version int64
	Body    *Object
}

// ImportType returns the type of the identity in an import block: attributes that are not required may be left out.
func (i *Identity) ImportType() cty.Type {
	var optional []string
	for name, a := range i.Body.Attributes {
		if !a.Required {
			optional = append(optional, name)
		}
	}
	return cty.ObjectWithOptionalAttrs(i.Body.ImpliedType().AttributeTypes(), optional)
}

// Block is the content of a configuration block.
type Block struct {
	Attributes map[string]*Attribute
	// Blocks are the nested block types by name. A name is in Attributes or in Blocks, never in both.
	Blocks map[string]*NestedBlock

	Description        string
	DescriptionKind    StringKind
	Deprecated         bool
	DeprecationMessage string
	// Ephemeral is set for a block whose values are never stored, so that it may contain ephemeral ones: that of an
	// ephemeral resource type, a provider, or a provisioner.
	Ephemeral bool

	// implied caches the result of ImpliedType, which is called several times for each instance.
	implied atomic.Pointer[cty.Type]
}

// Attribute is one argument or exported value.
type Attribute struct {
	// Type is the attribute's type; cty.NilType when Nested is set.
	Type cty.Type
	// Nested is the structure of a nested attribute (protocol 6), else nil.
	Nested *Object

	Required  bool
	Optional  bool
	Computed  bool
	Sensitive bool
	WriteOnly bool

	Description        string
	DescriptionKind    StringKind
	Deprecated         bool
	DeprecationMessage string
}

// Object is the structure of a nested attribute, or of an identity.
type Object struct {
	Attributes map[string]*Attribute
	Nesting    Nesting
}

// NestedBlock is a block type inside a block.
type NestedBlock struct {
	Block
	Nesting Nesting
	// MinItems and MaxItems bound lists and sets; 0 means no bound. For NestingSingle, MinItems 1 means required.
	MinItems, MaxItems int
}

// ImpliedType returns the object type of a value of this block. Every value has all attributes of the type; absent
// ones are null. After the first call the block must not change.
func (b *Block) ImpliedType() cty.Type {
	if b == nil {
		return cty.EmptyObject
	}
	if ty := b.implied.Load(); ty != nil {
		return *ty
	}
	atys := make(map[string]cty.Type, len(b.Attributes)+len(b.Blocks))
	for name, a := range b.Attributes {
		atys[name] = a.ImpliedType()
	}
	for name, nb := range b.Blocks {
		atys[name] = nb.ImpliedType()
	}
	ty := cty.Object(atys)
	b.implied.Store(&ty)
	return ty
}

// ImpliedType returns the type of the attribute's value.
func (a *Attribute) ImpliedType() cty.Type {
	if a.Nested != nil {
		return a.Nested.ImpliedType()
	}
	return a.Type
}

// ImpliedType returns the type of the nested attribute's value, with its nesting.
func (o *Object) ImpliedType() cty.Type {
	return nest(o.ElementType(), o.Nesting)
}

// ElementType returns the type of one element, without the nesting.
func (o *Object) ElementType() cty.Type {
	atys := make(map[string]cty.Type, len(o.Attributes))
	for name, a := range o.Attributes {
		atys[name] = a.ImpliedType()
	}
	return cty.Object(atys)
}

// ImpliedType returns the type of the nested block's value, with its nesting.
func (nb *NestedBlock) ImpliedType() cty.Type {
	return nest(nb.Block.ImpliedType(), nb.Nesting)
}

// nest returns the type of a nesting with an element type. If the element type of a list or map is dynamic, it is
// cty.DynamicPseudoType, because the value is then a tuple or an object.
func nest(element cty.Type, n Nesting) cty.Type {
	switch n {
	case NestingSingle, NestingGroup:
		return element
	case NestingList:
		if element.HasDynamicTypes() {
			return cty.DynamicPseudoType
		}
		return cty.List(element)
	case NestingSet:
		return cty.Set(element)
	case NestingMap:
		if element.HasDynamicTypes() {
			return cty.DynamicPseudoType
		}
		return cty.Map(element)
	default:
		panic("schema: invalid nesting")
	}
}

// NullBlock returns the value of an absent object of this type.
func (b *Block) NullBlock() cty.Value { return cty.NullVal(b.ImpliedType()) }

// EmptyValue returns the value of a block with nothing set: null attributes, empty collections of blocks.
func (b *Block) EmptyValue() cty.Value {
	vals := make(map[string]cty.Value, len(b.Attributes)+len(b.Blocks))
	for name, a := range b.Attributes {
		vals[name] = cty.NullVal(a.ImpliedType())
	}
	for name, nb := range b.Blocks {
		vals[name] = nb.EmptyValue()
	}
	return cty.ObjectVal(vals)
}

// EmptyValue returns the value of the nested block type when the body has no such block.
func (nb *NestedBlock) EmptyValue() cty.Value {
	ty := nb.Block.ImpliedType()
	switch nb.Nesting {
	case NestingSingle:
		return cty.NullVal(ty)
	case NestingGroup:
		return nb.Block.EmptyValue()
	case NestingList:
		if ty.HasDynamicTypes() {
			return cty.EmptyTupleVal
		}
		return cty.ListValEmpty(ty)
	case NestingSet:
		return cty.SetValEmpty(ty)
	case NestingMap:
		if ty.HasDynamicTypes() {
			return cty.EmptyObjectVal
		}
		return cty.MapValEmpty(ty)
	default:
		panic("schema: invalid nesting")
	}
}

// ContainsSensitive reports whether any attribute in the block, at any depth, is sensitive.
func (b *Block) ContainsSensitive() bool {
	return b.any(func(a *Attribute) bool { return a.Sensitive })
}

// ContainsWriteOnly reports whether any attribute in the block, at any depth, is write-only.
func (b *Block) ContainsWriteOnly() bool {
	return b.any(func(a *Attribute) bool { return a.WriteOnly })
}

func (b *Block) any(test func(*Attribute) bool) bool {
	for _, a := range b.Attributes {
		if a.any(test) {
			return true
		}
	}
	for _, nb := range b.Blocks {
		if nb.Block.any(test) {
			return true
		}
	}
	return false
}

func (a *Attribute) any(test func(*Attribute) bool) bool {
	if test(a) {
		return true
	}
	if a.Nested == nil {
		return false
	}
	for _, n := range a.Nested.Attributes {
		if n.any(test) {
			return true
		}
	}
	return false
}
