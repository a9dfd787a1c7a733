package planning

import (
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

var errNoAnswer = errors.New("the worker's answer holds nothing")

// prepareOrphan refreshes an object that is to be removed, and plans its removal: objects that are not in the
// configuration, deposed objects, and everything in a destroy plan.
func (p *Planner) prepareOrphan(o *object) program.Step {
	w := o.work
	w.prior = p.Prior.Object(o.addr, o.deposed)
	if w.prior == nil {
		return program.Step{}
	}
	if o.addr.Resource.Mode != addr.Managed {
		// Data is silently removed from the state.
		f := &found{state: []state.Change{state.SetObject{Addr: o.addr, Deposed: o.deposed}}}
		return program.Step{Value: f}
	}
	prior, mustRead, diags := known(o.addr, w.prior)
	if diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	w.prior = prior
	if mustRead {
		p.endsDoubts.Store(true)
	}
	served := p.Prior.ProviderOf(o.addr)
	schema := p.Code.Schemas.Resource(served.Provider, addr.Managed, o.addr.Resource.Type)
	if schema == nil {
		return program.Step{Diags: diag.Errors("Missing resource schema from provider",
			fmt.Sprintf("The provider %s has no resource type %q (any more), so %s cannot be destroyed with it. Use "+
				"a version of the provider that has it, or remove the object from the state.",
				served.Provider.Display(), o.addr.Resource.Type, o.addr), nil)}
	}
	if diags := p.providerPresent(o.addr, served); diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	stored, err := values.DecodeStored(w.prior, schema)
	if err != nil {
		stored = cty.NilVal // it must be upgraded first
	}
	var more diag.List
	w.Instance, more = p.evaluator().Stored(o.addr, served, schema, stored)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	w.Identity = p.Code.Schemas.Identity(served.Provider, o.addr.Resource.Type)
	return program.Step{
		Diags: diags, Lane: program.Fast, Place: &w.Place,
		Task: &wire.Task{Address: o.addr.String(), Provider: w.Wire, Plan: &wire.PlanTask{
			Type: o.addr.Resource.Type, Prior: values.StoredForWire(w.prior),
			Refresh: !p.SkipRefresh || mustRead, SkipPlan: p.Mode == plan.RefreshOnly || p.forgets(o), Destroy: true,
			Meta: w.Meta,
		}},
	}
}

// MissingProviders reports objects without a block whose provider has no configuration either. Such a plan is not
// started, as in OpenTofu; if only a part is planned, objects outside of it are ignored.
func (p *Planner) MissingProviders() (diags diag.List) {
	if !p.Scope.Whole() {
		return nil
	}
	for _, a := range p.Prior.Addrs() {
		node := p.Code.Tree.Modules[a.Module.Module()]
		if a.Resource.Mode != addr.Managed || node != nil && node.Module.Resources[a.Resource] != nil {
			continue
		}
		if served := p.Prior.ProviderOf(a); !p.Store.HasProvider(served.Config()) {
			diags = diags.Append(p.providerPresent(a, served))
		}
	}
	return diags
}

// providerPresent rejects objects whose provider configuration has been removed from the configuration.
func (p *Planner) providerPresent(a addr.Instance, served addr.ProviderInstance) diag.List {
	pc := served.Config()
	switch {
	case p.Store.HasProvider(pc) && p.Store.HasInstance(served):
		return nil
	case p.Store.HasProvider(pc):
		return diag.Errors("Provider instance not present",
			fmt.Sprintf("The object %s belongs to the provider configuration %s, whose for_each has changed so that "+
				"this instance of it is gone. Bring it back until %s is destroyed; after that it can be removed. "+
				"Where a resource and its provider configuration repeat by one collection, take the element out of "+
				"the resource's for_each first.", a, served, a), nil)
	}
	return diag.Errors("Provider configuration not present",
		fmt.Sprintf("The object %s belongs to the provider configuration %s, which is not in the configuration any "+
			"more. Put it back until %s is destroyed; after that it can be removed.", a, pc, a), nil)
}

// completeOrphan converts the worker's result into a deletion, or into no change if the object no longer exists.
func (p *Planner) completeOrphan(o *object, r *wire.Result) program.Step {
	w := o.work
	a, diags := p.planned(o, r)
	if d := p.put(o.addr, o.work.Instance, r.Deferred, diags); d != nil && p.Mode == plan.Normal {
		return p.deferred(o, d, a, diags)
	}
	if diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	f := &found{drift: p.driftOf(o, a), state: []state.Change{p.refreshedObject(o, a)}}
	if o.resource != nil && o.deposed == state.CurrentObject && p.Mode == plan.Destroy {
		value := a.before
		if value.IsNull() { // something else has destroyed it: see assumeUnknown
			value = cty.UnknownVal(w.Schema.Block.ImpliedType())
		}
		o.resource.Set(o.addr.Key, value)
		f.unevaluable = p.refreshesToDestroy() && o.configured() && !p.evaluates(o, value)
	}
	if o.resource != nil && o.deposed == state.CurrentObject && p.Mode == plan.RefreshOnly && !a.before.IsNull() {
		o.resource.SetBeyond(o.addr.Key, a.before)
	}
	if a.before.IsNull() && o.deposed != state.CurrentObject && p.Mode == plan.Normal {
		// Nothing to do; the plan shows this for objects that were to be deleted.
		f.change = p.newChange(o, a)
		f.change.After, f.change.AfterIdentity, f.change.Action = f.change.Before, cty.NilVal, plan.NoOp
	}
	if p.Mode == plan.RefreshOnly || a.before.IsNull() {
		return program.Step{Diags: diags, Value: f, Notes: instance.Notes("refresh", a.before)}
	}
	c := p.newChange(o, a)
	c.After = cty.NullVal(w.Schema.Block.ImpliedType())
	c.AfterIdentity = cty.NilVal
	c.Action = plan.Delete
	if p.forgets(o) {
		c.Action = plan.Forget
	}
	if o.orphan != destroyRequested {
		c.Reason = o.orphan
	}
	told := p.forgetting(o, c)
	c.CreateBeforeDestroy = w.prior.CreateBeforeDestroy || p.createsFirst(o)
	f.change = c
	if refused := p.allowed(o, c); p.Mode == plan.Destroy {
		f.refusal = refused
	} else if diags = diags.Append(refused); diags.HasErrors() {
		return program.Step{Diags: diags, Value: f}
	}
	return program.Step{Diags: diags.Append(told), Value: f, Notes: instance.Notes(string(c.Action), a.before)}
}

// evaluates reports whether the block of an object that is about to be destroyed, and its conditions, can be evaluated.
func (p *Planner) evaluates(o *object, self cty.Value) bool {
	in, diags := p.evaluator().Block(o.resource, o.addr.Key, instance.Options{})
	if diags.HasErrors() {
		return false
	}
	_, diags = in.Postconditions(self)
	return !diags.HasErrors()
}

// forgetting adds the reason to the change of an orphan that is forgotten, and warns that the object continues to
// exist, except in a destroy plan, which shows everything that it forgets.
func (p *Planner) forgetting(o *object, c *plan.Change) diag.List {
	if c.Action != plan.Forget {
		return nil
	}
	removed := p.removed(o)
	var why string
	var at *hcl.Range
	switch {
	case removed != nil:
		why, at = "its removed block says so", removed.Range.Ptr()
	case p.skipsDestroy(o):
		c.Reason = plan.ForgotBecauseLifecycle
		why, at = "its block says lifecycle.destroy = false", p.block(o).Range.Ptr()
	default:
		c.Reason = plan.ForgotBecauseRemembered
		why = "its configuration said lifecycle.destroy = false when it was made, and does not provide for it any more"
	}
	if p.Mode == plan.Destroy {
		return nil
	}
	return diag.List{diag.New(diag.Warning, "Resource will be removed from the state",
		fmt.Sprintf("The object %s will not be managed any more, and it is not destroyed: %s.", o.addr, why), at)}
}
