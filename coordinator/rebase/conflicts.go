// Package rebase adapts a saved plan to a later version of the state, unless something that the plan depends on
// has changed since.
//
// It only compares and rewrites data: coordinator/estate reads the store and applies the plan.
package rebase

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// Conflict is a change of something that a plan depends on.
type Conflict struct {
	// What is the address of the changed object.
	What string
	// Role is the plan's use of the object, Event the change of the object. Each continues a sentence that begins with
	// What.
	Role, Event string
	// By is the version that changed it last; its serial is 0 if that is unknown.
	By journal.VersionInfo
}

// String returns the conflict as a line for people.
func (c Conflict) String() string {
	line := fmt.Sprintf("%s, which %s, was %s", c.What, c.Role, c.Event)
	var by []string
	if c.By.Cause != "" {
		by = append(by, c.By.Cause)
	}
	if c.By.Run != "" {
		by = append(by, "run "+c.By.Run)
	}
	if c.By.Who != "" {
		by = append(by, "by "+c.By.Who)
	}
	if c.By.Serial > 0 {
		by = append(by, fmt.Sprintf("serial %d", c.By.Serial))
	}
	if len(by) > 0 {
		line += ": " + strings.Join(by, ", ")
	}
	return line
}

// Conflicts returns the changes that prevent the application of a plan. changed are the differences between the
// state for which the plan was made and the present one. The plan must record its dependencies.
func Conflicts(p *plan.Plan, changed []journal.Difference) []Conflict {
	var out []Conflict
	for _, d := range changed {
		switch {
		case d.Checks:
			// Results of checks are only informative: no value depends on them.
		case d.Output != "":
			if slices.Contains(p.Dependencies.Outputs, d.Output) {
				out = append(out, Conflict{"output." + d.Output, changes, "changed", d.By})
			}
		default:
			if role := roleOf(p, d.Difference); role != "" {
				out = append(out, Conflict{d.Instance.String(), role, event(d.Difference), d.By})
			}
		}
	}
	return out
}

// The roles of an instance in a plan.
const (
	changes = "the plan changes"
	reads   = "the plan depends on"
)

// differs reports whether an instance that was changed since a plan was made differs from the instance that the plan
// has seen. If others have changed it back, the plan may still have read it in between.
func differs(p *plan.Plan, d state.Difference) bool {
	return d.Matters() || !d.Now.Same(p.Prior.Instance(d.Instance))
}

// Differs reports whether the present state differs from the one that a plan has seen, whether or not the plan depends
// on the difference.
func Differs(p *plan.Plan, changed []journal.Difference) bool {
	return slices.ContainsFunc(changed, func(d journal.Difference) bool {
		return !d.Back || differs(p, d.Difference)
	})
}

// roleOf returns the role of an instance in a plan, if the difference matters to it; otherwise "".
func roleOf(p *plan.Plan, d state.Difference) string {
	r := p.Dependencies
	switch {
	case addr.ContainsInstance(r.Writes, d.Instance):
		// The plan reads data sources again when it is applied, so their stored results may differ.
		if d.Instance.Resource.Mode != addr.Data && (differs(p, d) || cameAndWent(p, d)) {
			return changes
		}
		return "" // a changed or destroyed object may depend on a destroyed one
	case addr.ContainsInstance(r.Reads, d.Instance) && differs(p, d):
		return reads
	}
	for _, k := range r.Keeps {
		on := state.DependOn(k)
		// An object that depended on it before and was changed may have been changed because of it; the plan
		// has seen the object as it was.
		if d.Now.Depends(on) && (!d.Then.Depends(on) || !p.Prior.Instance(d.Instance).Depends(on) || differs(p, d)) {
			return fmt.Sprintf("depends on %s, of which the plan destroys objects", k)
		}
	}
	return ""
}

// cameAndWent reports whether an instance that does not exist, as when the plan was made, has existed in between. A
// plan that creates it may have been applied already, or others may have decided against the object.
func cameAndWent(p *plan.Plan, d state.Difference) bool {
	return d.Back && d.Now == nil && p.Prior.Instance(d.Instance) == nil
}

// event describes the change of an instance.
func event(d state.Difference) string {
	switch {
	case d.Back:
		return "changed, and changed back"
	case d.Then == nil:
		return "added"
	case d.Now == nil:
		return "removed"
	}
	return "changed"
}

// Compare returns what has changed since a plan was made, by comparing the plan's record of its state with the present
// state. Its cost is proportional to the whole state. It does not know who made a change, or whether something was
// changed and changed back. So after one version in between, all objects that refreshing found changed count as
// changed; after two versions, all objects that the plan creates do, too.
func Compare(p *plan.Plan, now *state.State) []journal.Difference {
	found := map[addr.Instance]bool{}
	for _, f := range p.Dependencies.Found {
		found[f.Addr] = true
	}
	var out []journal.Difference
	for _, d := range state.Differences(p.Prior, now) {
		if d.Output != "" || d.Checks || !found[d.Instance] {
			out = append(out, journal.Difference{Difference: d})
		}
	}
	for _, f := range p.Dependencies.Found {
		i := now.Instance(f.Addr)
		same := f.Stored == i.Digest()
		if same && p.BaseSerial == now.Serial {
			continue
		}
		d := state.Difference{Instance: f.Addr, Now: i}
		if i != nil {
			d.NowBy = now.ProviderOf(f.Addr)
		}
		switch {
		case same:
			d.Then, d.ThenBy, d.Back = i, d.NowBy, true
		case f.Stored != (state.Digest{}): // it existed, but its content is unknown
			d.Then, d.ThenBy = &state.Instance{}, d.NowBy
		}
		out = append(out, journal.Difference{Difference: d})
	}
	return append(out, mayHaveBeen(p, now)...)
}

// mayHaveBeen returns the objects that a plan creates, that do not exist, and that may have existed since the plan was
// made. That takes at least two versions: one that created the object, and one that removed it.
func mayHaveBeen(p *plan.Plan, now *state.State) []journal.Difference {
	if now.Serial < p.BaseSerial+2 {
		return nil
	}
	var out []journal.Difference
	for _, c := range p.Changes {
		if c.Action == plan.Create && p.Prior.Instance(c.Addr) == nil && now.Instance(c.Addr) == nil {
			out = append(out, journal.Difference{Difference: state.Difference{Instance: c.Addr, Back: true}})
		}
	}
	return out
}
