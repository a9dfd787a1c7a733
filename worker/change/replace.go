package change

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
)

// mustReplace returns those of the provider's requires-replace paths whose values really change: some providers
// list every attribute that could need a new object, and ignore_changes may have undone a change. A write-only
// attribute always counts, because both values are null.
func (i instance) mustReplace(prior, planned cty.Value, paths []cty.Path) ([]cty.Path, diag.List) {
	if prior.IsNull() {
		return nil, nil // a creation replaces nothing
	}
	var out []cty.Path
	var diags diag.List
	seen := cty.NewPathSet()
	for _, path := range paths {
		if seen.Has(path) {
			continue
		}
		seen.Add(path)
		before, noBefore := hcl.ApplyPath(prior, path, nil)
		after, noAfter := hcl.ApplyPath(planned, path, nil)
		if noBefore.HasErrors() && noAfter.HasErrors() {
			diags = append(diags, i.blame(invalidPlan,
				"Provider %q says that a change at %s%s needs a new object, but there is no such attribute, neither "+
					"in the prior nor in the planned object.",
				i.Name, i.Address, pathText(path)))
			continue
		}
		changed := noBefore.HasErrors() || noAfter.HasErrors() || !equal(before, after)
		if changed || writeOnly(i.block, path) {
			out = append(out, path)
		}
	}
	return out, diags
}

// decide determines the action, and why an object must be replaced. forced is PlanTask.Replace.
func (i instance) decide(prior, planned cty.Value, replace []cty.Path, forced string) (plan.Action, string) {
	secret := false
	for _, path := range replace {
		secret = secret || writeOnly(i.block, path)
	}
	same := equal(prior, planned)
	switch {
	case prior.IsNull():
		return plan.Create, ""
	case forced == ReplaceRequested:
		return plan.DeleteThenCreate, ReasonRequested
	case forced != "":
		return plan.DeleteThenCreate, ReasonTriggers
	case same && !secret:
		return plan.NoOp, ""
	case len(replace) > 0:
		return plan.DeleteThenCreate, ReasonCannotUpdate
	default:
		return plan.Update, ""
	}
}

// The values of PlanTask.Replace. All but the first are caused by another change.
const (
	ReplaceRequested = "requested"
	ReplaceTriggered = "triggered"
)

// The values of PlanResult.Reason.
const (
	ReasonTainted      = "tainted"
	ReasonRequested    = "requested"
	ReasonTriggers     = "triggers"
	ReasonCannotUpdate = "cannot_update"
)

// equal reports whether two values are known to be equal.
func equal(a, b cty.Value) bool {
	eq := a.Equals(b)
	return eq.IsKnown() && eq.True()
}
