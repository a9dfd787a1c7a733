package applying

import (
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
)

// Counts are the numbers of changes that were made.
type Counts struct{ Added, Changed, Destroyed, Imported, Forgotten, Invoked int }

// Plus returns the sum.
func (c Counts) Plus(o Counts) Counts {
	return Counts{c.Added + o.Added, c.Changed + o.Changed, c.Destroyed + o.Destroyed, c.Imported + o.Imported,
		c.Forgotten + o.Forgotten, c.Invoked + o.Invoked}
}

// CountDone counts the changes of a plan whose vertices are done. An update that turned out to change nothing counts,
// because a journal does not record that.
func CountDone(p *plan.Plan, done func(v int) bool) (n Counts) {
	for v, vx := range p.Graph.Vertices {
		if vx.Kind == plan.InvokeAction && done(v) {
			n.Invoked++
		}
		if vx.Change < 0 || !done(v) {
			continue
		}
		c := p.Changes[vx.Change]
		switch {
		case vx.Kind == plan.DestroyObject && (c.Action == plan.Forget || c.Action == plan.ForgetThenCreate):
			n.Forgotten++
		case vx.Kind == plan.DestroyObject:
			n.Destroyed++
		case vx.Kind != plan.ApplyObject:
		case c.Action == plan.Update:
			n.Changed++
		case c.Action != plan.NoOp:
			n.Added++
		}
		if vx.Kind == plan.ApplyObject && c.Importing != nil {
			n.Imported++
		}
	}
	return n
}

// Describe implements program.Program.
func (a *Applier) Describe(v int) program.Description {
	vx := a.Plan.Graph.Vertices[v]
	if inv := a.invocation(vx); inv != nil {
		return program.Description{Address: vx.Address, Class: inv.Addr.Resource.Type, Action: "invoke",
			Unsettled: inv.Trigger != nil && inv.Trigger.Conditional}
	}
	if vx.Change < 0 {
		return program.Description{Address: vx.Address, Hidden: true}
	}
	c := a.Plan.Changes[vx.Change]
	d := program.Description{
		Address: vx.Address, Class: c.Addr.Resource.Type, Hidden: a.Plan.Hidden(v),
		Called: func() (string, string) { return values.IDOf(c.Before) },
	}
	switch vx.Kind {
	case plan.DestroyObject:
		d.Action = "delete"
		if c.Action == plan.Forget || c.Action == plan.ForgetThenCreate {
			d.Action = "forget"
		}
		d.Deposed = string(c.Deposed)
		if c.Action == plan.CreateThenDelete {
			d.Deposed = string(a.deposedKey(c.Addr))
		}
	case plan.ReadObject:
		d.Action = "read"
	default:
		switch c.Action {
		case plan.NoOp:
		case plan.Update:
			d.Action, d.Unsettled = "update", !c.After.IsWhollyKnown()
		default:
			d.Action = "create"
		}
	}
	return d
}
