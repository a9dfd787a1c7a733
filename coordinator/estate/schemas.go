package estate

import (
	"context"

	"github.com/google/uuid"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/builtin"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// Schemas returns the schemas that a configuration and a state use, for commands that show them. A state that
// Terraform has written is adopted in place first; without a tree, only where its own providers are not installed.
// tree and st may be nil. If only the built-in provider is used,
// no worker is needed.
func (e *Estate) Schemas(ctx context.Context, tree *config.Tree, loader *config.Loader, st *state.State) (
	*values.Schemas, diag.List) {
	if diags := e.adopted(tree, st); diags.HasErrors() {
		return nil, diags
	}
	if onlyBuiltin(tree, st) {
		schemas, diags := e.builtinSchemas(ctx)
		return values.NewSchemas(map[addr.Provider]*provider.Schemas{addr.BuiltinTerraform: schemas}), diags
	}
	engine, diags := e.OpenEngine(ctx, EngineOptions{Tree: tree, Loader: loader, Prior: st,
		Observer: coordinator.Silent{}})
	if diags.HasErrors() {
		return nil, diags
	}
	out, more := engine.Schemas(ctx, st)
	return out, diags.Append(more, engine.Close())
}

// AllSchemas returns all schemas of the required providers.
func (e *Estate) AllSchemas(ctx context.Context, tree *config.Tree, loader *config.Loader, st *state.State) (
	map[addr.Provider]*provider.Schemas, diag.List) {
	out := map[addr.Provider]*provider.Schemas{}
	e.succeeded(tree, st)
	if onlyBuiltin(tree, st) {
		schemas, diags := e.builtinSchemas(ctx)
		for p := range RequiredProviders(tree, st) {
			out[p] = schemas
		}
		return out, diags
	}
	engine, diags := e.OpenEngine(ctx, EngineOptions{Tree: tree, Loader: loader, Prior: st,
		Observer: coordinator.Silent{}})
	if diags.HasErrors() {
		return nil, diags
	}
	for p := range RequiredProviders(tree, st) {
		schemas, more := engine.ProviderSchemas(ctx, p, &wire.SchemaTask{All: true})
		diags = diags.Append(more)
		if schemas != nil {
			out[p] = schemas
		}
	}
	return out, diags.Append(engine.Close())
}

// RefreshSchemas makes this and later commands ask workers again for the schemas of the required providers, which the
// store of the state has. Nothing else is changed.
func (e *Estate) RefreshSchemas(ctx context.Context, tree *config.Tree, loader *config.Loader, st *state.State,
	o StateOptions) diag.List {
	opened, diags := e.OpenState(ctx, tree.Root, o, "providers schema")
	if diags.HasErrors() {
		return diags
	}
	engine, more := e.OpenEngine(ctx, EngineOptions{Tree: tree, Loader: loader, Prior: st, State: opened,
		Observer: coordinator.Silent{}})
	diags = diags.Append(more)
	if !more.HasErrors() {
		for p := range RequiredProviders(tree, st) {
			if err := engine.ForgetSchemas(ctx, p); err != nil {
				diags = diags.Append(diag.New(diag.Error, "Failed to forget a provider's schema", err.Error()+".", nil))
			}
		}
		diags = diags.Append(engine.Close())
	}
	return diags.Append(opened.Close(ctx))
}

func (e *Estate) builtinSchemas(ctx context.Context) (*provider.Schemas, diag.List) {
	return builtin.New(builtin.Options{ReadState: e.readRemoteState, CheckConfig: e.checkBackend,
		NewID: uuid.NewString}).Schemas(ctx)
}

// RequiredProviders returns the providers of a configuration and of a state; each may be nil.
func RequiredProviders(tree *config.Tree, st *state.State) map[addr.Provider]bool {
	out := map[addr.Provider]bool{}
	if tree != nil {
		for p := range tree.Requirements() {
			out[p] = true
		}
	}
	if st != nil {
		for _, r := range st.Resources {
			out[r.Provider.Provider] = true
		}
	}
	return out
}

func onlyBuiltin(tree *config.Tree, st *state.State) bool {
	for p := range RequiredProviders(tree, st) {
		if p != addr.BuiltinTerraform {
			return false
		}
	}
	return true
}
