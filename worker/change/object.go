package change

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
)

// object is a remote object as its provider describes it, in the current schema.
type object struct {
	// value is null if there is no object.
	value cty.Value
	// private is the provider's private data.
	private []byte
	// identity is cty.NilVal if the provider returned none.
	identity cty.Value
	tainted  bool
}

// instance is the resource instance on which an operation works: its type, and its provider.
type instance struct {
	Host
	kind
	// meta is the value of the module's provider_meta block; cty.NilVal if the provider accepts none.
	meta cty.Value
	// secrets are the paths whose values are sensitive because of the configuration, in addition to those of the
	// schema.
	secrets []cty.Path
}

// managedInstance prepares an operation on a managed resource. meta is the encoded provider_meta value, sensitive
// the encoded secret paths.
func (h Host) managedInstance(typeName string, meta []byte, sensitive [][]byte) (instance, diag.List) {
	k, diags := h.managed(typeName)
	if diags.HasErrors() {
		return instance{}, diags
	}
	i := instance{Host: h, kind: k}
	i.meta, diags = h.decodeMeta(meta)
	var more diag.List
	i.secrets, more = h.decodePaths(sensitive, "sensitive paths")
	return i, append(diags, more...)
}

// blameEach is Host.blameEach without secrets.
func (i instance) blameEach(summary, opening string, found violations) diag.List {
	return i.Host.blameEach(summary, opening, found.without(i.secrets))
}

func (h Host) decodeMeta(meta []byte) (cty.Value, diag.List) {
	block := h.Schemas.ProviderMeta.Block
	if block == nil {
		return cty.NilVal, nil
	}
	return h.decode(meta, block.ImpliedType(), "provider_meta value")
}

func (i instance) absent() object {
	return object{value: cty.NullVal(i.ty)}
}

// refresh reads the object. A null value in the answer means that the object no longer exists.
func (i instance) refresh(ctx context.Context, o object) (object, diag.List) {
	if o.value.IsNull() {
		return o, nil
	}
	resp, diags := i.Provider.ReadResource(ctx, provider.ReadRequest{
		TypeName:     i.name,
		Prior:        o.value,
		Private:      o.private,
		ProviderMeta: i.meta,
		Identity:     o.identity,
	})
	diags = diags.WithAddress(i.Address)
	if diags.HasErrors() || putOff(ctx) {
		return o, diags // as it was
	}
	found := i.conforms(resp.Object)
	if len(found) > 0 {
		return o, append(diags, i.blameEach(invalidObject, i.answer("reading"), found)...)
	}
	diags = append(diags, i.writeOnlyReturned(resp.Object)...)
	diags = append(diags, i.blameEach(invalidObject, i.answer("reading"), unknowns(resp.Object))...)
	identity, more := i.checkIdentity(resp.Identity, "reading")
	diags = append(diags, more...)
	if diags.HasErrors() {
		return o, diags
	}
	// Differences from the prior value are drift, whatever caused them, and not a fault of the provider.
	return object{value: normalize(i.block, resp.Object), private: resp.Private, identity: identity,
		tainted: o.tainted}, diags
}

// validate calls the provider to validate the configuration.
func (i instance) validate(ctx context.Context, config cty.Value) diag.List {
	return i.Provider.ValidateResourceConfig(ctx, i.name, config).WithAddress(i.Address)
}

// Summaries that users and tools know.
const (
	invalidObject    = "Provider produced invalid object"
	invalidPlan      = "Provider produced invalid plan"
	invalidResponse  = "Invalid provider response"
	nullObject       = "Provider produced null object"
	inconsistentPlan = "Provider produced inconsistent final plan"
	inconsistentEnd  = "Provider produced inconsistent result after apply"
	invalidResult    = "Provider returned invalid result object after apply"
)

// answer returns the beginning of a message about the provider's answer to an operation on the object.
func (i instance) answer(doing string) string {
	return "Provider " + quoted(i.Name) + " gave an invalid answer while " + doing
}

// writeOnlyReturned reports write-only attributes to which the provider gave a value. The object is stored without
// them.
func (i instance) writeOnlyReturned(v cty.Value) diag.List {
	var found violations
	for _, path := range i.block.WriteOnlyPaths(v) {
		found.add(path, "a write-only attribute must be null in every answer, but has a value")
	}
	return i.blameEach(invalidResponse, "Resource type "+quoted(i.name)+" returned a write-only value for", found)
}

// unknowns lists the paths of v that are unknown.
func unknowns(v cty.Value) violations {
	if v.IsWhollyKnown() {
		return nil
	}
	var found violations
	err := cty.Walk(v, func(path cty.Path, v cty.Value) (bool, error) {
		if !v.IsKnown() {
			found.add(path, "the value is still unknown")
		}
		return v.IsKnown(), nil
	})
	if err != nil {
		panic("change: the walk cannot fail: " + err.Error())
	}
	return found
}

// checkIdentity returns the identity in a provider's answer, or none if the type has none.
func (i instance) checkIdentity(identity cty.Value, doing string) (cty.Value, diag.List) {
	if i.identity == nil || identity == cty.NilVal || identity.IsNull() {
		return cty.NilVal, nil
	}
	if found := conforms(identity, i.identityTy); len(found) > 0 {
		return cty.NilVal, i.blameEach(invalidObject, i.answer(doing)+" the identity of", found)
	}
	return identity, nil
}

// writeOnly reports whether the path leads to a write-only attribute.
func writeOnly(b *schema.Block, path cty.Path) bool {
	a := b.AttributeAt(path)
	return a != nil && a.WriteOnly
}
