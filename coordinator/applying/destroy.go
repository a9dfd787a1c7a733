package applying

import (
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// destroy removes an object: by its provider, or by forgetting it.
func (a *Applier) destroy(v int, c *plan.Change) program.Step { return a.end(v, c, true) }

// destroyOnly is destroy after the destroy-time provisioners.
func (a *Applier) destroyOnly(v int, c *plan.Change) program.Step { return a.end(v, c, false) }

func (a *Applier) end(v int, c *plan.Change, provision bool) program.Step {
	key := c.Deposed
	if c.Action == plan.CreateThenDelete {
		key = a.deposedKey(c.Addr)
	}
	// in a resumed run it may be in doubt: then the request is not sent again
	prior := a.object(c.Addr, key).BeforeDoubt()
	if prior == nil {
		return program.Step{} // the replacement found nothing to depose, or a resumed run has done it
	}
	gone := state.SetObject{Addr: c.Addr, Deposed: key}
	if c.Action == plan.Forget || c.Action == plan.ForgetThenCreate {
		return program.Step{Changes: []state.Change{gone}, Value: &effect{counts: Counts{Forgotten: 1}}}
	}
	s := a.Code.Schemas.Resource(c.Provider.Provider, addr.Managed, c.Addr.Resource.Type)
	if s == nil {
		return program.Step{Diags: diag.Errors("Missing resource schema from provider",
			fmt.Sprintf("The provider %s has no resource type %q.", c.Provider.Provider.Display(),
				c.Addr.Resource.Type), nil)}
	}
	ev, diags := instance.Evaluator{Store: a.Store, Package: a.Package}.Stored(c.Addr, c.Provider, s, c.Before)
	if diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	task := &wire.ApplyTask{Type: c.Addr.Resource.Type, Action: plan.Delete, PriorPrivate: c.PriorPrivate,
		Meta: ev.Meta}
	if c.PlannedPrivate != nil && c.Action == plan.Delete {
		task.PlannedPrivate = c.PlannedPrivate
	}
	var err error
	if task.Prior, err = instance.Encode(c.Before, s); err != nil {
		return instance.Broken("encoding "+c.Addr.String(), err)
	}
	if task.PriorIdentity, err = encodeIdentity(c.BeforeIdentity); err != nil {
		return instance.Broken("encoding the identity of "+c.Addr.String(), err)
	}
	end := program.Step{
		Lane: lane(c.Provider.Provider), Place: &ev.Place,
		Task: &wire.Task{Address: c.Addr.String(), Provider: ev.Wire, Apply: task},
	}
	destroyed := func(res *wire.Result) program.Step { return a.destroyed(c, gone, s, prior, res) }
	if provision && c.Action != plan.CreateThenDelete && c.Deposed == state.CurrentObject &&
		prior.Status != state.Tainted {
		if step, has := a.provisionDestroyed(v, c, &ev.Place, func() program.Step {
			a.work[v].then = destroyed
			return end
		}); has {
			return step
		}
	}
	a.work[v].then = destroyed
	return end
}

// destroyed adds the result of a deletion to the state. An object that still exists stays there, as the provider
// left it.
func (a *Applier) destroyed(c *plan.Change, gone state.SetObject, s *schema.Schema, prior *state.Object,
	res *wire.Result) program.Step {
	diags := values.WireDiags(res.Diagnostics, nil)
	step := program.Step{Diags: diags}
	if res.Apply == nil {
		if !diags.HasErrors() {
			return unstorable(c, s, prior.Sensitive, res, diags, errNoAnswer)
		}
		return step
	}
	left, err := instance.Decode(res.Apply.Object, s)
	if err != nil {
		return unstorable(c, s, prior.Sensitive, res, diags, err)
	}
	if left.IsNull() {
		step.Changes = []state.Change{gone}
		if !diags.HasErrors() {
			step.Value = &effect{counts: Counts{Destroyed: 1}}
		}
		return step
	}
	kept := *prior
	kept.CreateBeforeDestroy = false // as in OpenTofu: the next plan computes it again
	kept.Flatmap, kept.SchemaVersion, kept.Private = nil, s.Version, res.Apply.Private
	if kept.Attrs, kept.Sensitive, err = values.EncodeStored(values.MarkSensitive(left, s.Block, prior.Sensitive),
		s.Block); err != nil {
		return unstorable(c, s, prior.Sensitive, res, diags, err)
	}
	gone.Provider, gone.Object = c.Provider, &kept
	step.Changes = []state.Change{gone}
	return step
}
