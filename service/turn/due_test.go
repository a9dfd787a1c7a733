package turn

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/record"
)

// play is a simulation of the queue: runs are queued, people act, phases end, and the service is restarted, in an order
// that a seed determines.
type play struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	queue  State
	number uint64
	starts []string // what was planned and applied, to tell what a seed did
}

func (p *play) find(id string) *record.Run {
	for _, r := range p.queue.Runs {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// enter applies an event as the service does, without the store.
func (p *play) enter(r *record.Run, k record.RunEventKind, o record.Outcome) bool {
	if r.Enter(k, o, p.queue.Now) != nil {
		return false
	}
	w := p.queue.Workspaces[r.Workspace]
	locks := !r.PlanOnly && r.Status.Holds() && (!r.SavePlan || k == record.EventApplyQueued ||
		r.Status == record.Applying)
	switch {
	case locks && !w.Lock.Held():
		w.Lock = record.Lock{Kind: "run", ID: r.ID}
	case w.Lock.ID == r.ID && (r.Status.Final() || r.Status == record.PlannedAndSaved):
		w.Lock = record.Lock{}
	}
	if r.Status.Final() {
		for i, o := range p.queue.Runs {
			if o == r {
				p.queue.Runs = append(p.queue.Runs[:i:i], p.queue.Runs[i+1:]...)
				break
			}
		}
	}
	return true
}

// check checks the invariants.
func (p *play) check(when string) {
	p.t.Helper()
	holder, plans, applies := map[string]string{}, 0, 0
	for _, r := range p.queue.Runs {
		switch r.Status {
		case record.Planning:
			plans++
		case record.Applying:
			applies++
		}
		if r.PlanOnly && (r.Status == record.Confirmed || r.Status == record.Applying) {
			p.t.Fatalf("seed %d, %s: %s, which is plan-only, is %s", p.seed, when, r.ID, r.Status)
		}
		changes := r.Status == record.ApplyQueued || r.Status == record.Applying ||
			!r.SavePlan && !r.PlanOnly && r.Status.Holds() && r.Status != record.Confirmed
		if !changes {
			continue
		}
		if other := holder[r.Workspace]; other != "" {
			p.t.Fatalf("seed %d, %s: %s and %s both have %s", p.seed, when, other, r.ID, r.Workspace)
		}
		holder[r.Workspace] = r.ID
		if l := p.queue.Workspaces[r.Workspace].Lock; l.Kind == "run" && l.ID != r.ID {
			p.t.Fatalf("seed %d, %s: %s is %s, and the lock is that of %s", p.seed, when, r.ID, r.Status, l.ID)
		}
	}
	if plans > p.queue.Plans || applies > p.queue.Applies {
		p.t.Fatalf("seed %d, %s: %d plans and %d applies at a time", p.seed, when, plans, applies)
	}
}

// turn executes all steps that are due.
func (p *play) turn() {
	for {
		steps := p.queue.Due()
		made := 0
		for _, s := range steps {
			if r := p.find(s.Run); r != nil && p.enter(r, s.Kind, 0) {
				made++
				p.starts = append(p.starts, fmt.Sprint(s.Kind, " ", s.Run))
			}
			p.check(fmt.Sprint("after ", s.Kind, " of ", s.Run))
		}
		if made == 0 {
			return
		}
	}
}

// act executes one action of a person.
func (p *play) act() {
	var r *record.Run
	if n := len(p.queue.Runs); n > 0 {
		r = p.queue.Runs[p.random.IntN(n)]
	}
	switch p.random.IntN(12) {
	case 0, 1, 2:
		p.number++
		kind := p.random.IntN(6)
		p.queue.Runs = append(p.queue.Runs, &record.Run{
			ID: fmt.Sprint("run-", p.number), Number: p.number, Workspace: fmt.Sprint("ws-", p.random.IntN(3)),
			Status:   record.Pending,
			PlanOnly: kind == 0, SavePlan: kind == 1, AutoApply: kind == 2, Source: record.SourceAPI,
			Times: map[record.RunStatus]time.Time{},
		})
	case 3:
		w := p.queue.Workspaces[fmt.Sprint("ws-", p.random.IntN(3))]
		if !w.Lock.Held() {
			w.Lock = record.Lock{Kind: "user", ID: "ann"}
		} else if w.Lock.Kind == "user" {
			w.Lock = record.Lock{}
		}
	case 4: // the service ends and starts again: plans are made anew, applies gone on with
		for _, r := range p.queue.Runs {
			if r.Status == record.Planning {
				p.enter(r, record.EventPlanAgain, 0)
			}
		}
	case 5:
		if r != nil {
			p.enter(r, record.EventCanceled, 0)
		}
	case 6:
		if r != nil {
			p.enter(r, record.EventDiscarded, 0)
		}
	default:
		p.finish(r)
	}
	p.queue.Now = p.queue.Now.Add(time.Second)
}

// finish ends a phase in progress, or approves a waiting plan.
func (p *play) finish(r *record.Run) {
	if r == nil {
		return
	}
	switch r.Status {
	case record.Planning:
		o := record.Waiting
		if r.SavePlan {
			o = record.Saved
		}
		if r.PlanOnly || p.random.IntN(4) == 0 {
			o = record.Finished
		}
		p.enter(r, record.EventPlanEnded, o)
	case record.Applying:
		p.enter(r, []record.RunEventKind{record.EventApplied, record.EventFailed}[p.random.IntN(2)], 0)
	case record.Planned, record.PlannedAndSaved:
		p.enter(r, record.EventConfirmed, 0)
	}
}

func TestRunsHaveTheirTurns(t *testing.T) {
	for seed := range uint64(10_000) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the test needs a seed
		p := &play{t: t, seed: seed, random: random, queue: State{
			Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Plans: 2, Applies: 2, Served: map[string]time.Time{},
			Seen: map[string]ClientReads{}, Workspaces: map[string]*record.Workspace{},
		}}
		for i := range 3 {
			id := fmt.Sprint("ws-", i)
			p.queue.Workspaces[id] = &record.Workspace{ID: id}
		}
		for range 40 {
			p.act()
			p.check("after an action")
			p.turn()
		}
		// People do nothing new, locks are removed, and every run that somebody can approve ends.
		for _, w := range p.queue.Workspaces {
			if w.Lock.Kind == "user" {
				w.Lock = record.Lock{}
			}
		}
		for range 20 * (len(p.queue.Runs) + 1) {
			p.turn()
			for _, r := range append([]*record.Run{}, p.queue.Runs...) {
				p.finish(r)
			}
		}
		if len(p.queue.Runs) > 0 {
			r := p.queue.Runs[0]
			t.Fatalf("seed %d: the run %s stays %s, and waits for %+v; %v", seed, r.ID, r.Status,
				p.queue.Waits(r), p.starts)
		}
	}
}

// A later run must not get a workspace before one that waits for it.
func TestNobodyIsOvertaken(t *testing.T) {
	b := State{Plans: 5, Applies: 5, Workspaces: map[string]*record.Workspace{"w": {ID: "w"}}}
	for i := range 3 {
		b.Runs = append(b.Runs, &record.Run{ID: fmt.Sprint(i), Number: uint64(i), Workspace: "w",
			Status: record.Pending}) //nolint:gosec // small
	}
	if steps := b.Due(); len(steps) != 2 || steps[0].Run != "0" || steps[1].Run != "0" {
		t.Errorf("%+v", steps)
	}
	if w := b.Waits(b.Runs[2]); w.Place != 3 {
		t.Errorf("the third run is at position %d", w.Place)
	}
}

// The position of a plan counted the runs that were queued before it, although workspaces take turns.
func TestThePlaceOfAPlanIsTheOrderInWhichPlansBegin(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := State{Plans: 1, Workspaces: map[string]*record.Workspace{}, Served: map[string]time.Time{"busy": now}}
	for i, w := range []string{"busy", "busy", "quiet"} {
		b.Workspaces[w] = &record.Workspace{ID: w}
		b.Runs = append(b.Runs, &record.Run{ID: fmt.Sprint(i), Number: uint64(i), Workspace: w,
			Status: record.PlanQueued, PlanOnly: true}) //nolint:gosec // small
	}
	for i, want := range []int{2, 3, 1} {
		if w := b.Waits(b.Runs[i]); w.Place != want {
			t.Errorf("the run %d is at position %d, not %d", i, w.Place, want)
		}
	}
}

// Each step of a run was a separate transaction of the store: the plan of a run began after three transactions, one
// after the other, and its apply after four.
func TestARunGetsToWhereItHasToWaitInOneChange(t *testing.T) {
	b := State{Plans: 1, Applies: 1, Workspaces: map[string]*record.Workspace{"v": {ID: "v"}, "w": {ID: "w"}}}
	b.Runs = []*record.Run{
		{ID: "planned", Number: 1, Workspace: "v", Status: record.Planned, AutoApply: true, Source: record.SourceAPI},
		{ID: "first", Number: 2, Workspace: "w", Status: record.Pending},
		{ID: "second", Number: 3, Workspace: "w", Status: record.Pending, PlanOnly: true},
	}
	got := map[string][]record.RunEventKind{}
	for _, s := range b.Due() {
		got[s.Run] = append(got[s.Run], s.Kind)
	}
	want := map[string][]record.RunEventKind{
		"planned": {record.EventConfirmed, record.EventApplyQueued, record.EventApplyStarted},
		"first":   {record.EventPlanQueued, record.EventPlanStarted},
		"second":  {record.EventPlanQueued}, // one plan computes at a time
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	if b.Runs[0].Status != record.Planned {
		t.Error("due has changed the state of the queue")
	}
}

func TestWorkspacesTakeTurns(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := State{Plans: 2, Workspaces: map[string]*record.Workspace{}, Served: map[string]time.Time{"busy": now}}
	for i, w := range []string{"busy", "busy", "busy", "quiet"} {
		b.Workspaces[w] = &record.Workspace{ID: w}
		b.Runs = append(b.Runs, &record.Run{ID: fmt.Sprint(i), Number: uint64(i), Workspace: w,
			Status: record.PlanQueued, PlanOnly: true}) //nolint:gosec // small
	}
	if steps := b.Due(); len(steps) != 2 || steps[0].Run != "3" || steps[1].Run != "0" {
		t.Errorf("%+v", steps)
	}
}

// With -auto-approve a command line reads the run three times after the end of the plan's log, and shows neither the
// plan nor an error if one of these reads says that the run has failed already.
func TestAnAutoAppliedRunOfACommandLineWaitsUntilItWasRead(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, try := range []struct {
		what, source string
		reads        int
		age          time.Duration
		want         bool
	}{
		{"nobody has read it", record.SourceCLI, 0, 0, false},
		{"it was read twice", record.SourceCLI, 2, time.Second, false},
		{"it was read three times", record.SourceCLI, 3, time.Second, true},
		{"its client is slow", record.SourceCLI, 0, holdTime, true},
		{"another program", record.SourceAPI, 0, 0, true},
	} {
		r := &record.Run{ID: "r", Workspace: "w", Source: try.source, AutoApply: true, Status: record.Planned,
			Times: map[record.RunStatus]time.Time{record.Planned: now.Add(-try.age)}}
		q := State{Now: now, Runs: []*record.Run{r}, Workspaces: map[string]*record.Workspace{"w": {ID: "w"}}, Plans: 1,
			Applies: 1, Seen: map[string]ClientReads{"r": {Reads: try.reads, Last: now}}}
		steps := q.turn()
		if confirmed := len(steps) == 1 && steps[0].Kind == record.EventConfirmed; confirmed != try.want {
			t.Errorf("%s: %v", try.what, steps)
		}
		if at := q.NextDue(); !try.want && !at.Equal(now.Add(holdTime-try.age)) {
			t.Errorf("%s: the next step is due at %s", try.what, at)
		}
	}
}
