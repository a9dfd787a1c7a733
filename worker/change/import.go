package change

import (
	"context"
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// Import finds existing objects and reads them. One import may find several objects, of several types.
func Import(ctx context.Context, h Host, t *wire.ImportTask) (*wire.ImportResult, diag.List) {
	i, diags := h.managedInstance(t.Type, nil, nil)
	if diags.HasErrors() {
		return &wire.ImportResult{}, diags
	}
	found, more := i.find(ctx, t)
	if diags = append(diags, more...); diags.HasErrors() {
		return &wire.ImportResult{}, diags
	}
	out := &wire.ImportResult{}
	for _, f := range found {
		of, more := h.managedInstance(f.TypeName, nil, nil)
		diags = append(diags, more...)
		if more.HasErrors() {
			continue
		}
		o, more := of.readImported(ctx, f)
		diags = append(diags, more...)
		if more.HasErrors() {
			continue
		}
		imported := wire.ImportedObject{Type: f.TypeName, SchemaVersion: of.version,
			IdentityVersion: of.identityVersion}
		imported.Object, imported.Private, imported.Identity = of.encodeObject(o)
		out.Objects = append(out.Objects, imported)
	}
	return out, diags
}

// importOne finds and reads the one object of an import block.
func (i instance) importOne(ctx context.Context, t *wire.ImportTask) (object, diag.List) {
	found, diags := i.find(ctx, t)
	if diags.HasErrors() {
		return i.absent(), diags
	}
	switch {
	case putOff(ctx):
		return i.absent(), diags // the plan is that of a new object
	case len(found) > 1:
		return i.absent(), append(diags, i.problem("Multiple import states not supported",
			"The import of %s found %d objects, but an import block takes one.", i.Address, len(found)))
	case found[0].TypeName != i.name:
		return i.absent(), append(diags, i.blame("Import returned a different resource type",
			"The import of %s found an object of the type %q instead of %q.", i.Address, found[0].TypeName, i.name))
	}
	o, more := i.readImported(ctx, found[0])
	return o, append(diags, more...)
}

// find requests the objects with the ID or identity from the provider. Without errors there is at least one, and
// each has a type.
func (i instance) find(ctx context.Context, t *wire.ImportTask) ([]provider.Imported, diag.List) {
	r := provider.ImportRequest{TypeName: t.Type, ID: t.ID, Identity: cty.NilVal}
	if len(t.Identity) > 0 {
		if i.identity == nil {
			return nil, diag.List{i.problem("No identity schema found",
				"The objects of resource type %q have no identity, so %s can only be imported by an ID.",
				i.name, i.Address)}
		}
		var diags diag.List
		if r.Identity, diags = i.decode(t.Identity, i.identityTy, "identity"); diags.HasErrors() {
			return nil, diags
		}
	}
	found, diags := i.Provider.ImportResourceState(ctx, r)
	diags = diags.WithAddress(i.Address)
	if diags.HasErrors() || putOff(ctx) {
		return nil, diags
	}
	if len(found) == 0 {
		diags = append(diags, i.problem("Import returned no resources", "The import of %s found nothing for %s.",
			i.Address, soughtText(t)))
	}
	for _, f := range found {
		if f.TypeName == "" {
			diags = append(diags, i.blame("Import returned no resource type", "The import of %s found an object, but "+
				"provider %q did not return its type.", i.Address, i.Name))
		}
	}
	return found, diags
}

// readImported reads an object that an import found: the import itself may return only its ID.
func (i instance) readImported(ctx context.Context, f provider.Imported) (object, diag.List) {
	if found := i.conforms(f.Object); len(found) > 0 {
		return i.absent(), i.blameEach(invalidObject, i.answer("importing"), found)
	}
	if f.Object.IsNull() {
		return i.absent(), diag.List{i.blame("Import returned null resource", "The import of %s found an object "+
			"without any content.", i.Address)}
	}
	diags := i.writeOnlyReturned(f.Object)
	identity, more := i.checkIdentity(f.Identity, "importing")
	if diags = append(diags, more...); diags.HasErrors() {
		return i.absent(), diags
	}
	o, more := i.refresh(ctx, object{value: f.Object, private: f.Private, identity: identity})
	if diags = append(diags, more...); diags.HasErrors() {
		return i.absent(), diags
	}
	if o.value.IsNull() {
		return i.absent(), append(diags, i.problem("Cannot import non-existent remote object",
			"The provider knows no object with the ID or identity that was given for %q. Only what exists can be "+
				"imported: check the ID or identity, and that it belongs to the region or endpoint that the provider "+
				"is configured for; or let \""+diag.Program()+" apply\" create a new object.",
			i.Address))
	}
	return o, diags
}

func soughtText(t *wire.ImportTask) string {
	if t.ID != "" {
		return "the ID " + strconv.Quote(t.ID)
	}
	return "the given identity"
}
