package bulk

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// refused has the calls that nothing in the schema leads to, and those that have nothing to do.
type refused struct{}

// ConfigureProvider has nothing to configure.
func (refused) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (
	*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

// GetFunctions returns none.
func (refused) GetFunctions(context.Context, *tfprotov6.GetFunctionsRequest) (
	*tfprotov6.GetFunctionsResponse, error) {
	return &tfprotov6.GetFunctionsResponse{}, nil
}

// ValidateProviderConfig accepts the empty configuration.
func (refused) ValidateProviderConfig(_ context.Context, req *tfprotov6.ValidateProviderConfigRequest) (
	*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: req.Config}, nil
}

// MoveResourceState is refused.
func (refused) MoveResourceState(context.Context, *tfprotov6.MoveResourceStateRequest) (
	*tfprotov6.MoveResourceStateResponse, error) {
	return nil, errors.New("no objects of other types become objects of this one")
}

// GenerateResourceConfig is refused.
func (refused) GenerateResourceConfig(context.Context, *tfprotov6.GenerateResourceConfigRequest) (
	*tfprotov6.GenerateResourceConfigResponse, error) {
	return nil, errors.New("no configuration is generated")
}

// ValidateDataResourceConfig is refused.
func (refused) ValidateDataResourceConfig(context.Context, *tfprotov6.ValidateDataResourceConfigRequest) (
	*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return nil, errors.New("there are no data sources")
}

// ReadDataSource is refused.
func (refused) ReadDataSource(context.Context, *tfprotov6.ReadDataSourceRequest) (
	*tfprotov6.ReadDataSourceResponse, error) {
	return nil, errors.New("there are no data sources")
}

// CallFunction is refused.
func (refused) CallFunction(context.Context, *tfprotov6.CallFunctionRequest) (
	*tfprotov6.CallFunctionResponse, error) {
	return nil, errors.New("there are no functions")
}

// ValidateEphemeralResourceConfig is refused.
func (refused) ValidateEphemeralResourceConfig(context.Context, *tfprotov6.ValidateEphemeralResourceConfigRequest) (
	*tfprotov6.ValidateEphemeralResourceConfigResponse, error) {
	return nil, errors.New("there are no ephemeral resources")
}

// OpenEphemeralResource is refused.
func (refused) OpenEphemeralResource(context.Context, *tfprotov6.OpenEphemeralResourceRequest) (
	*tfprotov6.OpenEphemeralResourceResponse, error) {
	return nil, errors.New("there are no ephemeral resources")
}

// RenewEphemeralResource is refused.
func (refused) RenewEphemeralResource(context.Context, *tfprotov6.RenewEphemeralResourceRequest) (
	*tfprotov6.RenewEphemeralResourceResponse, error) {
	return nil, errors.New("there are no ephemeral resources")
}

// CloseEphemeralResource is refused.
func (refused) CloseEphemeralResource(context.Context, *tfprotov6.CloseEphemeralResourceRequest) (
	*tfprotov6.CloseEphemeralResourceResponse, error) {
	return nil, errors.New("there are no ephemeral resources")
}
