package wire

import (
	"fmt"
	"math"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
)

// DecodeSchemas is the inverse of EncodeSchemas. Schemas that were not sent are missing in the maps.
func DecodeSchemas(data []byte) (*provider.Schemas, error) {
	if err := coding.CheckBounds(data, schemasDepth); err != nil {
		return nil, fmt.Errorf("cannot read the schemas: %w", err)
	}
	s := new(provider.Schemas)
	err := coding.DecodeWith(data, func(dec *msgpack.Decoder) error {
		r := schemaReader{dec: dec, types: map[string]cty.Type{}, left: unbounded}
		r.schemas(s)
		return r.err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the schemas: %w", err)
	}
	return s, nil
}

// schemaReader keeps the first error; after it every read gives a zero value. So does every read beyond the end of an
// array: an earlier program does not send the fields that were added later.
type schemaReader struct {
	dec   *msgpack.Decoder
	err   error
	types map[string]cty.Type
	// left is how many elements of the present array are not read yet; unbounded outside of arrays.
	left int
}

// unbounded is more than any array has.
const unbounded = math.MaxInt

func (r *schemaReader) schemas(s *provider.Schemas) {
	outer, _ := r.begin()
	defer r.end(outer)
	if format := r.int(); r.err == nil && format != schemasFormat {
		r.err = fmt.Errorf("they are in format %d, and this program reads format %d", format, schemasFormat)
	}
	s.ProtocolVersion = int(r.int())
	caps := r.int()
	s.Capabilities = provider.Capabilities{
		PlanDestroy:               caps&flagPlanDestroy != 0,
		GetProviderSchemaOptional: caps&flagSchemaOptional != 0,
		MoveResourceState:         caps&flagMoveState != 0,
		GenerateResourceConfig:    caps&flagGenerateConfig != 0,
	}
	s.Provider = r.schema()
	s.ProviderMeta = r.schema()
	s.Managed = readMap(r, r.schema)
	s.Data = readMap(r, r.schema)
	s.Ephemeral = readMap(r, r.schema)
	s.Identities = readMap(r, r.identity)
	s.Functions = readMap(r, r.function)
	s.Lists = readMap(r, r.schema)
	s.Actions = readMap(r, r.schema)
}

// more reports whether another element may be read, and counts it.
func (r *schemaReader) more() bool {
	if r.err != nil || r.left == 0 {
		return false
	}
	r.left--
	return true
}

// begin reads the header of an array of fields. It returns false where there is none. Call end after the fields, with
// the first result.
func (r *schemaReader) begin() (outer int, ok bool) {
	n := -1
	if r.more() {
		n, r.err = r.dec.DecodeArrayLen()
	}
	if r.err != nil || n < 0 {
		return 0, false
	}
	outer, r.left = r.left, n
	return outer, true
}

// end skips the fields that this program does not know.
func (r *schemaReader) end(outer int) {
	for r.err == nil && r.left > 0 {
		r.left--
		r.err = r.dec.Skip()
	}
	r.left = outer
}

// items reads the header of a list or a map, and calls item for each element.
func (r *schemaReader) items(length func() (int, error), item func(n int)) {
	if !r.more() {
		return
	}
	n, err := length()
	if r.err = err; err != nil || n <= 0 {
		return
	}
	outer := r.left
	r.left = unbounded
	item(n)
	r.left = outer
}

func (r *schemaReader) int() int64 {
	if !r.more() {
		return 0
	}
	n, err := r.dec.DecodeInt64()
	r.err = err
	return n
}

func (r *schemaReader) string() string {
	if !r.more() {
		return ""
	}
	s, err := r.dec.DecodeString()
	r.err = err
	return s
}

func readMap[V any](r *schemaReader, value func() V) map[string]V {
	var m map[string]V
	r.items(r.dec.DecodeMapLen, func(n int) {
		m = make(map[string]V, min(n, 1024))
		for range n {
			name := r.string()
			v := value()
			if r.err != nil {
				return
			}
			m[name] = v
		}
	})
	if r.err != nil {
		return nil
	}
	return m
}

func (r *schemaReader) schema() schema.Schema {
	outer, ok := r.begin()
	if !ok {
		return schema.Schema{}
	}
	defer r.end(outer)
	return schema.Schema{Version: r.int(), Block: r.block()}
}

func (r *schemaReader) block() *schema.Block {
	b := new(schema.Block)
	outer, ok := r.begin()
	if !ok {
		r.missing()
		return b
	}
	defer r.end(outer)
	bits := r.int()
	b.DescriptionKind, b.Deprecated, b.Ephemeral = kindOf(bits), bits&flagDeprecated != 0, bits&flagEphemeral != 0
	b.Description, b.DeprecationMessage = r.string(), r.string()
	b.Attributes = readMap(r, r.attribute)
	b.Blocks = readMap(r, r.nestedBlock)
	return b
}

// missing records that nil stands where it may not.
func (r *schemaReader) missing() {
	if r.err == nil {
		r.err = coding.ErrMalformed
	}
}

func kindOf(bits int64) schema.StringKind {
	if bits&flagMarkdown != 0 {
		return schema.Markdown
	}
	return schema.Plain
}

func (r *schemaReader) nesting() schema.Nesting {
	n := r.int()
	if r.err == nil && (n < int64(schema.NestingSingle) || n > int64(schema.NestingMap)) {
		r.err = fmt.Errorf("%d is no nesting", n)
	}
	return schema.Nesting(n)
}

func (r *schemaReader) nestedBlock() *schema.NestedBlock {
	nb := new(schema.NestedBlock)
	outer, ok := r.begin()
	if !ok {
		r.missing()
		return nb
	}
	defer r.end(outer)
	nb.Nesting = r.nesting()
	nb.MinItems, nb.MaxItems = int(r.int()), int(r.int())
	nb.Block = *r.block()
	return nb
}

func (r *schemaReader) attribute() *schema.Attribute {
	a := new(schema.Attribute)
	outer, ok := r.begin()
	if !ok {
		r.missing()
		return a
	}
	defer r.end(outer)
	bits := r.int()
	a.DescriptionKind, a.Deprecated = kindOf(bits), bits&flagDeprecated != 0
	a.Required, a.Optional, a.Computed = bits&flagRequired != 0, bits&flagOptional != 0, bits&flagComputed != 0
	a.Sensitive, a.WriteOnly = bits&flagSensitive != 0, bits&flagWriteOnly != 0
	a.Description, a.DeprecationMessage = r.string(), r.string()
	a.Type, a.Nested = r.ctyType(), r.object()
	if r.err == nil && (a.Type == cty.NilType) == (a.Nested == nil) {
		r.err = fmt.Errorf("an attribute needs either a type or a structure")
	}
	return a
}

func (r *schemaReader) object() *schema.Object {
	outer, ok := r.begin()
	if !ok {
		return nil
	}
	defer r.end(outer)
	return &schema.Object{Nesting: r.nesting(), Attributes: readMap(r, r.attribute)}
}

func (r *schemaReader) identity() schema.Identity {
	outer, ok := r.begin()
	if !ok {
		return schema.Identity{}
	}
	defer r.end(outer)
	return schema.Identity{Version: r.int(), Body: r.object()}
}

func (r *schemaReader) function() provider.Function {
	var f provider.Function
	outer, ok := r.begin()
	if !ok {
		r.missing()
		return f
	}
	defer r.end(outer)
	f.DescriptionKind = kindOf(r.int())
	f.Summary, f.Description, f.DeprecationMessage = r.string(), r.string(), r.string()
	f.Return = r.ctyType()
	r.items(r.dec.DecodeArrayLen, func(n int) {
		for range n {
			p := r.parameter()
			if p == nil {
				r.missing()
				return
			}
			f.Parameters = append(f.Parameters, *p)
		}
	})
	f.VariadicParameter = r.parameter()
	return f
}

func (r *schemaReader) parameter() *provider.Parameter {
	outer, ok := r.begin()
	if !ok {
		return nil
	}
	defer r.end(outer)
	bits := r.int()
	return &provider.Parameter{
		DescriptionKind: kindOf(bits), AllowNullValue: bits&flagAllowNull != 0,
		AllowUnknownValues: bits&flagAllowUnknown != 0,
		Name:               r.string(), Description: r.string(), Type: r.ctyType(),
	}
}

func (r *schemaReader) ctyType() cty.Type {
	if r.err != nil || r.left == 0 {
		return cty.NilType
	}
	code, err := r.dec.PeekCode()
	if r.err = err; err != nil {
		return cty.NilType
	}
	if code == 0xc0 {
		r.left--
		r.err = r.dec.DecodeNil()
		return cty.NilType
	}
	text := r.string()
	if ty, ok := letterTypes[text]; ok {
		return ty
	}
	if ty, ok := r.types[text]; ok {
		return ty
	}
	ty, err := coding.UnmarshalType([]byte(text))
	if r.err == nil {
		r.err = err
	}
	r.types[text] = ty
	return ty
}
