package wire

import (
	"fmt"

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
		r := schemaReader{dec: dec, types: map[string]cty.Type{}}
		r.schemas(s)
		return r.err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the schemas: %w", err)
	}
	return s, nil
}

// schemaReader keeps the first error; after it every read gives a zero value.
type schemaReader struct {
	dec   *msgpack.Decoder
	err   error
	types map[string]cty.Type
}

func (r *schemaReader) schemas(s *provider.Schemas) {
	r.array(10)
	if format := r.int(); r.err == nil && format != schemasFormat {
		r.err = fmt.Errorf("they are in format %d, and this program reads format %d", format, schemasFormat)
	}
	s.ProtocolVersion = int(r.int())
	caps := r.int()
	s.Capabilities = provider.Capabilities{
		PlanDestroy:               caps&flagPlanDestroy != 0,
		GetProviderSchemaOptional: caps&flagSchemaOptional != 0,
		MoveResourceState:         caps&flagMoveState != 0,
	}
	s.Provider = r.schema()
	s.ProviderMeta = r.schema()
	s.Managed = readMap(r, r.schema)
	s.Data = readMap(r, r.schema)
	s.Ephemeral = readMap(r, r.schema)
	s.Identities = readMap(r, r.identity)
	s.Functions = readMap(r, r.function)
}

// array reads the header of an array of n elements. It returns false, and reads nothing further, where nil stands.
func (r *schemaReader) array(n int) bool {
	got := r.arrayLen()
	if r.err == nil && got >= 0 && got != n {
		r.err = fmt.Errorf("an array has %d elements instead of %d", got, n)
	}
	return r.err == nil && got >= 0
}

func (r *schemaReader) arrayLen() int {
	if r.err != nil {
		return 0
	}
	n, err := r.dec.DecodeArrayLen()
	r.err = err
	return n
}

func (r *schemaReader) int() int64 {
	if r.err != nil {
		return 0
	}
	n, err := r.dec.DecodeInt64()
	r.err = err
	return n
}

func (r *schemaReader) string() string {
	if r.err != nil {
		return ""
	}
	s, err := r.dec.DecodeString()
	r.err = err
	return s
}

func readMap[V any](r *schemaReader, value func() V) map[string]V {
	if r.err != nil {
		return nil
	}
	n, err := r.dec.DecodeMapLen()
	if r.err = err; err != nil || n <= 0 {
		return nil
	}
	m := make(map[string]V, min(n, 1024))
	for range n {
		name := r.string()
		v := value()
		if r.err != nil {
			return nil
		}
		m[name] = v
	}
	return m
}

func (r *schemaReader) schema() schema.Schema {
	if !r.array(2) {
		return schema.Schema{}
	}
	return schema.Schema{Version: r.int(), Block: r.block()}
}

func (r *schemaReader) block() *schema.Block {
	b := new(schema.Block)
	if !r.array(5) {
		r.missing()
		return b
	}
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
	if !r.array(4) {
		r.missing()
		return nb
	}
	nb.Nesting = r.nesting()
	nb.MinItems, nb.MaxItems = int(r.int()), int(r.int())
	nb.Block = *r.block()
	return nb
}

func (r *schemaReader) attribute() *schema.Attribute {
	a := new(schema.Attribute)
	if !r.array(5) {
		r.missing()
		return a
	}
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
	if !r.array(2) {
		return nil
	}
	return &schema.Object{Nesting: r.nesting(), Attributes: readMap(r, r.attribute)}
}

func (r *schemaReader) identity() schema.Identity {
	if !r.array(2) {
		return schema.Identity{}
	}
	return schema.Identity{Version: r.int(), Body: r.object()}
}

func (r *schemaReader) function() provider.Function {
	var f provider.Function
	if !r.array(7) {
		r.missing()
		return f
	}
	f.DescriptionKind = kindOf(r.int())
	f.Summary, f.Description, f.DeprecationMessage = r.string(), r.string(), r.string()
	f.Return = r.ctyType()
	for range r.arrayLen() {
		p := r.parameter()
		if p == nil {
			r.missing()
			return f
		}
		f.Parameters = append(f.Parameters, *p)
	}
	f.VariadicParameter = r.parameter()
	return f
}

func (r *schemaReader) parameter() *provider.Parameter {
	if !r.array(4) {
		return nil
	}
	bits := r.int()
	return &provider.Parameter{
		DescriptionKind: kindOf(bits), AllowNullValue: bits&flagAllowNull != 0,
		AllowUnknownValues: bits&flagAllowUnknown != 0,
		Name:               r.string(), Description: r.string(), Type: r.ctyType(),
	}
}

func (r *schemaReader) ctyType() cty.Type {
	if r.err != nil {
		return cty.NilType
	}
	code, err := r.dec.PeekCode()
	if r.err = err; err != nil {
		return cty.NilType
	}
	if code == 0xc0 {
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
