package coordinator

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// past is what the journal tells of a vertex of a run that is resumed.
type past struct {
	status    journal.Status
	ops       int            // operations that are done
	worker    string         // who did the last one of them
	open      *journal.Event // the last dispatch, when it is dispatched or in doubt
	attempts  []made         // all that were ever made
	suspected time.Time
	reason    string
	over      bool // in doubt, but nothing runs any more

	permits []permit // reclaimed before the vertex was looked at
	early   *arrived // a result that came before that
}

// made is an attempt that an earlier process has made.
type made struct {
	id            wire.AttemptID
	pool, address string
}

// recollect folds a run's events into what the loop needs to go on. It fails on a journal that no run can have made.
func recollect(n int, events []journal.Event) (map[int]*past, error) {
	statuses, open, err := journal.Fold(n, events)
	if err != nil {
		return nil, err
	}
	memory := map[int]*past{}
	for _, e := range events {
		if e.Kind == journal.RunEnd {
			continue
		}
		p := memory[e.Vertex]
		if p == nil {
			p = &past{status: statuses[e.Vertex]}
			if o, ok := open[e.Vertex]; ok {
				p.open = &o
			}
			memory[e.Vertex] = p
		}
		switch e.Kind {
		case journal.Dispatch:
			p.attempts = append(p.attempts, made{wire.AttemptID(e.Attempt), e.Pool, e.Address})
		case journal.Want, journal.Step:
			if e.Phase > 0 && e.Phase >= p.ops {
				p.ops, p.worker = e.Phase, e.Worker
			}
		case journal.Suspect:
			p.suspected, p.reason, p.over = e.At, e.Detail, e.Over
		}
	}
	return memory, nil
}

// adopt takes over what an earlier process of the run left: its attempts and their permits.
func (l *loop) adopt() {
	for v := range l.vertices {
		p := l.past[v]
		if p == nil {
			continue
		}
		l.vertices[v].status = p.status
		l.vertices[v].ops = int16(p.ops)
		for _, m := range p.attempts {
			under := p.open != nil && p.open.Attempt == string(m.id)
			l.attempts[m.id] = &attempt{vertex: v, pool: m.pool, taken: !under}
		}
		if p.open != nil && (p.status == journal.Dispatched || p.status == journal.Doubt) {
			l.unheard++
		}
		if p.open == nil || p.over {
			continue
		}
		for _, name := range p.open.Permits {
			i := strings.LastIndexByte(name, '/')
			if i < 0 {
				continue
			}
			l.reclaim(name[:i], name[i+1:], wire.AttemptID(p.open.Attempt))
		}
	}
}

// reclaim asks for a permit under the name under which it is held.
func (l *loop) reclaim(name, id string, a wire.AttemptID) {
	lim := l.limitOf(wire.Limit{Name: name, Slots: l.slots}, name == DefaultLimit)
	if n, err := strconv.Atoi(id[min(len(id), len(l.run)+1):]); err == nil && n >= 0 && n < 1<<16 {
		for n >= len(lim.taken) {
			lim.taken = append(lim.taken, false)
		}
		lim.taken[n] = true
	}
	lim.queued = append(lim.queued, id)
	l.reclaims[permitKey{name, id}] = a
	l.do(acquire{permitKey{name, id}})
}

// isReclaim tells whether a request asks for a permit that an earlier process of the run left.
func (l *loop) isReclaim(key permitKey) bool {
	_, is := l.reclaims[key]
	return is
}

// reclaimed gives a permit to the attempt that it was held for, if that is still under way.
func (l *loop) reclaimed(lim *limit, id string, of wire.AttemptID) {
	delete(l.reclaims, permitKey{lim.name, id})
	lim.dequeue(id)
	pm := permit{lim, id, l.now}
	if !l.isOpen(of) {
		l.giveBack(pm)
		return
	}
	lim.inUse++
	a := l.attempts[of]
	switch w := l.vertices[a.vertex].work; {
	case l.isLeft(of):
		l.keep(of, pm)
	case w != nil:
		w.permits = append(w.permits, pm)
	default:
		l.past[a.vertex].permits = append(l.past[a.vertex].permits, pm)
	}
}

// isOpen tells whether an attempt of an earlier process is still under way, as far as is known.
func (l *loop) isOpen(of wire.AttemptID) bool {
	a := l.attempts[of]
	x := &l.vertices[a.vertex]
	if l.isLeft(of) {
		return true
	}
	if x.work != nil {
		return x.work.attempt == of && !a.taken && !x.work.over
	}
	p := l.past[a.vertex]
	return x.phase == idle && p.open != nil && p.open.Attempt == string(of)
}

// recall settles a ready vertex that the journal says is settled, and reports whether it did. Else the vertex is
// prepared again, with its attempt when there is one.
func (l *loop) recall(v int, p *past) bool {
	x := &l.vertices[v]
	switch p.status {
	case journal.Done:
		l.move(v, settled)
		l.tally.settle(x, false)
		l.sched.Done(v)
	case journal.Failed:
		l.move(v, settled)
		l.tally.settle(x, true)
		l.failed = append(l.failed, Failure{Vertex: v, Address: l.program.Describe(v).Address})
		l.skip(l.sched.Fail(v))
	case journal.Skipped:
		l.move(v, settled)
		l.tally.skip(x)
		l.skipped = append(l.skipped, Skipped{Vertex: v, Address: l.program.Describe(v).Address})
		l.skip(l.sched.Skip(v))
	case journal.Dispatched, journal.Doubt:
		l.unheard--
		o := p.open
		x.work = &work{
			desc: l.program.Describe(v), out: -1, adopted: true, permits: p.permits,
			attempt: wire.AttemptID(o.Attempt), pool: o.Pool, worker: o.Worker, called: o.At,
			suspected: p.suspected, reason: p.reason, ended: p.over,
		}
		l.move(v, preparing)
		l.do(prepare{v, p.ops, p.worker})
	default:
		return false
	}
	l.changed = true
	return true
}

// resumeAttempt goes on with an attempt of a process that is gone. Its task was computed again: the same, but for
// values that are in no journal, in case the stream does not hold it.
func (l *loop) resumeAttempt(v int) {
	x := &l.vertices[v]
	w, p := x.work, l.past[v]
	w.listed = l.now
	switch {
	case l.frozen && x.status == journal.Dispatched:
		l.move(v, running)
		l.suspect(v, "the message store lost acknowledged data")
	case x.status == journal.Doubt:
		w.suspected = l.now // wait for a late result as long as if it had been suspected now
		l.move(v, doubtful)
		l.suspects = append(l.suspects, v)
	case w.step.Task == nil || w.step.Bad():
		l.tell(v, w.step.Diags)
		l.move(v, doubtful)
		l.distrust(v, "its configuration could not be evaluated again")
		return
	default:
		l.move(v, running)
		l.depart(v)
		switch {
		case w.worker != "":
		case l.stopping:
			w.asking, w.reason = true, "the run was interrupted"
			l.do(bury{v, l.ref(w), w.reason})
		default:
			w.asking = true
			l.do(readClaim{v, l.ref(w)})
		}
	}
	if p.early != nil {
		e := *p.early
		p.early = nil
		l.onArrived(e)
	}
}

// hold keeps a result until its vertex was prepared again.
func (l *loop) hold(v int, e arrived) {
	p := l.past[v]
	if p == nil || p.open == nil {
		panic(fmt.Sprintf("coordinator: a result came for vertex %d, which was not dispatched", v))
	}
	p.early = &e
}

// unfinished is the diagnostic of a vertex whose operations were cut in two by the end of a process, where the program
// cannot go on in between.
func unfinished(address string) diag.List {
	return diag.Errors("An operation cannot be gone on with",
		fmt.Sprintf("The run was cut off between two operations on %s, and this command cannot go on in between. What was done is in the state; the next plan says what is left.", address), nil).WithAddress(address)
}
