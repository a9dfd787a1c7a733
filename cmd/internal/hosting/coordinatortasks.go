package hosting

import (
	"context"

	"github.com/google/uuid"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/builtin"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/change"
)

// Own returns a function that answers the tasks that only the coordinator's process can answer; for other tasks the
// function returns nil. The state that terraform_remote_state reads may be on the coordinator's machine, and the
// credentials for it belong to its user. read and check serve that data source. Schemas and functions of the built-in
// provider are no worker's business either. If a test mocks the provider, any worker can answer.
func Own(read builtin.StateReader, check builtin.ConfigCheck) func(ctx context.Context, t *wire.Task) *wire.Result {
	p := builtin.New(builtin.Options{ReadState: read, CheckConfig: check, NewID: uuid.NewString})
	return func(ctx context.Context, t *wire.Task) *wire.Result {
		if t.Read == nil && t.Validate == nil && t.Schema == nil && t.Function == nil || t.Provider.Mock != nil ||
			t.Provider.Package.Source != addr.BuiltinTerraform.String() {
			return nil
		}
		schemas, diags := p.Schemas(ctx)
		if diags.HasErrors() {
			return &wire.Result{Diagnostics: wire.DiagsToWire(diags)}
		}
		return change.Do(provider.WithAddress(ctx, t.Address), change.Host{
			Provider: p, Schemas: schemas, Name: t.Provider.Address, Source: t.Provider.Package.Source,
			Address: t.Address,
		}, t)
	}
}
