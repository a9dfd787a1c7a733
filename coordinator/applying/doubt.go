package applying

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// Doubt returns the changes of the state that mark the object of a vertex as in doubt.
func (a *Applier) Doubt(v int, d state.Doubt) []state.Change {
	vx := a.Plan.Graph.Vertices[v]
	if inv := a.invocation(vx); inv != nil {
		return a.doubtInvocation(inv, d)
	}
	if vx.Change < 0 {
		return nil
	}
	changes := a.ResolveDoubt(v) // it may have been in doubt before
	c := a.Plan.Changes[vx.Change]
	a.mu.Lock()
	defer a.mu.Unlock()
	deposed := a.deposedKey(c.Addr)
	key := a.keyOf(vx, c)
	old := a.state.Object(c.Addr, key)
	d.Operation = a.operationOf(vx, c, old)
	if s := a.Code.Schemas.Resource(c.Provider.Provider, addr.Managed, c.Addr.Resource.Type); s != nil {
		d.Sent = values.SentJSON(c.After, s.Block)
	}
	o := state.Object{Status: state.InDoubt, Doubt: &d}
	switch {
	case d.Operation == "create" && c.Action == plan.CreateThenDelete && old != nil:
		changes = append(changes, state.SetObject{Addr: c.Addr, Deposed: deposed, Provider: a.state.ProviderOf(c.Addr),
			Object: old})
		o.Dependencies, o.CreateBeforeDestroy = a.dependencies(c.Addr), a.recordsFirst(c)
	case old != nil:
		o = *old
		d.Before = old.Status
		o.Status, o.Doubt = state.InDoubt, &d
	default: // the object of the resolution must be destroyed later
		o.Dependencies, o.CreateBeforeDestroy = a.dependencies(c.Addr), a.recordsFirst(c)
	}
	changes = append(changes, state.SetObject{Addr: c.Addr, Deposed: key, Provider: c.Provider, Object: &o})
	a.state.Apply(changes...)
	return changes
}

// unstorable returns the step for a result that the state cannot store although the operation had an effect: the object
// is in doubt, with the attributes that are known.
func unstorable(c *plan.Change, s *schema.Schema, secrets []cty.Path, res *wire.Result, diags diag.List,
	err error) program.Step {
	d := &program.Unstorable{Reason: "the answer cannot be kept: " + err.Error()}
	if r := res.Apply; r != nil {
		known := s.Block.Known(coding.Readable(r.Object, false, s.Block.ImpliedType()), secrets)
		d.Answer = &wire.Answer{Known: known, Private: r.Private, Raw: r.Object[:min(len(r.Object), wire.MaxRaw)]}
	}
	return program.Step{Doubt: d, Diags: diags.Append(diag.New(diag.Error, "Failed to store the result of the "+
		"operation",
		fmt.Sprintf("The provider's answer about %s cannot be stored: %s.", c.Addr, err), nil))}
}

// operationOf returns the operation in doubt. An object that was created, and whose provisioners were running, is
// known: it can be read.
func (a *Applier) operationOf(vx plan.Vertex, c *plan.Change, old *state.Object) string {
	switch {
	case vx.Kind == plan.DestroyObject:
		return "delete"
	case c.Action == plan.Update:
		return "update"
	case old != nil && (c.Action != plan.CreateThenDelete || a.state.Object(c.Addr, a.deposedKey(c.Addr)) != nil):
		return "provision"
	}
	return "create"
}

// keyOf returns the key of the object that a vertex changes.
func (a *Applier) keyOf(vx plan.Vertex, c *plan.Change) state.DeposedKey {
	if vx.Kind == plan.DestroyObject && c.Action == plan.CreateThenDelete {
		return a.deposedKey(c.Addr)
	}
	return c.Deposed
}

// ResolveDoubt returns the changes that reverse those of Doubt, because the outcome is known now: the object is again
// as it was before the operation. There are none if nothing was in doubt.
func (a *Applier) ResolveDoubt(v int) []state.Change {
	vx := a.Plan.Graph.Vertices[v]
	if inv := a.invocation(vx); inv != nil {
		return a.resolveInvocation(inv)
	}
	if vx.Change < 0 {
		return nil
	}
	c := a.Plan.Changes[vx.Change]
	a.mu.Lock()
	defer a.mu.Unlock()
	key := a.keyOf(vx, c)
	o := a.state.Object(c.Addr, key)
	if o == nil || o.Status != state.InDoubt {
		return nil
	}
	back := state.SetObject{Addr: c.Addr, Deposed: key, Provider: a.state.ProviderOf(c.Addr), Object: o.BeforeDoubt()}
	changes := []state.Change{back}
	if o.Doubt != nil && o.Doubt.Operation == "create" {
		back.Object = nil
		changes[0] = back
		deposed := a.deposedKey(c.Addr)
		if old := a.state.Object(c.Addr, deposed); c.Action == plan.CreateThenDelete && old != nil {
			back.Object = old
			changes = []state.Change{back, state.SetObject{Addr: c.Addr, Deposed: deposed, Provider: back.Provider}}
		}
	}
	a.state.Apply(changes...)
	return changes
}
