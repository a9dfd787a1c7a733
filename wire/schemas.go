package wire

import (
	"maps"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
)

// Schemas travel as arrays by position, because a provider may have a hundred thousand attributes. docs/format/wire.md
// has the positions.

// schemasFormat is the version of the coding. A worker keeps coded schemas no longer than it lives, so there is only
// one.
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
	flagGenerateConfig
)

// EncodeSchemas returns the coded schemas. To send a part, leave the other schemas out of the maps. Equal schemas have
// equal codings.
func EncodeSchemas(s *provider.Schemas) []byte {
	return coding.EncodeWith(func(enc *msgpack.Encoder) error {
		w := schemaWriter{enc: enc}
		w.array(12)
		w.int(schemasFormat)
		w.int(int64(s.ProtocolVersion))
		w.int(flags(
			flag{s.Capabilities.PlanDestroy, flagPlanDestroy},
			flag{s.Capabilities.GetProviderSchemaOptional, flagSchemaOptional},
			flag{s.Capabilities.MoveResourceState, flagMoveState},
			flag{s.Capabilities.GenerateResourceConfig, flagGenerateConfig}))
		w.schema(s.Provider)
		w.schema(s.ProviderMeta)
		writeMap(&w, s.Managed, w.schema)
		writeMap(&w, s.Data, w.schema)
		writeMap(&w, s.Ephemeral, w.schema)
		writeMap(&w, s.Identities, w.identity)
		writeMap(&w, s.Functions, w.function)
		writeMap(&w, s.Lists, w.schema)
		writeMap(&w, s.Actions, w.schema)
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
	w.int(flags(flag{b.DescriptionKind == schema.Markdown, flagMarkdown}, flag{b.Deprecated, flagDeprecated},
		flag{b.Ephemeral, flagEphemeral}))
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
	w.int(flags(flag{p.DescriptionKind == schema.Markdown, flagMarkdown}, flag{p.AllowNullValue, flagAllowNull},
		flag{p.AllowUnknownValues, flagAllowUnknown}))
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
