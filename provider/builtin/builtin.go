// Package builtin is the provider terraform.io/builtin/terraform, which runs in this process. It does not read
// states itself.
package builtin

import (
	"context"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
)

// StateReader returns the root outputs of the latest state in a workspace of a backend, without marks. A nil map
// without problems means that there is no state. config is a wholly known object; backend is the name of the
// backend in the configuration.
type StateReader func(ctx context.Context, backend string, config cty.Value, workspace string) (map[string]cty.Value,
	diag.List)

// ConfigCheck returns the problems with the configuration of a backend: an unknown backend, or an unsupported
// argument. The paths of the problems begin in the configuration. config is as for StateReader.
type ConfigCheck func(backend string, config cty.Value) diag.List

// Options are the dependencies of the provider.
type Options struct {
	// ReadState and CheckConfig are used by terraform_remote_state.
	ReadState   StateReader
	CheckConfig ConfigCheck
	// NewID returns a unique id for a terraform_data.
	NewID func() string
}

// New returns the provider. All options must be set.
func New(o Options) provider.Provider {
	if o.ReadState == nil || o.CheckConfig == nil || o.NewID == nil {
		panic("builtin: an option is missing")
	}
	return &builtin{options: o}
}

type builtin struct{ options Options }

// schemas is everything that the provider declares. It is shared and never changed.
var schemas = &provider.Schemas{
	Provider:  schema.Schema{Block: &schema.Block{Ephemeral: true}},
	Managed:   map[string]schema.Schema{dataType: {Block: dataBlock}},
	Data:      map[string]schema.Schema{remoteStateType: {Block: remoteStateBlock}},
	Functions: functionSignatures(),
}

// Schemas implements provider.Describer.
func (b *builtin) Schemas(context.Context) (*provider.Schemas, diag.List) { return schemas, nil }

// Metadata implements provider.Describer.
func (b *builtin) Metadata(context.Context) (provider.Metadata, diag.List) {
	return schemas.Metadata(), nil
}

// ValidateProviderConfig implements provider.Configurer. There is nothing to configure.
func (b *builtin) ValidateProviderConfig(_ context.Context, config cty.Value) (cty.Value, diag.List) {
	return config, nil
}

// Configure implements provider.Configurer.
func (b *builtin) Configure(context.Context, cty.Value, string) diag.List { return nil }

// ValidateEphemeralConfig implements provider.Ephemeral. There are no ephemeral resource types.
func (b *builtin) ValidateEphemeralConfig(_ context.Context, typeName string, _ cty.Value) diag.List {
	return unknownType("ephemeral resource", typeName)
}

// OpenEphemeral implements provider.Ephemeral.
func (b *builtin) OpenEphemeral(_ context.Context, typeName string, _ cty.Value) (provider.Opened, diag.List) {
	return provider.Opened{}, unknownType("ephemeral resource", typeName)
}

// RenewEphemeral implements provider.Ephemeral.
func (b *builtin) RenewEphemeral(_ context.Context, typeName string, _ []byte) (provider.Renewed, diag.List) {
	return provider.Renewed{}, unknownType("ephemeral resource", typeName)
}

// CloseEphemeral implements provider.Ephemeral.
func (b *builtin) CloseEphemeral(_ context.Context, typeName string, _ []byte) diag.List {
	return unknownType("ephemeral resource", typeName)
}

// ValidateListConfig implements provider.Lister. Nothing can be listed.
func (b *builtin) ValidateListConfig(_ context.Context, r provider.ListRequest) diag.List {
	return unknownType("list resource", r.TypeName)
}

// ListResource implements provider.Lister.
func (b *builtin) ListResource(_ context.Context, r provider.ListRequest, _ func(provider.Listed) error) diag.List {
	return unknownType("list resource", r.TypeName)
}

// ValidateActionConfig implements provider.Invoker. There are no actions.
func (b *builtin) ValidateActionConfig(_ context.Context, typeName string, _ cty.Value) diag.List {
	return unknownType("action", typeName)
}

// PlanAction implements provider.Invoker.
func (b *builtin) PlanAction(_ context.Context, typeName string, _ cty.Value) diag.List {
	return unknownType("action", typeName)
}

// InvokeAction implements provider.Invoker.
func (b *builtin) InvokeAction(_ context.Context, typeName string, _ cty.Value, _ func(string)) diag.List {
	return unknownType("action", typeName)
}

// GenerateConfig implements provider.Lister. The capability is not declared.
func (b *builtin) GenerateConfig(_ context.Context, typeName string, _ cty.Value) (cty.Value, diag.List) {
	return cty.NilVal, unknownType("resource", typeName)
}

// Stop implements provider.Stopper. Only reading a remote state takes time, and that ends with its context.
func (b *builtin) Stop(context.Context) error { return nil }

// Close implements provider.Provider.
func (b *builtin) Close() error { return nil }

func unknownType(kind, name string) diag.List {
	return diag.Errors(fmt.Sprintf("unknown %s %q", kind, name), "The built-in provider has nothing of this name.", nil)
}
