package applying

import (
	"slices"
	"sort"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/renewal"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// sync evaluates the named value of a vertex, so that a new error is reported once.
func (a *Applier) sync(n *graph.Node) program.Step {
	var step program.Step
	if a.Plan.Mode == plan.Destroy {
		return step
	}
	if n.Kind == graph.ResourceNode && n.Resource.Addr.Mode == addr.Managed &&
		(a.Plan.Mode == plan.RefreshOnly || a.Plan.Defers ||
			len(a.Plan.Targets)+len(a.Plan.Excludes)+len(a.Plan.Invoke) > 0) {
		for _, m := range a.Store.Instances(n.Module) {
			r := m.ResourceBlock(n.Resource.Addr)
			r.LeaveOutMissing(func(i addr.Instance) *state.Object { return a.object(i, state.CurrentObject) })
			if a.Plan.Mode == plan.RefreshOnly || len(a.Plan.Targets)+len(a.Plan.Excludes) > 0 {
				a.keepBeyond(r)
			}
		}
	}
	if n.Kind != graph.VariableNode && n.Kind != graph.LocalNode && n.Kind != graph.CallNode {
		return step
	}
	e := &effect{}
	step.Value = e
	var given diag.List
	for _, m := range a.Store.Instances(n.Module) {
		diags := instance.Value(m, n)
		if n.Kind == graph.VariableNode {
			given = given.Append(diags)
		} else {
			step.Diags = step.Diags.Append(diags)
		}
		if !diags.HasErrors() {
			checks, more := instance.Rules(m, n)
			step.Diags = step.Diags.Append(more)
			e.checks = append(e.checks, checks...)
		}
	}
	step.Diags = given.Append(unshown(step.Diags))
	return step
}

// keepBeyond is for the instances that the expansion no longer has, and that the plan leaves as they are, because
// -target or -exclude leaves them out, or because it only refreshes.
func (a *Applier) keepBeyond(r *values.Resource) {
	stored := a.Plan.Prior.Resources[r.Addr()]
	if stored == nil || r.Code.Schema == nil || a.Plan.Mode == plan.Destroy {
		return
	}
	e, _ := r.Expansion()
	for k, i := range stored.Instances {
		if i.Current != nil && !e.Has(k) && a.changed()[r.Addr().Instance(k)] == nil {
			r.KeepBeyond(k, i.Current)
		}
	}
}

// unshown removes the warnings that were shown with the plan. Those about deprecated values are repeated, as in
// OpenTofu: another person may apply a saved plan.
func unshown(l diag.List) diag.List {
	if l.HasErrors() {
		return l
	}
	var out diag.List
	for _, d := range l {
		if _, ok := d.Extra.(marks.Deprecated); ok {
			out = append(out, d)
		}
	}
	return out
}

func errorsOnly(l diag.List) diag.List {
	if !l.HasErrors() {
		return nil
	}
	return l
}

// output evaluates an output in all instances of its module, and stores a root output. A root output whose value was
// wholly known in the plan is stored as planned, as in OpenTofu: evaluated again, it could get a value that nobody has
// approved, because a file or the time has changed since.
func (a *Applier) output(n *graph.Node, needed bool) program.Step {
	name := n.Output.Name
	var step program.Step
	if a.Plan.Mode == plan.Destroy {
		return step
	}
	e := &effect{}
	var deprecations diag.List
	for _, m := range a.Store.Instances(n.Module) {
		if !needed {
			m.EvalOutput(name) // nothing depends on it, so errors are ignored
			continue
		}
		checks, more := instance.Rules(m, n)
		e.checks = append(e.checks, checks...)
		step.Diags = step.Diags.Append(more)
		planned := a.knownOutput(n)
		if planned != nil {
			m.SetOutput(name, markedOutput(n.Output, planned.After)) // the assertions of tests refer to it
			step.Changes = append(step.Changes, storedOutput(n.Output, planned.After))
		}
		if planned != nil || more.HasErrors() {
			continue
		}
		v, diags := m.EvalOutput(name)
		deprecations = append(deprecations, unshown(diags)...)
		step.Diags = step.Diags.Append(diags)
		if !n.Module.IsRoot() || diags.HasErrors() || n.Output.Ephemeral {
			continue
		}
		step.Changes = append(step.Changes, storedOutput(n.Output, v))
	}
	if step.Diags = errorsOnly(step.Diags); len(step.Diags) == 0 {
		step.Diags = deprecations
	}
	step.Changes = a.ownChanges(step.Changes)
	step.Value = e
	return step
}

// markedOutput returns the value of a root output for expressions.
func markedOutput(o *config.Output, value cty.Value) cty.Value {
	if o.Sensitive {
		return value.Mark(marks.Sensitive)
	}
	return value
}

// storedOutput stores the value of a root output, or removes the output if its value is null.
func storedOutput(o *config.Output, value cty.Value) state.SetOutput {
	bare, _ := value.UnmarkDeep()
	set := state.SetOutput{Name: o.Name}
	if !bare.IsNull() {
		// Dependencies that were left out of the plan are null, as in OpenTofu.
		set.Output = &state.Output{Value: cty.UnknownAsNull(bare), Sensitive: o.Sensitive, Deprecated: o.Deprecated}
	}
	return set
}

// knownOutput returns the planned change of a root output whose value is wholly known in the plan; nil for others.
func (a *Applier) knownOutput(n *graph.Node) *plan.OutputChange {
	if !n.Module.IsRoot() || n.Output.Ephemeral {
		return nil
	}
	i, found := slices.BinarySearchFunc(a.Plan.Outputs, n.Output.Name,
		func(o *plan.OutputChange, name string) int { return strings.Compare(o.Name, name) })
	if !found || !a.Plan.Outputs[i].After.IsWhollyKnown() {
		return nil
	}
	return a.Plan.Outputs[i]
}

// check evaluates the assertions of a check block again, after the changes.
func (a *Applier) check(n *graph.Node) program.Step {
	var step program.Step
	e := &effect{}
	for _, m := range a.Store.Instances(n.Module) {
		if a.checkFailed(n.Address(), m.CheckAddress(n.Check)) {
			continue // its data could not be read
		}
		checks, diags := instance.Rules(m, n)
		step.Diags = step.Diags.Append(diags)
		e.checks = append(e.checks, checks...)
	}
	step.Value = e
	return step
}

// checkFailed reports whether an instance of a check has already failed in this run.
func (a *Applier) checkFailed(config, instance string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.rechecked[checkKey{config, instance}]
}

// open opens the instances of an ephemeral resource, one after the other.
func (a *Applier) open(v int, n *graph.Node) program.Step {
	var all []*values.Resource
	var keys []addr.Key
	for _, m := range a.Store.Instances(n.Module) {
		r := m.ResourceBlock(n.Resource.Addr)
		e, diags := r.Expansion()
		if diags.HasErrors() {
			return program.Step{Diags: diags}
		}
		for _, k := range e.Keys {
			all, keys = append(all, r), append(keys, k)
		}
	}
	return a.openNext(v, n, all, keys, &effect{}, nil)
}

// openNext opens the remaining instances. came are the outcomes of the conditions of those before them.
func (a *Applier) openNext(v int, n *graph.Node, rs []*values.Resource, keys []addr.Key, came *effect,
	diags diag.List) program.Step {
	if len(rs) == 0 || diags.HasErrors() {
		return program.Step{Diags: diags, Value: came}
	}
	r, k := rs[0], keys[0]
	at := r.Addr().Instance(k)
	ev, more := a.evaluate(r, k)
	diags = diags.Append(more.WithAddress(at.String()))
	came.checks = append(came.checks, ev.Checks...)
	if diags.HasErrors() {
		return program.Step{Diags: diags, Value: came}
	}
	config, err := ev.EncodeConfig()
	if err != nil {
		return instance.Broken("encoding the configuration of "+at.String(), err)
	}
	a.work[v].then = func(res *wire.Result) program.Step {
		diags := diags.Append(values.WireDiags(res.Diagnostics, ev.Range).WithAddress(at.String()))
		if diags.HasErrors() {
			return program.Step{Diags: diags, Value: came}
		}
		if res.Ephemeral == nil {
			return instance.Broken("opening "+at.String(), errNoAnswer)
		}
		value, err := instance.Decode(res.Ephemeral.Object, ev.Schema)
		if err != nil {
			return instance.Broken("decoding "+at.String(), err)
		}
		value = values.EphemeralValue(value, ev.Schema.Block, ev.Sensitive)
		r.Set(k, value)
		a.Renewals.Add(renewal.Open{
			Address: at.String(), Type: at.Resource.Type, Provider: ev.Wire, Pool: res.Pool,
			Private: res.Ephemeral.Private, RenewAt: res.Ephemeral.RenewAt,
		})
		a.remember(opened{at: at, provider: ev.Wire, place: ev.Place, private: res.Ephemeral.Private})
		checks, more := ev.Postconditions(value)
		came.checks = append(came.checks, checks...)
		return a.openNext(v, n, rs[1:], keys[1:], came, diags.Append(more))
	}
	return program.Step{
		Diags: nil, Lane: program.Fast, Place: &ev.Place,
		Task: &wire.Task{Address: at.String(), Provider: ev.Wire, Ephemeral: &wire.EphemeralTask{Op: "open",
			Type: at.Resource.Type, Config: config}},
	}
}

// opened is an open ephemeral object.
type opened struct {
	at       addr.Instance
	provider wire.Provider
	place    program.Placement
	private  []byte
}

func (a *Applier) remember(o opened) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.opened == nil {
		a.opened = map[addr.ConfigResource][]opened{}
	}
	a.opened[o.at.Config()] = append(a.opened[o.at.Config()], o)
}

// close closes the objects that open opened, one after the other. A failure to close is a warning.
func (a *Applier) close(v int, n *graph.Node) program.Step {
	a.mu.Lock()
	list := a.opened[n.ConfigResource()]
	var next *opened
	if len(list) > 0 {
		next = &list[0]
		a.opened[n.ConfigResource()] = list[1:]
	}
	a.mu.Unlock()
	if next == nil {
		return program.Step{}
	}
	place := next.place
	private, diags := a.Renewals.Release(next.at.String(), next.private)
	a.work[v].then = func(res *wire.Result) program.Step {
		step := a.close(v, n)
		step.Diags = diags.Append(values.WireDiags(res.Diagnostics, nil).WithAddress(next.at.String()), step.Diags)
		return step
	}
	return program.Step{
		Lane: program.Fast, Place: &place,
		Task: &wire.Task{Address: next.at.String(), Provider: next.provider, Ephemeral: &wire.EphemeralTask{Op: "close",
			Type: next.at.Resource.Type, Private: private}},
	}
}

// unmet returns the step of a vertex whose block could not be evaluated. It records the outcomes of its
// preconditions nevertheless.
func unmet(ev *instance.Instance, diags diag.List) program.Step {
	return program.Step{Diags: diags, Value: &effect{checks: ev.Checks}}
}

// evaluate evaluates the block of an instance.
func (a *Applier) evaluate(r *values.Resource, k addr.Key) (*instance.Instance, diag.List) {
	ev, diags := instance.Evaluator{Store: a.Store, Package: a.Package}.Block(r, k, instance.Options{})
	return ev, unshown(diags)
}

// record replaces the results of the plan by those of this run. The caller has the lock.
func (a *Applier) record(o instance.Outcome) {
	r := a.checks[o.Config]
	if r == nil {
		r = &state.CheckResult{Kind: o.Kind, Config: o.Config}
		a.checks[o.Config] = r
	}
	key := checkKey{o.Config, o.Object.Address}
	i, known := a.checkObjects[key]
	switch {
	case !known:
		i = len(r.Objects)
		a.checkObjects[key] = i
		r.Objects = append(r.Objects, o.Object)
	case a.rechecked[key]: // postconditions after preconditions
		o.Object = instance.Both(r.Objects[i], o.Object)
	}
	a.rechecked[key] = true
	r.Objects[i] = o.Object
}

// checkResults requires the lock.
func (a *Applier) checkResults() []state.CheckResult {
	var out []state.CheckResult
	for _, r := range a.checks {
		c := *r
		if len(c.Objects) > 0 { // otherwise as planned: there are none, or they are unknown
			c.Status = state.CheckPass
		}
		for _, o := range c.Objects {
			c.Status = instance.Worst(o.Status, c.Status)
		}
		out = append(out, c)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Config < out[j].Config })
	return out
}
