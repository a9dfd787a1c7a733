package mock

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// composer makes an object from its configuration, given values, and generated values.
type composer struct {
	rand  *rand.Rand
	diags diag.List
}

// newComposer returns a composer of one object. The generated values depend on the name of the type: OpenTofu
// generates the same strings, so that assertions about them hold here too.
func newComposer(typeName string) *composer {
	h := fnv.New32()
	h.Write([]byte(typeName))
	return &composer{rand: rand.New(rand.NewSource(int64(h.Sum32())))}
}

// block returns an object of the block's type. values are the given values of computed attributes.
func (c *composer) block(b *schema.Block, config cty.Value, values map[string]cty.Value) (cty.Value, diag.List) {
	v := c.compose(b, config, values)
	if c.diags.HasErrors() {
		return cty.UnknownVal(b.ImpliedType()), c.diags
	}
	return v, c.diags
}

func (c *composer) err(summary, detail string) {
	c.diags = append(c.diags, diag.New(diag.Error, summary, detail, nil))
}

func (c *composer) compose(b *schema.Block, config cty.Value, values map[string]cty.Value) cty.Value {
	var configured map[string]cty.Value
	if !config.IsNull() && config.IsKnown() {
		configured = config.AsValueMap()
	}
	out := make(map[string]cty.Value, len(b.Attributes)+len(b.Blocks))
	// The order determines which generated string an attribute gets.
	for _, name := range slices.Sorted(maps.Keys(b.Attributes)) {
		out[name] = c.attribute(name, b.Attributes[name], configured[name], values)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Blocks)) {
		out[name] = c.nested(name, b.Blocks[name], configured[name], values)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if b.Attributes[name] == nil && b.Blocks[name] == nil {
			c.err(fmt.Sprintf("Invalid override for block field `%s`", name),
				"The resource type has nothing of this name.")
		}
	}
	return cty.ObjectVal(out)
}

// attribute returns the value of one attribute: the configured value, else the given one, else, for a computed
// attribute, a generated one.
func (c *composer) attribute(name string, a *schema.Attribute, config cty.Value,
	values map[string]cty.Value) cty.Value {
	ty := a.ImpliedType()
	set := config != cty.NilVal && !config.IsNull()
	given, isGiven := values[name]
	invalid := fmt.Sprintf("Invalid mock/override field `%s`", name)
	if isGiven {
		if set {
			c.err(invalid, "The configuration sets the attribute, and configured attributes cannot be overridden.")
		}
		if !a.Computed {
			c.err(fmt.Sprintf("Non-computed field `%s` is not allowed to be overridden", name),
				"Only what a provider computes can be overridden; this attribute is the configuration's.")
		}
		converted, err := syntax.Convert(given, ty)
		if err != nil {
			c.err(invalid, fmt.Sprintf("The given value is not of the attribute's type: %s.", err))
		}
		given = converted
	}
	switch {
	case a.WriteOnly:
		if isGiven {
			c.diags = append(c.diags, diag.New(diag.Warning, fmt.Sprintf("Encountered override for write-only "+
				"attribute `%s`", name),
				"A write-only attribute is always null in a provider's answers, so the given value has no effect.",
				nil))
		}
		return cty.NullVal(ty)
	case a.Required && !set:
		c.err(invalid, "The attribute is required, and the configuration does not set it.")
		return cty.NullVal(ty)
	case a.Computed && !a.Optional && set:
		c.err(invalid, "Only the provider can set the attribute, and the configuration does.")
		return config
	case set:
		return config
	case isGiven:
		return given
	case a.Computed:
		return c.generated(ty)
	default:
		return cty.NullVal(ty)
	}
}

// nested returns the value of the blocks of one type: those of the configuration, as the protocol requires, with
// the computed values in each.
func (c *composer) nested(name string, nb *schema.NestedBlock, config cty.Value,
	values map[string]cty.Value) cty.Value {
	given, isGiven := values[name]
	invalid := fmt.Sprintf("Invalid override for block field `%s`", name)
	if isGiven && (!given.Type().IsObjectType() || given.IsNull()) {
		c.err(invalid, fmt.Sprintf("Blocks are overridden by an object, and this is %s.", given.Type().FriendlyName()))
		return nb.EmptyValue()
	}
	if config != cty.NilVal && !config.IsKnown() {
		return config
	}
	if config == cty.NilVal || config.IsNull() || config.CanIterateElements() && !config.Type().IsObjectType() &&
		config.LengthInt() == 0 {
		if isGiven {
			c.err(invalid, "The configuration has no such block, and overriding makes none.")
		}
		return nb.EmptyValue()
	}
	var inner map[string]cty.Value
	if isGiven {
		inner = given.AsValueMap()
	}
	each := func(v cty.Value) cty.Value { return c.compose(&nb.Block, v, inner) }
	switch nb.Nesting {
	case schema.NestingSingle, schema.NestingGroup:
		return each(config)
	case schema.NestingMap:
		return c.mapping(config, each)
	default:
		return c.sequence(config, each)
	}
}

func (c *composer) sequence(config cty.Value, each func(cty.Value) cty.Value) cty.Value {
	var elements []cty.Value
	for it := config.ElementIterator(); it.Next(); {
		_, v := it.Element()
		elements = append(elements, each(v))
	}
	switch ty := config.Type(); {
	case ty.IsSetType():
		return cty.SetVal(elements)
	case ty.IsListType():
		return cty.ListVal(elements)
	default:
		return cty.TupleVal(elements)
	}
}

func (c *composer) mapping(config cty.Value, each func(cty.Value) cty.Value) cty.Value {
	elements := map[string]cty.Value{}
	for it := config.ElementIterator(); it.Next(); {
		k, v := it.Element()
		elements[k.AsString()] = each(v)
	}
	if config.Type().IsMapType() {
		return cty.MapVal(elements)
	}
	return cty.ObjectVal(elements)
}

// generated returns a generated value of a type: zero, false, empty collections, and strings of letters and digits.
func (c *composer) generated(ty cty.Type) cty.Value {
	switch {
	case ty == cty.Number:
		return cty.Zero
	case ty == cty.Bool:
		return cty.False
	case ty == cty.String:
		return cty.StringVal(c.text())
	case ty.IsListType():
		return cty.ListValEmpty(ty.ElementType())
	case ty.IsSetType():
		return cty.SetValEmpty(ty.ElementType())
	case ty.IsMapType():
		return cty.MapValEmpty(ty.ElementType())
	case ty.IsObjectType():
		attrs := map[string]cty.Value{}
		for _, name := range slices.Sorted(maps.Keys(ty.AttributeTypes())) {
			if !ty.AttributeOptional(name) {
				attrs[name] = c.generated(ty.AttributeType(name))
			}
		}
		return cty.ObjectVal(attrs)
	case ty.IsTupleType():
		return cty.EmptyTupleVal
	default:
		return cty.NullVal(cty.DynamicPseudoType)
	}
}

// text returns 4 to 15 letters and digits.
func (c *composer) text() string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ1234567890"
	b := make([]byte, 4+c.rand.Intn(12))
	for i := range b {
		b[i] = letters[c.rand.Intn(len(letters))]
	}
	return string(b)
}
