package planning

import (
	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// work is the data of an object's vertex between its steps.
type work struct {
	// The values of the block or, for an object without one, of the state.
	*instance.Instance
	prior *state.Object
	// verdict is the digest of the inputs of the object's plan; nil if verdicts are not used.
	verdict *journal.Verdict
	// task is the plan that a worker is asked for; nil once it has answered, and if none is asked.
	task *wire.PlanTask
	// triggered is set if replace_triggered_by requires a new object.
	triggered bool
	// importing is set if the object is imported.
	importing *plan.Importing
	// private is the private data for closing an ephemeral object; opened is set if it is open.
	private []byte
	opened  bool
	// renewing has the problems of renewing it.
	renewing diag.List
}

// prepareObject returns the first step of an object's vertex.
func (p *Planner) prepareObject(vx vertex) program.Step {
	o := vx.object
	o.work = &work{}
	if o.orphan != plan.NoReason {
		return p.prepareOrphan(o)
	}
	if p.Mode != plan.Destroy { // a destroy plan checks all blocks before it begins
		if diags := o.resource.Code.SelfReferences(o.addr.Config()); diags.HasErrors() {
			return program.Step{Diags: diags}
		}
	}
	switch {
	case o.addr.Resource.Mode == addr.Data:
		return p.prepareData(vx.node, o)
	case o.addr.Resource.Mode == addr.Ephemeral:
		return p.prepareEphemeral(vx.node, o)
	default:
		return p.prepareManaged(vx.node, o)
	}
}

// completeObject processes the result of the last step of an object's vertex.
func (p *Planner) completeObject(vx vertex, r *wire.Result) program.Step {
	o := vx.object
	switch {
	case o.orphan != plan.NoReason:
		return p.completeOrphan(o, r)
	case o.addr.Resource.Mode == addr.Data:
		return p.completeData(o, r)
	case o.addr.Resource.Mode == addr.Ephemeral:
		return p.completeEphemeral(o, r)
	default:
		return p.completeManaged(o, r)
	}
}

// setUp evaluates the block of an object.
func (p *Planner) setUp(o *object) diag.List {
	// The import command does not plan, and the block may not be complete yet. Neither does a plan that only refreshes:
	// as in OpenTofu, the arguments do not matter to it.
	lenient := (len(p.Imports) > 0 || p.Mode == plan.RefreshOnly) && o.addr.Resource.Mode == addr.Managed
	in, diags := p.evaluator().Block(o.resource, o.addr.Key, instance.Options{Lenient: lenient})
	o.work.Instance = in
	return diags
}

func (p *Planner) evaluator() instance.Evaluator {
	return instance.Evaluator{Store: p.Store, Package: p.Package}
}
