package eval

import (
	"runtime"
	"sync"
	"weak"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/customdecode"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// shape is a schema prepared for decoding bodies: in the form of hcldec, which is authoritative, and split up for
// the decoder of this package.
type shape struct {
	spec    hcldec.ObjectSpec
	body    *hcl.BodySchema
	implied cty.Type
	attrs   map[string]attrShape
	blocks  map[string]*blockShape
	// absent holds the value of every attribute and block type that a body does not have.
	absent map[string]cty.Value
	// legacy schemas may have attributes that can be written as blocks: blocky, with the shape of one such block.
	// See blockattributes.go.
	legacy bool
	blocky map[string]*shape
	// numbers is set if an attribute here or in a block is, or contains, a number.
	numbers bool
}

// attrShape describes how the expression of an attribute becomes its value.
type attrShape struct {
	// want is the type to convert to, with the optional attributes of nested attributes; result is the type without
	// them.
	want, result cty.Type
	required     bool
	// custom is set if the type decodes its expression in a special way, which is left to hcldec.
	custom bool
}

// blockShape describes how the blocks of one type become a value.
type blockShape struct {
	*shape
	nesting  schema.Nesting
	min, max int
	// loose is set if elements may differ in type, so that they are stored in a tuple or an object.
	loose bool
	// result is the type of the value; dynamic if loose is set.
	result cty.Type
	// none is the value if there are no blocks.
	none cty.Value
}

// shapes caches the shape of each schema for the lifetime of the schema.
var shapes sync.Map // weak.Pointer[schema.Block] -> *shape

// shapeOf returns the shape of a schema. The schema must not change afterwards. Nil is the schema of an empty body.
func shapeOf(block *schema.Block) *shape {
	if block == nil {
		return emptyShape()
	}
	key := weak.Make(block)
	if s, ok := shapes.Load(key); ok {
		return s.(*shape)
	}
	// A shape must not point to its schema, or the schema would never be collected.
	s, loaded := shapes.LoadOrStore(key, newShape(block))
	if !loaded {
		runtime.AddCleanup(block, func(key weak.Pointer[schema.Block]) { shapes.Delete(key) }, key)
	}
	return s.(*shape)
}

var emptyShape = sync.OnceValue(func() *shape { return newShape(&schema.Block{}) })

func newShape(block *schema.Block) *shape {
	s := &shape{
		spec:    make(hcldec.ObjectSpec, len(block.Attributes)+len(block.Blocks)),
		implied: block.ImpliedType(),
		attrs:   make(map[string]attrShape, len(block.Attributes)),
		blocks:  make(map[string]*blockShape, len(block.Blocks)),
		absent:  make(map[string]cty.Value, len(block.Attributes)+len(block.Blocks)),
	}
	for name, a := range block.Attributes {
		as := newAttrShape(a)
		s.attrs[name] = as
		s.numbers = s.numbers || syntax.HasNumbers(as.want)
		s.absent[name] = cty.NullVal(as.result)
		s.spec[name] = &hcldec.AttrSpec{Name: name, Type: as.want, Required: as.required}
	}
	for name, nb := range block.Blocks {
		if _, taken := s.attrs[name]; taken {
			continue // a broken schema; the attribute wins
		}
		bs := newBlockShape(nb)
		s.blocks[name] = bs
		s.numbers = s.numbers || bs.numbers
		s.absent[name] = bs.none
		s.spec[name] = bs.nested(name)
	}
	s.body = hcldec.ImpliedSchema(s.spec)
	if s.legacy = !isModern(block); s.legacy {
		s.blocky = blockyAttributes(block)
	}
	return s
}

func newAttrShape(a *schema.Attribute) attrShape {
	if a.Nested == nil {
		return attrShape{
			want: a.Type, result: a.Type.WithoutOptionalAttributesDeep(), required: a.Required,
			custom: customdecode.CustomExpressionDecoderForType(a.Type) != nil,
		}
	}
	want := nestedType(a.Nested)
	return attrShape{want: want, result: want.WithoutOptionalAttributesDeep(), required: a.Required}
}

// nestedType returns the type to which the value of a nested attribute is converted; attributes that are not
// required are optional.
func nestedType(o *schema.Object) cty.Type {
	attrs := make(map[string]cty.Type, len(o.Attributes))
	var optional []string
	for name, a := range o.Attributes {
		if a.Nested != nil {
			attrs[name] = nestedType(a.Nested)
		} else {
			attrs[name] = a.Type
		}
		if a.Optional || a.Computed {
			optional = append(optional, name)
		}
	}
	element := cty.ObjectWithOptionalAttrs(attrs, optional)
	switch o.Nesting {
	case schema.NestingList:
		return cty.List(element)
	case schema.NestingSet:
		return cty.Set(element)
	case schema.NestingMap:
		return cty.Map(element)
	default:
		return element
	}
}

func newBlockShape(nb *schema.NestedBlock) *blockShape {
	inner := newShape(&nb.Block)
	return &blockShape{
		shape: inner, nesting: nb.Nesting, min: nb.MinItems, max: nb.MaxItems,
		loose:  inner.implied.HasDynamicTypes(),
		result: nb.ImpliedType().WithoutOptionalAttributesDeep(),
		none:   nb.EmptyValue(),
	}
}

// nested returns the hcldec form of a block type.
func (bs *blockShape) nested(name string) hcldec.Spec {
	label := []string{"key"}
	switch bs.nesting {
	case schema.NestingSingle:
		return &hcldec.BlockSpec{TypeName: name, Nested: bs.spec, Required: bs.min == 1}
	case schema.NestingGroup:
		return &hcldec.DefaultSpec{
			Primary: &hcldec.BlockSpec{TypeName: name, Nested: bs.spec, Required: bs.min == 1},
			Default: &hcldec.LiteralSpec{Value: bs.none},
		}
	case schema.NestingSet:
		return &hcldec.BlockSetSpec{TypeName: name, Nested: bs.spec, MinItems: bs.min, MaxItems: bs.max}
	case schema.NestingMap:
		if bs.loose {
			return &hcldec.BlockObjectSpec{TypeName: name, LabelNames: label, Nested: bs.spec}
		}
		return &hcldec.BlockMapSpec{TypeName: name, LabelNames: label, Nested: bs.spec}
	default:
		if bs.loose {
			return &hcldec.BlockTupleSpec{TypeName: name, Nested: bs.spec, MinItems: bs.min, MaxItems: bs.max}
		}
		return &hcldec.BlockListSpec{TypeName: name, Nested: bs.spec, MinItems: bs.min, MaxItems: bs.max}
	}
}
