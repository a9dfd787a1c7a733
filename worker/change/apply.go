package change

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// Applied is the outcome of applying one planned step.
type Applied struct {
	// Result is the object afterwards. It is nil if nothing was done (the diagnostics say why: the object is
	// unchanged), and if Doubt is set.
	Result *wire.ApplyResult
	// Doubt says why the outcome is unknown: the provider was called and did not answer, or its answer cannot be
	// stored.
	Doubt string
	// Answer is the readable part of an answer that cannot be stored; nil if there is none.
	Answer *wire.Answer
}

// Apply applies one planned step to one object.
func Apply(ctx context.Context, h Host, t *wire.ApplyTask) (Applied, diag.List) {
	i, diags := h.managedInstance(t.Type, t.Meta, t.Sensitive)
	if diags.HasErrors() {
		return Applied{}, diags
	}
	prior, more := i.priorOf(ctx, t)
	if diags = append(diags, more...); diags.HasErrors() {
		return Applied{}, diags
	}
	if t.Action == plan.Delete {
		return i.delete(ctx, t, prior, diags)
	}
	return i.createOrUpdate(ctx, t, prior, diags)
}

// priorOf returns the prior object of the step.
func (i instance) priorOf(ctx context.Context, t *wire.ApplyTask) (object, diag.List) {
	if t.Stored != nil {
		return i.current(ctx, t.Stored, nil)
	}
	return i.decodeObject(t.Prior, t.PriorPrivate, t.PriorIdentity, "prior object")
}

func (i instance) delete(ctx context.Context, t *wire.ApplyTask, prior object, diags diag.List) (Applied, diag.List) {
	if prior.value.IsNull() {
		return Applied{Result: i.result(i.absent())}, diags
	}
	want, more := i.decodeObject(nil, t.PlannedPrivate, t.PlannedIdentity, "planned object")
	if t.Stored != nil { // a deposed object: the provider has not planned yet
		var p planned
		p, more = i.planDestroy(ctx, prior)
		want = p.object
	}
	if diags = append(diags, more...); diags.HasErrors() {
		return Applied{}, diags
	}
	if want.private == nil {
		want.private = prior.private
	}
	if want.identity == cty.NilVal {
		want.identity = prior.identity
	}
	step := step{action: plan.Delete, prior: prior, planned: want, config: cty.NullVal(i.ty)}
	out, more := i.carryOut(ctx, step)
	return out, append(diags, more...)
}

func (i instance) createOrUpdate(ctx context.Context, t *wire.ApplyTask, prior object, diags diag.List) (
	Applied, diag.List) {
	config, more := i.decode(t.Config, i.ty, "configuration")
	diags = append(diags, more...)
	promised, more := i.decodeObject(t.Planned, t.PlannedPrivate, t.PlannedIdentity, "planned object")
	diags = append(diags, more...)
	ignore, more := i.decodeIgnored(t.IgnorePaths, t.IgnoreAll)
	if diags = append(diags, more...); diags.HasErrors() {
		return Applied{}, diags
	}
	for _, b := range unknowns(config).sorted() {
		diags = append(diags, i.problem("Configuration contains unknown value",
			"The configuration of %s is applied, but its value at %s is still unknown. This is a bug in Millipede.",
			i.Address, pathText(b.path)))
	}
	if diags.HasErrors() {
		return Applied{}, diags
	}

	final := promised
	if !t.Settled {
		// Values that were unknown in the plan are known now, so the provider completes its plan.
		p, more := i.planChange(ctx, prior, config, ignore, "")
		if diags = append(diags, more...); diags.HasErrors() {
			return Applied{}, diags
		}
		if diags = append(diags, i.checkFinalPlan(t.Action, promised.value, p)...); diags.HasErrors() {
			return Applied{}, diags
		}
		if p.action == plan.NoOp {
			result := i.result(prior)
			result.Unchanged = true // with the values known now, nothing has to change
			return Applied{Result: result}, diags
		}
		final = p.object
	}
	out, more := i.carryOut(ctx, step{action: t.Action, prior: prior, planned: final, config: config})
	return out, append(diags, more...)
}

// checkFinalPlan compares the plan made with the final values with the approved one.
func (i instance) checkFinalPlan(action plan.Action, promised cty.Value, final planned) diag.List {
	var diags diag.List
	if final.action != action && !(action == plan.Update && final.action == plan.NoOp) {
		diags = append(diags, i.blame(inconsistentPlan,
			"Planned with the values that are known now, %s has another action: provider %q changed it from %s to %s.",
			i.Address, i.Source, action, final.action))
	}
	opening := "Asked again with the values that are known now, provider " + quoted(i.Source) +
		" contradicts the approved plan for"
	return append(diags, i.blameEach(inconsistentPlan, opening, checkCompletes(i.block, promised, final.value))...)
}

// step is one change as it is sent to the provider.
type step struct {
	action  plan.Action
	prior   object
	planned object
	config  cty.Value
}

// carryOut calls the provider to apply the step. From here on it may have had an effect: a partial object is stored
// with the errors, and if there is no answer the outcome is in doubt. The same holds for an answer that cannot be
// stored: whatever was created must be in the state, or be recorded as in doubt.
func (i instance) carryOut(ctx context.Context, s step) (Applied, diag.List) {
	resp, diags := i.Provider.ApplyResourceChange(ctx, provider.ApplyRequest{
		TypeName:        i.name,
		Prior:           s.prior.value,
		Planned:         s.planned.value,
		Config:          s.config,
		PlannedPrivate:  s.planned.private,
		ProviderMeta:    i.meta,
		PlannedIdentity: s.planned.identity,
	})
	diags = diags.WithAddress(i.Address)
	if lost := lostIn(diags); lost != nil {
		return Applied{Doubt: lost.Reason, Answer: i.answerForDoubt(lost.Answer)}, diags
	}
	failed := diags.HasErrors()
	if doubt, more := i.checkKept(s, resp, failed); doubt != "" {
		return Applied{Doubt: doubt, Answer: i.answerForDoubt(answerOf(resp))}, append(diags, more...)
	}
	value, more := i.checkApplied(s, resp, failed)
	diags = append(diags, more...)
	identity, more := i.checkAppliedIdentity(resp.Identity)
	diags = append(diags, more...)

	switch {
	case value.IsNull() && diags.HasErrors():
		// Providers often answer a failure with null. If the object no longer exists, the next refresh detects it.
		return Applied{Result: i.result(s.prior)}, diags
	case value.IsNull():
		return Applied{Result: i.result(i.absent())}, diags
	}
	now := object{value: value, private: resp.Private, identity: identity}
	// It is unknown whether a failed creation left a complete object; the object shows the effects of a failed update.
	now.tainted = s.action == plan.Create && diags.HasErrors()
	return Applied{Result: i.result(now)}, diags
}

// checkKept returns the reason why the object in the provider's answer cannot be stored, if any. A failed creation
// may have created nothing, which is answered by null; a successful one has created something.
func (i instance) checkKept(s step, resp provider.ApplyResponse, failed bool) (doubt string, diags diag.List) {
	value := resp.Object
	switch {
	case value == cty.NilVal || value.IsNull():
		if failed || s.action != plan.Create {
			return "", nil // checkApplied reports it
		}
		_, diags := i.checkApplied(s, resp, failed)
		return "asked to create the object, the provider reported no failure, and returned none", diags
	case len(i.conforms(value)) > 0:
		opening := i.answer("applying") + ", so that nothing can be saved of"
		return "the provider's answer does not fit its schema", i.blameEach(invalidObject, opening, i.conforms(value))
	}
	found := infinities(value)
	if len(found) == 0 {
		return "", nil
	}
	opening := i.answer("applying") + ", so that it cannot be saved:"
	return "the provider's answer holds an infinite number, which no state can hold",
		i.blameEach(invalidObject, opening, found)
}

// infinities lists the paths of v that are infinite numbers.
func infinities(v cty.Value) violations {
	var found violations
	err := cty.Walk(v, func(path cty.Path, v cty.Value) (bool, error) {
		if v.Type() == cty.Number && v.IsKnown() && !v.IsNull() && v.AsBigFloat().IsInf() {
			found.add(path, "the number is infinite")
		}
		return v.IsKnown() && !v.Type().IsPrimitiveType(), nil
	})
	if err != nil {
		panic("change: the walk cannot fail: " + err.Error())
	}
	return found
}

// answerOf returns the readable part of an answer that was received as a value.
func answerOf(resp provider.ApplyResponse) *provider.Answer {
	a := &provider.Answer{Private: resp.Private}
	if v := resp.Object; v != cty.NilVal && v.Type().IsObjectType() && !v.IsNull() && v.IsKnown() {
		a.Attributes = v.AsValueMap()
	}
	return a
}

// answerForDoubt returns the part of an answer that is recorded with the doubt.
func (i instance) answerForDoubt(a *provider.Answer) *wire.Answer {
	if a == nil {
		return nil
	}
	out := &wire.Answer{Known: i.block.Known(a.Attributes, i.secrets), Private: a.Private,
		Raw: a.Raw[:min(len(a.Raw), wire.MaxRaw)]}
	if out.Known == nil && len(out.Private) == 0 && len(out.Raw) == 0 {
		return nil
	}
	return out
}

// checkApplied returns the object in the provider's answer in the form in which it is stored, and the problems. If
// the provider reports a failure, differences from the plan are not reported.
func (i instance) checkApplied(s step, resp provider.ApplyResponse, failed bool) (cty.Value, diag.List) {
	deleting := s.action == plan.Delete
	value := resp.Object
	if value == cty.NilVal {
		value = s.prior.value
		if deleting {
			value = cty.NullVal(i.ty)
		}
		if failed {
			return value, nil
		}
		return value, diag.List{i.blame(invalidObject, "Provider %q answered the apply of %s with no value at all.",
			i.Name, i.Address)}
	}
	var diags diag.List
	if !failed { // a plugin's answer has been checked already; problems found there are failures
		diags = i.writeOnlyReturned(value)
	}
	value = withoutWriteOnly(i.block, value)
	diags = append(diags, i.blameEach(invalidResult,
		"All values must be known after an apply (what is known is saved), but provider "+quoted(i.Name)+
			" left one unknown in",
		unknowns(value))...)
	value = cty.UnknownAsNull(value)
	if failed || diags.HasErrors() {
		return value, diags
	}
	if !deleting && !resp.LegacyTypeSystem {
		opening := "After the apply, provider " + quoted(i.Name) + " produced an unexpected new value for"
		diags = append(diags, i.blameEach(inconsistentEnd, opening, checkCompletes(i.block, s.planned.value, value))...)
	}
	if diags.HasErrors() {
		return value, diags
	}
	switch {
	case deleting && !value.IsNull():
		diags = append(diags, i.blame(invalidResult,
			"After the deletion of %s, provider %q still returned an object. It stays in the state, so that it can be "+
				"examined.", i.Address, i.Name))
	case !deleting && value.IsNull():
		diags = append(diags, i.blame(invalidResult,
			"After the %s of %s, provider %q returned null. Only a deletion leaves no object.", s.action,
			i.Address, i.Name))
	}
	return value, diags
}

// checkAppliedIdentity returns the identity in the form in which it is stored.
func (i instance) checkAppliedIdentity(v cty.Value) (cty.Value, diag.List) {
	identity, diags := i.checkIdentity(v, "applying")
	if identity == cty.NilVal {
		return identity, diags
	}
	opening := "An identity must be known after an apply, but provider " + quoted(i.Name) +
		" left a part unknown in that of"
	return cty.UnknownAsNull(identity), append(diags, i.blameEach(invalidResult, opening, unknowns(identity))...)
}

func (i instance) result(o object) *wire.ApplyResult {
	out := &wire.ApplyResult{SchemaVersion: i.version, IdentityVersion: i.identityVersion, Tainted: o.tainted}
	out.Object, out.Private, out.Identity = i.encodeObject(o)
	return out
}

// lostIn returns why the provider did not answer; nil if it did.
func lostIn(diags diag.List) *provider.Lost {
	for _, d := range diags {
		if lost, ok := d.Extra.(*provider.Lost); ok {
			return lost
		}
	}
	return nil
}
