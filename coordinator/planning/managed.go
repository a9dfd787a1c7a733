package planning

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// prepareManaged returns the task that refreshes and plans a managed object of the configuration.
func (p *Planner) prepareManaged(node int, o *object) program.Step {
	diags := p.setUp(o)
	if diags.HasErrors() {
		return program.Step{Diags: diags, Value: &found{checks: o.work.Checks}}
	}
	w := o.work
	prior, mustRead, more := known(o.addr, p.Prior.Object(o.addr, state.CurrentObject))
	diags = diags.Append(more)
	if diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	w.prior = prior
	if mustRead {
		p.endsDoubts.Store(true)
	}
	task := &wire.PlanTask{
		Type: o.addr.Resource.Type, Prior: values.StoredForWire(w.prior),
		Refresh: !p.SkipRefresh || mustRead, SkipPlan: p.Mode == plan.RefreshOnly,
		IgnoreAll: o.resource.Code.Config.IgnoreAll, Meta: w.Meta,
	}
	if w.prior == nil {
		task.Refresh = false
		if p.Mode == plan.RefreshOnly && o.imported == nil {
			p.leaveOut(o.resource, o.addr)
			checks, more := w.Postconditions(cty.UnknownVal(w.Schema.Block.ImpliedType()))
			return program.Step{Diags: diags.Append(more), Value: &found{checks: append(w.Checks, checks...)}}
		}
	}
	if previous, moved := p.Previous[o.addr]; moved && previous.Resource.Type != o.addr.Resource.Type {
		task.MovedFrom = &wire.MovedFrom{Type: previous.Resource.Type,
			Provider: p.Prior.ProviderOf(o.addr).Provider.String()}
	}
	if im := o.imported; im != nil && im.Range == nil && w.prior != nil {
		return program.Step{Diags: diags.Append(diag.New(diag.Error, "Resource already managed by OpenTofu",
			fmt.Sprintf("There is an object at %s already, so none can be imported there. To import over it, take it "+
				"out of the state first, with the state rm command.", o.addr), nil))}
	}
	if im := o.imported; im != nil && w.prior == nil {
		w.importing = &plan.Importing{ID: im.ID, Identity: im.Identity}
		task.Import = &wire.ImportTask{Type: o.addr.Resource.Type, ID: im.ID}
		if im.Identity != cty.NilVal && w.Identity != nil {
			b, err := coding.EncodeValue(im.Identity, w.Identity.Body.ImpliedType())
			if err != nil {
				return instance.Broken("encoding the identity of "+o.addr.String(), err)
			}
			task.Import.Identity = b
		}
		task.Refresh = true
	}
	var err error
	if task.Config, err = w.EncodeConfig(); err != nil {
		return instance.Broken("encoding the configuration of "+o.addr.String(), err)
	}
	if task.Sensitive, err = values.EncodePaths(w.Sensitive); err != nil {
		return instance.Broken("encoding "+o.addr.String(), err)
	}
	if task.IgnorePaths, err = values.EncodePaths(values.IgnorePaths(o.resource.Code.Config)); err != nil {
		return instance.Broken("encoding ignore_changes of "+o.addr.String(), err)
	}
	task.Replace, more = p.forcedReplace(o)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	if task.Refresh && !mustRead && w.prior != nil && p.usesStored(node, o) {
		task.IfChanged = true
		v := journal.Verdict(instance.Digest(&w.Wire, w.Schema, task))
		w.verdict = &v
		if p.Verdicts[o.addr.String()] == v {
			if f := p.keptAsStored(o); f != nil {
				return program.Step{Diags: diags, Value: f}
			}
			if a, ok := p.decided(o); ok {
				return p.settled(o, a, diags)
			}
		}
	}
	w.task = task
	return program.Step{
		Diags: diags, Lane: program.Fast, Place: &w.Place,
		Task: &wire.Task{Address: o.addr.String(), Provider: w.Wire, Plan: task},
	}
}

// leaveOut sets the value for expressions of an instance without an object that will not be created. During an
// import, a missing object may only not be imported yet.
func (p *Planner) leaveOut(r *values.Resource, a addr.Instance) {
	stored := p.Prior.Resources[a.Abs()]
	partly := stored != nil && len(stored.Instances) > 0
	for i := range p.Imports {
		partly = partly || i.Abs() == a.Abs()
	}
	switch {
	case len(p.Imports) == 0, partly:
		r.SetGone(a.Key)
	case a.Key == addr.NoKey:
		r.Set(a.Key, cty.UnknownVal(r.Code.Schema.Block.ImpliedType()))
	default:
		r.SetUnknown()
	}
}

// known returns a stored object in the form for planning. If an update or a deletion is in doubt, the object shows
// the outcome, so it must be read. A creation stays in doubt, because there is nothing to read.
func known(a addr.Instance, o *state.Object) (object *state.Object, mustRead bool, diags diag.List) {
	switch {
	case o == nil || o.Status != state.InDoubt:
		return o, false, nil
	case o.Doubt == nil || o.Doubt.Operation == string(plan.Create) || o.Attrs == nil && o.Flatmap == nil:
		return nil, false, diag.List{inDoubt(a, o)}
	}
	warning := diag.New(diag.Warning, "Operation in doubt",
		fmt.Sprintf("Whether an earlier %s of %s took effect was not known. The object was read again, and the plan "+
			"uses it as it is now. Applying the plan records that.", o.Doubt.Operation, a), nil)
	warning.Address = a.String()
	return o.BeforeDoubt(), true, diag.List{warning}
}

// inDoubt returns the error that an operation with an unknown outcome prevents a plan.
func inDoubt(a addr.Instance, o *state.Object) *diag.Diagnostic {
	d := o.Doubt
	detail := fmt.Sprintf("The outcome of an earlier operation on %s is not known, so that planning it could create "+
		"it twice.", a)
	if d != nil {
		detail += fmt.Sprintf("\n\n  operation: %s\n  attempt:   %s\n  worker:    %s\n  started:   %s\n  reason:    %s",
			d.Operation, d.Attempt, d.Worker, d.Started.Format("2006-01-02T15:04:05Z07:00"), d.Reason)
		if len(d.Sent) > 0 {
			detail += "\n  sent:      " + string(d.Sent)
		}
		if d.Answer != nil && len(d.Answer.Known) > 0 {
			detail += "\n  answered:  " + string(d.Answer.Known)
		}
	}
	detail += fmt.Sprintf("\n\nLook whether the object exists, then say so with:\n  "+diag.Program()+
		" runs resolve '%s' -created ID\n  "+diag.Program()+" runs resolve '%s' -not-created", a, a)
	return diag.New(diag.Error, "Resource instance is in doubt", detail, nil)
}

// forcedReplace returns the reason if -replace or replace_triggered_by require a new object.
func (p *Planner) forcedReplace(o *object) (string, diag.List) {
	diags := p.halfMatched(o)
	forced := ""
	if slices.Contains(p.Replace, o.addr) {
		forced = "requested"
	}
	if p.Mode == plan.RefreshOnly {
		return forced, diags // nothing is planned, so there is no change that could trigger one
	}
	for _, e := range o.resource.Code.Config.TriggersReplace {
		hit, more := p.triggered(o, e)
		diags = diags.Append(more)
		if hit {
			forced, o.work.triggered = "triggers", true
		}
	}
	return forced, diags
}

// completeManaged turns the worker's result into a change.
func (p *Planner) completeManaged(o *object, r *wire.Result) program.Step {
	a, diags := p.planned(o, r)
	if d := p.put(o.addr, o.work.Instance, r.Deferred, diags); d != nil {
		return p.deferred(o, d, a, diags)
	}
	if diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	return p.settled(o, a, diags)
}

// settled returns the last step of a managed object: its change.
func (p *Planner) settled(o *object, a answer, diags diag.List) program.Step {
	w := o.work
	quiet := len(diags) == 0
	f := &found{checks: w.Checks}
	f.drift = p.driftOf(o, a)
	if w.prior != nil || w.importing != nil {
		f.state = append(f.state, p.refreshedObject(o, a))
	}
	if p.Mode == plan.RefreshOnly {
		if a.before.IsNull() {
			// It no longer exists and is not created again.
			o.resource.SetGone(o.addr.Key)
			return program.Step{Diags: diags, Value: f, Notes: instance.Notes("refresh", a.before)}
		}
		o.resource.Set(o.addr.Key, a.before)
		checks, more := w.Postconditions(a.before)
		f.checks = append(f.checks, checks...)
		return program.Step{Diags: diags.Append(more), Value: f, Notes: instance.Notes("refresh", a.before)}
	}
	c := p.changeOf(o, a)
	c.Provider = w.Provider
	if quiet && c.Action == a.Action && (c.Action == plan.Create || c.Action == plan.Update) {
		// Replacements have no digest: they are planned from the private data of a first plan, which an apply does not have.
		// Nor have plans with diagnostics, so that the provider repeats these during the apply.
		c.Inputs = w.Inputs(w.task)
	}
	w.task = nil
	f.change = c
	f.seen = p.seen(o, a, c, quiet)
	diags = diags.Append(p.allowed(o, c))
	if diags.HasErrors() {
		return program.Step{Diags: diags, Value: f}
	}
	o.resource.Set(o.addr.Key, c.After)
	checks, more := w.Postconditions(c.After)
	f.checks = append(f.checks, checks...)
	return program.Step{Diags: diags.Append(more), Value: f, Notes: instance.Notes(string(c.Action), a.before)}
}

// answer is a decoded PlanResult.
type answer struct {
	*wire.PlanResult
	// upgraded, before and after have marks. upgraded is the stored object, before the current one; same is set if
	// these two are equal apart from marks.
	upgraded, before, after cty.Value
	same                    bool
	// decided is set if the answer comes from a verdict, not from a worker.
	decided bool
	// plain is set if before and after have only the marks of the schema.
	plain          bool
	beforeIdentity cty.Value
	afterIdentity  cty.Value
	replacePaths   []cty.Path
}

// planned returns a worker's plan of an object, and the provider's diagnostics.
func (p *Planner) planned(o *object, r *wire.Result) (answer, diag.List) {
	diags := values.WireDiags(r.Diagnostics, o.work.Range)
	if diags.HasErrors() {
		return answer{}, diags
	}
	if r.Plan == nil {
		return answer{}, instance.Broken("planning "+o.addr.String(), errNoAnswer).Diags
	}
	a, err := p.answer(o, r.Plan)
	if err != nil {
		return answer{}, instance.Broken("decoding the plan of "+o.addr.String(), err).Diags
	}
	return a, diags
}

// answer decodes a worker's answer. Most objects are unchanged: equal bytes are then decoded, and stored in the
// plan, only once.
func (p *Planner) answer(o *object, r *wire.PlanResult) (a answer, err error) {
	w := o.work
	a.PlanResult = r
	if a.upgraded, err = w.Decode(r.Upgraded); err != nil {
		return a, err
	}
	if a.before, err = w.DecodeUnless(r.Prior, r.Upgraded, a.upgraded); err != nil {
		return a, err
	}
	if a.after, err = w.DecodeUnless(r.Planned, r.Prior, a.before); err != nil {
		return a, err
	}
	a.same = bytes.Equal(r.Prior, r.Upgraded) || a.upgraded.RawEquals(a.before)
	if a.beforeIdentity, err = w.DecodeIdentity(r.PriorIdentity); err != nil {
		return a, err
	}
	if a.afterIdentity, err = w.DecodeIdentity(r.PlannedIdentity); err != nil {
		return a, err
	}
	if a.replacePaths, err = values.DecodePaths(r.ReplacePaths); err != nil {
		return a, err
	}
	var stored []cty.Path
	if w.prior != nil {
		stored = w.prior.Sensitive
	}
	a.upgraded = values.MarkSensitive(a.upgraded, w.Schema.Block, stored)
	a.before = values.MarkSensitive(a.before, w.Schema.Block, stored)
	if w.importing != nil && !a.before.IsNull() {
		// An imported object has no recorded marks. With those of its block it is stored as an apply would store it, and
		// marks alone make no change.
		a.before = w.Marked(a.before)
	}
	a.after = w.Marked(a.after)
	a.plain = len(stored)+len(w.Sensitive) == 0
	return a, nil
}

// refreshedObject returns the change of the state found by refreshing: a new value, or that the object no longer
// exists.
func (p *Planner) refreshedObject(o *object, a answer) state.SetObject {
	w := o.work
	set := state.SetObject{Addr: o.addr, Deposed: o.deposed, Provider: w.Provider}
	if a.Prior == nil && !a.decided {
		return set
	}
	obj := state.Object{Status: state.Ready}
	if w.prior != nil {
		obj = *w.prior
		if o.resource != nil && o.orphan == plan.NoReason {
			obj.CreateBeforeDestroy, obj.SkipDestroy = p.createsFirst(o), p.skipsDestroy(o)
		}
	}
	if a.decided {
		set.Object = &obj // the stored value
		if obj.CreateBeforeDestroy == w.prior.CreateBeforeDestroy && obj.SkipDestroy == w.prior.SkipDestroy {
			set.Object = w.prior
		}
		return set
	}
	obj.Flatmap = nil
	obj.SchemaVersion = a.SchemaVersion
	obj.Private = a.PriorPrivate
	var err error
	if obj.Attrs, obj.Sensitive, err = values.EncodeStored(a.before, w.Schema.Block); err != nil {
		return set // a value decoded with this type can be encoded with it
	}
	if a.beforeIdentity != cty.NilVal {
		obj.Identity, obj.IdentityVersion = values.EncodeIdentity(a.beforeIdentity), a.IdentityVersion
	}
	set.Object = &obj
	if w.prior != nil && sameFound(&obj, w.prior) {
		set.Object = w.prior // so that the plan contains no second copy
	}
	return set
}

// sameFound reports whether two objects are equal in the parts that refreshing finds. Dependencies, which may be
// many, are ignored.
func sameFound(a, b *state.Object) bool {
	x, y := *a, *b
	x.Dependencies, y.Dependencies = nil, nil
	return x.Equal(&y)
}

// driftOf returns the drift of an object, or only its move; nil if there is none, and for a destroy plan: as in
// OpenTofu, that is based on the refreshed objects, and lists no drift.
func (p *Planner) driftOf(o *object, a answer) *plan.Change {
	if o.work.prior == nil || p.Mode == plan.Destroy {
		return nil // destroyed objects are shown as refreshed
	}
	action := plan.NoOp
	switch {
	case a.before.IsNull():
		action = plan.Delete
	case !a.same:
		action = plan.Update
	case p.Mode != plan.RefreshOnly:
		return nil
	}
	c := p.newChange(o, a)
	if action == plan.NoOp && !c.Moved() {
		return nil
	}
	c.Before, c.After = a.upgraded, a.before
	c.AfterIdentity = a.beforeIdentity
	c.ReplacePaths = nil // they belong to the change that follows from the drift
	c.Action = action
	return c
}

func (p *Planner) newChange(o *object, a answer) *plan.Change {
	previous, moved := p.Previous[o.addr]
	if !moved || o.deposed != state.CurrentObject || p.Mode == plan.Destroy && !p.SkipRefresh {
		previous = o.addr // a destroy plan that refreshes destroys objects at their refreshed addresses
	}
	c := &plan.Change{
		Addr: o.addr, Previous: previous, Deposed: o.deposed, Provider: o.work.Provider,
		Before: a.before, After: a.after, PriorPrivate: a.PriorPrivate, PlannedPrivate: a.PlannedPrivate,
		BeforeIdentity: a.beforeIdentity, AfterIdentity: a.afterIdentity,
		SchemaVersion: a.SchemaVersion, IdentityVersion: a.IdentityVersion,
		ReplacePaths: a.replacePaths, Legacy: a.Legacy, Importing: o.work.importing,
	}
	if o.work.prior != nil {
		c.Tainted = o.work.prior.Status == state.Tainted
	}
	return c
}

// changeOf determines the action. The worker's answer has the action that the provider needs; the lifecycle arguments
// of the configuration determine the order, and the objects that are not destroyed.
func (p *Planner) changeOf(o *object, a answer) *plan.Change {
	c := p.newChange(o, a)
	c.Action = a.Action
	c.CreateBeforeDestroy = p.createsFirst(o)
	switch a.Reason {
	case "tainted":
		c.Reason = plan.ReplaceBecauseTainted
	case "requested":
		c.Reason = plan.ReplaceByRequest
	case "triggers":
		c.Reason = plan.ReplaceByTriggers
	case "cannot_update":
		c.Reason = plan.ReplaceBecauseCannotUpdate
	}
	if o.work.triggered {
		c.Reason = plan.ReplaceByTriggers // in any case, as in OpenTofu
	}
	skip := p.skipsDestroy(o)
	c.SkipDestroy = skip
	switch {
	case c.Action == plan.DeleteThenCreate && skip:
		c.Action = plan.ForgetThenCreate
	case c.Action == plan.DeleteThenCreate && c.CreateBeforeDestroy:
		c.Action = plan.CreateThenDelete
	case c.Action == plan.NoOp && !a.plain && !values.SameMarks(a.before, a.after):
		c.Action = plan.Update
	}
	if c.Action == plan.NoOp {
		c.After = a.before // so that dependents see the stored value, with its marks
		if c.AfterIdentity == cty.NilVal || c.AfterIdentity.IsNull() {
			c.AfterIdentity = a.beforeIdentity
		}
	}
	return c
}

// halfMatched warns, at the first instance of a resource, about a -replace with the resource's address without a
// key.
func (p *Planner) halfMatched(o *object) diag.List {
	e, _ := o.resource.Expansion()
	if o.addr.Key == addr.NoKey || len(e.Keys) == 0 || e.Keys[0] != o.addr.Key {
		return nil
	}
	for _, a := range p.Replace {
		if a == o.addr.Abs().Instance(addr.NoKey) {
			return diag.List{diag.New(diag.Warning, "Incompletely-matched force-replace resource instance",
				fmt.Sprintf("The -replace option names %s, which is a resource with several instances, so nothing is "+
					"replaced because of it. Name one of them, such as %s.", a, o.addr), nil)}
		}
	}
	return nil
}
