package planning

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/renewal"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// prepareData reads a data source, or defers the reading to the apply if it cannot be done yet.
func (p *Planner) prepareData(node int, o *object) program.Step {
	if p.Mode == plan.Destroy && o.resource.Code.Config.Check != "" {
		// Its check is evaluated only by an ordinary plan, which finds out whether the check has errors.
		return program.Step{Value: &found{unevaluable: p.refreshesToDestroy()}}
	}
	if p.Mode == plan.Destroy && !p.refreshesToDestroy() { // if nothing exists, nothing needs it
		p.keepStored(o.resource, o.addr)
		return program.Step{}
	}
	diags := p.setUp(o)
	if diags.HasErrors() {
		return program.Step{Diags: diags, Value: &found{checks: o.work.Checks}}
	}
	w := o.work
	w.prior = p.Prior.Object(o.addr, state.CurrentObject)
	reason := plan.NoReason
	switch {
	case !w.Config.IsWhollyKnown():
		reason = plan.ReadBecauseConfigUnknown
	case p.dependencyPending(node, o):
		reason = plan.ReadBecauseDependencyPending
	}
	switch {
	case reason != plan.NoReason && p.Mode == plan.Destroy:
		// The provider to read it with does not exist, and nothing will create it, so the reading cannot be
		// deferred either.
		if w.prior == nil {
			return p.skipData(o, diags)
		}
		p.keepStored(o.resource, o.addr)
		return program.Step{Diags: diags, Value: &found{checks: w.Checks}}
	case reason != plan.NoReason && p.Mode == plan.RefreshOnly:
		return p.skipData(o, diags)
	case reason != plan.NoReason:
		return p.deferData(o, reason, diags)
	}
	config, err := w.EncodeConfig()
	if err != nil {
		return instance.Broken("encoding the configuration of "+o.addr.String(), err)
	}
	return program.Step{
		Diags: diags, Lane: program.Fast, Place: &w.Place,
		Task: &wire.Task{Address: o.addr.String(), Provider: w.Wire,
			Read: &wire.ReadDataTask{Type: o.addr.Resource.Type, Config: config, Meta: w.Meta}},
	}
}

// dependencyPending reports whether a pending change may affect the object, so that reading or opening it now could
// be too early: a change of a managed resource in depends_on, or of one to which the block refers, even if the used
// values are known. As in OpenTofu, transitive dependencies of such a resource are ignored. For a module, an output
// or another value in depends_on, and for the depends_on of the enclosing module calls, all transitive dependencies
// count. The same holds for the depends_on of an output whose value the block uses, also through other values: with it
// the author of the module says that the value is of use only after the change. A block with conditions waits for all
// its dependencies, because any of them may affect the conditions.
func (p *Planner) dependencyPending(node int, o *object) bool {
	if p.Mode == plan.Destroy {
		return false
	}
	if p.behindDeferred(node) {
		return true
	}
	n := &p.Static.Nodes[node]
	if len(n.Resource.Preconditions)+len(n.Resource.Postconditions) > 0 {
		return p.anyPending(p.closure.Resources(node), o.addr.Module)
	}
	for _, d := range n.DependsOnResources {
		if p.willChange(p.Static.Nodes[d].ConfigResource(), o.addr.Module) {
			return true
		}
	}
	for _, d := range n.DependsOn {
		if p.anyPending(p.closure.Resources(d), o.addr.Module) {
			return true
		}
	}
	if p.orderedPending(node, o.addr.Module) {
		return true
	}
	for _, r := range o.resource.Code.References {
		var resource addr.Resource
		switch s := r.Subject.(type) {
		case addr.Resource:
			resource = s
		case addr.ResourceRef:
			resource = s.Resource
		}
		if p.willChange(resource.In(n.Module), o.addr.Module) {
			return true
		}
	}
	return false
}

// skipData omits a reading in a plan that changes nothing, and so cannot defer it.
func (p *Planner) skipData(o *object, diags diag.List) program.Step {
	o.resource.Set(o.addr.Key, cty.UnknownVal(o.work.Schema.Block.ImpliedType()))
	return program.Step{Diags: diags, Value: &found{checks: o.work.Checks}}
}

// deferData plans the reading for the apply: its result is unknown.
func (p *Planner) deferData(o *object, reason plan.Reason, diags diag.List) program.Step {
	w := o.work
	after := w.Unread()
	c := &plan.Change{
		Addr: o.addr, Previous: o.addr, Provider: w.Provider, Action: plan.Read, Reason: reason,
		Before: cty.NullVal(w.Schema.Block.ImpliedType()), After: after, SchemaVersion: w.Schema.Version,
	}
	o.resource.Set(o.addr.Key, after)
	checks, more := w.Postconditions(after)
	f := &found{change: c, checks: append(w.Checks, checks...)}
	return program.Step{Diags: diags.Append(more), Value: f, Notes: program.Notes{Action: string(plan.Read)}}
}

// completeData stores the result of a reading.
func (p *Planner) completeData(o *object, r *wire.Result) program.Step {
	w := o.work
	diags := values.WireDiags(r.Diagnostics, o.work.Range)
	nested := o.resource.Code.Config.Check != ""
	if d := p.put(o.addr, o.work.Instance, r.Deferred, diags); d != nil {
		d.Change = p.unanswered(o)
		o.resource.Set(o.addr.Key, d.Change.After)
		return program.Step{Diags: warningsOnly(diags), Value: &found{checks: w.Checks, deferred: []*plan.Deferred{d}},
			Notes: program.Notes{Quiet: true}}
	}
	if diags.HasErrors() && nested {
		return p.unreadable(o, diags)
	}
	if diags.HasErrors() {
		return program.Step{Diags: diags, Value: &found{unevaluable: p.Mode == plan.Destroy}}
	}
	v, err := w.Decode(r.Value)
	if err != nil {
		return instance.Broken("decoding "+o.addr.String(), err)
	}
	v = w.Marked(v)
	o.resource.Set(o.addr.Key, v)
	checks, more := w.Postconditions(v)
	if p.Mode != plan.Destroy || more.HasErrors() { // conditions of destroyed objects are ignored
		diags = diags.Append(more)
	}
	obj := &state.Object{Status: state.Ready, SchemaVersion: w.Schema.Version}
	if obj.Attrs, obj.Sensitive, err = values.EncodeStoredData(v, w.Schema.Block, w.Sensitive); err != nil {
		return instance.Broken("storing "+o.addr.String(), err)
	}
	f := &found{checks: append(w.Checks, checks...)}
	if nested && p.Mode != plan.RefreshOnly {
		f.change = p.readAgain(o, v)
	} else {
		f.state = append(f.state, state.SetObject{Addr: o.addr, Provider: w.Provider, Object: obj})
	}
	return program.Step{Diags: diags, Value: f, Notes: instance.Notes(string(plan.Read), v)}
}

// readAgain reads the data of a check again during the apply, so that its assertions see the changes.
func (p *Planner) readAgain(o *object, v cty.Value) *plan.Change {
	w := o.work
	return &plan.Change{
		Addr: o.addr, Previous: o.addr, Provider: w.Provider, Action: plan.Read, Reason: plan.ReadBecauseCheckNested,
		Before: cty.NullVal(w.Schema.Block.ImpliedType()), After: v, SchemaVersion: w.Schema.Version,
	}
}

// unreadable returns the step for data of a check that cannot be read: because a check only observes, this is a
// warning, the check fails, and the value is unknown.
func (p *Planner) unreadable(o *object, diags diag.List) program.Step {
	w := o.work
	v := w.Unread()
	o.resource.Set(o.addr.Key, v)
	f := &found{checks: append(w.Checks, instance.Unreadable(o.resource, diags))}
	if p.Mode != plan.RefreshOnly {
		f.change = p.readAgain(o, v)
	}
	return program.Step{Diags: values.Observe(o.resource.Code.Config, o.addr.Module, diags), Value: f,
		Notes: program.Notes{Quiet: true}}
}

// prepareEphemeral opens an ephemeral object. If its configuration is unknown, or a dependency will change, it is
// not opened and its value is unknown. A destroy plan opens nothing.
func (p *Planner) prepareEphemeral(node int, o *object) program.Step {
	if p.Mode == plan.Destroy && !p.refreshesToDestroy() {
		return program.Step{}
	}
	diags := p.setUp(o)
	if p.Mode == plan.Destroy {
		return program.Step{Value: &found{unevaluable: diags.HasErrors()}}
	}
	if diags.HasErrors() {
		return program.Step{Diags: diags, Value: &found{checks: o.work.Checks}}
	}
	w := o.work
	if !w.Config.IsWhollyKnown() || p.dependencyPending(node, o) {
		o.resource.Set(o.addr.Key, values.EphemeralValue(values.UnknownComputed(w.Config, w.Schema.Block),
			w.Schema.Block, w.Sensitive))
		return program.Step{Diags: diags, Value: &found{checks: w.Checks}}
	}
	config, err := w.EncodeConfig()
	if err != nil {
		return instance.Broken("encoding the configuration of "+o.addr.String(), err)
	}
	return program.Step{
		Diags: diags, Lane: program.Fast, Place: &w.Place,
		Task: &wire.Task{Address: o.addr.String(), Provider: w.Wire, Ephemeral: &wire.EphemeralTask{Op: "open",
			Type: o.addr.Resource.Type, Config: config}},
	}
}

// completeEphemeral provides the opened value to its users.
func (p *Planner) completeEphemeral(o *object, r *wire.Result) program.Step {
	w := o.work
	diags := values.WireDiags(r.Diagnostics, o.work.Range)
	if d := p.put(o.addr, o.work.Instance, r.Deferred, diags); d != nil {
		o.resource.Set(o.addr.Key, values.EphemeralValue(values.UnknownComputed(w.Config, w.Schema.Block),
			w.Schema.Block, w.Sensitive))
		return program.Step{Diags: warningsOnly(diags), Value: &found{checks: w.Checks, deferred: []*plan.Deferred{d}},
			Notes: program.Notes{Quiet: true}}
	}
	if diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	if r.Ephemeral == nil {
		return instance.Broken("opening "+o.addr.String(), errNoAnswer)
	}
	v, err := w.Decode(r.Ephemeral.Object)
	if err != nil {
		return instance.Broken("decoding "+o.addr.String(), err)
	}
	w.private, w.opened = r.Ephemeral.Private, true
	p.Renewals.Add(renewal.Open{
		Address: o.addr.String(), Type: o.addr.Resource.Type, Provider: w.Wire, Pool: r.Pool,
		Private: w.private, RenewAt: r.Ephemeral.RenewAt,
	})
	v = values.EphemeralValue(v, w.Schema.Block, w.Sensitive)
	o.resource.Set(o.addr.Key, v)
	checks, more := w.Postconditions(v)
	return program.Step{
		Diags: diags.Append(more),
		Value: &found{checks: append(w.Checks, checks...), opened: o},
	}
}

// nextToClose returns and removes the next opened object of a resource that must still be closed, or nil.
func (p *Planner) nextToClose(r addr.ConfigResource) *object {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.open[r]
	if len(list) == 0 {
		delete(p.closing, r)
		return nil
	}
	p.open[r], p.closing[r] = list[1:], list[0]
	return list[0]
}

// renewing returns the problems of renewing the object that is being closed.
func (p *Planner) renewing(n *graph.Node) diag.List {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.closing[addr.ConfigResource{Module: n.Module, Resource: n.Resource.Addr}]; o != nil {
		return o.work.renewing
	}
	return nil
}

// closeTask returns the task that closes an opened object, which is not renewed any more.
func (p *Planner) closeTask(o *object) *wire.Task {
	// Problems of renewing it are reported after it is closed: earlier they would prevent that.
	private, renewing := p.Renewals.Release(o.addr.String(), o.work.private)
	o.work.renewing = renewing
	return &wire.Task{Address: o.addr.String(), Provider: o.work.Wire, Ephemeral: &wire.EphemeralTask{
		Op: "close", Type: o.addr.Resource.Type, Private: private,
	}}
}
