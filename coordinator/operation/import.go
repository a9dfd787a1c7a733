package operation

import (
	"context"
	"fmt"
	"maps"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// Import finds the object with an ID at its provider and returns it as the state stores it. It acquires no permits: it
// ends a doubt about the object, whose operation still holds them.
func (s *Session) Import(ctx context.Context, at addr.Instance, pi addr.ProviderInstance,
	id string) (object *state.Object, diags diag.List) {
	defer caught(&diags)
	found, diags := s.find(ctx, at, pi, &wire.ImportTask{Type: at.Resource.Type, ID: id},
		func(ctx context.Context, pools []string, _ program.Placement, t *wire.Task) (*wire.Result, diag.List) {
			return s.call(ctx, pools, t)
		})
	if diags.HasErrors() {
		return nil, diags
	}
	out := &state.Object{Status: state.Ready, SchemaVersion: found.SchemaVersion, Private: found.Private}
	var err error
	if out.Attrs, out.Sensitive, err = values.EncodeStored(found.value, found.schema.Block); err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Import failed", err.Error()+".", nil))
	}
	return out, diags
}

// imported is an object that a provider found.
type imported struct {
	wire.ImportedObject
	value  cty.Value
	schema *schema.Schema
}

// find requests an existing object from a provider with the function ask, which is request or leaves out the permits.
func (s *Session) find(ctx context.Context, at addr.Instance, pi addr.ProviderInstance, task *wire.ImportTask,
	ask func(context.Context, []string, program.Placement, *wire.Task) (*wire.Result, diag.List)) (imported,
	diag.List) {
	block, wp, place, diags := s.providerOf(ctx, at, pi)
	if diags.HasErrors() {
		return imported{}, diags
	}
	pools, more := s.poolsFor(ctx, place, at.Config())
	if diags = diags.Append(more); diags.HasErrors() {
		return imported{}, diags
	}
	res, more := ask(ctx, pools, place, &wire.Task{Address: at.String(), Provider: wp, Import: task})
	diags = diags.Append(more.WithAddress(at.String()))
	if diags.HasErrors() {
		return imported{}, diags
	}
	if res.Import == nil {
		return imported{}, diags.Append(diag.New(diag.Error, "Import failed", "The worker's answer holds nothing.",
			nil))
	}
	for _, o := range res.Import.Objects {
		if o.Type != at.Resource.Type {
			continue
		}
		v, err := coding.DecodeValue(o.Object, block.Block.ImpliedType())
		if err != nil {
			return imported{}, diags.Append(diag.New(diag.Error, "Import failed", err.Error()+".", nil))
		}
		return imported{o, v, block}, diags
	}
	return imported{}, diags.Append(diag.New(diag.Error, "Import failed", fmt.Sprintf("The provider returned no "+
		"object of type %q.", at.Resource.Type), nil))
}

// providerOf returns the provider of a request about an object, and the facts that determine its pool.
func (s *Session) providerOf(ctx context.Context, at addr.Instance, pi addr.ProviderInstance) (_ *schema.Schema,
	_ wire.Provider, place program.Placement, _ diag.List) {
	schemas, diags := s.Schemas(ctx, nil)
	if diags.HasErrors() {
		return nil, wire.Provider{}, place, diags
	}
	block := schemas.Resource(pi.Provider, at.Resource.Mode, at.Resource.Type)
	if block == nil { // the object's block, the only one of its type, may have been removed
		var more diag.List
		schemas, more = s.withType(ctx, schemas, pi.Provider, at.Resource.Type)
		if diags = diags.Append(more); diags.HasErrors() {
			return nil, wire.Provider{}, place, diags
		}
		block = schemas.Resource(pi.Provider, at.Resource.Mode, at.Resource.Type)
	}
	if block == nil {
		return nil, wire.Provider{}, place, diags.Append(diag.New(diag.Error, "Invalid resource type",
			fmt.Sprintf("The provider %s does not support resource type %q.", pi.Provider.Display(), at.Resource.Type),
			nil))
	}
	code := values.NewCode(s.Tree, schemas)
	wp, cfg, more := values.WireProvider(s.store(code, values.Planning, s.Now()), pi, s.Package(pi.Provider), at.Config())
	place = program.Placement{Provider: pi, ResourceType: at.Resource.Type, Module: at.Module, Address: at.String()}
	if cfg != nil {
		place.ProviderConfig, place.ProviderRegion = cfg.Strings, values.Region(cfg.Value)
	}
	return block, wp, place, diags.Append(more)
}

// withType returns the schemas extended by a type of managed resources, if the provider has it.
func (s *Session) withType(ctx context.Context, schemas *values.Schemas, p addr.Provider, typeName string) (
	*values.Schemas, diag.List) {
	found, diags := s.ProviderSchemas(ctx, p, &wire.SchemaTask{Managed: []string{typeName}})
	if diags.HasErrors() || found == nil {
		return schemas, diags
	}
	merged := *found
	if known := schemas.Provider(p); known != nil {
		merged = *known
		merged.Managed = maps.Clone(known.Managed)
		if merged.Managed == nil {
			merged.Managed = map[string]schema.Schema{}
		}
		maps.Copy(merged.Managed, found.Managed)
	}
	all := maps.Clone(schemas.All())
	all[p] = &merged
	return values.NewSchemas(all), diags
}

// exists reads a stored object in doubt and reports whether it still exists. Like Import it acquires no permits.
func (s *Session) exists(ctx context.Context, at addr.Instance, pi addr.ProviderInstance, o *state.Object) (
	bool, diag.List) {
	_, wp, place, diags := s.providerOf(ctx, at, pi)
	if diags.HasErrors() {
		return false, diags
	}
	place.Region = regionOf(o.Attrs)
	pools, more := s.poolsFor(ctx, place, at.Config())
	if diags = diags.Append(more); diags.HasErrors() {
		return false, diags
	}
	task := &wire.PlanTask{Type: at.Resource.Type, Prior: values.StoredForWire(o), Refresh: true, SkipPlan: true}
	res, more := s.call(ctx, pools, &wire.Task{Address: at.String(), Provider: wp, Plan: task})
	diags = diags.Append(more.WithAddress(at.String()))
	if !diags.HasErrors() && res.Plan == nil {
		diags = diags.Append(diag.New(diag.Error, "Failed to read the object", "The worker's answer holds nothing.",
			nil))
	}
	return !diags.HasErrors() && res.Plan.Prior != nil, diags
}
