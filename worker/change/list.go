package change

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// maxListProblems is how many problems with single objects are reported; more would hide the others.
const maxListProblems = 20

// List lists existing objects, and calls found for each one. An error of found ends the listing, and is returned. A
// problem with one object does not end it.
func List(ctx context.Context, h Host, t *wire.ListTask, found func(wire.ListedObject) error) (diag.List, error) {
	i, config, diags := h.lists(t.Type, t.Config)
	if diags.HasErrors() {
		return diags, nil
	}
	r := provider.ListRequest{TypeName: t.Type, Config: config, IncludeObject: t.IncludeObject, Limit: t.Limit}
	if diags = append(diags, h.Provider.ValidateListConfig(ctx, r).WithAddress(h.Address)...); diags.HasErrors() {
		return diags, nil
	}
	generate := t.Generate && t.IncludeObject && h.Schemas.Capabilities.GenerateResourceConfig
	var stopped error
	left := 0
	report := func(l diag.List) {
		if len(l) > 0 && left < maxListProblems {
			diags = append(diags, l.WithAddress(h.Address)...)
		}
		left += len(l)
	}
	more := h.Provider.ListResource(ctx, r, func(o provider.Listed) error {
		report(o.Diagnostics)
		if o.Diagnostics.HasErrors() {
			return nil
		}
		out, problems := i.listed(o)
		if generate && !problems.HasErrors() {
			var more diag.List
			out.Config, more = i.generated(ctx, o.Object)
			problems = append(problems, more...)
		}
		if report(problems); problems.HasErrors() {
			return nil
		}
		stopped = found(out)
		return stopped
	})
	if stopped != nil {
		return diags, stopped
	}
	return append(diags, more.WithAddress(h.Address)...), nil
}

// lists returns the managed resource type that is listed, and the configuration of the list.
func (h Host) lists(typeName string, config []byte) (instance, cty.Value, diag.List) {
	s, ok := h.Schemas.Lists[typeName]
	if !ok {
		return instance{}, cty.NilVal, h.unsupported("list resource", typeName)
	}
	i, diags := h.managedInstance(typeName, nil, nil)
	if diags.HasErrors() {
		return i, cty.NilVal, diags
	}
	v, diags := h.decode(config, s.Block.ImpliedType(), "configuration")
	return i, v, diags
}

// listed checks an object, and encodes it.
func (i instance) listed(o provider.Listed) (wire.ListedObject, diag.List) {
	out := wire.ListedObject{Name: o.DisplayName}
	if i.identity == nil {
		return out, diag.List{i.blame("Resource type without identity", "Provider %q lists objects of type %q, whose "+
			"identities it does not declare.", i.Name, i.name)}
	}
	found := conforms(o.Identity, i.identityTy)
	if len(found) == 0 && o.Identity.IsNull() {
		found.add(nil, "the identity is null")
	}
	if len(found) == 0 {
		found = unknowns(o.Identity)
	}
	if len(found) > 0 {
		return out, i.blameEach(invalidObject, i.answer("listing"), found)
	}
	out.Identity = encodeValue(o.Identity, i.identityTy)
	if o.Object == cty.NilVal {
		return out, nil
	}
	if diags := i.checkWhole(i.kind, o.Object, "listing"); diags.HasErrors() {
		return out, diags
	}
	out.Object = encodeValue(withoutWriteOnly(i.block, o.Object), i.ty)
	return out, nil
}

// generated asks the provider for the configuration of an object.
func (i instance) generated(ctx context.Context, object cty.Value) ([]byte, diag.List) {
	v, diags := i.Provider.GenerateConfig(ctx, i.name, object)
	if diags.HasErrors() {
		return nil, diags
	}
	if diags = append(diags, i.checkWhole(i.kind, v, "generating the configuration of")...); diags.HasErrors() {
		return nil, diags
	}
	return encodeValue(v, i.ty), diags
}

// validateList checks the arguments of a list block.
func (h Host) validateList(ctx context.Context, t *wire.ValidateTask) diag.List {
	_, config, diags := h.lists(t.Type, t.Config)
	if diags.HasErrors() {
		return diags
	}
	r := provider.ListRequest{TypeName: t.Type, Config: config, IncludeObject: t.IncludeObject, Limit: t.Limit}
	return append(diags, h.Provider.ValidateListConfig(ctx, r).WithAddress(h.Address)...)
}
