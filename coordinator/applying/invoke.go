package applying

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// An invocation of an action is an operation of a vertex of its own. It leaves nothing in the state, except if its
// outcome is unknown: then the state says so, as a deposed object of the action, until somebody has resolved it.

// invocation returns the invocation of a vertex, or nil.
func (a *Applier) invocation(vx plan.Vertex) *plan.Invocation {
	if vx.Kind != plan.InvokeAction {
		return nil
	}
	return a.Plan.Invocations[vx.Invocation()]
}

// invoke evaluates an action, and returns the task that invokes it.
func (a *Applier) invoke(v int, inv *plan.Invocation) program.Step {
	trigger, caller, diags := a.trigger(inv)
	if diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	if t := inv.Trigger; t != nil && t.Conditional {
		switch holds, known, diags := a.Store.Module(t.Resource.Module).TriggerCondition(trigger, a.triggering(t)); {
		case diags.HasErrors():
			return program.Step{Diags: diags}
		case !known:
			return program.Step{Diags: diag.Errors("Action trigger condition is not known", "The condition depends on a "+
				"value that is still not known when its turn has come.", trigger.Condition.Range().Ptr())}
		case !holds:
			return program.Step{Notes: program.Notes{None: true}}
		}
	}
	r := a.block(inv.Addr)
	if r == nil {
		return program.Step{Diags: diag.Errors("Action block is missing", fmt.Sprintf("The plan invokes %s, whose block is "+
			"not in the configuration that the plan was made with.", inv.Addr), nil)}
	}
	ev, more := instance.Evaluator{Store: a.Store, Package: a.Package}.Block(r, inv.Addr.Key,
		instance.Options{Self: caller})
	if diags = diags.Append(unshown(more)); diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	if !ev.Bare.IsWhollyKnown() {
		return program.Step{Diags: diag.Errors("Configuration of an action is not known", fmt.Sprintf("The config block of "+
			"%s depends on a value that is still not known when its turn has come: %s.", inv.Addr, when(inv)),
			r.Code.Config.ConfigRange.Ptr())}
	}
	data, err := ev.EncodeConfig()
	if err != nil {
		return instance.Broken("encoding the configuration of "+inv.Addr.String(), err)
	}
	a.work[v].then = func(res *wire.Result) program.Step {
		return a.invoked(inv, trigger, values.WireDiags(res.Diagnostics, ev.Range))
	}
	return program.Step{
		Diags: diags, Lane: program.Safe, Place: &ev.Place,
		Task: &wire.Task{Address: inv.Addr.String(), Provider: ev.Wire, Action: &wire.ActionTask{
			Type: inv.Addr.Resource.Type, Config: data, Invoke: true, Sensitive: len(ev.Sensitive) > 0}},
	}
}

// when says when an invocation takes place.
func when(inv *plan.Invocation) string {
	switch {
	case inv.Trigger == nil:
		return "it is invoked by the option -invoke, and refers to something that this apply does not make"
	case inv.Trigger.Before():
		return fmt.Sprintf("it is invoked before the change of %s", inv.Trigger.Resource)
	}
	return fmt.Sprintf("it is invoked after the change of %s", inv.Trigger.Resource)
}

// trigger returns the action_trigger block of an invocation, and the object that triggers it: as planned before its
// change, as it is after it, and as it was if it is destroyed. Both are zero for the option -invoke.
func (a *Applier) trigger(inv *plan.Invocation) (*config.ActionTrigger, cty.Value, diag.List) {
	t := inv.Trigger
	if t == nil {
		return nil, cty.NilVal, nil
	}
	r := a.block(t.Resource)
	if r == nil || t.Block >= len(r.Code.Config.Triggers) {
		return nil, cty.NilVal, diag.Errors("Action trigger is missing", fmt.Sprintf("In the plan, %s triggers %s, but not "+
			"in the configuration that the plan was made with.", t.Resource, inv.Addr), nil)
	}
	block := r.Code.Config.Triggers[t.Block]
	c := a.changed()[t.Resource]
	if c == nil {
		return nil, cty.NilVal, diag.Errors("Plan and configuration differ", fmt.Sprintf("The plan has no change of %s, "+
			"which triggers %s.", t.Resource, inv.Addr), nil)
	}
	switch {
	case t.Ends():
		return block, c.Before, nil
	case t.Before():
		return block, c.After, nil
	}
	now, ok := r.Instance(t.Resource.Key)
	if !ok {
		now = c.After
	}
	return block, now, nil
}

// triggering returns the repetition of the object that triggers an action.
func (a *Applier) triggering(t *plan.Trigger) eval.Repetition {
	r := a.block(t.Resource)
	if e, diags := r.Expansion(); !diags.HasErrors() && e.Has(t.Resource.Key) {
		return e.Repetition(t.Resource.Key)
	}
	return values.RepetitionOf(t.Resource.Key)
}

// invoked is the end of an invocation. Its trigger says what a failure means.
func (a *Applier) invoked(inv *plan.Invocation, trigger *config.ActionTrigger, diags diag.List) program.Step {
	step := program.Step{Diags: diags, Notes: program.Notes{Action: "invoke"}}
	if !diags.HasErrors() {
		step.Value = &effect{counts: Counts{Invoked: 1}}
		return step
	}
	if trigger == nil {
		return step
	}
	switch trigger.OnFailure {
	case config.Continue:
		step.Diags = asWarnings(diags)
	case config.Taint:
		at := inv.Trigger.Resource
		if o := a.object(at, state.CurrentObject); o != nil && o.Status == state.Ready {
			tainted := *o
			tainted.Status = state.Tainted
			step.Changes = []state.Change{state.SetObject{Addr: at, Provider: a.providerOf(at), Object: &tainted}}
		}
	}
	return step
}

// asWarnings returns a list with errors as warnings.
func asWarnings(l diag.List) diag.List {
	out := make(diag.List, len(l))
	for i, d := range l {
		warning := *d
		warning.Severity = diag.Warning
		out[i] = &warning
	}
	return out
}

// invocationKey returns the key under which the state has the doubt about an invocation.
func (a *Applier) invocationKey(inv *plan.Invocation) state.DeposedKey {
	text := a.Run + "\x00" + inv.Addr.String()
	if t := inv.Trigger; t != nil {
		text += fmt.Sprintf("\x00%s\x00%s\x00%d\x00%d", t.Resource, t.Event, t.Block, t.Index)
	}
	sum := sha256.Sum256([]byte(text))
	return state.DeposedKey(hex.EncodeToString(sum[:4]))
}

// NoteProgress keeps the progress of an action, for the case that nobody reports how it has ended. It may be called
// from any goroutine.
func (a *Applier) NoteProgress(e wire.Event) {
	if e.Kind == "progress" {
		a.progress.Store(string(e.Attempt), e.Text)
	}
}

// doubtInvocation returns the change that marks an invocation as in doubt.
func (a *Applier) doubtInvocation(inv *plan.Invocation, d state.Doubt) []state.Change {
	d.Operation = "invoke"
	if last, ok := a.progress.Load(d.Attempt); ok && !strings.Contains(d.Reason, "last progress was: ") {
		d.Reason = fmt.Sprintf("%s. Its last progress was: %s", strings.TrimSuffix(d.Reason, "."), last)
	}
	if s := a.Code.Schemas.Resource(inv.Provider.Provider, addr.Action, inv.Addr.Resource.Type); s != nil {
		d.Sent = values.SentJSON(inv.Config, s.Block)
	}
	return a.applyChange(state.SetObject{Addr: inv.Addr, Deposed: a.invocationKey(inv), Provider: inv.Provider,
		Object: &state.Object{Status: state.InDoubt, Doubt: &d}})
}

// resolveInvocation returns the change that removes the mark of doubtInvocation; none if there is no mark.
func (a *Applier) resolveInvocation(inv *plan.Invocation) []state.Change {
	key := a.invocationKey(inv)
	if a.object(inv.Addr, key) == nil {
		return nil
	}
	return a.applyChange(state.SetObject{Addr: inv.Addr, Deposed: key})
}

func (a *Applier) applyChange(c state.Change) []state.Change {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Apply(c)
	return []state.Change{c}
}
