// Package rebase carries a saved plan over to a later version of the state, if nothing that the plan rests on has
// changed since it was made.
//
// It only compares and rewrites data: who reads the store, and who applies the plan, is coordinator/estate.
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

// Conflict is something that a plan rests on and that has changed since.
type Conflict struct {
	// What is the address that has changed.
	What string
	// Role says what the plan does with it, Event what became of it: both end a sentence about What.
	Role, Event string
	// By is the version that changed it last; its serial is 0 where that is not known.
	By journal.VersionInfo
}

// String is the conflict as a line for people.
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

// Conflicts returns what keeps a plan from being carried out on a state that differs from the one that it was made for.
// The plan must say what it rests on.
func Conflicts(p *plan.Plan, changed []journal.Difference) []Conflict {
	var out []Conflict
	for _, d := range changed {
		switch {
		case d.Checks:
			// Results of checks are what a run saw; nothing is computed from them.
		case d.Output != "":
			if slices.Contains(p.RestsOn.Outputs, d.Output) {
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

// What a plan does with an instance.
const (
	changes = "the plan changes"
	reads   = "the plan goes by"
)

// differs tells whether an instance that was changed since a plan was made is another one than the plan goes by. What
// others have changed back is as it was, but the plan may have read it in between.
func differs(p *plan.Plan, d state.Difference) bool {
	return d.Matters() || !d.Now.Same(p.Prior.Instance(d.Instance))
}

// Differs tells whether anything is not as a plan goes by, whether the plan rests on it or not.
func Differs(p *plan.Plan, changed []journal.Difference) bool {
	return slices.ContainsFunc(changed, func(d journal.Difference) bool {
		return !d.Back || differs(p, d.Difference)
	})
}

// roleOf says what a plan does with an instance, if the difference is one for it; else it returns nothing.
func roleOf(p *plan.Plan, d state.Difference) string {
	r, differs := p.RestsOn, differs(p, d)
	if differs {
		switch {
		case addr.ContainsInstance(r.Writes, d.Instance):
			// What the plan reads anew when it is carried out may have been read since.
			if d.Instance.Resource.Mode != addr.Data {
				return changes
			}
		case addr.ContainsInstance(r.Reads, d.Instance):
			return reads
		}
	}
	if addr.ContainsInstance(r.Writes, d.Instance) {
		return "" // what the plan changes or ends may depend on what it ends
	}
	for _, k := range r.Keeps {
		on := state.DependOn(k)
		// Who depended on it before, and was changed, may have been made from it anew: the plan has seen how it was.
		if d.Now.Depends(on) && (differs || !d.Then.Depends(on) || !p.Prior.Instance(d.Instance).Depends(on)) {
			return fmt.Sprintf("depends on %s, of which the plan destroys objects", k)
		}
	}
	return ""
}

// event says what became of an instance.
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

// Compare returns what has changed since a plan was made, by comparing what the plan knows of the state that it was
// made for with the state that is there now. It takes time for all that exists, and cannot tell who changed anything,
// nor what was changed back: if there was another version meanwhile, what refreshing found otherwise counts as that.
func Compare(p *plan.Plan, now *state.State) []journal.Difference {
	found := map[addr.Instance]bool{}
	for _, f := range p.RestsOn.Found {
		found[f.Addr] = true
	}
	var out []journal.Difference
	for _, d := range state.Differences(p.Prior, now) {
		if d.Output != "" || d.Checks || !found[d.Instance] {
			out = append(out, journal.Difference{Difference: d})
		}
	}
	for _, f := range p.RestsOn.Found {
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
		case f.Stored != (state.Digest{}): // what it was is not known, but that it was something
			d.Then, d.ThenBy = &state.Instance{}, d.NowBy
		}
		out = append(out, journal.Difference{Difference: d})
	}
	return out
}
