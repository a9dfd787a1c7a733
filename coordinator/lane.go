package coordinator

import (
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

const (
	// maxLost is how often a fast-lane call may be lost before its vertex fails: a task that ends each worker that
	// takes it must not go round for ever.
	maxLost = 7
	// claimWait is how long a published task may stay unclaimed before it is published again.
	claimWait = 10 * time.Second
)

// onCallFailed decides whether a fast-lane call is repeated. It changes nothing outside, so it may be.
func (l *loop) onCallFailed(e callFailed) {
	x := &l.vertices[e.vertex]
	w := x.work
	l.arrive(e.vertex)
	switch p := l.poolOf(w.pool); {
	case errors.Is(e.err, wire.ErrNoWorker):
		if p.live > 0 { // it was there a moment ago
			l.park(e.vertex, l.now.Add(tickEvery))
			break
		}
		p.missing = true
		l.do(control{"announce"})
		l.enqueue(e.vertex)
	case errors.Is(e.err, wire.ErrPermitLost):
		l.drop(w)
		l.park(e.vertex, l.now.Add(tickEvery))
	case errors.Is(e.err, wire.ErrDisconnected):
		l.park(e.vertex, l.now.Add(tickEvery))
	case errors.Is(e.err, wire.ErrLostCall) && w.lost < maxLost:
		w.lost++
		l.park(e.vertex, l.now.Add(tickEvery<<(w.lost-1)))
	default:
		l.leave(w)
		detail := fmt.Sprintf("A worker of pool %q could not be asked about %s: %s.", w.pool, w.desc.Address, e.err)
		if errors.Is(e.err, wire.ErrLostCall) {
			detail = fmt.Sprintf("No worker of pool %q answered about %s, in %d attempts: the worker, or the provider's plugin with it, may end whenever it is asked. Its own log tells more.", w.pool, w.desc.Address, w.lost+1)
		}
		w.step = program.Step{Diags: diag.Errors("Failed to reach a worker", detail, nil).WithAddress(w.desc.Address)}
		l.goOn(e.vertex)
	}
}

// attempt is what the loop remembers of an attempt for as long as the run lasts, to tell late copies of its result.
type attempt struct {
	vertex int
	pool   string
	taken  bool   // its result was accepted
	buried bool   // it was proved not to have started
	nonce  string // of the accepted result; empty when another process took it
	worker string
}

// intend makes the intent to run the task of a vertex durable, with its attempt and permits. After a crash right
// behind this the task is published by the run that is resumed.
func (l *loop) intend(v int) {
	w := l.vertices[v].work
	w.attempt, w.published, w.asking, w.worker, w.answer = l.attempt(), false, false, "", nil
	l.attempts[w.attempt] = &attempt{vertex: v, pool: w.pool}
	l.move(v, intending)
	e := l.event(v, journal.Dispatch)
	for _, p := range w.permits {
		e.Permits = append(e.Permits, permitName(p.limit.name, p.id))
	}
	l.save(record{vertex: v, kind: intended, events: []journal.Event{e}})
}

// send publishes the task of an attempt whose intent is durable. If the run is to stop meanwhile, nobody has seen the
// attempt, and it is taken back.
func (l *loop) send(v int) {
	w := l.vertices[v].work
	if l.halted() && !w.adopted {
		l.retract(v, "the run was stopped")
		return
	}
	l.move(v, publishing)
	l.depart(v)
	l.post(v)
}

// post hands the task to the stream. Doing so again is harmless: only one claim wins.
func (l *loop) post(v int) {
	w := l.vertices[v].work
	task := *w.step.Task
	task.Run, task.Attempt = l.run, w.attempt
	w.sent = l.now
	var permits []permitKey
	if !w.adopted && !w.published {
		permits = w.keys()
	}
	act := publish{vertex: v, ref: l.ref(w), task: &task, permits: permits}
	if w.maker != "" && !w.handed {
		act.to, act.after, w.handed = w.maker, w.after, true
	}
	l.do(act)
}

func (l *loop) onPublished(e published) {
	x := &l.vertices[e.vertex]
	if x.phase != publishing || x.work.attempt != e.attempt {
		return // its result was faster
	}
	if errors.Is(e.err, wire.ErrPermitLost) { // nothing was sent
		l.drop(x.work)
		l.retract(e.vertex, "its permit was lost")
		return
	}
	doing := fmt.Sprintf("publishing the task for %s", x.work.desc.Address)
	switch first := x.work.refused.IsZero(); {
	case l.repeatedly(&x.work.refused, doing, e.err):
	case e.err == nil:
		x.work.published = true
	case first && !outage(e.err) && !errors.Is(e.err, wire.ErrStore): // of that, probe tells
		l.tell(e.vertex, diag.List{diag.New(diag.Warning, "Failed to publish a task",
			fmt.Sprintf("The task for %s could not be put into the stream of pool %q; this is repeated. The error was: %s.", x.work.desc.Address, x.work.pool, e.err), nil)})
	}
	l.move(e.vertex, running)
}

// onArrived takes a result of the safe lane, or finds that it must not be taken.
func (l *loop) onArrived(e arrived) {
	if e.ref.Run != l.run {
		return // another run's; it stays in the stream for whoever resumes that run
	}
	a := l.attempts[e.ref.Attempt]
	if why := forged(a, e); why != "" {
		l.refuse(a, e.ref, e.delivery, e.sequence, why)
		return
	}
	switch {
	case a.buried:
		l.retain(e.delivery, e.sequence)
		l.alarm(a.vertex, fmt.Sprintf("Worker %s sent a result for the attempt %s, which was proved not to have started. The operation may have been started twice; the result stays in the stream.", e.result.Worker, e.ref.Attempt))
		return
	case a.taken:
		if a.nonce != "" && a.nonce != e.result.Nonce {
			l.alarm(a.vertex, fmt.Sprintf("The attempt %s has two results, under two claims: of worker %s, and of worker %s. The operation may have been started twice; the first result was recorded.", e.ref.Attempt, a.worker, e.result.Worker))
		}
		if x := &l.vertices[a.vertex]; x.work != nil && x.work.attempt == e.ref.Attempt {
			switch x.phase {
			case completing, advancing, concluding, retracting:
				return // it may be the same message once more, and is not durable yet; it comes again
			case doubtful:
				if x.work.delivery != 0 {
					return // as above: the doubt that it cannot be kept is not durable yet
				}
			}
		}
		l.acking[e.delivery] = nil
		l.do(ack{e.delivery})
		return
	}
	x := &l.vertices[a.vertex]
	if l.leaving {
		return // it stays in the stream
	}
	if x.phase == settled && e.result.Doubt != "" { // the doubt is known
		l.relieve(a.vertex, e)
		return
	}
	switch x.phase {
	case publishing, running, doubtful:
	case idle, preparing: // adopted from a process that is gone: the program must be told first
		l.hold(a.vertex, e)
		return
	case settled:
		l.retain(e.delivery, e.sequence) // the run goes on without it
		return
	default:
		l.retain(e.delivery, e.sequence)
		l.alarm(a.vertex, fmt.Sprintf("A result of worker %s came for the attempt %s before that was published. It is not recorded, and stays in the stream.", e.result.Worker, e.ref.Attempt))
		return
	}
	w := x.work
	a.taken = e.result.Doubt == "" // a report of doubt may be followed by the result
	a.nonce, a.worker = e.result.Nonce, e.result.Worker
	w.delivery, w.sequence, w.worker = e.delivery, e.sequence, e.result.Worker
	if !e.result.Started.IsZero() && e.result.Ended.After(e.result.Started) {
		l.sample(x, w, e.result.Ended.Sub(e.result.Started))
	}
	switch {
	case e.result.NotStarted:
		l.notStarted(a.vertex, wire.DiagsFromWire(e.result.Diagnostics))
	case e.result.Doubt != "":
		if !w.over { // else it has been told
			l.tell(a.vertex, wire.DiagsFromWire(e.result.Diagnostics))
		}
		w.answer = e.result.Answer
		l.confess(a.vertex, e.result.Doubt)
	default:
		if w.step.Task == nil || !w.step.Task.More {
			l.vacate(w) // the worker's slot is free
		}
		l.undoubt(a.vertex)
		l.move(a.vertex, completing)
		l.do(complete{a.vertex, e.result})
	}
}

func holder(c wire.Claim) string {
	if c.Tombstone {
		return "a coordinator that cancelled it"
	}
	return "worker " + c.Worker
}

func (l *loop) onUnreadable(e unreadable) {
	if e.ref.Run != l.run {
		return
	}
	a := l.attempts[e.ref.Attempt]
	if why := misplaced(a, e.ref); why != "" {
		l.refuse(a, e.ref, e.delivery, e.sequence, why)
		return
	}
	l.retain(e.delivery, e.sequence)
	detail := fmt.Sprintf("The result of the attempt %s could not be read, and stays in the stream: %s.", e.ref.Attempt, e.err)
	if l.newAlarm(detail) {
		l.tell(a.vertex, diag.Errors("Failed to read a result", detail, nil))
	}
	x := &l.vertices[a.vertex]
	if w := x.work; w != nil && w.attempt == e.ref.Attempt && (x.phase == running || x.phase == publishing) {
		w.over = true
		l.suspect(a.vertex, "its result could not be read: "+e.err.Error())
	}
}

// notStarted has another attempt made, unless the reason why this one did not start will be there again.
func (l *loop) notStarted(v int, why diag.List) {
	w := l.vertices[v].work
	w.lost++
	if !why.HasErrors() && w.lost <= maxLost {
		l.retract(v, "the worker did not start it")
		return
	}
	w.step = program.Step{Diags: why, Failed: true}
	l.undoubt(v)
	l.move(v, completing)
	l.goOn(v)
}

// givenUp goes on when a worker has buried the attempt, because it could not read the task.
func (l *loop) givenUp(v int) {
	w := l.vertices[v].work
	why := diag.List{diag.New(diag.Warning, "Operation not started", fmt.Sprintf("The task for %s was given up: %s.", w.desc.Address, w.reason), nil)}
	if w.lost < maxLost { // else it is told with the failure
		l.tell(v, why)
	}
	l.notStarted(v, why)
}

// retract makes durable that the attempt was not started; then there may be another one.
func (l *loop) retract(v int, why string) {
	l.undoubt(v)
	l.move(v, retracting)
	e := l.event(v, journal.Retract)
	e.Detail = why
	l.save(record{vertex: v, kind: retracted, events: []journal.Event{e}, changes: l.vertices[v].work.withUndoubted(nil)})
}

// requeue makes a vertex whose attempt is out of the world wait for another one.
func (l *loop) requeue(v int) {
	w := l.vertices[v].work
	l.arrive(v)
	l.attempts[w.attempt].buried = w.delivery == 0
	l.confirm(w)
	w.attempt, w.worker, w.adopted = "", "", false
	l.enqueue(v)
}
