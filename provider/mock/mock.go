// Package mock answers for a provider that is not to be asked: tests put it before the real one.
//
// The real provider still says what it declares, checks configurations and calls its functions; it is neither
// configured nor asked about any object. What it would have computed is taken from given values, or made up by the type
// of each attribute. What is made up is the same each time, so that plans agree with each other.
package mock

import (
	"context"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/schema"
)

// New returns a provider that stands for real. schemas are what real declares; values are given for computed
// attributes and blocks, by their names.
func New(real provider.Provider, schemas *provider.Schemas, values map[string]cty.Value) provider.Provider {
	return &standIn{Provider: real, schemas: schemas, values: values}
}

type standIn struct {
	provider.Provider
	schemas *provider.Schemas
	values  map[string]cty.Value
}

// ValidateProviderConfig implements provider.Configurer: there is nothing to configure.
func (s *standIn) ValidateProviderConfig(_ context.Context, config cty.Value) (cty.Value, diag.List) {
	return config, nil
}

// Configure implements provider.Configurer.
func (s *standIn) Configure(context.Context, cty.Value, string) diag.List { return nil }

// ReadResource implements provider.Managed: an object is as it was.
func (s *standIn) ReadResource(_ context.Context, r provider.ReadRequest) (provider.ReadResponse, diag.List) {
	out := provider.ReadResponse{Object: r.Prior, Private: r.Private, Identity: r.Identity}
	if r.Prior.IsNull() {
		return out, diag.Errors(fmt.Sprintf("Unexpected null value for prior state in `%s`", r.TypeName),
			"An object of a provider that is mocked was to be read, and there is none.", nil)
	}
	return out, nil
}

// PlanResourceChange implements provider.Managed: everything that a provider would compute is known at once.
func (s *standIn) PlanResourceChange(_ context.Context, r provider.PlanRequest) (provider.PlanResponse, diag.List) {
	out := provider.PlanResponse{Planned: r.Proposed, Private: r.PriorPrivate, Identity: r.PriorIdentity}
	if r.Config.IsNull() {
		return out, nil
	}
	block := s.schemas.Managed[r.TypeName].Block
	var diags diag.List
	out.Planned, diags = newComposer(r.TypeName).block(block, withoutComputed(block, r.Config), s.values)
	return out, diags
}

// withoutComputed returns a configuration in which nothing is set that only a provider may set: ignore_changes puts
// such values there.
func withoutComputed(block *schema.Block, config cty.Value) cty.Value {
	out, err := cty.Transform(config, func(p cty.Path, v cty.Value) (cty.Value, error) {
		if a := block.AttributeAt(p); a != nil && a.Computed && !a.Optional {
			return cty.NullVal(v.Type()), nil
		}
		return v, nil
	})
	if err != nil {
		panic(err) // the function returns none
	}
	return out
}

// ApplyResourceChange implements provider.Managed: what was planned is what comes of it.
func (s *standIn) ApplyResourceChange(_ context.Context, r provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
	return provider.ApplyResponse{Object: r.Planned, Private: r.PlannedPrivate, Identity: r.PlannedIdentity}, nil
}

// ImportResourceState implements provider.Managed.
func (s *standIn) ImportResourceState(_ context.Context, r provider.ImportRequest) ([]provider.Imported, diag.List) {
	return nil, diag.Errors("Import is not supported in tests",
		fmt.Sprintf("The provider of %s is mocked, or the resource is overridden, so there is nothing that could be "+
			"imported.", r.TypeName), nil)
}

// MoveResourceState implements provider.Managed.
func (s *standIn) MoveResourceState(_ context.Context, r provider.MoveRequest) (provider.MoveResponse, diag.List) {
	return provider.MoveResponse{}, diag.Errors("Moving between resource types is not supported in tests",
		fmt.Sprintf("The provider of %s is mocked, or the resource is overridden, so an object of %s cannot become "+
			"one of it.", r.TargetType, r.SourceType), nil)
}

// ReadDataSource implements provider.DataSource.
func (s *standIn) ReadDataSource(_ context.Context, typeName string, config, _ cty.Value) (cty.Value, diag.List) {
	return newComposer(typeName).block(s.schemas.Data[typeName].Block, config, s.values)
}

// OpenEphemeral implements provider.Ephemeral.
func (s *standIn) OpenEphemeral(_ context.Context, typeName string, config cty.Value) (provider.Opened, diag.List) {
	object, diags := newComposer(typeName).block(s.schemas.Ephemeral[typeName].Block, config, s.values)
	return provider.Opened{Object: object}, diags
}

// RenewEphemeral implements provider.Ephemeral. What OpenEphemeral opens asks for no renewal.
func (s *standIn) RenewEphemeral(context.Context, string, []byte) (provider.Renewed, diag.List) {
	return provider.Renewed{}, nil
}

// CloseEphemeral implements provider.Ephemeral.
func (s *standIn) CloseEphemeral(context.Context, string, []byte) diag.List { return nil }
