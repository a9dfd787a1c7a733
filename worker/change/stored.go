package change

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

const (
	newerObject   = "Resource instance managed by newer provider version"
	newerIdentity = "Resource identity managed by newer provider version"
	badTransform  = "Invalid resource state transformation"
)

// current upgrades a stored object to the current schema. The provider is called even for the current version: it
// may make small repairs, and only it can decode the flatmap form of old engines. If from is another type or
// provider, the object is converted.
func (i instance) current(ctx context.Context, s *wire.StoredObject, from *wire.MovedFrom) (object, diag.List) {
	o := object{private: s.Private, tainted: s.Tainted}
	var diags diag.List
	if from != nil && (from.Type != i.name || from.Provider != i.Source) {
		o, diags = i.moved(ctx, s, from)
	} else {
		o.value, diags = i.upgraded(ctx, s)
		if !diags.HasErrors() {
			var more diag.List
			o.identity, more = i.upgradedIdentity(ctx, s)
			diags = append(diags, more...)
		}
	}
	if diags.HasErrors() {
		return i.absent(), diags
	}
	opening := "Provider " + quoted(i.Name) + " made an invalid object of the stored one of"
	if found := i.conforms(o.value); len(found) > 0 {
		return i.absent(), append(diags, i.blameEach(badTransform, opening, found)...)
	}
	diags = append(diags, i.blameEach(badTransform, opening, unknowns(o.value))...)
	return o, append(diags, i.writeOnlyReturned(o.value)...)
}

func (i instance) upgraded(ctx context.Context, s *wire.StoredObject) (cty.Value, diag.List) {
	if s.SchemaVersion > i.version {
		return cty.NilVal, diag.List{i.problem(newerObject,
			"The state holds %s in version %d of its schema, but provider %q, as selected, knows only version %d. "+
				"Select a newer version of the provider to work with this state.",
			i.Address, s.SchemaVersion, i.Source, i.version)}
	}
	r := provider.UpgradeRequest{TypeName: i.name, Version: s.SchemaVersion}
	switch {
	case len(s.Attrs) == 0:
		r.Flatmap = s.Flatmap
	case s.SchemaVersion == i.version:
		r.JSON = withoutRemoved(s.Attrs, i.ty)
	default:
		r.JSON = s.Attrs // the provider's upgrade may need attributes that were removed since
	}
	v, diags := i.Provider.UpgradeResourceState(ctx, r)
	return v, diags.WithAddress(i.Address)
}

func (i instance) moved(ctx context.Context, s *wire.StoredObject, from *wire.MovedFrom) (object, diag.List) {
	resp, diags := i.Provider.MoveResourceState(ctx, provider.MoveRequest{
		SourceProvider:        from.Provider,
		SourceType:            from.Type,
		SourceVersion:         s.SchemaVersion,
		SourceJSON:            s.Attrs,
		SourcePrivate:         s.Private,
		SourceIdentity:        s.Identity,
		SourceIdentityVersion: s.IdentityVersion,
		TargetType:            i.name,
	})
	diags = diags.WithAddress(i.Address)
	if diags.HasErrors() {
		return object{}, diags
	}
	identity, more := i.checkIdentity(resp.Identity, "moving")
	return object{value: resp.Object, private: resp.Private, identity: identity, tainted: s.Tainted},
		append(diags, more...)
}

// upgradedIdentity upgrades a stored identity to the current identity schema.
func (i instance) upgradedIdentity(ctx context.Context, s *wire.StoredObject) (cty.Value, diag.List) {
	switch {
	case i.identity == nil || len(s.Identity) == 0:
		return cty.NilVal, nil
	case s.IdentityVersion > i.identityVersion:
		return cty.NilVal, diag.List{i.problem(newerIdentity,
			"The state holds the identity of %s in version %d of its schema, but provider %q, as selected, knows "+
				"only version %d. Select a newer version of the provider to work with this identity.",
			i.Address, s.IdentityVersion, i.Source, i.identityVersion)}
	case s.IdentityVersion == i.identityVersion:
		v, err := coding.UnmarshalJSON(s.Identity, i.identityTy)
		if err != nil {
			return cty.NilVal, diag.List{i.problem("Invalid resource identity",
				"The identity of %s in the state does not fit the provider's schema for it: %s.", i.Address, err)}
		}
		return v, nil
	}
	v, diags := i.Provider.UpgradeResourceIdentity(ctx, i.name, s.IdentityVersion, s.Identity)
	diags = diags.WithAddress(i.Address)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	v, more := i.checkIdentity(v, "upgrading")
	return v, append(diags, more...)
}

// withoutRemoved removes attributes from a stored object that the schema no longer has, although its version is the
// same. Invalid JSON is left for the provider to report. Numbers keep every digit.
func withoutRemoved(attrs []byte, ty cty.Type) []byte {
	if coding.HasOnly(attrs, ty) {
		return attrs
	}
	d := json.NewDecoder(bytes.NewReader(attrs))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || !dropRemoved(v, ty) {
		return attrs
	}
	out, err := json.Marshal(v)
	if err != nil {
		panic("change: decoded JSON does not encode: " + err.Error())
	}
	return out
}

// dropRemoved reports whether it removed anything. It descends only as far as the types are static.
func dropRemoved(v any, ty cty.Type) bool {
	dropped := false
	switch v := v.(type) {
	case []any:
		switch {
		case ty.IsListType() || ty.IsSetType():
			for _, element := range v {
				dropped = dropRemoved(element, ty.ElementType()) || dropped
			}
		}
	case map[string]any:
		switch {
		case ty.IsMapType():
			for _, element := range v {
				dropped = dropRemoved(element, ty.ElementType()) || dropped
			}
		case ty.IsObjectType():
			for name, child := range v {
				if !ty.HasAttribute(name) {
					delete(v, name)
					dropped = true
					continue
				}
				dropped = dropRemoved(child, ty.AttributeType(name)) || dropped
			}
		}
	}
	return dropped
}
