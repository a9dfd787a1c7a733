package planning

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// invocation is an invocation of an action that is being planned.
type invocation struct {
	plan.Invocation
	action *values.Resource
	// caller is the object that triggers it; cty.NilVal if no object does.
	caller cty.Value
	in     *instance.Instance // set when the task is prepared
	at     *hcl.Range         // the trigger; nil for none
}

// invokedAt returns the invocation of a vertex; nil for other vertices.
func (p *Planner) invokedAt(vx vertex) *invocation {
	if vx.node >= 0 {
		return nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.invoked[-1-vx.node]
}

// invokes reports whether the plan has invocations at all.
func (p *Planner) invokes() bool {
	return (p.Mode == plan.Normal || p.Mode == plan.Destroy) && !p.BeforeDestroy && len(p.Imports) == 0
}

// expandAction evaluates the instances of an action, and returns those that the option -invoke names as new vertices,
// in the first round of an apply with deferral.
func (p *Planner) expandAction(node int, n *graph.Node) program.Step {
	f := &found{node: node}
	var diags diag.List
	for _, m := range p.Store.Instances(n.Module) {
		r := m.ResourceBlock(n.Resource.Addr)
		e, more := r.Expansion()
		if diags = diags.Append(more); more.HasErrors() || !p.invokes() {
			continue
		}
		f.unknownCall = f.unknownCall || e.Unknown
		for _, k := range e.Keys {
			a := r.Addr().Instance(k)
			if p.After == nil && slices.ContainsFunc(p.Invoke, func(t addr.Target) bool { return t.Contains(a) }) {
				f.invoked = append(f.invoked, &invocation{Invocation: plan.Invocation{Addr: a}, action: r,
					caller: cty.NilVal})
			}
		}
	}
	if p.invokes() && p.After == nil && !diags.HasErrors() {
		diags = diags.Append(p.nothingInvoked(n, f.invoked))
	}
	if p.Mode == plan.Destroy && diags.HasErrors() {
		return program.Step{} // it may depend on what does not exist any more; a trigger that needs it reports it
	}
	done, _ := p.Static.Find(graph.ResourceDone, n.Module, n.Named)
	return p.growInvocations(f, diags.WithAddress(n.Address()), []int{done})
}

// nothingInvoked returns an error for each key of the option -invoke that an action does not have.
func (p *Planner) nothingInvoked(n *graph.Node, found []*invocation) (diags diag.List) {
	for _, t := range p.Invoke {
		if t.MayContain(n.ConfigResource()) &&
			!slices.ContainsFunc(found, func(i *invocation) bool { return t.Contains(i.Addr) }) {
			diags = diags.Append(diag.New(diag.Error, "No such instance of an action", fmt.Sprintf("The option -invoke names "+
				"%s, which is no instance of the action.", t), n.Resource.Range.Ptr()))
		}
	}
	return diags
}

// growInvocations appends a vertex for each invocation. before are the vertices that wait for them.
func (p *Planner) growInvocations(f *found, diags diag.List, before []int) program.Step {
	step := program.Step{Diags: diags, Value: f}
	if len(f.invoked) == 0 || diags.HasErrors() {
		f.invoked = nil
		return step
	}
	step.Growth = &program.Growth{Vertices: len(f.invoked)}
	for i := range f.invoked {
		for _, v := range before {
			step.Growth.Edges = append(step.Growth.Edges, dag.Edge{Before: program.Grown(i), After: v})
		}
	}
	return step
}

// expandTriggers returns the invocations that the changes of a resource trigger. All changes of its instances are
// planned.
func (p *Planner) expandTriggers(node int, n *graph.Node) program.Step {
	if !p.invokes() {
		return program.Step{}
	}
	f := &found{node: node}
	var diags diag.List
	for _, c := range p.changesOf(n.ConfigResource()) {
		m := p.Store.Module(c.Addr.Module)
		if m == nil {
			continue // its module has no such instance any more, and so no block
		}
		rep := values.RepetitionOf(c.Addr.Key)
		if r := m.ResourceBlock(n.Resource.Addr); r != nil {
			if e, more := r.Expansion(); !more.HasErrors() && e.Has(c.Addr.Key) {
				rep = e.Repetition(c.Addr.Key)
			}
		}
		for i, t := range n.Resource.Triggers {
			found, more := p.invocationsOf(m, c, rep, t, i)
			f.invoked = append(f.invoked, found...)
			diags = diags.Append(more.WithAddress(c.Addr.String()))
		}
	}
	// Only ephemeral objects wait, before they are closed.
	return p.growInvocations(f, diags, slices.Collect(p.Static.Graph.After(node)))
}

// changesOf returns the planned changes of the current objects of a resource, in order.
func (p *Planner) changesOf(r addr.ConfigResource) []*plan.Change {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var out []*plan.Change
	for k, c := range p.changes {
		if k.deposed == state.CurrentObject && c.Addr.Resource == r.Resource && c.Addr.Config() == r {
			out = append(out, c)
		}
	}
	sortChanges(out)
	return out
}

// invocationsOf returns the invocations that a change triggers by one action_trigger block.
func (p *Planner) invocationsOf(m *values.Module, c *plan.Change, rep eval.Repetition, t *config.ActionTrigger,
	block int) (out []*invocation, diags diag.List) {
	var events []config.ActionEvent
	for _, e := range eventsOf(c.Action) {
		if slices.Contains(t.Events, e) {
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return nil, nil
	}
	holds, known, diags := m.TriggerCondition(t, rep)
	if diags.HasErrors() || known && !holds {
		return nil, diags
	}
	for _, event := range events {
		for i, e := range t.Actions {
			action, at, more := m.TriggeredAction(e, rep)
			if diags = diags.Append(more); more.HasErrors() {
				continue
			}
			caller := c.After
			if event == config.BeforeDestroy || event == config.AfterDestroy {
				caller = c.Before
			}
			out = append(out, &invocation{action: action, caller: caller, at: t.Range.Ptr(), Invocation: plan.Invocation{
				Addr: at, Trigger: &plan.Trigger{Resource: c.Addr, Event: string(event), Block: block, Index: i,
					Conditional: !known},
			}})
		}
	}
	return out, diags
}

// eventsOf returns the events of a change. A replacement destroys and creates.
func eventsOf(a plan.Action) []config.ActionEvent {
	creates := []config.ActionEvent{config.BeforeCreate, config.AfterCreate}
	destroys := []config.ActionEvent{config.BeforeDestroy, config.AfterDestroy}
	switch a {
	case plan.Create, plan.ForgetThenCreate:
		return creates
	case plan.Update:
		return []config.ActionEvent{config.BeforeUpdate, config.AfterUpdate}
	case plan.Delete:
		return destroys
	case plan.DeleteThenCreate, plan.CreateThenDelete:
		return append(destroys, creates...)
	}
	return nil
}

// prepareInvocation evaluates the action of an invocation, and returns the task that plans it.
func (p *Planner) prepareInvocation(v *invocation) program.Step {
	if o := p.inDoubt(v.Addr); o != nil {
		return program.Step{Diags: diag.List{uncertain(v, o)}}
	}
	action, _ := p.Static.ResourceVertex(v.Addr.Config())
	if e, more := v.action.Expansion(); e.Unknown && !more.HasErrors() || v.Trigger == nil && p.behindDeferred(action) {
		return postponed(v, &plan.Deferred{Reason: plan.DeferPrerequisite}, nil)
	}
	in, diags := p.evaluator().Block(v.action, v.Addr.Key, instance.Options{Self: v.caller})
	if diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	v.in, v.Provider = in, in.Provider
	v.Config = values.WithoutWriteOnly(in.Config, in.Schema.Block)
	config, err := in.EncodeConfig()
	if err != nil {
		return instance.Broken("encoding the configuration of "+v.Addr.String(), err)
	}
	return program.Step{
		Diags: diags, Lane: program.Fast, Place: &in.Place,
		Task: &wire.Task{Address: v.Addr.String(), Provider: in.Wire,
			Action: &wire.ActionTask{Type: v.Addr.Resource.Type, Config: config}},
	}
}

// completeInvocation adds the invocation to the plan, unless the provider objects.
func (p *Planner) completeInvocation(v *invocation, r *wire.Result) program.Step {
	diags := values.WireDiags(r.Diagnostics, v.in.Range)
	if d := p.put(v.Addr, v.in, r.Deferred, diags); d != nil {
		return postponed(v, d, diags)
	}
	step := program.Step{Diags: diags, Notes: program.Notes{Quiet: true}}
	if !step.Diags.HasErrors() {
		step.Value = &found{invocation: &v.Invocation}
	}
	return step
}

// inDoubt returns what the state says about an earlier invocation of an action with an unknown outcome, or nil.
func (p *Planner) inDoubt(a addr.Instance) *state.Object {
	i := p.Prior.Instance(a)
	if i == nil {
		return nil
	}
	for _, k := range i.DeposedKeys() {
		if o := i.Deposed[k]; o.Status == state.InDoubt && o.Doubt != nil {
			return o
		}
	}
	return nil
}

// uncertain is the error of an invocation while it is not known whether an earlier one took place.
func uncertain(v *invocation, o *state.Object) *diag.Diagnostic {
	at := v.at
	if at == nil {
		at = v.action.Code.Config.Range.Ptr()
	}
	return diag.New(diag.Error, "Invocation in doubt", fmt.Sprintf("It is not known whether %s was invoked by the run "+
		"%s: %s. It is not invoked again before that is clear. Find out, and record it:\n  %s runs resolve '%s' "+
		"-invoked\nor -not-invoked.", v.Addr, o.Doubt.Run, trimStop(o.Doubt.Reason), diag.Program(), v.Addr), at)
}

func trimStop(s string) string {
	if n := len(s); n > 0 && s[n-1] == '.' {
		return s[:n-1]
	}
	return s
}

// sortedInvocations requires the lock. It returns the planned invocations: by object, and for each by
// event, and in the order of its blocks and their actions; then those of the option -invoke.
func (p *Planner) sortedInvocations() []*plan.Invocation {
	slices.SortFunc(p.invocations, func(a, b *plan.Invocation) int {
		x, y := a.Trigger, b.Trigger
		switch {
		case x == nil && y == nil:
			return compareInstances(a.Addr, b.Addr)
		case x == nil:
			return 1
		case y == nil:
			return -1
		}
		return cmp.Or(compareInstances(x.Resource, y.Resource), cmp.Compare(eventOrder(x.Event), eventOrder(y.Event)),
			cmp.Compare(x.Block, y.Block), cmp.Compare(x.Index, y.Index))
	})
	return p.invocations
}

// eventOrder is the place of an event among those of a replacement that destroys first.
func eventOrder(event string) int {
	return slices.Index([]config.ActionEvent{config.BeforeDestroy, config.AfterDestroy, config.BeforeCreate,
		config.AfterCreate, config.BeforeUpdate, config.AfterUpdate}, config.ActionEvent(event))
}

func compareInstances(a, b addr.Instance) int {
	switch {
	case a == b:
		return 0
	case a.Less(b):
		return -1
	}
	return 1
}

// invokedNodes returns the vertices of the actions that the option -invoke names.
func invokedNodes(s *graph.Static, invoke []addr.Target) []int {
	var out []int
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if len(invoke) > 0 && n.Kind == graph.ResourceNode && n.Resource.Addr.Mode == addr.Action &&
			slices.ContainsFunc(invoke, func(t addr.Target) bool { return t.MayContain(n.ConfigResource()) }) {
			out = append(out, i)
		}
	}
	return out
}

// UnknownActions returns an error for each action that the option -invoke names and the configuration does not have.
func UnknownActions(s *graph.Static, invoke []addr.Target) (diags diag.List) {
	for _, t := range invoke {
		if len(invokedNodes(s, []addr.Target{t})) == 0 {
			diags = diags.Append(diag.New(diag.Error, "No such action", fmt.Sprintf("The option -invoke names %s, which is "+
				"not in the configuration.", t), nil))
		}
	}
	return diags
}

// newInvoking returns the scope of a plan that only invokes actions. What they refer to is evaluated; managed objects
// have their stored values.
func newInvoking(s *graph.Static, invoked []int) Scope {
	sc := Scope{reads: map[addr.Instance]bool{}, nodes: make([]bool, len(s.Nodes))}
	for _, v := range s.Graph.Ancestors(invoked...) {
		sc.nodes[v] = true
	}
	sc.results(s)
	return sc
}
