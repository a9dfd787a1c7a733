package estate

import (
	"context"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// Inspection is a read-only view of configuration and state.
type Inspection struct {
	Config *Configuration
	Prior  *state.State
	Engine *Engine
}

// InspectOptions are the options of an inspection.
type InspectOptions struct {
	Variables Variables
	State     StateOptions
	// Saved is a plan whose configuration and state are used instead of the current ones; nil for none.
	Saved *planfile.Saved
	// Queries loads the query files, too. Then each variable needs a value.
	Queries bool
	// Observer is informed of the runs of the inspection, which change nothing; nil for none.
	Observer    coordinator.Observer
	Parallelism placement.Parallelism
	// Sources is called with the texts of files before the first diagnostic.
	Sources func(func() map[string]*hcl.File)
}

// Inspect opens what an inspection needs, calls fn, and closes everything. Variables without a value are unknown;
// the user is not asked for them.
func (e *Estate) Inspect(ctx context.Context, o InspectOptions, fn func(*Inspection) diag.List) diag.List {
	c, diags := e.Configuration(o.Variables)
	c.Queries = o.Queries
	if o.Saved != nil {
		c.Loader = config.NewLoader(savedFiles(o.Saved.Config))
	}
	o.Sources(c.Sources)
	if diags.HasErrors() {
		return diags
	}
	if o.Queries && !c.HasQueries() {
		return diags.Append(diag.New(diag.Error, "No query files", "A query needs list blocks, and this directory has no "+
			"file with a name that ends in .tfquery.hcl, .tofuquery.hcl, .tfquery.json or .tofuquery.json.", nil))
	}
	if diags = diags.Append(c.loadFor(o.Saved)); diags.HasErrors() {
		return diags
	}
	i := &Inspection{Config: c}
	if o.Saved != nil {
		i.Prior = o.Saved.Plan.Prior
		return i.open(ctx, e, o, diags, fn)
	}
	st, more := e.OpenState(ctx, c.Tree.Root, o.State, "")
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	i.Prior, more = st.Load(ctx)
	if diags = diags.Append(more); !diags.HasErrors() {
		e.succeeded(c.Tree, i.Prior)
		diags = i.open(ctx, e, o, diags, fn)
	}
	return diags.Append(st.Close(ctx))
}

// open opens the engine for fn.
func (i *Inspection) open(ctx context.Context, e *Estate, o InspectOptions, diags diag.List,
	fn func(*Inspection) diag.List) diag.List {
	given, observer := i.Config.GivenInputs, o.Observer
	if o.Queries {
		given = i.Config.Inputs
	}
	if observer == nil {
		observer = coordinator.Silent{}
	}
	inputs, more := given()
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	engine, more := e.OpenEngine(ctx, EngineOptions{
		Tree: i.Config.Tree, Loader: i.Config.Loader, Inputs: inputs, Prior: i.Prior, Observer: observer,
		Parallelism: o.Parallelism,
	})
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	i.Engine = engine
	return diags.Append(fn(i), engine.Close())
}
