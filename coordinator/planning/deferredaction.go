package planning

import (
	"fmt"
	"slices"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// An action takes place in the round of the change that triggers it. So an action that has to wait defers the change
// with everything that the change triggers, and what depends on the object.

// postponed returns the last step of an invocation that cannot be planned yet.
func postponed(v *invocation, d *plan.Deferred, problems diag.List) program.Step {
	if v.Trigger == nil {
		return program.Step{Diags: warningsOnly(problems).Append(diag.New(diag.Error, "Action cannot be invoked yet",
			fmt.Sprintf("The option -invoke names %s, which has to wait for something that does not exist or is not known "+
				"yet (%s). Apply without -invoke first.", v.Addr, d.Reason), v.action.Code.Config.Range.Ptr()))}
	}
	d.Addr = v.Trigger.Resource
	return program.Step{Diags: warningsOnly(problems), Notes: program.Notes{Quiet: true},
		Value: &found{invocation: &v.Invocation, held: d}}
}

// hold moves the changes that trigger an action which has to wait from a plan to what it defers, and reports whether
// there were any. left are the static vertices that the plan leaves out.
func (d *deferral) hold(out *plan.Plan, left []bool) bool {
	current := map[addr.Instance]*plan.Change{}
	for _, c := range out.Changes {
		if c.Deposed == state.CurrentObject {
			current[c.Addr] = c
		}
	}
	gone := map[*plan.Change]bool{}
	for _, inv := range out.Invocations {
		t := inv.Trigger
		if t == nil {
			continue
		}
		c := current[t.Resource]
		if c == nil {
			continue // it is deferred already
		}
		x := d.held[t.Resource]
		if x == nil && d.actionWaits(inv, left) {
			x = &plan.Deferred{Addr: t.Resource, Reason: plan.DeferPrerequisite}
		}
		if x == nil {
			continue
		}
		x.Change, x.On = c, []string{inv.Addr.Config().String()}
		gone[c] = true
		delete(current, t.Resource)
		d.list = append(d.list, x)
		if done, ok := d.static.Find(graph.ResourceDone, t.Resource.Config().Module, t.Resource.Resource); ok {
			d.itself[done] = true
		}
	}
	out.Changes = slices.DeleteFunc(out.Changes, func(c *plan.Change) bool { return gone[c] })
	return len(gone) > 0
}

// actionWaits reports whether what an action, or the condition on which it is invoked, refers to is left out.
func (d *deferral) actionWaits(inv *plan.Invocation, left []bool) bool {
	if v, ok := d.static.ResourceVertex(inv.Addr.Config()); ok && left[v] {
		return true
	}
	if !inv.Trigger.Conditional {
		return false
	}
	r := inv.Trigger.Resource.Config()
	trigger, ok := d.static.Find(graph.TriggerNode, r.Module, r.Resource)
	if !ok {
		return false
	}
	own, _ := d.static.Find(graph.ResourceDone, r.Module, r.Resource)
	return slices.ContainsFunc(d.before[trigger], func(b int) bool { return b != own && left[b] })
}

// invokedHere returns the invocations that belong to a plan with deferral: those without a trigger, and those whose
// change is not deferred.
func invokedHere(out *plan.Plan) []*plan.Invocation {
	made := map[addr.Instance]bool{}
	for _, c := range out.Changes {
		if c.Deposed == state.CurrentObject {
			made[c.Addr] = true
		}
	}
	return slices.DeleteFunc(out.Invocations, func(i *plan.Invocation) bool {
		return i.Trigger != nil && !made[i.Trigger.Resource]
	})
}
