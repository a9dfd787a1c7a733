package main

import (
	"context"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// inspection is what a command works with that looks at configuration and state together and changes neither.
type inspection struct {
	wd     *workdir
	prior  *state.State
	engine *engine
}

type inspectOptions struct {
	vars  variableFlags
	state stateFlags
	// saved is a plan whose configuration and state are looked at, instead of those that are here; nil for none.
	saved *planfile.Saved
}

// inspect opens what an inspection needs, calls fn, and closes everything. It returns the problems that are not shown
// yet. Variables without a value are unknown, and nobody is asked for them.
func (a *app) inspect(ctx context.Context, s *screen, o inspectOptions, fn func(*inspection) diag.List) diag.List {
	wd, diags := a.newWorkdir(o.vars)
	if o.saved != nil {
		wd.loader = config.NewLoader(savedFiles(o.saved.Config))
	}
	s.from(wd.loader.Sources)
	if diags.HasErrors() {
		return diags
	}
	if diags = diags.Append(wd.loadFor(o.saved)); diags.HasErrors() {
		return diags
	}
	i := &inspection{wd: wd}
	if o.saved != nil {
		i.prior = o.saved.Plan.Prior
		return diags.Append(i.open(ctx, a, nil, fn))
	}
	st, more := a.openState(ctx, wd.tree.Root, o.state, "")
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	i.prior, more = st.load(ctx)
	if diags = diags.Append(more); !diags.HasErrors() {
		a.succeeded(wd.tree, i.prior)
		diags = i.open(ctx, a, diags, fn)
	}
	return diags.Append(st.close(ctx))
}

// open opens the engine for fn.
func (i *inspection) open(ctx context.Context, a *app, diags diag.List, fn func(*inspection) diag.List) diag.List {
	inputs, more := i.wd.givenInputs()
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	e, more := a.openEngine(ctx, engineOptions{
		tree: i.wd.tree, loader: i.wd.loader, inputs: inputs, prior: i.prior, observer: coordinator.Silent{},
	})
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	i.engine = e
	return diags.Append(fn(i), e.close())
}
