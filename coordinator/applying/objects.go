package applying

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// apply creates or updates an object; for one that does not change it checks the conditions again.
func (a *Applier) apply(v int, c *plan.Change) program.Step {
	r := a.block(c.Addr)
	if r == nil {
		return program.Step{Diags: diag.Errors("Resource block is missing",
			fmt.Sprintf("The plan changes %s, whose block is not in the configuration that the plan was made with.",
				c.Addr), nil)}
	}
	if c.Action == plan.NoOp {
		return a.recheck(r, c)
	}
	ev, diags := a.evaluate(r, c.Addr.Key)
	if diags.HasErrors() {
		return unmet(ev, diags)
	}
	task := &wire.ApplyTask{Type: c.Addr.Resource.Type, Action: plan.Create, PlannedPrivate: c.PlannedPrivate,
		IgnoreAll: ev.Resource.Code.Config.IgnoreAll, Meta: ev.Meta}
	var err error
	if c.Action == plan.Update {
		task.Action, task.PriorPrivate = plan.Update, c.PriorPrivate
		if task.Prior, err = instance.Encode(c.Before, ev.Schema); err != nil {
			return instance.Broken("encoding "+c.Addr.String(), err)
		}
		if task.PriorIdentity, err = encodeIdentity(c.BeforeIdentity); err != nil {
			return instance.Broken("encoding the identity of "+c.Addr.String(), err)
		}
	}
	if task.Planned, err = instance.Encode(c.After, ev.Schema); err != nil {
		return instance.Broken("encoding "+c.Addr.String(), err)
	}
	if task.Config, err = ev.EncodeConfig(); err != nil {
		return instance.Broken("encoding the configuration of "+c.Addr.String(), err)
	}
	if task.PlannedIdentity, err = encodeIdentity(c.AfterIdentity); err != nil {
		return instance.Broken("encoding the identity of "+c.Addr.String(), err)
	}
	if task.Sensitive, err = values.EncodePaths(ev.Sensitive); err != nil {
		return instance.Broken("encoding "+c.Addr.String(), err)
	}
	if task.IgnorePaths, err = values.EncodePaths(values.IgnorePaths(ev.Resource.Code.Config)); err != nil {
		return instance.Broken("encoding ignore_changes of "+c.Addr.String(), err)
	}
	if c.Inputs != (plan.Inputs{}) {
		task.Settled = c.Inputs == ev.Inputs(&wire.PlanTask{Type: task.Type, Config: task.Config, Meta: task.Meta,
			IgnorePaths: task.IgnorePaths, IgnoreAll: task.IgnoreAll})
	}
	a.work[v].then = func(res *wire.Result) program.Step {
		step := a.applied(v, c, r, ev, res)
		step.Diags = diags.Append(step.Diags) // warnings about deprecated values
		return step
	}
	return program.Step{
		Lane: lane(ev.Provider.Provider), Place: &ev.Place,
		Task: &wire.Task{Address: c.Addr.String(), Provider: ev.Wire, Apply: task,
			More: c.Action != plan.Update && len(createProvisioners(ev.Resource.Code.Config)) > 0},
	}
}

func encodeIdentity(v cty.Value) ([]byte, error) {
	if v == cty.NilVal || v.IsNull() {
		return nil, nil
	}
	return coding.EncodeValue(v, v.Type())
}

// recheck checks the conditions of an object that does not change, with the values known now.
func (a *Applier) recheck(r *values.Resource, c *plan.Change) program.Step {
	var step program.Step
	if o := a.object(c.Addr, state.CurrentObject); o != nil && o.Status != state.InDoubt && a.ownsInstance(c.Addr) {
		kept := *o
		kept.Dependencies, kept.CreateBeforeDestroy, kept.SkipDestroy = a.dependencies(c.Addr),
			c.CreateBeforeDestroy, c.SkipDestroy
		if !kept.Equal(o) {
			step.Changes = append(step.Changes, state.SetObject{Addr: c.Addr, Provider: c.Provider, Object: &kept})
		}
	}
	if a.Plan.Mode == plan.Normal && c.Deposed == state.CurrentObject {
		checks, diags := a.conditions(r, c)
		step.Diags = errorsOnly(diags)
		step.Value = &effect{checks: checks}
	}
	if c.Importing != nil {
		e, _ := step.Value.(*effect)
		if e == nil {
			e = &effect{}
		}
		e.counts.Imported++
		step.Value = e
	}
	return step
}

// conditions checks the conditions of an object that does not change: its preconditions and, if they hold, its
// postconditions.
func (a *Applier) conditions(r *values.Resource, c *plan.Change) ([]instance.Outcome, diag.List) {
	address, config, rep := c.Addr.String(), c.Addr.Config().String(), a.repetition(r, c.Addr.Key)
	before := r.CheckPreconditions(address, rep)
	outcomes := instance.Outcomes("resource", config, before)
	if before.Diags.HasErrors() {
		return outcomes, before.Diags
	}
	after := r.CheckPostconditions(address, rep, c.After)
	return append(outcomes, instance.Outcomes("resource", config, after)...), before.Diags.Append(after.Diags)
}

func (a *Applier) repetition(r *values.Resource, k addr.Key) eval.Repetition {
	e, _ := r.Expansion()
	return e.Repetition(k)
}

// applied adds the result of an apply task to the state.
func (a *Applier) applied(v int, c *plan.Change, r *values.Resource, ev *instance.Instance,
	res *wire.Result) program.Step {
	diags := values.WireDiags(res.Diagnostics, ev.Range)
	if res.Apply == nil {
		if !diags.HasErrors() {
			return unstorable(c, ev.Schema, ev.Sensitive, res, diags, errNoAnswer)
		}
		return program.Step{Diags: diags} // nothing was started
	}
	if attrs, ok := plainly(c, ev, res.Apply, diags); ok {
		return a.storedPlainly(c, r, ev, attrs, res, diags)
	}
	value, err := instance.Decode(res.Apply.Object, ev.Schema)
	if err != nil {
		return unstorable(c, ev.Schema, ev.Sensitive, res, diags, err)
	}
	value = ev.Marked(value)
	step := program.Step{Diags: diags}
	if value.IsNull() {
		if !diags.HasErrors() {
			return unstorable(c, ev.Schema, ev.Sensitive, res, diags, errNoObject)
		}
		return step // a failed creation left nothing
	}
	attrs, sensitive, err := values.EncodeStored(value, ev.Schema.Block)
	if err != nil {
		return unstorable(c, ev.Schema, ev.Sensitive, res, diags, err)
	}
	object, err := a.objectOf(c, ev, attrs, sensitive, res.Apply)
	if err != nil {
		return unstorable(c, ev.Schema, ev.Sensitive, res, diags, err)
	}
	if old := a.object(c.Addr, state.CurrentObject); c.Action == plan.CreateThenDelete && old != nil {
		step.Changes = append(step.Changes, state.SetObject{Addr: c.Addr, Deposed: a.deposedKey(c.Addr),
			Provider: a.providerOf(c.Addr), Object: old})
	}
	provisioners := createProvisioners(ev.Resource.Code.Config)
	if task := c.Action != plan.Update && len(provisioners) > 0 && !diags.HasErrors(); task {
		return a.provisionCreated(v, c, r, ev, object, value, res.Worker, step)
	}
	if diags.HasErrors() {
		step.Changes = append(step.Changes, state.SetObject{Addr: c.Addr, Provider: ev.Provider, Object: object})
		return step
	}
	return a.made(c, r, ev, object, value, idle(c, res.Apply), step)
}

// idle reports whether nothing had to be done. A change of sensitivity alone counts, although the provider has nothing
// to do.
func idle(c *plan.Change, r *wire.ApplyResult) bool { return r.Unchanged && !c.After.IsWhollyKnown() }

// plainly returns the stored form of the object in a result if its value is needed for nothing now: nothing of it is
// sensitive, and neither conditions nor provisioners refer to it. It returns false for other objects, which become
// values first.
func plainly(c *plan.Change, ev *instance.Instance, r *wire.ApplyResult, diags diag.List) (attrs []byte, ok bool) {
	if diags.HasErrors() || c.Action == plan.CreateThenDelete || len(ev.Sensitive) > 0 ||
		ev.Schema.Block.ContainsSensitive() {
		return nil, false
	}
	ty := ev.Schema.Block.ImpliedType()
	for _, name := range []string{"id", "name"} { // which values.IDOfStored reads only if it is a text
		if ty.AttributeTypes()[name] == cty.DynamicPseudoType {
			return nil, false
		}
	}
	if attrs, ok = coding.ObjectJSON(r.Object, ty); !ok {
		return nil, false
	}
	block := ev.Resource.Code.Config
	return attrs, len(block.Postconditions)+len(createProvisioners(block)) == 0
}

// storedPlainly adds an object to the state in its stored form. Its value is decoded when an expression refers to it.
func (a *Applier) storedPlainly(c *plan.Change, r *values.Resource, ev *instance.Instance, attrs []byte,
	res *wire.Result, diags diag.List) program.Step {
	object, err := a.objectOf(c, ev, attrs, nil, res.Apply)
	if err != nil {
		return unstorable(c, ev.Schema, ev.Sensitive, res, diags, err)
	}
	r.Keep(c.Addr.Key, object)
	step := program.Step{
		Diags:   diags,
		Changes: []state.Change{state.SetObject{Addr: c.Addr, Provider: ev.Provider, Object: object}},
		Value:   &effect{counts: counted(c, idle(c, res.Apply)), checks: ev.Checks},
	}
	step.Notes.Action = string(c.Action)
	step.Notes.IDKey, step.Notes.ID = values.IDOfStored(object)
	step.Notes.None = idle(c, res.Apply)
	return step
}

// made finishes a vertex whose object is complete. idle is set if nothing had to be done.
func (a *Applier) made(c *plan.Change, r *values.Resource, ev *instance.Instance, object *state.Object, value cty.Value,
	idle bool, step program.Step) program.Step {
	step.Changes = append(step.Changes, state.SetObject{Addr: c.Addr, Provider: ev.Provider, Object: object})
	r.Set(c.Addr.Key, value)
	e := &effect{counts: counted(c, idle), checks: ev.Checks}
	checks, more := ev.Postconditions(value)
	e.checks = append(e.checks, checks...)
	step.Diags = step.Diags.Append(errorsOnly(more))
	step.Value = e
	step.Notes = instance.Notes(string(c.Action), value)
	step.Notes.None = idle
	return step
}

// counted counts a creation or an update. idle is set if nothing had to be done.
func counted(c *plan.Change, idle bool) (n Counts) {
	switch {
	case c.Action != plan.Update:
		n.Added++
	case !idle:
		n.Changed++
	}
	if c.Importing != nil {
		n.Imported++
	}
	return n
}

// recordsFirst reports whether the object that a change makes is recorded with create_before_destroy. A replacement has
// been done in one order or the other.
func (a *Applier) recordsFirst(c *plan.Change) bool {
	if c.Action.IsReplace() {
		return c.CreateBeforeDestroy
	}
	return a.first[c.Addr]
}

// objectOf returns the object for the state from a result and its stored attributes.
func (a *Applier) objectOf(c *plan.Change, ev *instance.Instance, attrs []byte, sensitive []cty.Path,
	r *wire.ApplyResult) (*state.Object, error) {
	o := &state.Object{
		Status: state.Ready, SchemaVersion: ev.Schema.Version, Attrs: attrs, Sensitive: sensitive, Private: r.Private,
		Dependencies: a.dependencies(c.Addr), CreateBeforeDestroy: a.recordsFirst(c), SkipDestroy: c.SkipDestroy,
	}
	if old := a.object(c.Addr, state.CurrentObject); c.Action == plan.Update && old != nil {
		o.Status = old.Status
	}
	if r.Tainted {
		o.Status = state.Tainted
	}
	id, err := ev.DecodeIdentity(r.Identity)
	if err != nil {
		return nil, err
	}
	if id != cty.NilVal {
		o.Identity, o.IdentityVersion = values.EncodeIdentity(id), ev.Identity.Version
	}
	return o, nil
}

func (a *Applier) providerOf(i addr.Instance) addr.ProviderInstance {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.state.ProviderOf(i)
}

// unreadable returns the step for data of a check that cannot be read: the check has failed. If the plan has tried
// to read the data, the configuration is stored; if it was deferred to the apply, nothing is, and the stored data
// are removed.
func unreadable(c *plan.Change, r *values.Resource, ev *instance.Instance, diags diag.List) program.Step {
	value := ev.Unread()
	r.Set(c.Addr.Key, value)
	step := program.Step{
		Diags: values.Observe(ev.Resource.Code.Config, c.Addr.Module, diags),
		Value: &effect{checks: []instance.Outcome{instance.Unreadable(r, diags)}},
		Notes: program.Notes{Quiet: true},
	}
	if c.Reason != plan.ReadBecauseCheckNested {
		step.Changes = []state.Change{state.SetObject{Addr: c.Addr}}
		return step
	}
	bare, _ := value.UnmarkDeep()
	o := &state.Object{Status: state.Ready, SchemaVersion: ev.Schema.Version}
	var err error
	if o.Attrs, o.Sensitive, err = values.EncodeStoredData(cty.UnknownAsNull(bare), ev.Schema.Block,
		ev.Sensitive); err != nil {
		return instance.Broken("storing "+c.Addr.String(), err)
	}
	step.Changes = []state.Change{state.SetObject{Addr: c.Addr, Provider: ev.Provider, Object: o}}
	return step
}

// read reads a data source that the plan has deferred.
func (a *Applier) read(v int, c *plan.Change) program.Step {
	r := a.block(c.Addr)
	if r == nil {
		return program.Step{}
	}
	ev, said := a.evaluate(r, c.Addr.Key)
	if said.HasErrors() {
		return unmet(ev, said)
	}
	if !ev.Config.IsWhollyKnown() {
		return program.Step{Diags: said.Append(diag.New(diag.Error, "Configuration contains unknown value",
			fmt.Sprintf("The configuration of %s still has values that are not known, so it cannot be read.", c.Addr),
			ev.Resource.Code.Config.Range.Ptr()))}
	}
	config, err := ev.EncodeConfig()
	if err != nil {
		return instance.Broken("encoding the configuration of "+c.Addr.String(), err)
	}
	nested := ev.Resource.Code.Config.Check != ""
	a.work[v].then = func(res *wire.Result) program.Step {
		diags := values.WireDiags(res.Diagnostics, ev.Range)
		if diags.HasErrors() && nested {
			return unreadable(c, r, ev, diags)
		}
		if diags = said.Append(diags); diags.HasErrors() {
			return program.Step{Diags: diags}
		}
		value, err := instance.Decode(res.Value, ev.Schema)
		if err != nil {
			return instance.Broken("decoding "+c.Addr.String(), err)
		}
		value = ev.Marked(value)
		r.Set(c.Addr.Key, value)
		o := &state.Object{Status: state.Ready, SchemaVersion: ev.Schema.Version, Dependencies: nil}
		if o.Attrs, o.Sensitive, err = values.EncodeStoredData(value, ev.Schema.Block, ev.Sensitive); err != nil {
			return instance.Broken("storing "+c.Addr.String(), err)
		}
		checks, more := ev.Postconditions(value)
		return program.Step{
			Diags:   diags.Append(errorsOnly(more)),
			Changes: []state.Change{state.SetObject{Addr: c.Addr, Provider: ev.Provider, Object: o}},
			Value:   &effect{checks: append(ev.Checks, checks...)},
			Notes:   instance.Notes(string(plan.Read), value),
		}
	}
	return program.Step{
		Lane: program.Fast, Place: &ev.Place,
		Task: &wire.Task{Address: c.Addr.String(), Provider: ev.Wire,
			Read: &wire.ReadDataTask{Type: c.Addr.Resource.Type, Config: config, Meta: ev.Meta}},
	}
}
