package turn

import (
	"fmt"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/service/record"
)

// Wait says what a run waits for. The zero value means nothing.
type Wait struct {
	// Kind is "lock", "run", "objects", "worker", "disk", "plans", "applies", "approval" or "stopped".
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
}

// Waits returns the reason why a run waits.
func (b *State) Waits(r *record.Run) Wait {
	since := r.Times[r.Status]
	if b.Halts[r.Workspace] != nil {
		switch r.Status {
		case record.Pending, record.PlanQueued, record.Confirmed, record.ApplyQueued:
			return b.halted(r)
		case record.Applying:
			if b.Emergency(r) {
				return b.halted(r)
			}
		}
	}
	switch r.Status {
	case record.Pending:
		return b.blocked(r, b.Runs, nil)
	case record.Confirmed:
		return b.blocked(r, b.Runs, nil)
	case record.Planning, record.Applying:
		return b.Waiting[r.ID]
	case record.PlanQueued:
		return Wait{Kind: "plans", Place: b.place(r), Since: since,
			Text: fmt.Sprintf("%d plans are running, which is the limit of the service", b.Plans)}
	case record.ApplyQueued:
		return Wait{Kind: "applies", Place: b.place(r), Since: since,
			Text: fmt.Sprintf("%d applies are running, which is the limit of the service", b.Applies)}
	case record.Planned, record.PlannedAndSaved:
		w := Wait{Kind: "approval", Since: since, Text: "somebody who may apply has to approve the plan"}
		last := later(b.Seen[r.ID].Last, since)
		w.Gone = r.Source == record.SourceCLI && b.Now.Sub(last) > goneAfter
		if ws := b.Workspaces[r.Workspace]; ws != nil && ws.ApprovalExpiry > 0 && r.Status == record.Planned &&
			!r.AutoApply {
			w.Expires = last.Add(ws.ApprovalExpiry)
		}
		return w
	}
	return Wait{}
}

// blocked returns the reason why a pending or confirmed run cannot have its workspace yet; the zero value if it
// can. The runs of the workspace are among mates.
func (b *State) blocked(r *record.Run, mates []*record.Run, taken map[string]bool) Wait {
	w := b.Workspaces[r.Workspace]
	since := r.Times[r.Status]
	switch {
	case b.Stopped:
		return Wait{Kind: "stopped", Since: since, Text: "the service is shutting down"}
	case w == nil:
		return Wait{Kind: "stopped", Since: since, Text: "the workspace was deleted"}
	case b.Halts[r.Workspace] != nil:
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
		case o.Status.Holds() && Holds(o):
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

// Emergency reports whether an emergency halt has stopped the phase of a run.
func (b *State) Emergency(r *record.Run) bool {
	h := b.Halts[r.Workspace]
	return h != nil && h.Emergency
}

// halted returns the wait of a run that a halt keeps from continuing; the zero value if there is none.
func (b *State) halted(r *record.Run) Wait {
	h := b.Halts[r.Workspace]
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

// Holds reports whether an unfinished run prevents other runs that may apply from having the workspace.
func Holds(r *record.Run) bool {
	if r.SavePlan {
		return r.Status == record.ApplyQueued || r.Status == record.Applying
	}
	return true
}

// place returns the position of a run among those that wait for the same limit, in the order in which they will
// start.
func (b *State) place(r *record.Run) int {
	var waiting []*record.Run
	for _, o := range b.Runs {
		if o.Status == r.Status && b.Halts[o.Workspace] == nil {
			waiting = append(waiting, o)
		}
	}
	if r.Status == record.PlanQueued {
		b.order(waiting)
	}
	return 1 + slices.IndexFunc(waiting, func(o *record.Run) bool { return o.ID == r.ID })
}

// WaitsInLine reports whether a run waits for the earlier runs of its workspace before it plans.
func WaitsInLine(r *record.Run) bool { return !r.PlanOnly && !r.SavePlan }
