// Package applying is the program that applies a plan: it evaluates each object's configuration with the values known
// at that time, has a worker apply the planned change, and adds the result to the state.
//
// It executes the plan's apply graph as it is. It does not choose the changes, nor their order.
package applying

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/renewal"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/reach"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/wire"
)

var (
	errNoAnswer = errors.New("the worker's answer holds nothing")
	errNoObject = errors.New("the answer holds no object, and no failure was reported")
)

// Options are the options of an Applier.
type Options struct {
	Plan   *plan.Plan
	Static *graph.Static
	Code   *values.Code
	Store  *values.Store
	// State is the stored state when the run begins, or is resumed; the applier keeps its own copy.
	State *state.State
	// Removed returns the removed block that has the provisioners of an instance without a block, or nil.
	Removed func(addr.Instance) *config.Removed
	// Run is the ID of the run. Deposed keys are derived from it, so that a resumed run derives the same ones.
	Run string
	// Dir is the working directory, absolute: provisioners run there. Env is the environment of the operation.
	Dir     string
	Files   *reach.Files // those that may be sent; nil is all of them
	Env     environ.Variables
	Package func(addr.Provider) wire.Package
	// Renewals renews open ephemeral objects; nil lets them expire.
	Renewals *renewal.Renewer
	// Own is the set of objects that the run has locked, if others change the state at the same time; nil if it has
	// the whole state.
	Own locks.Set
	// Reveal shows the output of provisioners whose configuration has sensitive values.
	Reveal bool
}

// Applier is the applying program.
type Applier struct {
	Options
	graph *dag.Graph
	// closure has the dependencies of the objects that the apply creates or updates, planned those of the objects that
	// stay as they are.
	closure, planned *graph.Closure
	// nodes are the static vertices of the plan's vertices, -1 for none. needed contains the static vertices whose
	// values the apply needs.
	nodes  []int
	needed []bool
	// first are the instances for which create_before_destroy is recorded when they are created or updated.
	first map[addr.Instance]bool
	// changed has the planned changes of current objects, by instance.
	changed func() map[addr.Instance]*plan.Change
	// unchanged has the instances that stay as they are, or are only imported.
	unchanged map[addr.Instance]bool

	mu     sync.RWMutex // guards the fields below
	state  *state.State
	counts Counts
	checks map[string]*state.CheckResult
	// rechecked are the objects whose rules were evaluated in this run.
	rechecked map[checkKey]bool
	// checkObjects are the indexes of the objects in the lists of checks.
	checkObjects map[checkKey]int
	opened       map[addr.ConfigResource][]opened
	work         []work // by vertex; each element belongs to its vertex's steps

	progress sync.Map // the last progress of actions, by attempt: texts
}

// checkKey identifies an object with rules: by its configuration, and by its own address.
type checkKey struct{ config, object string }

// work is the data of a vertex between its steps. Only the steps of the vertex use it, one at a time.
type work struct {
	then func(*wire.Result) program.Step
}

// New returns the program of an applying run.
func New(o Options) *Applier {
	a := &Applier{
		Options: o, closure: graph.NewRecordedClosure(o.Static), planned: graph.NewClosure(o.Static),
		needed: graph.Needed(o.Static, o.Plan), unchanged: map[addr.Instance]bool{},
		first: graph.RecordedFirst(o.Static, o.Plan), state: o.State.Clone(),
		checks: map[string]*state.CheckResult{}, rechecked: map[checkKey]bool{}, checkObjects: map[checkKey]int{},
	}
	a.changed = sync.OnceValue(func() map[addr.Instance]*plan.Change {
		all := make(map[addr.Instance]*plan.Change, len(o.Plan.Changes))
		for _, c := range o.Plan.Changes {
			if c.Deposed == state.CurrentObject {
				all[c.Addr] = c
			}
		}
		return all
	})
	if o.Static.Imports() { // otherwise both have the same dependencies
		for _, c := range o.Plan.Changes {
			if c.Action == plan.NoOp {
				a.unchanged[c.Addr] = true
			}
		}
	}
	a.graph = dag.New(len(o.Plan.Graph.Vertices))
	for _, e := range o.Plan.Graph.Edges {
		a.graph.Edge(int(e[0]), int(e[1]))
	}
	a.work = make([]work, len(o.Plan.Graph.Vertices))
	a.nodes = make([]int, len(o.Plan.Graph.Vertices))
	names := o.Static.ByName()
	for v, vx := range o.Plan.Graph.Vertices {
		a.nodes[v] = -1
		if i, ok := names[vx.Node]; ok {
			a.nodes[v] = i
		}
	}
	for i := range o.Plan.Checks {
		c := o.Plan.Checks[i]
		if stored := a.untouched(c.Config); stored != nil {
			c = *stored
			c.Objects = slices.Clone(c.Objects)
		} else if o.Plan.Mode != plan.RefreshOnly && (o.Plan.Mode != plan.Destroy || c.Kind != "input_variable") {
			// Results that the apply does not compute again are unknown. A destroy uses the variables that the plan has
			// validated, because they configure the providers.
			objects := make([]state.CheckObject, len(c.Objects))
			for i, o := range c.Objects {
				objects[i] = state.CheckObject{Address: o.Address, Status: state.CheckUnknown}
			}
			c.Objects = objects
		}
		a.checks[c.Config] = &c
		for i, o := range c.Objects {
			a.checkObjects[checkKey{c.Config, o.Address}] = i
		}
	}
	a.load()
	return a
}

// untouched returns the stored result of a check without the objects that this run checks again; nil for others.
func (a *Applier) untouched(config string) *state.CheckResult {
	if !slices.Contains(a.Plan.Untouched, config) {
		return nil
	}
	for i := range a.Options.State.Checks {
		if a.Options.State.Checks[i].Config == config {
			return &a.Options.State.Checks[i]
		}
	}
	return nil
}

// load provides the planned values, and the values of everything that does not change. In a destroy these are the
// values from before: a provider may be configured with an object that is destroyed, and needs its value until the
// provider's own objects are gone.
func (a *Applier) load() {
	for _, c := range a.Plan.Changes {
		if c.Deposed != state.CurrentObject {
			continue
		}
		switch {
		case c.Kept:
			if o := a.Plan.Prior.Object(c.Addr, state.CurrentObject); o != nil {
				a.Store.PresetStored(c.Addr, o)
			}
		case !c.After.IsNull():
			a.Store.Preset(c.Addr, c.After)
		case a.Plan.Mode == plan.Destroy:
			a.Store.Preset(c.Addr, c.Before)
		}
	}
	for abs, r := range a.Plan.Prior.Resources {
		if abs.Resource.Mode != addr.Data && a.Plan.Mode != plan.RefreshOnly {
			continue
		}
		for k, i := range r.Instances {
			schema := a.Code.Schemas.Resource(r.Provider.Provider, abs.Resource.Mode, abs.Resource.Type)
			if i.Current == nil || schema == nil || a.changed()[abs.Instance(k)] != nil {
				continue
			}
			if v, err := values.DecodeStored(i.Current, schema); err == nil {
				a.Store.Preset(abs.Instance(k), v)
			}
		}
	}
}

// Restore provides the results of a resumed run: for vertices that are done, the objects of the state replace the
// planned values.
func (a *Applier) Restore(done []bool) {
	for v, ok := range done {
		vx := a.Plan.Graph.Vertices[v]
		if !ok || vx.Change < 0 || a.Plan.Changes[vx.Change].Kept {
			continue
		}
		c := a.Plan.Changes[vx.Change]
		schema := a.Code.Schemas.Resource(c.Provider.Provider, c.Addr.Resource.Mode, c.Addr.Resource.Type)
		o := a.state.Object(c.Addr, state.CurrentObject)
		if o == nil || schema == nil {
			continue
		}
		if value, err := values.DecodeStored(o, schema); err == nil {
			a.Store.Preset(c.Addr, value)
		}
	}
}

// block returns the resource block of an instance, or nil if the configuration has none.
func (a *Applier) block(i addr.Instance) *values.Resource {
	m := a.Store.Module(i.Module)
	if m == nil {
		return nil
	}
	return m.ResourceBlock(i.Resource)
}

// State returns the current state. The caller must not modify it, nor call State while the run is in progress.
func (a *Applier) State() *state.State { return a.state }

// Counts returns the changes that were made so far.
func (a *Applier) Counts() Counts {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.counts
}

// Graph implements program.Program.
func (a *Applier) Graph() *dag.Graph { return a.graph }

// Prepare implements program.Program.
func (a *Applier) Prepare(ctx context.Context, v int) program.Step {
	vx := a.Plan.Graph.Vertices[v]
	return a.located(vx, a.prepare(v, vx))
}

// located gives the problems of a step the address of its object or action.
func (a *Applier) located(vx plan.Vertex, step program.Step) program.Step {
	if vx.Change >= 0 {
		step.Diags = step.Diags.WithAddress(a.Plan.Changes[vx.Change].Addr.String())
	} else if inv := a.invocation(vx); inv != nil {
		step.Diags = step.Diags.WithAddress(inv.Addr.String())
	}
	return step
}

func (a *Applier) prepare(v int, vx plan.Vertex) program.Step {
	switch vx.Kind {
	case plan.Sync:
		if a.nodes[v] < 0 {
			// not covered by the plan, or a resource without a block whose objects were gone already
			return program.Step{}
		}
		return a.sync(&a.Static.Nodes[a.nodes[v]])
	case plan.EvalOutput, plan.EvalCheck, plan.OpenObject, plan.CloseObject:
		if a.nodes[v] < 0 {
			return unnamed(vx)
		}
		return a.named(v, vx.Kind)
	case plan.ApplyObject:
		return a.apply(v, a.Plan.Changes[vx.Change])
	case plan.DestroyObject:
		return a.destroy(v, a.Plan.Changes[vx.Change])
	case plan.ReadObject:
		return a.read(v, a.Plan.Changes[vx.Change])
	case plan.InvokeAction:
		return a.invoke(v, a.invocation(vx))
	}
	return program.Step{}
}

// named evaluates or opens the object of a vertex that is not a change.
func (a *Applier) named(v int, kind plan.VertexKind) program.Step {
	n := &a.Static.Nodes[a.nodes[v]]
	switch kind {
	case plan.EvalOutput:
		return a.output(n, a.needed[a.nodes[v]])
	case plan.EvalCheck:
		return a.check(n)
	case plan.OpenObject:
		return a.open(v, n)
	default:
		return a.close(v, n)
	}
}

// unnamed returns the step of a vertex whose block is missing in the configuration. The configuration is saved with
// the plan, so one of the two was modified.
func unnamed(vx plan.Vertex) program.Step {
	return program.Step{Diags: diag.Errors("Plan and configuration differ", fmt.Sprintf(
		"The plan has the %s %s, which is not in its configuration. Make a new plan.",
		vx.Node.Kind, vx.Address), nil)}
}

// Complete implements program.Program.
func (a *Applier) Complete(ctx context.Context, v int, r *wire.Result) program.Step {
	vx := a.Plan.Graph.Vertices[v]
	then := a.work[v].then
	if then == nil {
		// In a resumed run, the step that requested the task belongs to a process that has ended. Repeating the
		// step gives the same continuation; its task is not sent.
		if step := a.prepare(v, vx); step.Bad() {
			return step
		}
		then = a.work[v].then
	}
	step := a.fold(v, then, r)
	if step.Finished() {
		a.work[v].then = nil // it contains the evaluated configuration
	}
	return a.located(vx, step)
}

// fold processes a result. A panic in it is a bug, but must not lose the object in the result.
func (a *Applier) fold(v int, then func(*wire.Result) program.Step, r *wire.Result) (step program.Step) {
	err := bug.Catch(func() error { step = then(r); return nil })
	if panicked := (*bug.Error)(nil); errors.As(err, &panicked) {
		return program.Step{
			Doubt: &program.Unstorable{Reason: fmt.Sprintf("the result could not be processed: %v", panicked.Value)},
			Diags: diag.Errors("Bug in Millipede", fmt.Sprintf("The coordinator failed while it processed the result "+
				"about %s: %s", a.Plan.Graph.Vertices[v].Address, err), nil),
		}
	}
	return step
}

// effect is the value that a finished step passes to Accept.
type effect struct {
	counts Counts
	checks []instance.Outcome
}

// Accept implements program.Program.
func (a *Applier) Accept(v int, step *program.Step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Apply(step.Changes...)
	e, _ := step.Value.(*effect)
	if e == nil {
		return
	}
	a.counts.Added += e.counts.Added
	a.counts.Changed += e.counts.Changed
	a.counts.Destroyed += e.counts.Destroyed
	a.counts.Imported += e.counts.Imported
	a.counts.Forgotten += e.counts.Forgotten
	a.counts.Invoked += e.counts.Invoked
	for _, o := range e.checks {
		a.record(o)
	}
}

// object returns the object in the state.
func (a *Applier) object(i addr.Instance, k state.DeposedKey) *state.Object {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.state.Object(i, k)
}

// deposedKey returns the key under which the old object of a replacement is kept until it is destroyed.
func (a *Applier) deposedKey(i addr.Instance) state.DeposedKey {
	sum := sha256.Sum256([]byte(a.Run + "\x00" + i.String()))
	return state.DeposedKey(hex.EncodeToString(sum[:4]))
}

// dependencies returns the resources to record as the dependencies of an object: all that its block refers to,
// transitively.
func (a *Applier) dependencies(i addr.Instance) *state.Dependencies {
	v, ok := a.Static.ResourceVertex(i.Config())
	if !ok {
		return nil
	}
	if a.unchanged[i] { // as in OpenTofu, where the plan records these dependencies
		return a.planned.Resources(v)
	}
	return a.closure.Resources(v) // one set for all instances
}

// lane returns the lane of an operation that changes something: the built-in provider changes nothing outside of the
// state.
func lane(p addr.Provider) program.Lane {
	if p.IsBuiltin() {
		return program.Fast
	}
	return program.Safe
}
