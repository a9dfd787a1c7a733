package service

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/service/record"
)

// queueState is a snapshot of everything that determines which steps are due. It is made anew for each decision, and
// is not modified.
type queueState struct {
	now    time.Time
	runs   []*record.Run // unfinished runs by creation time
	spaces map[string]*record.Workspace
	// plans and applies bound how many phases of each kind are in progress.
	plans, applies int
	// served is when a plan of a workspace was last started, so that workspaces take turns.
	served map[string]time.Time
	// seen says whether, and how often since their plan ended, a client has looked at runs.
	seen map[string]clientReads
	// objects says what running phases wait for: applies for the objects that they change, any phase for disk
	// space.
	objects map[string]Wait
	// stopped says that the service is shutting down: nothing new may start.
	stopped bool
	// halts has the halt that applies to each workspace, by its ID.
	halts map[string]*record.Halt
}

// clientReads records how a client looks at a run.
type clientReads struct {
	reads int // since the plan ended
	last  time.Time
}

// step is an event of a run that is due.
type step struct {
	run  string
	kind record.RunEventKind
	why  string
}

// Times for auto-applied runs whose client shows the plan before it follows the apply.
const (
	holdReads = 3
	holdTime  = 3 * time.Second
)

// goneAfter is how long a client that waits for an approval may be silent before it is considered gone.
const goneAfter = 30 * time.Second

// due returns the steps that are due, in order: each is possible after those before it. A run may have several
// steps, so that one transaction takes it to the next status in which it has to wait.
func (b *queueState) due() []step {
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
func (b *queueState) after(steps []step) *queueState {
	next, at := *b, make(map[string]*record.Run, len(steps))
	next.runs, next.served = slices.Clone(b.runs), map[string]time.Time{}
	maps.Copy(next.served, b.served)
	for _, s := range steps {
		at[s.run] = nil
	}
	for i, r := range next.runs {
		if _, changes := at[r.ID]; changes {
			clone := *r // the run is shared
			next.runs[i], at[r.ID] = &clone, &clone
		}
	}
	for _, s := range steps {
		r := at[s.run]
		status, err := record.Next(r.Status, s.kind, 0)
		if err != nil {
			panic(err) // turn returns only possible steps
		}
		if r.Status = status; status == record.Planning {
			next.served[r.Workspace] = b.now
		}
	}
	next.runs = slices.DeleteFunc(next.runs, func(r *record.Run) bool { return r.Status.Final() })
	return &next
}

// turn returns the steps that are due in this state; steps of different runs do not
// conflict.
func (b *queueState) turn() []step {
	var out []step
	plans, applies := 0, 0
	mates := map[string][]*record.Run{} // by workspace
	for _, r := range b.runs {
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
	for _, r := range b.runs {
		switch r.Status {
		case record.Pending:
			if b.blocked(r, mates[r.Workspace], taken).Kind == "" {
				out = append(out, step{run: r.ID, kind: record.EventPlanQueued})
				if !r.PlanOnly && !r.SavePlan {
					taken[r.Workspace] = true
				}
			}
		case record.PlanQueued:
			if b.halts[r.Workspace] == nil {
				queued = append(queued, r)
			}
		case record.Planned:
			if s := b.planned(r); s.kind != "" {
				out = append(out, s)
			}
		case record.Confirmed:
			if b.blocked(r, mates[r.Workspace], taken).Kind == "" {
				out = append(out, step{run: r.ID, kind: record.EventApplyQueued})
				taken[r.Workspace] = true
			}
		case record.ApplyQueued:
			if applies < b.applies && !b.stopped && b.halts[r.Workspace] == nil {
				applies++
				out = append(out, step{run: r.ID, kind: record.EventApplyStarted})
			}
		}
	}
	b.order(queued)
	for _, r := range queued {
		if plans < b.plans && !b.stopped {
			plans++
			out = append(out, step{run: r.ID, kind: record.EventPlanStarted})
		}
	}
	return out
}

// order sorts the queued plans: workspaces take turns; the runs of one workspace are ordered by creation.
func (b *queueState) order(queued []*record.Run) {
	turn := map[string]int{} // the position of a run among those of its workspace
	rank := map[string]int{}
	for _, r := range queued {
		rank[r.ID] = turn[r.Workspace]
		turn[r.Workspace]++
	}
	slices.SortStableFunc(queued, func(x, y *record.Run) int {
		return cmp.Or(cmp.Compare(rank[x.ID], rank[y.ID]), b.served[x.Workspace].Compare(b.served[y.Workspace]),
			cmp.Compare(x.Number, y.Number))
	})
}

// planned returns the next step of a run whose plan waits for approval; the zero value while it must wait.
func (b *queueState) planned(r *record.Run) step {
	at, seen := r.Times[record.Planned], b.seen[r.ID]
	w := b.spaces[r.Workspace]
	switch {
	case r.AutoApply && (r.Source != record.SourceCLI || seen.reads >= holdReads || b.now.Sub(at) >= holdTime):
		return step{run: r.ID, kind: record.EventConfirmed, why: "automatically"}
	case !r.AutoApply && w != nil && w.ApprovalExpiry > 0 && b.now.Sub(later(at, seen.last)) >= w.ApprovalExpiry:
		return step{run: r.ID, kind: record.EventDiscarded,
			why: "nobody approved it in time, and its client is gone"}
	}
	return step{}
}

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

// nextDue returns the next time at which a step becomes due by the passing of time alone; zero for never.
func (b *queueState) nextDue() time.Time {
	var first time.Time
	for _, r := range b.runs {
		if r.Status != record.Planned {
			continue
		}
		at := time.Time{}
		if w := b.spaces[r.Workspace]; r.AutoApply {
			at = r.Times[record.Planned].Add(holdTime)
		} else if w != nil && w.ApprovalExpiry > 0 {
			at = later(r.Times[record.Planned], b.seen[r.ID].last).Add(w.ApprovalExpiry)
		}
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// Wait says what a run waits for. The zero value means nothing.
type Wait struct {
	// Kind is "lock", "run", "objects", "disk", "plans", "applies", "approval", "stopped" or, for a run in progress
	// whose operations wait, the Kind of the first of Lacks.
	Kind string
	// On is the ID of the run, user or team that the run waits for, if any; for a halt, the name of the person
	// who ordered it; for a limit or a pool, its name.
	On string
	// Place is the position in the queue, from 1.
	Place int
	Since time.Time
	// Gone says, for an approval, that the client that created the run no longer looks at it.
	Gone bool
	// Expires is when the wait for an approval ends unless somebody looks at the run before; zero for never.
	Expires time.Time
	Text    string
	// Lacks are the limits and pools that operations of a run in progress wait for.
	Shortages []Shortage
}

// blocked returns the reason why a pending or confirmed run cannot have its workspace yet; the zero value if it
// can. The runs of the workspace are among mates.
func (b *queueState) blocked(r *record.Run, mates []*record.Run, taken map[string]bool) Wait {
	w := b.spaces[r.Workspace]
	since := r.Times[r.Status]
	switch {
	case b.stopped:
		return Wait{Kind: "stopped", Since: since, Text: "the service is shutting down"}
	case w == nil:
		return Wait{Kind: "stopped", Since: since, Text: "the workspace was deleted"}
	case b.halts[r.Workspace] != nil:
		return b.halted(r)
	case r.Status == record.Pending && (r.PlanOnly || r.SavePlan):
		return Wait{} // plan-only runs need not wait
	case w.Lock.Held() && w.Lock.Kind != "run":
		return Wait{Kind: "lock", On: w.Lock.ID, Since: w.Lock.At, Text: "the workspace is locked: " + w.Lock.Reason}
	case w.Lock.Held() && w.Lock.ID != r.ID && w.Lock.Reason != "":
		return Wait{Kind: "lock", On: w.Lock.ID, Since: w.Lock.At, Text: w.Lock.Reason}
	case w.ObjectLocks:
		return Wait{} // its apply waits for the locks of its objects instead
	}
	place := 1
	var holder *record.Run
	for _, o := range mates {
		if o.ID == r.ID || o.Workspace != r.Workspace || o.PlanOnly {
			continue
		}
		switch {
		case o.Status.Holds() && holds(o):
			holder, place = o, place+1
		case o.Status == record.Pending && r.Status == record.Pending && !o.SavePlan && o.Number < r.Number:
			place++
			if holder == nil {
				holder = o
			}
		}
	}
	if holder == nil && taken[r.Workspace] {
		return Wait{Kind: "run", Place: place + 1, Since: since}
	}
	if holder == nil {
		return Wait{}
	}
	return Wait{Kind: "run", On: holder.ID, Place: place, Since: since, Text: "run " + holder.ID + " is " +
		string(holder.Status)}
}

// emergency reports whether an emergency halt has stopped the phase of a run.
func (b *queueState) emergency(r *record.Run) bool {
	h := b.halts[r.Workspace]
	return h != nil && h.Emergency
}

// halted returns the wait of a run that a halt keeps from continuing; the zero value if there is none.
func (b *queueState) halted(r *record.Run) Wait {
	h := b.halts[r.Workspace]
	where, how := "the workspace", "is drained"
	if h.On == record.HaltOn("") {
		where = "the service"
	}
	if h.Emergency {
		how = "was stopped"
	}
	return Wait{Kind: "stopped", On: h.By, Since: h.At,
		Text: fmt.Sprintf("%s %s by %s: %s", where, how, h.By, h.Reason)}
}

// holds reports whether an unfinished run prevents other runs that may apply from having the workspace.
func holds(r *record.Run) bool {
	if r.SavePlan {
		return r.Status == record.ApplyQueued || r.Status == record.Applying
	}
	return true
}

// waits returns the reason why a run waits.
func (b *queueState) waits(r *record.Run) Wait {
	since := r.Times[r.Status]
	if b.halts[r.Workspace] != nil {
		switch r.Status {
		case record.Pending, record.PlanQueued, record.Confirmed, record.ApplyQueued:
			return b.halted(r)
		case record.Applying:
			if b.emergency(r) {
				return b.halted(r)
			}
		}
	}
	switch r.Status {
	case record.Pending:
		return b.blocked(r, b.runs, nil)
	case record.Confirmed:
		return b.blocked(r, b.runs, nil)
	case record.Planning, record.Applying:
		return b.objects[r.ID]
	case record.PlanQueued:
		return Wait{Kind: "plans", Place: b.place(r), Since: since,
			Text: fmt.Sprintf("%d plans are running, which is the limit of the service", b.plans)}
	case record.ApplyQueued:
		return Wait{Kind: "applies", Place: b.place(r), Since: since,
			Text: fmt.Sprintf("%d applies are running, which is the limit of the service", b.applies)}
	case record.Planned, record.PlannedAndSaved:
		w := Wait{Kind: "approval", Since: since, Text: "somebody who may apply has to approve the plan"}
		last := later(b.seen[r.ID].last, since)
		w.Gone = r.Source == record.SourceCLI && b.now.Sub(last) > goneAfter
		if ws := b.spaces[r.Workspace]; ws != nil && ws.ApprovalExpiry > 0 && r.Status == record.Planned &&
			!r.AutoApply {
			w.Expires = last.Add(ws.ApprovalExpiry)
		}
		return w
	}
	return Wait{}
}

// place returns the position of a run among those that wait for the same limit, in the order in which they will
// start.
func (b *queueState) place(r *record.Run) int {
	var waiting []*record.Run
	for _, o := range b.runs {
		if o.Status == r.Status && b.halts[o.Workspace] == nil {
			waiting = append(waiting, o)
		}
	}
	if r.Status == record.PlanQueued {
		b.order(waiting)
	}
	return 1 + slices.IndexFunc(waiting, func(o *record.Run) bool { return o.ID == r.ID })
}
