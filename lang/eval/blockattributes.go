package eval

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// Before version 0.12 of the language, attributes and blocks were not distinguished. Providers from that time
// declare some blocks as attributes whose type is a list or a set of objects. For their schemas, and only for
// those, such an attribute may still be written as blocks.

// isModern reports whether a schema cannot come from such a provider: it has a nested attribute, or a type that
// could not be declared then.
func isModern(block *schema.Block) bool {
	for _, a := range block.Attributes {
		if a.Nested != nil || isModernType(a.Type) {
			return true
		}
	}
	for _, nb := range block.Blocks {
		if isModern(&nb.Block) {
			return true
		}
	}
	return false
}

func isModernType(ty cty.Type) bool {
	switch {
	case ty.IsTupleType() || ty.IsObjectType():
		return true
	case !ty.IsCollectionType():
		return false
	}
	element := ty.ElementType()
	if ty.IsMapType() && element.IsObjectType() {
		return true
	}
	return element.IsCollectionType() && !element.ElementType().IsPrimitiveType()
}

// blockyAttributes returns the attributes that can be written as blocks, with the shape of one block.
func blockyAttributes(block *schema.Block) map[string]*shape {
	var out map[string]*shape
	for name, a := range block.Attributes {
		if !isBlocky(a.Type) {
			continue
		}
		if out == nil {
			out = map[string]*shape{}
		}
		out[name] = elementShape(a.Type.ElementType())
	}
	return out
}

func isBlocky(ty cty.Type) bool {
	return (ty.IsListType() || ty.IsSetType()) && ty.ElementType().IsObjectType()
}

// elementShape returns the shape of a block that produces an object of a type. All its attributes are optional.
func elementShape(ty cty.Type) *shape {
	block := &schema.Block{Attributes: map[string]*schema.Attribute{}}
	for name, aty := range ty.AttributeTypes() {
		block.Attributes[name] = &schema.Attribute{Type: aty, Optional: true}
	}
	return newShape(block)
}

// writtenAsBlocks returns which of the blocky attributes a body contains as blocks. If a name exists as an
// attribute, it is treated as one; in JSON both readings are possible, and this one takes precedence. A name that
// does not occur counts as blocks if dynamic blocks have been expanded, because they may have produced none.
func (s *shape) writtenAsBlocks(body hcl.Body, expanded bool) map[string]bool {
	if len(s.blocky) == 0 {
		return nil
	}
	asAttr := &hcl.BodySchema{}
	asBlock := &hcl.BodySchema{}
	for name := range s.blocky {
		asAttr.Attributes = append(asAttr.Attributes, hcl.AttributeSchema{Name: name})
		asBlock.Blocks = append(asBlock.Blocks, hcl.BlockHeaderSchema{Type: name})
	}
	if !expanded {
		asBlock.Blocks = append(asBlock.Blocks, dynamicHeader)
	}
	out := map[string]bool{}
	attrs, _, _ := body.PartialContent(asAttr) // problems are reported when the body is decoded
	blocks, _, _ := body.PartialContent(asBlock)
	isAttr := func(name string) bool { return attrs != nil && attrs.Attributes[name] != nil }
	if expanded {
		for name := range s.blocky {
			if !isAttr(name) {
				out[name] = true
			}
		}
		return out
	}
	if blocks == nil {
		return out
	}
	for _, b := range blocks.Blocks {
		name := b.Type
		if name == "dynamic" {
			name = b.Labels[0]
		}
		if s.blocky[name] != nil && !isAttr(name) {
			out[name] = true
		}
	}
	return out
}

// withBlocks returns a body schema in which some attributes are block types.
func withBlocks(in *hcl.BodySchema, blocks map[string]bool) *hcl.BodySchema {
	if len(blocks) == 0 {
		return in
	}
	out := &hcl.BodySchema{Blocks: in.Blocks[:len(in.Blocks):len(in.Blocks)]}
	for _, a := range in.Attributes {
		if blocks[a.Name] {
			out.Blocks = append(out.Blocks, hcl.BlockHeaderSchema{Type: a.Name})
		} else {
			out.Attributes = append(out.Attributes, a)
		}
	}
	return out
}

// fixedBody presents blocks as attributes if the shape requires it, and measures what becomes a number. Its dynamic
// blocks have been expanded.
type fixedBody struct {
	hcl.Body
	shape *shape
}

// fix wraps a body of a legacy schema, or of one with numbers.
func fix(body hcl.Body, s *shape) hcl.Body {
	if !s.legacy && !s.numbers {
		return body
	}
	return &fixedBody{body, s}
}

// Content implements hcl.Body.
func (b *fixedBody) Content(want *hcl.BodySchema) (*hcl.BodyContent, hcl.Diagnostics) {
	asBlocks := b.shape.writtenAsBlocks(b.Body, true)
	content, diags := b.Body.Content(withBlocks(want, asBlocks))
	return b.rewrite(content, asBlocks), diags
}

// PartialContent implements hcl.Body.
func (b *fixedBody) PartialContent(want *hcl.BodySchema) (*hcl.BodyContent, hcl.Body, hcl.Diagnostics) {
	asBlocks := b.shape.writtenAsBlocks(b.Body, true)
	content, rest, diags := b.Body.PartialContent(withBlocks(want, asBlocks))
	return b.rewrite(content, asBlocks), &fixedBody{rest, b.shape}, diags
}

// Unknown implements hcldec.UnknownBody.
func (b *fixedBody) Unknown() bool {
	u, ok := b.Body.(hcldec.UnknownBody)
	return ok && u.Unknown()
}

func (b *fixedBody) rewrite(in *hcl.BodyContent, asBlocks map[string]bool) *hcl.BodyContent {
	out := &hcl.BodyContent{Attributes: make(hcl.Attributes, len(in.Attributes)), MissingItemRange: in.MissingItemRange}
	for name, a := range in.Attributes {
		if want := b.shape.attrs[name].want; want != cty.NilType && syntax.HasNumbers(want) {
			measured := *a
			measured.Expr = syntax.Converted{Expression: a.Expr, Want: want}
			a = &measured
		}
		out.Attributes[name] = a
	}
	for _, block := range in.Blocks {
		if !asBlocks[block.Type] {
			if bs := b.shape.blocks[block.Type]; bs != nil {
				inner := *block
				inner.Body = fix(block.Body, bs.shape)
				block = &inner
			}
			out.Blocks = append(out.Blocks, block)
			continue
		}
		// All the blocks become one attribute, at the position of the first one.
		a := out.Attributes[block.Type]
		if a == nil {
			a = &hcl.Attribute{
				Name: block.Type, Range: block.DefRange, NameRange: block.TypeRange,
				Expr: &blocksExpr{shape: b.shape.blocky[block.Type]},
			}
			out.Attributes[block.Type] = a
		}
		e := a.Expr.(*blocksExpr)
		e.blocks = append(e.blocks, block)
	}
	return out
}

// blocksExpr is the expression of an attribute that is written as blocks.
type blocksExpr struct {
	blocks hcl.Blocks
	shape  *shape
}

// Value implements hcl.Expression.
func (e *blocksExpr) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	elements := make([]cty.Value, len(e.blocks))
	for i, b := range e.blocks {
		var more hcl.Diagnostics
		elements[i], more = hcldec.Decode(fix(b.Body, e.shape), e.shape.spec, ctx)
		diags = append(diags, more...)
	}
	return cty.TupleVal(elements), diags
}

// Variables implements hcl.Expression.
func (e *blocksExpr) Variables() []hcl.Traversal {
	var out []hcl.Traversal
	for _, b := range e.blocks {
		out = append(out, hcldec.Variables(fix(b.Body, e.shape), e.shape.spec)...)
	}
	return out
}

// Range implements hcl.Expression.
func (e *blocksExpr) Range() hcl.Range { return e.blocks[0].DefRange }

// StartRange implements hcl.Expression.
func (e *blocksExpr) StartRange() hcl.Range { return e.blocks[0].DefRange }
