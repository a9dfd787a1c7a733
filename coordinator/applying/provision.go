package applying

import (
	"context"

	"github.com/hashicorp/hcl/v2"
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

// Provisioners are a second operation of the vertex that created the object, or the first of the one that destroys it.
// A new object is tainted until they are done, and stays so if one fails.

func createProvisioners(c *config.Resource) []*config.Provisioner { return provisionersOf(c, false) }

func provisionersOf(c *config.Resource, destroy bool) []*config.Provisioner {
	var out []*config.Provisioner
	for _, p := range c.Provisioners {
		if p.Destroy == destroy {
			out = append(out, p)
		}
	}
	return out
}

// provisionCreated returns the task for the provisioners of a new object, for the given worker, if it is known.
func (a *Applier) provisionCreated(v int, c *plan.Change, r *values.Resource, ev *instance.Instance,
	object *state.Object, value cty.Value, worker string, step program.Step) program.Step {
	tainted := *object
	tainted.Status = state.Tainted
	step.Changes = append(step.Changes, state.SetObject{Addr: c.Addr, Provider: ev.Provider, Object: &tainted})
	list := createProvisioners(ev.Resource.Code.Config)
	r.Set(c.Addr.Key, value) // the provisioners may refer to the object by its address, instead of self
	task, diags := a.provisionTask(r.Module(), ev.Resource.Code.Config.Connection, list, ev.Rep, value)
	step.Diags = step.Diags.Append(diags)
	if step.Diags.HasErrors() {
		return step
	}
	if lane(ev.Provider.Provider) == program.Fast {
		worker = "" // the built-in provider uses neither a worker's disk nor a slot
	}
	step.Task = &wire.Task{Address: c.Addr.String(), Provision: task, Worker: worker}
	step.Lane, step.Place = program.Safe, &ev.Place
	a.work[v].then = func(res *wire.Result) program.Step {
		after := program.Step{Diags: provisionDiags(res, list)}
		if after.Diags.HasErrors() {
			return after // the object stays tainted
		}
		return a.made(c, r, ev, object, value, false, after)
	}
	return step
}

// provisionDestroyed returns the task for the destroy-time provisioners of an object; has is false if its block has
// none. then is the step after them.
func (a *Applier) provisionDestroyed(v int, c *plan.Change, place *program.Placement, then func() program.Step) (
	step program.Step, has bool) {
	m := a.Store.Module(c.Addr.Module)
	if m == nil {
		m = a.Store.Gone(c.Addr.Module)
	}
	var list []*config.Provisioner
	var connection hcl.Body
	if r := declared(m, c.Addr.Resource); r != nil {
		list, connection = provisionersOf(r, true), r.Connection
	} else if b := a.Removed(c.Addr); b != nil {
		m, list, connection = a.Store.Root(), b.Provisioners, b.Connection
	}
	if len(list) == 0 {
		return step, false
	}
	task, diags := a.provisionTask(m, connection, list, values.RepetitionOf(c.Addr.Key), c.Before)
	if diags.HasErrors() {
		return program.Step{Diags: diags}, true
	}
	a.work[v].then = func(res *wire.Result) program.Step {
		diags := provisionDiags(res, list)
		if diags.HasErrors() {
			return program.Step{Diags: diags}
		}
		next := then()
		next.Diags = diags.Append(next.Diags)
		return next
	}
	return program.Step{
		Lane: program.Safe, Place: place, Diags: diags,
		Task: &wire.Task{Address: c.Addr.String(), Provision: task, More: true},
	}, true
}

// declared returns the block of a resource in a module instance, which may be nil or gone; nil if there is none.
func declared(m *values.Module, r addr.Resource) *config.Resource {
	if m == nil {
		return nil
	}
	return m.Node.Module.Resources[r]
}

// provisionDiags returns the diagnostics of provisioners. A worker identifies the provisioner by an index.
func provisionDiags(res *wire.Result, list []*config.Provisioner) diag.List {
	diags := values.WireDiags(res.Diagnostics, func(path cty.Path) *hcl.Range {
		for i, p := range list {
			if path.Equals(cty.IndexIntPath(i)) {
				return p.Range.Ptr()
			}
		}
		return nil
	})
	for _, d := range diags {
		d.Path = nil
	}
	return diags
}

// provisionTask evaluates provisioner blocks: self is the object.
func (a *Applier) provisionTask(m *values.Module, connection hcl.Body, list []*config.Provisioner, rep eval.Repetition,
	self cty.Value) (*wire.ProvisionTask, diag.List) {
	task := &wire.ProvisionTask{Dir: a.Dir}
	var diags diag.List
	for _, p := range list {
		wp, more := m.EvalProvisioner(p, connection, rep, self)
		diags = diags.Append(more)
		if !more.HasErrors() {
			diags = diags.Append(a.attach(&wp))
		}
		wp.Sensitive = wp.Sensitive && !a.Reveal
		task.Provisioners = append(task.Provisioners, wp)
	}
	return task, diags
}

// PrepareAfter continues a vertex of a resumed run after its first operation. Either the object was created, and its
// provisioners still have to run, if possible on the worker that created it; or the destroy-time provisioners have run,
// and the object still has to be destroyed.
func (a *Applier) PrepareAfter(ctx context.Context, v, phase int, worker string) program.Step {
	vx := a.Plan.Graph.Vertices[v]
	c := a.Plan.Changes[vx.Change]
	if vx.Kind == plan.DestroyObject {
		return a.destroyOnly(v, c)
	}
	r := a.block(c.Addr)
	object := a.object(c.Addr, state.CurrentObject).BeforeDoubt()
	if r == nil || object == nil {
		return program.Step{}
	}
	ev, diags := a.evaluate(r, c.Addr.Key)
	if diags.HasErrors() {
		return unmet(ev, diags)
	}
	value, err := values.DecodeStored(object, ev.Schema)
	if err != nil {
		return instance.Broken("decoding "+c.Addr.String(), err)
	}
	whole := *object
	whole.Status = state.Ready
	return a.provisionCreated(v, c, r, ev, &whole, value, worker, program.Step{})
}

// Anyway reports that ephemeral objects are closed even if their users have failed.
func (a *Applier) Anyway(v int) bool { return a.Plan.Graph.Vertices[v].Kind == plan.CloseObject }
