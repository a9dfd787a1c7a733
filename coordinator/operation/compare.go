package operation

import (
	"context"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// Drifted is an object that differs from the state.
type Drifted struct {
	Addr addr.Instance
	// Gone is set if it no longer exists. Otherwise Attributes are the names of the differing attributes, sorted.
	Gone       bool
	Attributes []string
}

// Compare reads instances as a refresh-only plan does, and returns those that differ from the state. It leaves out
// deposed objects, records nothing, and reads no other managed objects. With errors, some of the instances were not
// read; it still returns the differences of the others.
func (s *Session) Compare(ctx context.Context, prior *state.State, instances []addr.Instance) ([]Drifted, diag.List) {
	reads := map[addr.Instance]bool{}
	for _, a := range instances {
		reads[a] = true
	}
	planned, diags := s.planReading(ctx, prior, reads)
	if planned == nil {
		return nil, diags
	}
	var out []Drifted
	for _, c := range planned.Plan.Drift {
		if c.Deposed != state.CurrentObject || !reads[c.Addr] {
			continue
		}
		switch c.Action {
		case plan.Delete:
			out = append(out, Drifted{Addr: c.Addr, Gone: true})
		case plan.Update:
			out = append(out, Drifted{Addr: c.Addr, Attributes: differing(c.Before, c.After)})
		}
	}
	return out, diags
}

// differing returns the names of the attributes in which two values of one type differ, sorted.
func differing(before, after cty.Value) (names []string) {
	before, _ = before.UnmarkDeep()
	after, _ = after.UnmarkDeep()
	if before.IsNull() || after.IsNull() || !before.Type().IsObjectType() || !after.Type().IsObjectType() {
		return nil
	}
	for name := range after.Type().AttributeTypes() {
		if !before.Type().HasAttribute(name) || !before.GetAttr(name).RawEquals(after.GetAttr(name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
