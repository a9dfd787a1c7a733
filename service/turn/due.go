// Package turn decides which run may take its next step, and says what the others wait for.
//
// It is pure: it knows no store, no clock and no lock. A State has everything that the decisions depend on; package
// queue makes one for each decision, and takes the steps.
package turn

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/service/record"
)

// State is a snapshot of everything that determines which steps are due. It is made anew for each decision, and is not
// modified.
type State struct {
	Now        time.Time
	Runs       []*record.Run                // unfinished runs by creation time
	Workspaces map[string]*record.Workspace // of these runs, by ID; nil for one that was deleted
	// Plans and Applies bound how many phases of each kind are in progress.
	Plans, Applies int
	// Served is when a plan of a workspace was last started, so that workspaces take turns.
	Served map[string]time.Time
	// Seen says whether, and how often since their plan ended, a client has looked at runs.
	Seen map[string]ClientReads
	// Waiting says what running phases wait for, by run: applies for the objects that they change, any phase for disk
	// space.
	Waiting map[string]Wait
	// Stopped says that the service is shutting down: nothing new may start.
	Stopped bool
	// Halts has the halt that applies to each workspace, by its ID.
	Halts map[string]*record.Halt
}

// ClientReads records how a client looks at a run.
type ClientReads struct {
	Reads int // since the plan ended
	Last  time.Time
}

// Step is an event of a run that is due. Why is for the history of the run; it may be empty.
type Step struct {
	Run  string
	Kind record.RunEventKind
	Why  string
}

// An auto-applied run whose client shows the plan, before it follows the apply, is applied when the client has read the
// run HoldReads times since the plan ended, or after holdTime.
const (
	HoldReads = 3
	holdTime  = 3 * time.Second
)

// goneAfter is how long a client that waits for an approval may be silent before it is considered gone.
const goneAfter = 30 * time.Second

// Due returns the steps that are due, in order: each is possible after those before it. A run may have several
// steps, so that one transaction takes it to the next status in which it has to wait.
func (b *State) Due() []Step {
	now := b.turn()
	all := now
	for len(now) > 0 {
		b = b.after(now)
		now = b.turn()
		all = append(all, now...)
	}
	return all
}

// after returns the state of the queue after the given steps.
func (b *State) after(steps []Step) *State {
	next, at := *b, make(map[string]*record.Run, len(steps))
	next.Runs, next.Served = slices.Clone(b.Runs), map[string]time.Time{}
	maps.Copy(next.Served, b.Served)
	for _, s := range steps {
		at[s.Run] = nil
	}
	for i, r := range next.Runs {
		if _, changes := at[r.ID]; changes {
			clone := *r // the run is shared
			next.Runs[i], at[r.ID] = &clone, &clone
		}
	}
	for _, s := range steps {
		r := at[s.Run]
		status, err := record.Next(r.Status, s.Kind, 0)
		if err != nil {
			panic(err) // turn returns only possible steps
		}
		if r.Status = status; status == record.Planning {
			next.Served[r.Workspace] = b.Now
		}
	}
	next.Runs = slices.DeleteFunc(next.Runs, func(r *record.Run) bool { return r.Status.Final() })
	return &next
}

// turn returns the steps that are due in this state; steps of different runs do not conflict.
func (b *State) turn() []Step {
	var out []Step
	plans, applies := 0, 0
	mates := map[string][]*record.Run{} // by workspace
	for _, r := range b.Runs {
		mates[r.Workspace] = append(mates[r.Workspace], r)
		switch r.Status {
		case record.Planning:
			plans++
		case record.Applying:
			applies++
		}
	}
	taken := map[string]bool{} // workspaces that a step of this call takes
	var queued []*record.Run
	for _, r := range b.Runs {
		switch r.Status {
		case record.Pending:
			if b.blocked(r, mates[r.Workspace], taken).Kind == "" {
				out = append(out, Step{Run: r.ID, Kind: record.EventPlanQueued})
				if !r.PlanOnly && !r.SavePlan {
					taken[r.Workspace] = true
				}
			}
		case record.PlanQueued:
			if b.Halts[r.Workspace] == nil {
				queued = append(queued, r)
			}
		case record.Planned:
			if s := b.planned(r); s.Kind != "" {
				out = append(out, s)
			}
		case record.Confirmed:
			if b.blocked(r, mates[r.Workspace], taken).Kind == "" {
				out = append(out, Step{Run: r.ID, Kind: record.EventApplyQueued})
				taken[r.Workspace] = true
			}
		case record.ApplyQueued:
			if applies < b.Applies && !b.Stopped && b.Halts[r.Workspace] == nil {
				applies++
				out = append(out, Step{Run: r.ID, Kind: record.EventApplyStarted})
			}
		}
	}
	b.order(queued)
	for _, r := range queued {
		if plans < b.Plans && !b.Stopped {
			plans++
			out = append(out, Step{Run: r.ID, Kind: record.EventPlanStarted})
		}
	}
	return out
}

// order sorts the queued plans: workspaces take turns; the runs of one workspace are ordered by creation.
func (b *State) order(queued []*record.Run) {
	turn := map[string]int{} // the position of a run among those of its workspace
	rank := map[string]int{}
	for _, r := range queued {
		rank[r.ID] = turn[r.Workspace]
		turn[r.Workspace]++
	}
	slices.SortStableFunc(queued, func(x, y *record.Run) int {
		return cmp.Or(cmp.Compare(rank[x.ID], rank[y.ID]), b.Served[x.Workspace].Compare(b.Served[y.Workspace]),
			cmp.Compare(x.Number, y.Number))
	})
}

// planned returns the next step of a run whose plan waits for approval; the zero value while it must wait.
func (b *State) planned(r *record.Run) Step {
	at, seen := r.Times[record.Planned], b.Seen[r.ID]
	w := b.Workspaces[r.Workspace]
	switch {
	case r.AutoApply && (r.Source != record.SourceCLI || seen.Reads >= HoldReads || b.Now.Sub(at) >= holdTime):
		return Step{Run: r.ID, Kind: record.EventConfirmed, Why: "automatically"}
	case !r.AutoApply && w != nil && w.ApprovalExpiry > 0 && b.Now.Sub(later(at, seen.Last)) >= w.ApprovalExpiry:
		return Step{Run: r.ID, Kind: record.EventDiscarded,
			Why: "nobody approved it in time, and its client is gone"}
	}
	return Step{}
}

// later returns the later one of two times.
func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

// NextDue returns the next time at which a step becomes due by the passing of time alone; zero for never.
func (b *State) NextDue() time.Time {
	var first time.Time
	for _, r := range b.Runs {
		if r.Status != record.Planned {
			continue
		}
		at := time.Time{}
		if w := b.Workspaces[r.Workspace]; r.AutoApply {
			at = r.Times[record.Planned].Add(holdTime)
		} else if w != nil && w.ApprovalExpiry > 0 {
			at = later(r.Times[record.Planned], b.Seen[r.ID].Last).Add(w.ApprovalExpiry)
		}
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}
