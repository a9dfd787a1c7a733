package loop

import (
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/sched"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// onPrepared continues a vertex after its program has prepared it.
func (l *Loop) onPrepared(e Prepared) {
	x := &l.vertices[e.Vertex]
	w := x.work
	w.step = e.Step
	if w.origin == adopted {
		l.resumeAttempt(e.Vertex)
		return
	}
	l.nextPhase(e.Vertex)
}

// onCompleted continues a vertex after its task was completed.
func (l *Loop) onCompleted(e Completed) {
	x := &l.vertices[e.Vertex]
	w := x.work
	w.step = e.Step
	if x.phase == calling {
		l.arrive(e.Vertex)
		w.worker = e.Worker
		l.sample(x, w, e.Took)
		if w.step.Finished() {
			l.permits.leave(w) // another task may go on with them
		}
	}
	x.ops++
	l.nextPhase(e.Vertex)
}

// nextPhase passes the effect of a vertex's task to the program, and commits it. Then it starts the next task of the
// vertex, or settles the vertex.
func (l *Loop) nextPhase(v int) {
	x := &l.vertices[v]
	w := x.work
	safely := x.phase == completing // the answer came by the safe lane
	l.tell(v, w.step.Diags)
	if w.step.Doubt != nil {
		l.onUnstorable(v, safely)
		return
	}
	l.Program.Accept(v, &w.step)
	if w.step.Growth != nil {
		l.grow(w.step.Growth)
		x = &l.vertices[v]
	}
	if w.step.Finished() || w.step.Bad() { // a task of a vertex that the program says has failed is not sent
		l.conclude(v)
		return
	}
	r := Record{Vertex: v, Kind: Wanted, Changes: w.withResolvedDoubt(w.step.Changes)}
	switch {
	case !l.Durable:
		l.enqueue(v)
		return
	case safely:
		e := l.event(v, journal.Step)
		e.Phase, e.Sequence = int(x.ops), w.sequence
		r.Kind, r.Events = Advanced, []journal.Event{e}
		l.move(v, advancing)
	case w.step.Lane == program.Safe && x.status == journal.Waiting && !l.halted():
		e := l.event(v, journal.Want)
		e.Phase = int(x.ops) // those of the fast lane have no event of their own
		r.Events = []journal.Event{e}
		l.move(v, wanting)
	case len(r.Changes) > 0:
		l.move(v, wanting)
	default:
		l.enqueue(v)
		return
	}
	l.save(r)
}

// onUnstorable handles a result that the program cannot keep. On the safe lane the operation is in doubt: it does not
// run any more, and its message is acknowledged once the doubt is durable, with what is known of the result. The fast
// lane changes nothing that must be remembered, so there the vertex fails.
func (l *Loop) onUnstorable(v int, safely bool) {
	w := l.vertices[v].work
	if !safely || !l.Durable {
		w.step.Changes = nil
		l.conclude(v)
		return
	}
	set(v, &w.effect, over)
	w.answer = w.step.Doubt.Answer
	l.suspect(v, w.step.Doubt.Reason)
}

// conclude commits the outcome of a vertex. Values that only this run's memory has, such as locals, need no commit: a
// resumed run computes them again.
func (l *Loop) conclude(v int) {
	x := &l.vertices[v]
	w := x.work
	bad := w.step.Bad()
	recorded := l.Durable && (x.status != journal.Waiting || !x.hidden && (bad || len(w.step.Changes) > 0))
	if !recorded && (!l.Durable || len(w.step.Changes) == 0) {
		l.settle(v)
		return
	}
	r := Record{Vertex: v, Kind: Concluded, Changes: w.withResolvedDoubt(w.step.Changes)}
	if recorded {
		kind := journal.Finish
		if bad {
			kind = journal.Fail
		}
		e := l.event(v, kind)
		if w.attempt == "" { // else its dispatch has them
			e.Waits = w.waits
		}
		if bad {
			e.Detail = failureText(w.step.Diags)
		}
		e.Took, e.Waited, e.Sequence = w.took(l.now), w.waited(l.now), w.sequence
		if w.step.Notes.Action != "" {
			e.Action = w.step.Notes.Action
		}
		r.Events = []journal.Event{e}
	}
	l.move(v, concluding)
	l.save(r)
}

// took returns how long the operations of the vertex took; zero if there were none. If no worker has reported it, it is
// the time since the first one was sent.
func (w *work) took(now time.Time) time.Duration {
	if w.started.IsZero() {
		return 0
	}
	if w.spent == 0 {
		return now.Sub(w.started)
	}
	return w.spent
}

// waited returns how long the vertex was ready but not worked on: it waited for a place, for permits, or for messages.
func (w *work) waited(now time.Time) time.Duration {
	if w.ready.IsZero() || w.started.IsZero() {
		return 0
	}
	return max(0, now.Sub(w.ready)-w.took(now))
}

// settle ends a vertex whose effect is durable, so that the vertices that depend on it can start.
func (l *Loop) settle(v int) {
	x := &l.vertices[v]
	w := x.work
	bad := w.step.Bad()
	l.arrive(v)
	l.move(v, settled)
	l.permits.confirm(w)
	if !x.hidden {
		l.changed = true
		if w.pool != "" {
			l.permits.poolOf(w.pool).Done++
		}
		shown := about(ShownFinished, v, &w.desc)
		shown.Notes, shown.Took = w.step.Notes, w.took(l.now)
		shown.At, shown.Worker, shown.Attempt = l.now, w.worker, w.attempt
		if bad {
			shown.Kind, shown.Reason = ShownFailed, failureText(w.step.Diags)
		}
		l.do(shown)
	}
	x.work = nil
	l.tally.settle(x, bad)
	if !bad && !x.hidden {
		l.learn(x, w.took(l.now))
	}
	if bad {
		l.failed = append(l.failed, Failure{Vertex: v, Address: w.desc.Address})
		l.skip(l.sched.Fail(v))
		return
	}
	l.sched.Done(v)
}

// skip settles the vertices that the scheduler has skipped.
func (l *Loop) skip(skips []sched.Skip) {
	if len(skips) == 0 {
		return
	}
	r := Record{Vertex: skips[0].Because, Kind: Noted}
	for _, s := range skips {
		x := &l.vertices[s.Vertex]
		if x.phase == queued {
			l.queues.dequeue(x)
		}
		l.move(s.Vertex, settled)
		x.work = nil
		if p := l.Past[s.Vertex]; x.hidden || p != nil && closed(p.status) {
			continue
		}
		d := l.Program.Describe(s.Vertex)
		because := l.Program.Describe(s.Because).Address
		l.tally.skip(x)
		l.changed = true
		l.skipped = append(l.skipped, Skipped{Vertex: s.Vertex, Address: d.Address, Because: because})
		shown := about(ShownSkipped, s.Vertex, &d)
		shown.Reason = because
		l.do(shown)
		// What is skipped because of a doubt is not skipped for good: the doubt may be resolved, and the run resumed.
		if l.Durable && l.vertices[s.Because].status != journal.Doubt && (x.status == journal.Waiting ||
			x.status == journal.Wanted) {
			e := l.event(s.Vertex, journal.Skip)
			e.Address, e.Action, e.Detail = d.Address, d.Action, because
			r.Events = append(r.Events, e)
		}
	}
	if len(r.Events) > 0 {
		l.save(r)
	}
}

// closed reports whether the journal will have nothing more about a vertex.
func closed(s journal.Status) bool {
	return s == journal.Done || s == journal.Failed || s == journal.Skipped
}

// onCommitted continues what has waited for its record to be durable.
func (l *Loop) onCommitted(e Committed) {
	for _, r := range e.Records {
		l.records.saving--
		switch r.Kind {
		case Wanted:
			l.enqueue(r.Vertex)
		case Intended:
			l.send(r.Vertex)
		case Advanced:
			w := l.vertices[r.Vertex].work
			w.maker, w.after = w.worker, w.attempt
			w.beginAnew(r.Vertex)
			l.arrive(r.Vertex)
			ps, seat := w.permits, w.place
			w.permits, w.place = nil, permit{}
			l.permits.confirm(w)
			w.permits, w.place = ps, seat // the next operation of the vertex goes on with them
			l.enqueue(r.Vertex)
		case Concluded:
			l.settle(r.Vertex)
		case Retracted:
			l.requeue(r.Vertex)
		case Suspected:
			l.onSuspected(r.Vertex)
		case DoubtEnded:
			l.do(Ack{r.Delivery})
		case TermPassed:
			l.permits.freeShared(wire.AttemptID(r.Events[0].Attempt))
		}
	}
}

// save asks for a record to be committed.
func (l *Loop) save(r Record) { l.records.add(r, l.canWait(&r)) }

// canWait reports whether nothing can start that could not start before once the record is durable: it is the outcome
// of an operation of the fast lane, whose vertex holds no permits, and each of its dependents also waits for vertices
// that have no outcome yet. A crash before the commit loses no more than one just before the outcome: a resumed run
// repeats the operation, which has changed nothing outside of the state.
func (l *Loop) canWait(r *Record) bool {
	if r.Kind != Concluded || l.halted() {
		return false
	}
	w := l.vertices[r.Vertex].work
	if w.step.Bad() || w.attempt != "" || len(w.permits) > 0 || w.place.limit != nil || l.Past[r.Vertex] != nil {
		return false
	}
	for after := range l.Program.Graph().After(r.Vertex) {
		if l.sched.Waits(after) <= l.records.saving+1 { // with this one
			return false
		}
	}
	return true
}
