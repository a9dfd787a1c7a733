package main

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
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// schemas returns the schemas that a configuration and a state use, for commands that show things. A state that Terraform
// has written is taken over in place first. tree and store may be nil. Where only the built-in provider is used, no worker is asked.
func (a *app) schemas(ctx context.Context, tree *config.Tree, loader *config.Loader, st *state.State, store journal.Store) (*values.Schemas, diag.List) {
	a.succeeded(tree, st)
	if onlyBuiltin(tree, st) {
		schemas, diags := a.builtinSchemas(ctx)
		return values.NewSchemas(map[addr.Provider]*provider.Schemas{addr.BuiltinTerraform: schemas}), diags
	}
	e, diags := a.openEngine(ctx, engineOptions{tree: tree, loader: loader, prior: st, store: store, observer: coordinator.Silent{}})
	if diags.HasErrors() {
		return nil, diags
	}
	out, more := e.Schemas(ctx, st)
	return out, diags.Append(more, e.close())
}

// allSchemas returns everything that the required providers declare.
func (a *app) allSchemas(ctx context.Context, tree *config.Tree, loader *config.Loader, st *state.State) (map[addr.Provider]*provider.Schemas, diag.List) {
	out := map[addr.Provider]*provider.Schemas{}
	a.succeeded(tree, st)
	if onlyBuiltin(tree, st) {
		schemas, diags := a.builtinSchemas(ctx)
		for p := range requiredProviders(tree, st) {
			out[p] = schemas
		}
		return out, diags
	}
	e, diags := a.openEngine(ctx, engineOptions{tree: tree, loader: loader, prior: st, observer: coordinator.Silent{}})
	if diags.HasErrors() {
		return nil, diags
	}
	for p := range requiredProviders(tree, st) {
		schemas, more := e.ProviderSchemas(ctx, p, &wire.SchemaTask{All: true})
		diags = diags.Append(more)
		if schemas != nil {
			out[p] = schemas
		}
	}
	return out, diags.Append(e.close())
}

func (a *app) builtinSchemas(ctx context.Context) (*provider.Schemas, diag.List) {
	return builtin.New(builtin.Options{ReadState: a.readRemoteState, CheckConfig: a.checkBackend, NewID: uuid.NewString}).Schemas(ctx)
}

// requiredProviders are those of a configuration and of a state; each may be nil.
func requiredProviders(tree *config.Tree, st *state.State) map[addr.Provider]bool {
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
	for p := range requiredProviders(tree, st) {
		if p != addr.BuiltinTerraform {
			return false
		}
	}
	return true
}
