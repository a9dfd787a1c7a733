package applying

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coding"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/provider/schema"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

type (
	schemaOf    = schema.Schema
	rangeFinder = func(cty.Path) *hcl.Range
)

// findIn finds the places of paths in a resource's block.
func findIn(r *values.Resource, body hcl.Body) rangeFinder {
	return func(path cty.Path) *hcl.Range {
		if len(path) > 0 {
			if rng := eval.ConfigRange(body, path); rng != nil {
				return rng
			}
		}
		return r.Code.Config.Range.Ptr()
	}
}

func encode(v cty.Value, s *schema.Schema) ([]byte, error) {
	bare, _ := v.UnmarkDeep()
	return coding.EncodeValue(bare, s.Block.ImpliedType())
}

func decode(b []byte, s *schema.Schema) (cty.Value, error) {
	if b == nil {
		return cty.NullVal(s.Block.ImpliedType()), nil
	}
	return coding.DecodeValue(b, s.Block.ImpliedType())
}

// apply makes or changes an object; one that does not change has its postconditions checked again.
func (a *Applier) apply(v int, c *plan.Change) program.Step {
	r := a.block(c.Addr)
	if r == nil {
		return program.Step{Diags: diag.Errors("Resource block is missing",
			fmt.Sprintf("The plan changes %s, whose block is not in the configuration that the plan was made with.", c.Addr), nil)}
	}
	if c.Action == plan.NoOp {
		return a.recheck(r, c)
	}
	ev, diags := a.evaluate(r, c.Addr.Key)
	if diags.HasErrors() {
		return unmet(ev, diags)
	}
	task := &wire.ApplyTask{Type: c.Addr.Resource.Type, Action: plan.Create, PlannedPrivate: c.PlannedPrivate, IgnoreAll: ev.code.Config.IgnoreAll}
	var err error
	if c.Action == plan.Update {
		task.Action, task.PriorPrivate = plan.Update, c.PriorPrivate
		if task.Prior, err = encode(c.Before, ev.schema); err != nil {
			return broken("encoding "+c.Addr.String(), err)
		}
		if task.PriorIdentity, err = encodeIdentity(c.BeforeIdentity); err != nil {
			return broken("encoding the identity of "+c.Addr.String(), err)
		}
	}
	if task.Planned, err = encode(c.After, ev.schema); err != nil {
		return broken("encoding "+c.Addr.String(), err)
	}
	if task.Config, err = ev.encodeConfig(); err != nil {
		return broken("encoding the configuration of "+c.Addr.String(), err)
	}
	if task.PlannedIdentity, err = encodeIdentity(c.AfterIdentity); err != nil {
		return broken("encoding the identity of "+c.Addr.String(), err)
	}
	if task.Sensitive, err = values.EncodePaths(ev.marked); err != nil {
		return broken("encoding "+c.Addr.String(), err)
	}
	if task.IgnorePaths, err = values.EncodePaths(values.IgnorePaths(ev.code.Config)); err != nil {
		return broken("encoding ignore_changes of "+c.Addr.String(), err)
	}
	a.work[v].then = func(res *wire.Result) program.Step { return a.applied(v, c, r, ev, res) }
	return program.Step{
		Lane: lane(ev.instance.Provider), Place: ev.place,
		Task: &wire.Task{Address: c.Addr.String(), Provider: ev.provider, Apply: task,
			More: c.Action != plan.Update && len(createProvisioners(ev.code.Config)) > 0},
	}
}

func encodeIdentity(v cty.Value) ([]byte, error) {
	if v == cty.NilVal || v.IsNull() {
		return nil, nil
	}
	return coding.EncodeValue(v, v.Type())
}

// recheck checks the postconditions of an object that does not change, with what is real by now.
func (a *Applier) recheck(r *values.Resource, c *plan.Change) program.Step {
	var step program.Step
	if o := a.object(c.Addr, state.CurrentObject); o != nil && o.Status != state.InDoubt {
		kept := *o
		kept.Dependencies, kept.CreateBeforeDestroy, kept.SkipDestroy = a.dependencies(c.Addr), c.CreateBeforeDestroy, c.SkipDestroy
		if !kept.Equal(o) {
			step.Changes = append(step.Changes, state.SetObject{Addr: c.Addr, Provider: c.Provider, Object: &kept})
		}
	}
	if a.Plan.Mode == plan.Normal && len(r.Code.Config.Postconditions) > 0 && c.Deposed == state.CurrentObject {
		conditions := r.CheckPostconditions(c.Addr.String(), a.repetition(r, c.Addr.Key), c.After)
		step.Diags = errorsOnly(conditions.Diags)
		step.Value = &effect{checks: outcomes("resource", c.Addr.Config().String(), conditions)}
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

func (a *Applier) repetition(r *values.Resource, k addr.Key) eval.Repetition {
	e, _ := r.Expansion()
	return e.Repetition(k)
}

// applied folds the answer to an apply task into the state.
func (a *Applier) applied(v int, c *plan.Change, r *values.Resource, ev *evaluated, res *wire.Result) program.Step {
	diags := values.WireDiags(res.Diagnostics, ev.ranges)
	if res.Apply == nil {
		if !diags.HasErrors() {
			return unkept(c, ev.schema, ev.marked, res, diags, errNoAnswer)
		}
		return program.Step{Diags: diags} // nothing was begun
	}
	value, err := decode(res.Apply.Object, ev.schema)
	if err != nil {
		return unkept(c, ev.schema, ev.marked, res, diags, err)
	}
	value = values.MarkSensitive(value, ev.schema.Block, ev.marked)
	step := program.Step{Diags: diags}
	if value.IsNull() {
		if !diags.HasErrors() {
			return unkept(c, ev.schema, ev.marked, res, diags, errNoObject)
		}
		return step // a creation failed without a trace
	}
	object, err := a.objectOf(c, ev, value, res.Apply)
	if err != nil {
		return unkept(c, ev.schema, ev.marked, res, diags, err)
	}
	if old := a.object(c.Addr, state.CurrentObject); c.Action == plan.CreateThenDelete && old != nil {
		step.Changes = append(step.Changes, state.SetObject{Addr: c.Addr, Deposed: a.deposedKey(c.Addr), Provider: a.providerOf(c.Addr), Object: old})
	}
	provisioners := createProvisioners(ev.code.Config)
	if task := c.Action != plan.Update && len(provisioners) > 0 && !diags.HasErrors(); task {
		return a.provisionCreated(v, c, r, ev, object, value, res.Worker, step)
	}
	if diags.HasErrors() {
		step.Changes = append(step.Changes, state.SetObject{Addr: c.Addr, Provider: ev.instance, Object: object})
		return step
	}
	// A change of what is sensitive alone counts, although there is nothing in it for the provider.
	idle := res.Apply.Unchanged && !c.After.IsWhollyKnown()
	return a.made(c, r, ev, object, value, idle, step)
}

// made finishes a vertex whose object is whole. idle tells that there was nothing left to do about it.
func (a *Applier) made(c *plan.Change, r *values.Resource, ev *evaluated, object *state.Object, value cty.Value, idle bool, step program.Step) program.Step {
	step.Changes = append(step.Changes, state.SetObject{Addr: c.Addr, Provider: ev.instance, Object: object})
	r.Set(c.Addr.Key, value)
	e := &effect{checks: ev.checks}
	switch {
	case c.Action != plan.Update:
		e.counts.Added++
	case !idle:
		e.counts.Changed++
	}
	if c.Importing != nil {
		e.counts.Imported++
	}
	conditions := r.CheckPostconditions(c.Addr.String(), ev.rep, value)
	e.checks = append(e.checks, outcomes("resource", c.Addr.Config().String(), conditions)...)
	step.Diags = step.Diags.Append(errorsOnly(conditions.Diags))
	step.Value = e
	step.Notes = notes(string(c.Action), value)
	return step
}

func notes(action string, v cty.Value) program.Notes {
	key, id := values.IDOf(v)
	return program.Notes{Action: action, ID: id, IDKey: key}
}

// objectOf is what the state keeps of an answer.
func (a *Applier) objectOf(c *plan.Change, ev *evaluated, value cty.Value, r *wire.ApplyResult) (*state.Object, error) {
	o := &state.Object{
		Status: state.Ready, SchemaVersion: ev.schema.Version, Private: r.Private,
		Dependencies: a.dependencies(c.Addr), CreateBeforeDestroy: c.CreateBeforeDestroy, SkipDestroy: c.SkipDestroy,
	}
	if old := a.object(c.Addr, state.CurrentObject); c.Action == plan.Update && old != nil {
		o.Status = old.Status
	}
	if r.Tainted {
		o.Status = state.Tainted
	}
	var err error
	if o.Attrs, o.Sensitive, err = values.EncodeStored(value, ev.schema.Block); err != nil {
		return nil, err
	}
	if r.Identity != nil && ev.code.Identity != nil {
		id, err := coding.DecodeValue(r.Identity, ev.code.Identity.Body.ImpliedType())
		if err != nil {
			return nil, err
		}
		o.Identity, o.IdentityVersion = values.EncodeIdentity(id), ev.code.Identity.Version
	}
	return o, nil
}

func (a *Applier) providerOf(i addr.Instance) addr.ProviderInstance {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.state.ProviderOf(i)
}

// unreadable is what becomes of the data of a check that cannot be read: the check has failed, and what is stored is the
// configuration alone.
func unreadable(c *plan.Change, r *values.Resource, ev *evaluated, diags diag.List) program.Step {
	value := values.MarkSensitive(values.UnknownComputed(ev.config, ev.schema.Block), ev.schema.Block, ev.marked)
	r.Set(c.Addr.Key, value)
	config, at := values.CheckAround(r)
	step := program.Step{
		Diags: values.Observe(ev.code.Config, c.Addr.Module, diags),
		Value: &effect{checks: []outcome{{"check", config, state.CheckObject{
			Address: at, Status: state.CheckFail, Failures: []string{values.ProblemText(diags)},
		}}}},
	}
	bare, _ := value.UnmarkDeep()
	o := &state.Object{Status: state.Ready, SchemaVersion: ev.schema.Version}
	var err error
	if o.Attrs, o.Sensitive, err = values.EncodeStoredData(cty.UnknownAsNull(bare), ev.schema.Block, ev.marked); err != nil {
		return broken("storing "+c.Addr.String(), err)
	}
	step.Changes = []state.Change{state.SetObject{Addr: c.Addr, Provider: ev.instance, Object: o}}
	return step
}

// read reads a data source that was put off.
func (a *Applier) read(v int, c *plan.Change) program.Step {
	r := a.block(c.Addr)
	if r == nil {
		return program.Step{}
	}
	ev, diags := a.evaluate(r, c.Addr.Key)
	if diags.HasErrors() {
		return unmet(ev, diags)
	}
	if !ev.config.IsWhollyKnown() {
		return program.Step{Diags: diags.Append(diag.New(diag.Error, "Configuration contains unknown value",
			fmt.Sprintf("The configuration of %s still has values that are not known, so it cannot be read.", c.Addr), ev.code.Config.Range.Ptr()))}
	}
	config, err := ev.encodeConfig()
	if err != nil {
		return broken("encoding the configuration of "+c.Addr.String(), err)
	}
	nested := ev.code.Config.Check != ""
	a.work[v].then = func(res *wire.Result) program.Step {
		diags := values.WireDiags(res.Diagnostics, ev.ranges)
		if diags.HasErrors() {
			if nested {
				return unreadable(c, r, ev, diags)
			}
			return program.Step{Diags: diags}
		}
		value, err := decode(res.Value, ev.schema)
		if err != nil {
			return broken("decoding "+c.Addr.String(), err)
		}
		value = values.MarkSensitive(value, ev.schema.Block, ev.marked)
		r.Set(c.Addr.Key, value)
		o := &state.Object{Status: state.Ready, SchemaVersion: ev.schema.Version, Dependencies: nil}
		if o.Attrs, o.Sensitive, err = values.EncodeStoredData(value, ev.schema.Block, ev.marked); err != nil {
			return broken("storing "+c.Addr.String(), err)
		}
		conditions := r.CheckPostconditions(c.Addr.String(), ev.rep, value)
		return program.Step{
			Diags:   diags.Append(errorsOnly(conditions.Diags)),
			Changes: []state.Change{state.SetObject{Addr: c.Addr, Provider: ev.instance, Object: o}},
			Value:   &effect{checks: append(ev.checks, outcomes("resource", c.Addr.Config().String(), conditions)...)},
			Notes:   notes(string(plan.Read), value),
		}
	}
	return program.Step{
		Lane: program.Fast, Place: ev.place,
		Task: &wire.Task{Address: c.Addr.String(), Provider: ev.provider, Read: &wire.ReadDataTask{Type: c.Addr.Resource.Type, Config: config}},
	}
}
