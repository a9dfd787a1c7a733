package loop

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// journalled has the records of the journal about a vertex of a resumed run.
type journalled struct {
	status    journal.Status
	ops       int            // operations that are done
	worker    string         // who did the last one of them
	open      *journal.Event // the last dispatch, when it is dispatched or in doubt
	attempts  []Attempt      // all that were ever made
	suspected time.Time
	reason    string
	over      bool // in doubt, but nothing runs any more
	failure   string

	permits []permit // reclaimed before the vertex was looked at
	early   *Arrived // a result that came before that
}

// Past has the records of the journal about the vertices of a run, by vertex.
type Past map[int]*journalled

// Attempt is an attempt that an earlier process has made.
type Attempt struct {
	ID            wire.AttemptID
	Pool, Address string
}

// PastOf folds the events of a run into the data that the loop needs to resume the run. It returns an error if no run
// can have written these events.
func PastOf(n int, events []journal.Event) (Past, error) {
	statuses, open, err := journal.Fold(n, events)
	if err != nil {
		return nil, err
	}
	known := Past{}
	for _, e := range events {
		if e.Kind == journal.RunEnd {
			continue
		}
		p := known[e.Vertex]
		if p == nil {
			p = &journalled{status: statuses[e.Vertex]}
			if o, ok := open[e.Vertex]; ok {
				p.open = &o
			}
			known[e.Vertex] = p
		}
		switch e.Kind {
		case journal.Dispatch:
			p.attempts = append(p.attempts, Attempt{wire.AttemptID(e.Attempt), e.Pool, e.Address})
		case journal.Want, journal.Step:
			if e.Phase > 0 && e.Phase >= p.ops {
				p.ops, p.worker = e.Phase, e.Worker
			}
		case journal.Fail:
			p.failure = e.Detail
		case journal.Suspect:
			p.suspected, p.reason, p.over = e.At, e.Detail, e.Over
			if len(e.Permits) > 0 && p.open != nil && p.open.Attempt == e.Attempt {
				p.open.Permits = e.Permits // the others were given back
			}
		}
	}
	return known, nil
}

// adopt takes over the attempts of an earlier process of the run, and their permits.
func (l *Loop) adopt() {
	for v := range l.vertices {
		p := l.Past[v]
		if p == nil {
			continue
		}
		l.vertices[v].status = p.status
		l.vertices[v].ops = int16(p.ops)
		for _, m := range p.attempts {
			under := p.open != nil && p.open.Attempt == string(m.ID)
			l.attempts[m.ID] = &attempt{vertex: v, pool: m.Pool, taken: !under}
		}
		if p.open != nil && (p.status == journal.Dispatched || p.status == journal.Doubt) {
			l.unheard++
		}
		if p.open == nil || p.over {
			continue
		}
		l.permits.occupySlot(p)
		for _, name := range p.open.Permits {
			if limit, id, ok := journal.ParsePermit(name); ok {
				l.permits.reacquire(limit, id, wire.AttemptID(p.open.Attempt))
			}
		}
	}
}

// occupySlot gives an attempt that may still be under way one of the run's own slots. The journal has no permits for
// those, because nobody outside the run knows them.
func (ps *permits) occupySlot(p *journalled) {
	if !ps.OwnSlots {
		return
	}
	lim := ps.limitOf(wire.Limit{Name: wire.DefaultLimit, Slots: ps.Slots}, true)
	lim.inUse++
	p.permits = append(p.permits, permit{limit: lim, since: ps.now})
}

// reacquire requests a permit under the name under which the earlier process held it.
func (ps *permits) reacquire(name, id string, a wire.AttemptID) {
	lim := ps.limitOf(wire.Limit{Name: name, Slots: ps.Slots}, name == wire.DefaultLimit)
	if lim.local { // the run shared the limit when it began
		return
	}
	lim.queued = append(lim.queued, id)
	ps.reclaims[PermitKey{name, id}] = a
	ps.do(Acquire{PermitKey{name, id}})
}

// onGranted takes a permit. One that an earlier process held goes back to the attempt that it was held for, if that is
// still under way.
func (l *Loop) onGranted(e Granted) {
	of, earlier := l.permits.granted(e)
	if !earlier {
		return
	}
	pm, held := l.permits.takeOver(e.PermitKey, l.isOpen(of))
	if !held {
		return
	}
	a := l.attempts[of]
	switch w := l.vertices[a.vertex].work; {
	case l.permits.isLeft(of):
		l.permits.keep(of, time.Time{}, pm)
	case w != nil:
		w.permits = append(w.permits, pm)
	default:
		l.Past[a.vertex].permits = append(l.Past[a.vertex].permits, pm)
	}
}

// isOpen reports whether an attempt of an earlier process may still be under way.
func (l *Loop) isOpen(of wire.AttemptID) bool {
	a := l.attempts[of]
	x := &l.vertices[a.vertex]
	if l.permits.isLeft(of) {
		return true
	}
	if x.work != nil {
		return x.work.attempt == of && !a.taken && x.work.effect != over
	}
	p := l.Past[a.vertex]
	return x.phase == idle && p.open != nil && p.open.Attempt == string(of)
}

// restoreVertex settles a ready vertex that is settled in the journal, and reports whether it was. Any other vertex is
// prepared again, with its attempt if it has one.
func (l *Loop) restoreVertex(v int, p *journalled) bool {
	x := &l.vertices[v]
	switch p.status {
	case journal.Done:
		l.move(v, settled)
		l.tally.settle(x, false)
		l.sched.Done(v)
	case journal.Failed:
		l.move(v, settled)
		l.tally.settle(x, true)
		l.failed = append(l.failed, Failure{Vertex: v, Address: l.Program.Describe(v).Address, Earlier: true,
			Reason: p.failure})
		l.skip(l.sched.Fail(v))
	case journal.Skipped:
		l.move(v, settled)
		l.tally.skip(x)
		l.skipped = append(l.skipped, Skipped{Vertex: v, Address: l.Program.Describe(v).Address})
		l.skip(l.sched.Skip(v))
	case journal.Dispatched, journal.Doubt:
		l.unheard--
		o := p.open
		x.work = &work{
			desc: l.Program.Describe(v), out: -1, permits: p.permits,
			attempt: wire.AttemptID(o.Attempt), pool: o.Pool, worker: o.Worker, called: o.At,
			suspected: p.suspected, reason: p.reason,
		}
		become(v, &x.work.origin, adopted)
		if p.over {
			become(v, &x.work.effect, ended)
		}
		l.move(v, preparing)
		l.do(Prepare{v, p.ops, p.worker})
	default:
		return false
	}
	l.changed = true
	return true
}

// resumeAttempt resumes an attempt of an earlier process. Its task was computed again in case the stream does not have
// it. It is the same task, except for values that no journal has.
func (l *Loop) resumeAttempt(v int) {
	x := &l.vertices[v]
	w, p := x.work, l.Past[v]
	w.listed = l.now
	switch {
	case l.evidence != complete && x.status == journal.Dispatched:
		l.move(v, running)
		l.suspect(v, "the message store lost acknowledged data")
	case x.status == journal.Doubt:
		w.suspected = l.now // wait for a late result as long as if it had been suspected now
		l.move(v, doubtful)
		l.suspects = append(l.suspects, v)
	case w.step.Task == nil || w.step.Bad():
		l.tell(v, w.step.Diags)
		l.suspect(v, "its configuration could not be evaluated again")
		return
	default:
		l.move(v, running)
		l.markSent(v)
		switch {
		case w.worker != "":
		case l.stops():
			l.revoke(v, "the run was interrupted")
		default:
			l.readRegister(v)
		}
	}
	if p.early != nil {
		e := *p.early
		p.early = nil
		l.onArrived(e)
	}
}

// hold keeps a result until its vertex is prepared again.
func (m Past) hold(v int, e Arrived) {
	p := m[v]
	if p == nil || p.open == nil {
		panic(fmt.Sprintf("loop: a result came for vertex %d, which was not dispatched", v))
	}
	p.early = &e
}

// Done returns for each of n vertices whether it is done according to the journal.
func (m Past) Done(n int) []bool {
	done := make([]bool, n)
	for v, p := range m {
		done[v] = p.status == journal.Done
	}
	return done
}

// Attempts yields all attempts of the run, in no particular order.
func (m Past) Attempts() iter.Seq[Attempt] {
	return func(yield func(Attempt) bool) {
		for _, p := range m {
			for _, a := range p.attempts {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// Open is an operation that was dispatched and has no recorded outcome.
type Open struct {
	Dispatch journal.Event
	Doubtful bool // the journal says that its outcome is not known
	Over     bool // it is doubtful, and nothing runs any more
	// Suspected is when it was last recorded that its outcome is not known; zero if it was not.
	Suspected time.Time
}

// Opens yields the operations that were dispatched and have no recorded outcome.
func (m Past) Opens() iter.Seq[Open] {
	return func(yield func(Open) bool) {
		for _, p := range m {
			if p.open != nil && !yield(p.opened()) {
				return
			}
		}
	}
}

func (p *journalled) opened() Open {
	return Open{*p.open, p.status == journal.Doubt, p.over, p.suspected}
}

// Permits yields the permits under which operations were dispatched that have no recorded outcome, or are in doubt.
func (m Past) Permits() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range m {
			if p.open == nil {
				continue
			}
			for _, name := range p.open.Permits {
				if !yield(name) {
					return
				}
			}
		}
	}
}

// UnderPermit returns the operation that was dispatched under a permit, unless its vertex has been settled since.
func (m Past) UnderPermit(permit string) (o Open, found bool) {
	for _, p := range m {
		if p.open != nil && slices.Contains(p.open.Permits, permit) {
			return p.opened(), true
		}
	}
	return Open{}, false
}
