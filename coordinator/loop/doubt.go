package loop

import (
	"slices"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// suspect records that the outcome of an attempt is unknown. The journal gets that also of a vertex that is in doubt
// already: it may be known only now that nothing runs any more, and a run that is resumed would take the permits again.
func (l *Loop) suspect(v int, reason string) {
	x := &l.vertices[v]
	if x.phase != doubtful {
		l.move(v, doubtful)
	}
	w := x.work
	w.suspected, w.reason = l.now, reason
	if !slices.Contains(l.suspects, v) {
		l.suspects = append(l.suspects, v)
	}
	e := l.event(v, journal.Suspect)
	e.Detail, e.Over = reason, w.effect == over
	changes := l.doubt(v, state.Doubt{
		Run: l.Run, Attempt: string(w.attempt), Worker: w.worker, Pool: w.pool, Operation: w.desc.Action,
		Started: w.called,
		Reason:  reason, Answer: (*state.Answer)(w.answer),
	})
	l.save(Record{Vertex: v, Kind: Suspected, Events: []journal.Event{e}, Changes: w.withResolvedDoubt(changes)})
}

// suspectUnseen is suspect for an attempt of an earlier process, before its vertex is prepared.
func (l *Loop) suspectUnseen(v int, reason string) {
	p := l.Past[v]
	e := l.event(v, journal.Suspect)
	e.Address, e.Action, e.Attempt, e.Pool = p.open.Address, p.open.Action, p.open.Attempt, p.open.Pool
	e.Detail = reason
	p.status, p.suspected, p.reason = journal.Doubt, l.now, reason
	l.doubted = append(l.doubted, Doubtful{
		Vertex: v, Address: p.open.Address, Attempt: p.open.Attempt, Pool: p.open.Pool, Reason: reason,
		Started: p.open.At})
	l.save(Record{Vertex: v, Kind: Noted, Events: []journal.Event{e}, Changes: l.doubt(v, state.Doubt{
		Run: l.Run, Attempt: p.open.Attempt, Pool: p.open.Pool, Operation: p.open.Action, Started: p.open.At,
		Reason: reason,
	})})
}

// doubt asks the program for the state change that marks an object as in doubt.
func (s *Settings) doubt(v int, d state.Doubt) []state.Change {
	if p, ok := s.Program.(program.Doubter); ok {
		return p.Doubt(v, d)
	}
	return nil
}

// resolveDoubt restores the object in the state as it was before its operation was in doubt. The next record of the
// vertex commits that.
func (s *Settings) resolveDoubt(v int, x *vertex) {
	if x.status != journal.Doubt {
		return
	}
	if p, ok := s.Program.(program.Doubter); ok {
		x.work.resolvedDoubt = append(x.work.resolvedDoubt, p.ResolveDoubt(v)...)
	}
}

// withResolvedDoubt returns the changes of a record of the vertex, after those of resolveDoubt.
func (w *work) withResolvedDoubt(changes []state.Change) []state.Change {
	if len(w.resolvedDoubt) == 0 {
		return changes
	}
	all := append(w.resolvedDoubt, changes...)
	w.resolvedDoubt = nil
	return all
}

// onSuspected continues once it is durable that a vertex is in doubt.
func (l *Loop) onSuspected(v int) {
	x := &l.vertices[v]
	w := x.work
	if w == nil {
		return
	}
	l.permits.releasePlace(w) // its worker has no slot any more, or an unknown one
	if w.effect == over {
		l.arrive(v)
		l.permits.confirm(w)
	}
	if !x.hidden && x.phase == doubtful {
		l.changed = true
		shown := about(ShownDoubtful, v, &w.desc)
		shown.Reason = w.reason
		l.do(shown)
	}
}

// giveUp settles the vertices in doubt for which no result can be expected any more, and skips the vertices that depend
// on them. A result that arrives later stays in the stream until the run is resumed. The permits stay held until then,
// because the operation may still be running.
func (l *Loop) giveUp() {
	if len(l.suspects) == 0 || l.records.saving > 0 {
		return
	}
	left := l.suspects[:0]
	for _, v := range l.suspects {
		x := &l.vertices[v]
		if x.phase != doubtful {
			continue
		}
		w := x.work
		heard := w.suspected
		if w.listed.After(heard) {
			heard = w.listed
		}
		wait := l.DoubtWait
		if w.effect == ended {
			wait = min(wait, wire.DeadAfter)
		}
		if w.effect != over && !l.halted() && l.now.Sub(heard) < wait {
			left = append(left, v)
			continue
		}
		l.settleInDoubt(v)
	}
	l.suspects = left
}

// endDoubt processes a worker's report that an operation in doubt, for which the run no longer waits, does not run any
// more. Its permits are released once that is durable.
func (l *Loop) endDoubt(v int, a Arrived) {
	if !l.permits.letGo(a.Ref.Attempt, a.Delivery) {
		l.do(Ack{a.Delivery})
		return
	}
	d := l.Program.Describe(v)
	e := l.event(v, journal.Suspect)
	e.Address, e.Action, e.Attempt, e.Pool, e.Worker = d.Address, d.Action, string(a.Ref.Attempt), a.Ref.Pool,
		a.Result.Worker
	e.Detail, e.Over = a.Result.Doubt, true
	l.save(Record{Vertex: v, Kind: DoubtEnded, Delivery: a.Delivery, Events: []journal.Event{e}})
}

func (l *Loop) settleInDoubt(v int) {
	x := &l.vertices[v]
	w := x.work
	l.arrive(v)
	l.doubted = append(l.doubted, Doubtful{
		Vertex: v, Address: w.desc.Address, Attempt: string(w.attempt), Worker: w.worker, Pool: w.pool,
		Reason: w.reason, Started: w.called,
		Answer: (*state.Answer)(w.answer)})
	if w.effect == mayRun {
		l.permits.keep(w.attempt, later(w.called, w.listed), w.permits...)
	}
	l.tally.discount(x)
	l.move(v, settled)
	x.work = nil
	l.skip(l.sched.Fail(v))
}
