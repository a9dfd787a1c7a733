package rpc

import (
	"context"
	"fmt"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// encoder encodes the values of one request and records the first failure.
type encoder struct {
	err error
}

// value encodes a value of the type; an absent one (cty.NilVal) as null. Unknown values keep their refinements.
func (e *encoder) value(v cty.Value, ty cty.Type) *tfplugin6.DynamicValue {
	if e.err != nil {
		return nil
	}
	if v == cty.NilVal {
		v = cty.NullVal(ty)
	}
	encode := coding.EncodeValue
	if v.IsNull() { // coding has no bytes for it; those of cty include the type of the value if ty is any type
		encode = msgpack.Marshal
	}
	var b []byte
	if b, e.err = encode(v, ty); e.err != nil {
		return nil
	}
	return &tfplugin6.DynamicValue{Msgpack: b}
}

// meta encodes the value of a provider_meta block, if the provider accepts one.
func (e *encoder) meta(v cty.Value, s *shape) *tfplugin6.DynamicValue {
	if s == nil {
		return nil
	}
	return e.value(v, s.ty)
}

// identity encodes an identity, if there is one and the resource type has identities.
func (e *encoder) identity(v cty.Value, ty cty.Type) *tfplugin6.ResourceIdentityData {
	if v == cty.NilVal || v.IsNull() || ty == cty.NilType {
		return nil
	}
	return &tfplugin6.ResourceIdentityData{IdentityData: e.value(v, ty)}
}

// failed returns the problem of the first value that did not conform to its schema. It is a mistake of the caller.
func (e *encoder) failed(typeName string) diag.List {
	if e.err == nil {
		return nil
	}
	return diag.Errors("Value does not fit the provider's schema",
		fmt.Sprintf("A value for %s cannot be sent to its provider: %s.", typeName, pathError(e.err)), nil)
}

// decoder decodes the values of one response and collects the problems.
type decoder struct {
	p        *Provider
	method   string
	typeName string
	diags    diag.List
	// unread is set if a value could not be decoded.
	unread bool
}

// decode returns a decoder whose problems begin with the plugin's own diagnostics.
func (p *Provider) decode(method, typeName string, reported []*tfplugin6.Diagnostic) *decoder {
	return &decoder{p: p, method: method, typeName: typeName, diags: problems(reported)}
}

// value decodes a value of the type; an absent or invalid one is null.
func (d *decoder) value(v *tfplugin6.DynamicValue, ty cty.Type) cty.Value {
	read, err := decodeValue(v, ty)
	if err != nil {
		d.unread = true
		d.diags = d.diags.Append(d.p.schemaMismatch(d.method, fmt.Sprintf("value for %q", d.typeName), err))
		return cty.NullVal(ty)
	}
	return read
}

// identity decodes an identity; cty.NilVal when there is none or the resource type has none.
func (d *decoder) identity(v *tfplugin6.ResourceIdentityData, ty cty.Type) cty.Value {
	if v.GetIdentityData() == nil || ty == cty.NilType {
		return cty.NilVal
	}
	read, err := decodeValue(v.IdentityData, ty)
	if err != nil {
		d.diags = d.diags.Append(d.p.schemaMismatch(d.method, fmt.Sprintf("identity for %q", d.typeName), err))
		return cty.NilVal
	}
	return read
}

// noWriteOnly reports write-only attributes in an answer.
func (d *decoder) noWriteOnly(block *schema.Block, v cty.Value) {
	for _, p := range block.WriteOnlyPaths(v) {
		d.diags = d.diags.Append(diag.New(diag.Error, invalidResponse, fmt.Sprintf(
			"Provider %s answered the %s call with a value for the write-only attribute %s of resource type %q, "+
				"which must be null in answers.\n\nThis is a bug in the provider.",
			d.p.options.Name, d.method, printPath(p), d.typeName), nil))
	}
}

// deferral records an answer that puts the operation off, or reports it if that was not allowed.
func (d *decoder) deferral(ctx context.Context, deferred *tfplugin6.Deferred) {
	if deferred == nil {
		return
	}
	if d := provider.DeferralOf(ctx); d != nil {
		d.Record(deferralReason(deferred.Reason))
		return
	}
	d.diags = d.diags.Append(diag.New(diag.Error, invalidResponse, fmt.Sprintf(
		"Provider %s put off the %s call for %q (%s), although it was told that this is not possible.\n\nThis is a "+
			"bug in the provider.",
		d.p.options.Name, d.method, d.typeName, deferred.Reason), nil))
}

func deferralReason(r tfplugin6.Deferred_Reason) provider.DeferralReason {
	switch r {
	case tfplugin6.Deferred_RESOURCE_CONFIG_UNKNOWN:
		return provider.ResourceConfigUnknown
	case tfplugin6.Deferred_PROVIDER_CONFIG_UNKNOWN:
		return provider.ProviderConfigUnknown
	case tfplugin6.Deferred_ABSENT_PREREQ:
		return provider.AbsentPrerequisite
	default:
		return provider.UnknownReason
	}
}

// decodeValue decodes a value in either encoding. An absent value is null. The bytes come from a plugin and are not
// trusted: coding bounds the cost of decoding.
func decodeValue(v *tfplugin6.DynamicValue, ty cty.Type) (cty.Value, error) {
	if len(v.GetMsgpack()) > 0 {
		return coding.DecodeValue(v.Msgpack, ty)
	}
	return coding.DecodeJSON(v.GetJson(), ty)
}

// readable returns the attributes that can be decoded of an object that cannot be decoded as a whole.
func readable(v *tfplugin6.DynamicValue, ty cty.Type) map[string]cty.Value {
	return coding.Readable(raw(v), len(v.GetMsgpack()) == 0, ty)
}

// raw returns the bytes of a value as received.
func raw(v *tfplugin6.DynamicValue) []byte {
	if len(v.GetMsgpack()) > 0 {
		return v.Msgpack
	}
	return v.GetJson()
}
