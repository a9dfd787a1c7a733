package values

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/schema"
)

// triggers returns the references in the action_trigger blocks of a resource, except those to the resource itself.
func (c *Code) triggers(r *config.Resource) []eval.Reference {
	var out []eval.Reference
	for _, t := range r.Triggers {
		for _, ref := range c.Expr(t.Condition).References() {
			if !refersTo(ref, r.Addr) {
				out = append(out, ref)
			}
		}
		for _, e := range t.Actions {
			out = append(out, triggerReferences(e)...)
		}
	}
	return out
}

// TriggeredAction returns the instance that an element of the actions of an action_trigger block names, for an
// instance of the resource with a repetition. The expansion of the action must be available, except in a validation,
// which returns no instance.
func (m *Module) TriggeredAction(e hcl.Expression, rep eval.Repetition) (*Resource, addr.Instance, diag.List) {
	if m.store.Phase == Validating {
		rep = anyKey(rep)
	}
	ref, diags := eval.EvalReference(e, rep)
	if diags.HasErrors() {
		return nil, addr.Instance{}, diags
	}
	at := addr.ResourceRef{}
	switch s := ref.Subject.(type) {
	case addr.Resource:
		at.Resource = s
	case addr.ResourceRef:
		at = s
	}
	block := m.Node.Module.Resources[at.Resource]
	invalid := func(summary, format string, args ...any) (*Resource, addr.Instance, diag.List) {
		return nil, addr.Instance{}, diag.Errors(summary, fmt.Sprintf(format, args...), e.Range().Ptr())
	}
	repeats := block != nil && (block.Count != nil || block.ForEach != nil)
	switch {
	case block == nil:
		return invalid("Reference to undeclared action", "%s is not declared in %s.", at.Resource, m.Addr.Display())
	case repeats && at.Key == addr.NoKey:
		return invalid("Missing action instance key", "%s has count or for_each, so the reference needs a key.",
			at.Resource)
	case !repeats && at.Key != addr.NoKey:
		return invalid("Unexpected action instance key", "%s has neither count nor for_each: leave out the key.",
			at.Resource)
	}
	r := m.ResourceBlock(at.Resource)
	if m.store.Phase == Validating {
		return r, addr.Instance{}, nil
	}
	expansion, diags := r.Expansion()
	switch {
	case diags.HasErrors():
		return nil, addr.Instance{}, diags
	case !expansion.Has(at.Key) && !expansion.Unknown:
		return invalid("No such instance of an action", "%s has no instance with the key of this reference (%s).",
			at.Resource, at.Key)
	}
	return r, r.Addr().Instance(at.Key), nil
}

// anyKey gives a repetition keys that are known: any would be valid.
func anyKey(rep eval.Repetition) eval.Repetition {
	if rep.CountIndex != cty.NilVal {
		rep.CountIndex = cty.Zero
	}
	if rep.EachKey != cty.NilVal {
		rep.EachKey = cty.StringVal("")
	}
	return rep
}

// TriggerCondition evaluates the condition of an action_trigger block. known is false if it cannot be decided yet.
func (m *Module) TriggerCondition(t *config.ActionTrigger, rep eval.Repetition) (holds, known bool, diags diag.List) {
	if t.Condition == nil {
		return true, true, nil
	}
	v, diags := m.store.Code.Expr(t.Condition).Eval(m.Scope, cty.Bool, rep, cty.NilVal)
	if diags.HasErrors() {
		return false, false, diags
	}
	var problem string
	bare, _ := v.UnmarkDeep()
	switch {
	case marks.Contains(v, marks.Ephemeral):
		problem = "it is ephemeral, so the plan and the apply might decide differently"
	case bare.IsNull():
		problem = "it is null"
	default:
		return bare.IsKnown() && bare.True(), bare.IsKnown(), diags
	}
	return false, false, diags.Append(diag.New(diag.Error, "Invalid action trigger condition",
		"The condition cannot be used: "+problem+".", t.Condition.Range().Ptr()))
}

// WithoutWriteOnly returns a value with its write-only attributes null, as plans and states have it.
func WithoutWriteOnly(v cty.Value, block *schema.Block) cty.Value {
	if !block.ContainsWriteOnly() {
		return v
	}
	bare, marked := v.UnmarkDeepWithPaths()
	hidden := cty.NewPathSet(block.WriteOnlyPaths(bare)...)
	out, err := cty.Transform(bare, func(path cty.Path, part cty.Value) (cty.Value, error) {
		if hidden.Has(path) {
			return cty.NullVal(part.Type()), nil
		}
		return part, nil
	})
	if err != nil {
		panic("values: the transformation returns no errors: " + err.Error())
	}
	kept := marked[:0]
	for _, m := range marked {
		if !hidden.Has(m.Path) {
			kept = append(kept, m)
		}
	}
	return out.MarkWithPaths(kept)
}
