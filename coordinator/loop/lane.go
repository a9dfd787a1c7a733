package loop

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
	// maxLost is how often a call on the fast lane may be lost before its vertex fails: a task that kills each worker that
	// takes it must not be repeated for ever.
	maxLost = 7
	// maxPassedOver is how often, TickEvery apart, a call may meet a worker of another version before its vertex fails,
	// although the pool seems to have a worker of this version.
	maxPassedOver = 240
	// lastThatClaims is the last version of workers that claim tasks which they cannot read.
	lastThatClaims = 5
	// claimWait is how long a published task may stay unclaimed before it is published again.
	claimWait = 10 * time.Second
)

// onCallFailed decides whether a call on the fast lane is repeated. It may be, because the fast lane changes nothing
// outside.
func (l *Loop) onCallFailed(e CallFailed) {
	x := &l.vertices[e.Vertex]
	w := x.work
	l.arrive(e.Vertex)
	other := (*wire.VersionError)(nil)
	switch p := l.permits.poolOf(w.pool); {
	case errors.As(e.Err, &other) && p.live > 0 && w.passed < maxPassedOver: // the next worker may be of this version
		w.passed++
		l.park(e.Vertex, l.now.Add(TickEvery))
	case errors.Is(e.Err, wire.ErrNoWorker) || other != nil && p.live == 0:
		if p.live > 0 { // it was there a moment ago
			l.park(e.Vertex, l.now.Add(TickEvery))
			break
		}
		p.missing = true
		l.do(Control{"announce"})
		l.enqueue(e.Vertex)
	case errors.Is(e.Err, wire.ErrPermitLost):
		l.permits.drop(w)
		l.park(e.Vertex, l.now.Add(TickEvery))
	case errors.Is(e.Err, wire.ErrDisconnected), errors.Is(e.Err, wire.ErrUnanswered):
		l.park(e.Vertex, l.now.Add(TickEvery))
	case errors.Is(e.Err, wire.ErrLostCall) && l.workers.away(w.pool):
		l.park(e.Vertex, l.now.Add(TickEvery))
	case errors.Is(e.Err, wire.ErrLostCall) && w.lost < maxLost:
		w.lost++
		l.park(e.Vertex, l.now.Add(TickEvery<<(w.lost-1)))
	default:
		l.permits.leave(w)
		detail := fmt.Sprintf("A worker of pool %q could not be asked about %s: %s.", w.pool, w.desc.Address, e.Err)
		if errors.Is(e.Err, wire.ErrLostCall) {
			detail = fmt.Sprintf("No worker of pool %q answered about %s, in %d attempts: the worker, or the "+
				"provider's plugin with it, may end whenever it is asked. Its own log tells more.", w.pool,
				w.desc.Address, w.lost+1)
		}
		w.step = program.Step{Diags: diag.Errors("Failed to reach a worker", detail, nil).WithAddress(w.desc.Address)}
		l.nextPhase(e.Vertex)
	}
}

// attempt is what the loop keeps about an attempt for the whole run, so that it recognizes late copies of its result.
type attempt struct {
	vertex  int
	pool    string
	taken   bool   // its result was accepted
	revoked bool   // it was proved not to have started
	nonce   string // of the accepted result; empty when another process took it
	worker  string
}

// intend commits the intent to run the task of a vertex, with its attempt and permits. After a crash right behind the
// commit, the resumed run publishes the task.
func (l *Loop) intend(v int) {
	w := l.vertices[v].work
	w.attempt, w.worker, w.answer = l.Attempt(), "", nil
	l.attempts[w.attempt] = &attempt{vertex: v, pool: w.pool}
	l.move(v, intending)
	e := l.event(v, journal.Dispatch)
	e.Waits, e.Waited = w.waits, l.now.Sub(w.ready)
	for _, k := range keysOf(w.permits) {
		e.Permits = append(e.Permits, journal.PermitName(k.Limit, k.ID))
	}
	l.save(Record{Vertex: v, Kind: Intended, Events: []journal.Event{e}})
}

// send publishes the task of an attempt whose intent is durable. If the run was asked to stop meanwhile, it retracts
// the attempt, which nobody has seen.
func (l *Loop) send(v int) {
	w := l.vertices[v].work
	if l.halted() && w.origin == own {
		l.discardAttempt(v, "the run was stopped")
		return
	}
	l.move(v, publishing)
	l.markSent(v)
	l.post(v)
}

// post publishes a task to the stream. It may do so again, because only one claim wins. Once a task may have been
// published, only a tombstone in its register can revoke the attempt.
func (l *Loop) post(v int) {
	w := l.vertices[v].work
	task := *w.step.Task
	task.Run, task.Attempt, task.Protocol = l.Run, w.attempt, l.permits.versionOf(w.pool)
	w.sent = l.now
	var permits []PermitKey
	if w.origin == own && w.sending != published {
		permits = w.keys()
	}
	act := Publish{Vertex: v, Ref: l.ref(w), Task: &task, Permits: permits}
	if w.maker != "" {
		act.To, act.After = w.maker, w.after
		w.maker, w.after = "", ""
	}
	l.do(act)
}

func (l *Loop) onPublished(e Published) {
	x := &l.vertices[e.Vertex]
	w := x.work
	if x.phase != publishing || w.attempt != e.Attempt {
		return // its result was faster
	}
	switch lost := errors.Is(e.Err, wire.ErrPermitLost); {
	case lost && w.sending != unsent: // nothing was sent this time, but perhaps before
		l.move(e.Vertex, running)
		l.revoke(e.Vertex, "its permit was lost")
		return
	case lost: // nothing was ever sent
		// Until that is recorded, it is not certain that this process still has the run: another one may have taken over the
		// permits, and the operation.
		become(e.Vertex, &w.sending, barred)
		l.discardAttempt(e.Vertex, "its permit was lost")
		return
	}
	doing := fmt.Sprintf("publishing the task for %s", w.desc.Address)
	if w.sending == unsent {
		become(e.Vertex, &w.sending, posted)
	}
	switch first := w.refused.Stopped(); {
	case l.repeatedly(&w.refused, doing, e.Err):
	case e.Err == nil:
		set(e.Vertex, &w.sending, published)
	case first && !Outage(e.Err) && !errors.Is(e.Err, wire.ErrStore): // of that, probe tells
		l.tell(e.Vertex, diag.List{diag.New(diag.Warning, "Failed to publish a task",
			fmt.Sprintf("The task for %s could not be put into the stream of pool %q; this is repeated. The error "+
				"was: %s.", w.desc.Address, w.pool, e.Err), nil)})
	}
	l.move(e.Vertex, running)
}

// onArrived accepts a result of the safe lane, or finds out that it must not be accepted.
func (l *Loop) onArrived(e Arrived) {
	if e.Ref.Run != l.Run {
		return // another run's; it stays in the stream for whoever resumes that run
	}
	a := l.attempts[e.Ref.Attempt]
	if why := forged(a, e); why != "" {
		l.refuse(a, e.Ref, e.Delivery, e.Sequence, why)
		return
	}
	switch {
	case a.revoked:
		l.retain(e.Delivery, e.Sequence)
		l.messages.reportViolation(a.vertex, fmt.Sprintf("Worker %s sent a result for the attempt %s, which was "+
			"proved not to have started. The operation may have been started twice; the result stays in the stream.",
			e.Result.Worker, e.Ref.Attempt))
		return
	case a.taken:
		if a.nonce != "" && a.nonce != e.Result.Nonce {
			l.messages.reportViolation(a.vertex, fmt.Sprintf("The attempt %s has two results, under two claims: of "+
				"worker %s, and of worker %s. The operation may have been started twice; the first result was recorded.",
				e.Ref.Attempt, a.worker, e.Result.Worker))
		}
		if x := &l.vertices[a.vertex]; x.work != nil && x.work.attempt == e.Ref.Attempt {
			switch x.phase {
			case completing, advancing, concluding, retracting:
				return // it may be the same message once more, and is not durable yet; it comes again
			case doubtful:
				if x.work.delivery != 0 {
					return // as above: the doubt that it cannot be kept is not durable yet
				}
			}
		}
		l.permits.ack(e.Delivery, nil)
		return
	}
	x := &l.vertices[a.vertex]
	if l.leaves() {
		return // it stays in the stream
	}
	if x.phase == settled && e.Result.Doubt != "" { // the doubt is known
		l.endDoubt(a.vertex, e)
		return
	}
	switch x.phase {
	case publishing, running, doubtful:
	case idle, preparing: // adopted from a process that is gone: the program must be told first
		l.Past.hold(a.vertex, e)
		return
	case settled:
		l.retain(e.Delivery, e.Sequence) // the run goes on without it
		return
	default:
		l.retain(e.Delivery, e.Sequence)
		l.messages.reportViolation(a.vertex, fmt.Sprintf("Worker %s sent a result for the attempt %s before "+
			"the attempt was published. It is not recorded, and stays in the stream.", e.Result.Worker, e.Ref.Attempt))
		return
	}
	w := x.work
	a.taken = e.Result.Doubt == "" // a report of doubt may be followed by the result
	a.nonce, a.worker = e.Result.Nonce, e.Result.Worker
	w.delivery, w.sequence, w.worker = e.Delivery, e.Sequence, e.Result.Worker
	if !e.Result.Started.IsZero() && e.Result.Ended.After(e.Result.Started) {
		l.sample(x, w, e.Result.Ended.Sub(e.Result.Started))
	}
	switch {
	case e.Result.NotStarted && e.Result.Protocol == lastThatClaims && w.passed < maxPassedOver:
		// The next worker may be of this version.
		w.passed++
		l.discardAttempt(a.vertex, "a worker of another version could not read it")
	case e.Result.NotStarted:
		l.notStarted(a.vertex, wire.DiagsFromWire(e.Result.Diagnostics))
	case e.Result.Doubt != "":
		if w.effect != over { // else it has been told
			l.tell(a.vertex, wire.DiagsFromWire(e.Result.Diagnostics))
		}
		w.answer = e.Result.Answer
		set(a.vertex, &w.effect, over) // so the permits are released once that is durable
		l.suspect(a.vertex, e.Result.Doubt)
	default:
		if w.step.Task == nil || !w.step.Task.More {
			l.permits.releasePlace(w) // the worker's slot is free
		}
		l.resolveDoubt(a.vertex, x)
		l.move(a.vertex, completing)
		l.do(Complete{a.vertex, e.Result})
	}
}

func holder(c wire.Claim) string {
	if c.Tombstone {
		return "a coordinator that cancelled it"
	}
	return "worker " + c.Worker
}

func (l *Loop) onUnreadable(e Unreadable) {
	if e.Ref.Run != l.Run {
		return
	}
	a := l.attempts[e.Ref.Attempt]
	if why := misplaced(a, e.Ref); why != "" {
		l.refuse(a, e.Ref, e.Delivery, e.Sequence, why)
		return
	}
	l.retain(e.Delivery, e.Sequence)
	detail := fmt.Sprintf("The result of the attempt %s could not be read, and stays in the stream: %s.",
		e.Ref.Attempt, e.Err)
	if l.messages.shouldReport(detail) {
		l.tell(a.vertex, diag.Errors("Failed to read a result", detail, nil))
	}
	x := &l.vertices[a.vertex]
	if w := x.work; w != nil && w.attempt == e.Ref.Attempt && (x.phase == running || x.phase == publishing) {
		set(a.vertex, &w.effect, over)
		l.suspect(a.vertex, "its result could not be read: "+e.Err.Error())
	}
}

// notStarted makes another attempt, unless the reason why this one did not start will persist.
func (l *Loop) notStarted(v int, why diag.List) {
	w := l.vertices[v].work
	w.lost++
	if !why.HasErrors() && w.lost <= maxLost {
		l.discardAttempt(v, "the worker did not start it")
		return
	}
	w.step = program.Step{Diags: why, Failed: true}
	l.resolveDoubt(v, &l.vertices[v])
	l.move(v, completing)
	l.nextPhase(v)
}

// onTombstone continues after a worker has written a tombstone for the attempt, because it could not read the task.
func (l *Loop) onTombstone(v int) {
	w := l.vertices[v].work
	why := diag.List{diag.New(diag.Warning, "Operation not started", fmt.Sprintf("The task for %s was given up: %s.",
		w.desc.Address, w.reason), nil)}
	if w.lost < maxLost { // otherwise the failure of the vertex includes it
		l.tell(v, why)
	}
	l.notStarted(v, why)
}

// discardAttempt records that the attempt was not started, so that another one can be made.
func (l *Loop) discardAttempt(v int, why string) {
	l.resolveDoubt(v, &l.vertices[v])
	l.move(v, retracting)
	e := l.event(v, journal.Retract)
	e.Detail = why
	l.save(Record{Vertex: v, Kind: Retracted, Events: []journal.Event{e},
		Changes: l.vertices[v].work.withResolvedDoubt(nil)})
}

// requeue queues a vertex for another attempt when the last one can no longer start.
func (l *Loop) requeue(v int) {
	w := l.vertices[v].work
	l.arrive(v)
	l.attempts[w.attempt].revoked = w.delivery == 0
	if w.sending == barred {
		l.permits.drop(w)
	}
	l.permits.confirm(w)
	w.attempt, w.worker = "", ""
	w.beginAnew(v)
	l.enqueue(v)
}
