package worker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// spare is how many calls the worker accepts beyond its slots: calls that need no slot must get through while all slots
// are taken.
const spare = 16

// slotTimeout is how long a call waits for a slot.
const slotTimeout = time.Second

// serve answers the calls of the fast lane to a pool until taking ends.
func (w *Worker) serve(taking, working context.Context, pool string) {
	var retry backoff
	for {
		err := w.Caller.Serve(taking, pool, w.Slots+spare, func(ctx context.Context, data []byte) []byte {
			// A running call is finished, even while the worker drains.
			return w.answer(trace.Under(working, trace.Current(ctx)), pool, data)
		})
		if taking.Err() != nil {
			return
		}
		w.Log.Warn("serving calls ended", "pool", pool, "error", err)
		if !retry.wait(taking) {
			return
		}
	}
}

// answer executes one call. Nothing about it is recorded: the caller repeats a lost call.
func (w *Worker) answer(ctx context.Context, pool string, data []byte) []byte {
	started := w.Now()
	about := wire.CallSubjectOf(pool, data)
	held := w.budget.For(pool)
	defer held.Release()
	version := answering(data)
	packer := wire.Packer{Blobs: w.Blobs.PoolBlobs(pool), Incoming: w.Blobs, Rand: w.Rand, Held: held, Version: version}
	task, err := unpackTask(ctx, packer, about, data)
	var result *wire.Result
	if err != nil {
		task, result = &wire.Task{},
			failure("Unreadable task", fmt.Sprintf("Worker %s cannot read the task: %s.", w.ID, err))
	} else {
		result = w.call(ctx, pool, task)
	}
	result.Protocol, result.Attempt, result.Worker, result.Pool = version, task.Attempt, w.ID, pool
	result.Ended = w.Now()
	if result.Started.IsZero() {
		result.Started = started
	}

	packer.Run = task.Run
	out, err := packer.Pack(ctx, about, wire.EncodeResult(result))
	if err != nil {
		packer.Blobs = nil
		result = failure("Answer cannot be sent", fmt.Sprintf("Worker %s cannot send the answer for %s: %s.", w.ID,
			task.Address, err))
		result.Protocol, result.Attempt, result.Worker, result.Pool = version, task.Attempt, w.ID, pool
		if out, err = packer.Pack(ctx, about, wire.EncodeResult(result)); err != nil {
			panic("worker: a small message does not pack: " + err.Error())
		}
	}
	return out
}

func unpackTask(ctx context.Context, packer wire.Packer, about string, data []byte) (*wire.Task, error) {
	plain, err := packer.Unpack(ctx, about, data)
	if err != nil {
		return nil, err
	}
	return wire.DecodeTask(plain)
}

// call executes the operation of a call, in a slot if it needs one.
func (w *Worker) call(ctx context.Context, pool string, t *wire.Task) *wire.Result {
	switch {
	case changesTheWorld(t):
		return failure("Operation refused", fmt.Sprintf("Worker %s was called to change %s, but a change needs a "+
			"claim. This is a bug in Millipede.", w.ID, t.Address))
	case w.ops.isCancelled(t.Run):
		return &wire.Result{NotStarted: true}
	case needsSlot(t):
		// A call waits a moment for a slot, but not behind operations that may take half an hour while other workers idle.
		// Serve bounds how many calls run beyond the slots.
		waiting, enough := context.WithTimeout(ctx, slotTimeout)
		got := w.slots.take(waiting)
		enough()
		if got {
			defer w.slots.give()
		}
	}
	if ctx.Err() != nil {
		return &wire.Result{NotStarted: true}
	}
	started := w.Now() // with the slot in hand
	ref := wire.TaskRef{Pool: pool, Run: t.Run, Attempt: t.Attempt}
	ctx, span := trace.Start(ctx, "task", trace.Server)
	defer span.End()
	result := w.operate(ctx, ref, t, func(string) {})
	result.Started, result.Ended = started, w.Now()
	w.describe(span, ref, t, result)
	return result
}

// changesTheWorld reports whether an operation must not be executed twice. Objects of the built-in provider exist only
// in the state.
func changesTheWorld(t *wire.Task) bool {
	builtin := strings.HasPrefix(t.Provider.Package.Source, "terraform.io/builtin/")
	return t.Provision != nil || t.Apply != nil && !builtin
}

// needsSlot reports whether an operation waits for a slot. One that renews or closes an ephemeral object of another
// operation must not wait for that operation; one that only returns schemas costs nothing.
func needsSlot(t *wire.Task) bool {
	return t.Schema == nil && (t.Ephemeral == nil || t.Ephemeral.Op == "open")
}

func failure(summary, detail string) *wire.Result {
	return &wire.Result{Diagnostics: wire.DiagsToWire(diag.Errors(summary, detail, nil))}
}
