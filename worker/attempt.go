package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/internal/failpoint"
	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/journal"
)

// trust is the greatest age of a claim, by the monotonic clock, when its operation begins. A worker that slept for
// longer leaves the attempt alone: its coordinator may have revoked it.
const trust = 5 * time.Second

// stoppedDuring is the reason of a doubt about an operation whose worker has ended.
const stoppedDuring = "The worker stopped while it carried the operation out."

// attempt executes one delivered task of the safe lane, or finds that it must not be executed.
//
// It returns the slot that is reserved for the next operation of the vertex; nil if there is none.
//
// The comment on each step says what survives a crash right after it; settleAll continues from there.
func (w *Worker) attempt(ctx context.Context, d wire.Delivery) (kept *keptSlot) {
	ref := d.Ref()
	ctx, span := trace.Start(trace.Under(ctx, sentUnder(d)), "task", trace.Server) // not ended: there was none
	failpoint.Hit(failpoint.TaskFetched)
	switch fresh, claimed := w.ops.hold(ref.Attempt); {
	case !fresh && claimed:
		w.acknowledge(ctx, d)
		return nil
	case !fresh:
		w.release(ctx, d)
		return nil
	}
	defer w.ops.drop(ref.Attempt)
	mail, err := w.codecOf(ctx, ref, answering(d.Data()))
	defer mail.held.Release()
	var task *wire.Task
	var unreadable error
	if err == nil {
		task, unreadable = mail.open(ctx, d.Data())
	}
	if err != nil || errors.Is(unreadable, wire.ErrDisconnected) || ctx.Err() != nil {
		// Without the run's key the worker can neither read the task nor report anything about it. Another worker of the pool
		// may have the key.
		w.Log.Warn("a task cannot be opened now", "run", ref.Run, "attempt", ref.Attempt, "error",
			errors.Join(err, unreadable))
		if errors.Is(err, wire.ErrNoKey) && !w.keyless.leave(ref.Attempt, w.Now()) {
			w.writeTombstone(ctx, d)
			return nil
		}
		_ = sleep.For(ctx, beforeRelease)
		w.release(ctx, d)
		return nil
	}

	if w.forOther(ref.Attempt, task) {
		w.release(ctx, d)
		return nil
	}

	a := claimed{Worker: w, ref: ref, nonce: w.Nonce(), version: mail.version}
	notStarted, err := mail.seal(ctx, a.notStarted("The worker stopped before it began the operation.", nil))
	if err != nil {
		w.fail(fmt.Errorf("sealing a message: %w", err))
		return nil
	}
	// A crash from here on leaves the intent in the journal: the next start reads the register.
	if err := w.Journal.Intend(ref, a.nonce, notStarted); err != nil {
		if errors.Is(err, journal.ErrFull) {
			w.Log.Warn("a task is given back: the disk of this worker is full", "attempt", ref.Attempt, "error", err)
			w.diskFull(err)
			_ = sleep.For(ctx, beforeRelease)
		} else {
			w.fail(fmt.Errorf("noting the intent to claim %s: %w", ref.Attempt, err))
		}
		w.release(ctx, d)
		return nil
	}
	failpoint.Hit(failpoint.ClaimNoted)
	at := w.Now()
	outcome, err := w.claim(ctx, ref, a.nonce, at)
	switch {
	case err != nil:
		return nil // nothing is known, and nothing was begun; the next start asks the register
	case outcome == taken:
		w.forget(ref)
		w.acknowledge(ctx, d) // somebody else has the attempt for good
		return nil
	case outcome == unclaimed:
		w.forget(ref)
		w.release(ctx, d)
		return nil
	}

	failpoint.Hit(failpoint.Claimed)
	defer span.End()
	w.ops.claim(ref.Attempt)
	w.Log.Debug("an attempt is claimed", "run", ref.Run, "attempt", ref.Attempt, "pool", ref.Pool)
	// After a crash from here on, until the start is recorded, the attempt is reported as not started.
	doubt, err := mail.seal(ctx, a.doubt(stoppedDuring))
	if err == nil {
		err = w.Journal.Start(ref, doubt)
	}
	// the journal says that it was not started; so does the result, once there is space
	if errors.Is(err, journal.ErrFull) {
		w.diskFull(err)
		w.acknowledge(ctx, d)
		w.report(ctx, a, mail, a.notStarted("The disk of the worker is full.", nil))
		return
	}
	if err != nil {
		w.fail(fmt.Errorf("noting the start of %s: %w", ref.Attempt, err))
		return nil
	}
	// After a crash from here on, until the end is recorded, the attempt is reported as in doubt.
	failpoint.Hit(failpoint.StartNoted)
	w.acknowledge(ctx, d) // redelivered it would meet the claim
	failpoint.Hit(failpoint.TaskAcked)
	switch {
	case unreadable != nil:
		w.report(ctx, a, mail, a.notStarted("It cannot read the task.", unreadable))
	case outcome == wonTooLate:
		w.report(ctx, a, mail, a.notStarted("It had fetched the task too long ago.", nil))
	default:
		result := w.startIfSafe(ctx, a, at, task, mail)
		w.describe(span, ref, task, result)
		if task.More && mayContinue(result) {
			kept = w.kept.keep(ref.Attempt, w.Now().Add(2*keepFor))
		}
		w.report(ctx, a, mail, result)
	}
	return kept
}

// mayContinue reports whether another operation of the vertex may follow one with this result.
func mayContinue(r *wire.Result) bool {
	return !r.NotStarted && r.Doubt == "" && !wire.DiagsFromWire(r.Diagnostics).HasErrors()
}

// writeTombstone writes a tombstone for an attempt whose task this worker cannot decrypt, because nobody has shared the
// key with it: the run is over and the key removed, or its coordinator is gone. Otherwise the task would be delivered
// for ever. A run that continues finds the tombstone and makes another attempt. If another worker has claimed the
// attempt, the task is not needed any more.
func (w *Worker) writeTombstone(ctx context.Context, d wire.Delivery) {
	ref := d.Ref()
	tomb := wire.Claim{Nonce: w.Nonce(), Worker: w.ID, At: w.Now(), Tombstone: true,
		Reason: fmt.Sprintf("worker %s has not been given the key of the run for %s", w.ID, w.keyless.wait)}
	got, err := w.Claims.Claim(ctx, ref, tomb)
	if err != nil {
		w.Log.Warn("burying an attempt failed", "attempt", ref.Attempt, "error", err)
		w.release(ctx, d)
		return
	}
	if got.Nonce == tomb.Nonce {
		w.Log.Error("a task was discarded: its run is over, or its coordinator is gone", "run", ref.Run, "attempt",
			ref.Attempt, "reason", tomb.Reason)
	}
	w.acknowledge(ctx, d)
}

// startIfSafe starts the operation unless it is too late.
func (w *Worker) startIfSafe(ctx context.Context, a claimed, at time.Time, task *wire.Task,
	mail messageCodec) *wire.Result {
	switch age := w.Now().Sub(at); {
	case age > trust:
		return a.notStarted(fmt.Sprintf("The claim was %s old before the operation could begin.",
			age.Round(time.Millisecond)), nil)
	case w.ops.isCancelled(a.ref.Run):
		return a.notStarted("The run was cancelled.", nil)
	case ctx.Err() != nil:
		return a.notStarted("The worker was told to stop.", nil)
	}
	started := w.Now()
	result := w.operate(ctx, a.ref, task, w.progressNote(ctx, a, mail))
	result.Started, result.Ended = started, w.Now()
	return a.stamp(result)
}

// report records the result, publishes it until the stream confirms it, and removes the attempt's record.
func (w *Worker) report(ctx context.Context, a claimed, mail messageCodec, result *wire.Result) {
	failpoint.Hit(failpoint.Operated)
	message, err := mail.seal(ctx, result)
	if err != nil { // nobody knows the outcome of the operation then, and the result must say so
		reason := "The worker cannot send the result: " + err.Error()
		w.Log.Error("sealing a result failed", "attempt", a.ref.Attempt, "error", err)
		doubt := a.doubt(reason)
		doubt.Started, doubt.Ended = result.Started, result.Ended
		if message, err = mail.seal(ctx, doubt); err != nil {
			w.fail(fmt.Errorf("sealing the result of %s: %w", a.ref.Attempt, err))
			return
		}
		result = doubt
	}
	// A crash after this loses nothing: the next start publishes the result.
	noted := w.noteEnd(a.ref, message)
	failpoint.Hit(failpoint.EndNoted)
	if w.publish(ctx, a.ref, func(ctx context.Context) ([]byte, error) {
		noted = noted || w.noteEnd(a.ref, message)
		return mail.spill(ctx, message, result)
	}) {
		failpoint.Hit(failpoint.ResultSent)
		for retry := (backoff{}); !noted; noted = w.noteEnd(a.ref, message) {
			// The journal has only the doubt. The worker keeps a slot occupied meanwhile, so that it takes nothing more.
			if w.draining.Load() || !retry.wait(ctx) {
				return
			}
		}
		w.forget(a.ref)
		failpoint.Hit(failpoint.Forgotten)
	}
}

// noteEnd records a result. If it returns false, the journal says doubt until there is space on the disk; publishing
// the result may still make that unnecessary.
func (w *Worker) noteEnd(ref wire.TaskRef, message []byte) bool {
	err := w.Journal.End(ref, message)
	switch {
	case err == nil:
		return true
	case errors.Is(err, journal.ErrFull):
		w.Log.Warn("a result cannot be noted: the disk of this worker is full", "attempt", ref.Attempt, "error", err)
		w.diskFull(err)
		return false
	}
	w.fail(fmt.Errorf("noting the result of %s: %w", ref.Attempt, err))
	return true // to try again is of no use
}

// publish sends a message until the stream has it. It returns false if ctx ends first, or if the worker is asked to
// leave while the message store cannot store messages: the journal has the message, and the next start sends it.
func (w *Worker) publish(ctx context.Context, ref wire.TaskRef, message func(context.Context) ([]byte, error)) bool {
	var retry backoff
	for {
		data, err := message(ctx)
		if err == nil {
			err = w.Queue.PublishResult(ctx, ref, data)
		}
		if err == nil {
			return true
		}
		if retry.news() {
			w.Log.Warn("publishing a result failed", "attempt", ref.Attempt, "error", err)
		}
		if errors.Is(err, wire.ErrStore) && w.draining.Load() || !w.again(ctx, &retry) {
			w.Log.Warn("leaving with a result that could not be published: it is in the journal, and the next start "+
				"of a worker with this journal publishes it", "attempt", ref.Attempt)
			return false
		}
	}
}

// outcome is the outcome of a claim.
type outcome byte

const (
	// taken: another worker has the attempt, or a tombstone revoked it.
	taken outcome = iota
	// unclaimed: the register was not written, and this delivery must not write it any more.
	unclaimed
	// wonTooLate: this worker has claimed the attempt, but too late to start its operation.
	wonTooLate
	// won: the operation may start.
	won
)

// claim writes the register until it knows who has claimed the attempt.
func (w *Worker) claim(ctx context.Context, ref wire.TaskRef, nonce string, at time.Time) (outcome, error) {
	var retry backoff
	for {
		got, err := w.Claims.Claim(ctx, ref, wire.Claim{Nonce: nonce, Worker: w.ID, At: at})
		switch {
		case err == nil && got.Nonce == nonce && !got.Tombstone:
			return won, nil
		case err == nil:
			return taken, nil
		case errors.Is(err, wire.ErrStale):
			ours, err := w.isOurs(ctx, ref, nonce)
			if ours {
				return wonTooLate, err
			}
			return unclaimed, err
		}
		if retry.news() {
			w.Log.Warn("claiming failed", "attempt", ref.Attempt, "error", err)
		}
		if errors.Is(err, wire.ErrStore) && w.draining.Load() {
			return taken, err
		}
		if !w.again(ctx, &retry) {
			return taken, cmp.Or(context.Cause(ctx), err)
		}
	}
}

// isOurs reads the register until it knows whether it holds the nonce.
func (w *Worker) isOurs(ctx context.Context, ref wire.TaskRef, nonce string) (bool, error) {
	var retry backoff
	for {
		got, err := w.Claims.ReadClaim(ctx, ref)
		if err == nil || errors.Is(err, wire.ErrNotFound) {
			return err == nil && got.Nonce == nonce, nil
		}
		w.Log.Warn("reading a claim failed", "attempt", ref.Attempt, "error", err)
		if !w.again(ctx, &retry) {
			return false, cmp.Or(context.Cause(ctx), err)
		}
	}
}

// acknowledge removes the task from the queue.
func (w *Worker) acknowledge(ctx context.Context, d wire.Delivery) {
	ctx, cancel := context.WithTimeout(ctx, bestEffortTimeout)
	defer cancel()
	if err := d.Ack(ctx); err != nil {
		w.Log.Debug("acknowledging a task failed", "attempt", d.Ref().Attempt, "error", err)
	}
}

// forget removes an attempt's record. If that fails, the next start repeats it without harm.
func (w *Worker) forget(ref wire.TaskRef) {
	if err := w.Journal.Done(ref); err != nil && !errors.Is(err, journal.ErrFull) {
		w.fail(fmt.Errorf("forgetting %s: %w", ref.Attempt, err))
	}
}

// claimed is an attempt that this worker has claimed; it makes the results.
type claimed struct {
	*Worker
	ref     wire.TaskRef
	nonce   string
	version int // of its messages
}

func (a claimed) stamp(r *wire.Result) *wire.Result {
	r.Protocol, r.Attempt, r.Nonce, r.Worker, r.Pool = a.version, a.ref.Attempt, a.nonce, a.ID, a.ref.Pool
	return r
}

// notStarted is the result of an attempt whose operation has not started and never will. err is the reason, if the user
// should see it.
func (a claimed) notStarted(reason string, err error) *wire.Result {
	now := a.Now()
	r := &wire.Result{NotStarted: true, Started: now, Ended: now}
	severity := diag.Warning
	if err != nil {
		severity, reason = diag.Error, fmt.Sprintf("%s (%s)", reason, err)
	}
	detail := fmt.Sprintf("Worker %s did not begin the operation. %s", a.ID, reason)
	r.Diagnostics = wire.DiagsToWire(diag.List{diag.New(severity, "Operation not started", detail, nil)})
	return a.stamp(r)
}

// doubt is the result of an attempt whose operation may have started, with an unknown outcome.
func (a claimed) doubt(reason string) *wire.Result {
	now := a.Now()
	return a.stamp(&wire.Result{Doubt: reason, Started: now, Ended: now})
}

// messageCodec opens and seals the messages of one attempt.
type messageCodec struct {
	ref     wire.TaskRef
	version int // of the protocol, in which the worker answers
	sealer  *wire.Sealer
	held    *wire.Reservation // the memory that the task uses until the attempt ends
	w       *Worker
}

func (w *Worker) codecOf(ctx context.Context, ref wire.TaskRef, version int) (messageCodec, error) {
	sealer, err := w.keys.open(ctx, ref.Pool, ref.Run)
	return messageCodec{ref: ref, version: version, sealer: sealer, held: w.budget.For(ref.Pool), w: w}, err
}

func (m messageCodec) packer() wire.Packer {
	return wire.Packer{Run: m.ref.Run, Sealer: m.sealer, Blobs: m.w.Blobs.PoolBlobs(m.ref.Pool), Incoming: m.w.Blobs,
		Rand: m.w.Rand, Held: m.held, Version: m.version}
}

// open decrypts a task. The coordinator's blob may take a while to arrive.
func (m messageCodec) open(ctx context.Context, data []byte) (*wire.Task, error) {
	plain, err := m.packer().Unpack(ctx, wire.TaskSubject(m.ref), data)
	if err != nil {
		return nil, err
	}
	return wire.DecodeTask(plain)
}

// seal makes the message of a result without a blob, so that the copy in the journal is complete.
func (m messageCodec) seal(ctx context.Context, r *wire.Result) ([]byte, error) {
	p := m.packer()
	p.Blobs = nil
	return p.Pack(ctx, wire.ResultSubject(m.ref), wire.EncodeResult(r))
}

// spill returns the message to publish: the content of a large one is moved to a blob.
func (m messageCodec) spill(ctx context.Context, message []byte, r *wire.Result) ([]byte, error) {
	if len(message) <= wire.SpillOver {
		return message, nil
	}
	return m.packer().Pack(ctx, wire.ResultSubject(m.ref), wire.EncodeResult(r))
}
