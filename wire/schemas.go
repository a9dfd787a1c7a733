package wire

import (
	"fmt"
	"maps"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/schema"
)

// Schemas travel as arrays by position, because a provider may have a hundred thousand attributes. docs/format/wire.md
// has the positions.

// schemasFormat is the version of the coding. A worker keeps coded schemas no longer than it lives, so there is only one.
const schemasFormat = 1

const (
	flagMarkdown = 1 << iota
	flagDeprecated
	flagEphemeral
	flagRequired
	flagOptional
	flagComputed
	flagSensitive
	flagWriteOnly
	flagAllowNull
	flagAllowUnknown
)

const (
	flagPlanDestroy = 1 << iota
	flagSchemaOptional
	flagMoveState
)

// EncodeSchemas returns the coded schemas. Leave out of the maps what is not asked for to send a part. Equal schemas
// have equal codings.
func EncodeSchemas(s *provider.Schemas) []byte {
	return encodeWith(func(enc *msgpack.Encoder) error {
		w := schemaWriter{enc: enc}
		w.array(10)
		w.int(schemasFormat)
		w.int(int64(s.ProtocolVersion))
		w.int(flags(
			flag{s.Capabilities.PlanDestroy, flagPlanDestroy},
			flag{s.Capabilities.GetProviderSchemaOptional, flagSchemaOptional},
			flag{s.Capabilities.MoveResourceState, flagMoveState}))
		w.schema(s.Provider)
		w.schema(s.ProviderMeta)
		writeMap(&w, s.Managed, w.schema)
		writeMap(&w, s.Data, w.schema)
		writeMap(&w, s.Ephemeral, w.schema)
		writeMap(&w, s.Identities, w.identity)
		writeMap(&w, s.Functions, w.function)
		return w.err
	})
}

type schemaWriter struct {
	enc *msgpack.Encoder
	err error
}

func (w *schemaWriter) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *schemaWriter) array(n int)     { w.keep(w.enc.EncodeArrayLen(n)) }
func (w *schemaWriter) int(n int64)     { w.keep(w.enc.EncodeInt(n)) }
func (w *schemaWriter) string(s string) { w.keep(w.enc.EncodeString(s)) }
func (w *schemaWriter) none()           { w.keep(w.enc.EncodeNil()) }

func writeMap[V any](w *schemaWriter, m map[string]V, value func(V)) {
	w.keep(w.enc.EncodeMapLen(len(m)))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		w.string(name)
		value(m[name])
	}
}

type flag struct {
	set bool
	bit int64
}

func flags(list ...flag) int64 {
	var n int64
	for _, f := range list {
		if f.set {
			n |= f.bit
		}
	}
	return n
}

func (w *schemaWriter) schema(s schema.Schema) {
	if s.Block == nil {
		w.none()
		return
	}
	w.array(2)
	w.int(s.Version)
	w.block(s.Block)
}

func (w *schemaWriter) block(b *schema.Block) {
	w.array(5)
	w.int(flags(flag{b.DescriptionKind == schema.Markdown, flagMarkdown}, flag{b.Deprecated, flagDeprecated}, flag{b.Ephemeral, flagEphemeral}))
	w.string(b.Description)
	w.string(b.DeprecationMessage)
	writeMap(w, b.Attributes, w.attribute)
	writeMap(w, b.Blocks, w.nestedBlock)
}

func (w *schemaWriter) nestedBlock(nb *schema.NestedBlock) {
	w.array(4)
	w.int(int64(nb.Nesting))
	w.int(int64(nb.MinItems))
	w.int(int64(nb.MaxItems))
	w.block(&nb.Block)
}

func (w *schemaWriter) attribute(a *schema.Attribute) {
	w.array(5)
	w.int(flags(
		flag{a.DescriptionKind == schema.Markdown, flagMarkdown}, flag{a.Deprecated, flagDeprecated},
		flag{a.Required, flagRequired}, flag{a.Optional, flagOptional}, flag{a.Computed, flagComputed},
		flag{a.Sensitive, flagSensitive}, flag{a.WriteOnly, flagWriteOnly}))
	w.string(a.Description)
	w.string(a.DeprecationMessage)
	w.ctyType(a.Type)
	w.object(a.Nested)
}

func (w *schemaWriter) object(o *schema.Object) {
	if o == nil {
		w.none()
		return
	}
	w.array(2)
	w.int(int64(o.Nesting))
	writeMap(w, o.Attributes, w.attribute)
}

func (w *schemaWriter) identity(i schema.Identity) {
	w.array(2)
	w.int(i.Version)
	w.object(i.Body)
}

func (w *schemaWriter) function(f provider.Function) {
	w.array(7)
	w.int(flags(flag{f.DescriptionKind == schema.Markdown, flagMarkdown}))
	w.string(f.Summary)
	w.string(f.Description)
	w.string(f.DeprecationMessage)
	w.ctyType(f.Return)
	w.array(len(f.Parameters))
	for i := range f.Parameters {
		w.parameter(&f.Parameters[i])
	}
	w.parameter(f.VariadicParameter)
}

func (w *schemaWriter) parameter(p *provider.Parameter) {
	if p == nil {
		w.none()
		return
	}
	w.array(4)
	w.int(flags(flag{p.DescriptionKind == schema.Markdown, flagMarkdown}, flag{p.AllowNullValue, flagAllowNull}, flag{p.AllowUnknownValues, flagAllowUnknown}))
	w.string(p.Name)
	w.string(p.Description)
	w.ctyType(p.Type)
}

// The frequent types are a letter; the others are in cty's JSON form.
var (
	typeLetters = map[cty.Type]string{cty.String: "s", cty.Number: "n", cty.Bool: "b", cty.DynamicPseudoType: "d"}
	letterTypes = map[string]cty.Type{"s": cty.String, "n": cty.Number, "b": cty.Bool, "d": cty.DynamicPseudoType}
)

func (w *schemaWriter) ctyType(ty cty.Type) {
	if ty == cty.NilType {
		w.none()
		return
	}
	if ty.IsPrimitiveType() || ty == cty.DynamicPseudoType {
		w.string(typeLetters[ty])
		return
	}
	data, err := ctyjson.MarshalType(ty)
	w.keep(err)
	w.string(string(data))
}

// DecodeSchemas is the inverse of EncodeSchemas. What was not sent is missing in the maps.
func DecodeSchemas(data []byte) (*provider.Schemas, error) {
	if err := CheckBounds(data, schemasDepth); err != nil {
		return nil, fmt.Errorf("cannot read the schemas: %w", err)
	}
	s := new(provider.Schemas)
	err := decodeWith(data, func(dec *msgpack.Decoder) error {
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
		r.err = errMalformed
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
		DescriptionKind: kindOf(bits), AllowNullValue: bits&flagAllowNull != 0, AllowUnknownValues: bits&flagAllowUnknown != 0,
		Name: r.string(), Description: r.string(), Type: r.ctyType(),
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
	ty, err := ctyjson.UnmarshalType([]byte(text))
	if r.err == nil {
		r.err = err
	}
	r.types[text] = ty
	return ty
}
