package worker

import (
	"context"
	"errors"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/journal"
)

// settleAll reports the attempts that an earlier process of the worker has left in its journal, by the message of the
// last recorded step, which was sealed then. It starts nothing.
func (w *Worker) settleAll(working context.Context) {
	for _, e := range w.Journal.Pending() {
		w.ops.hold(e.Ref.Attempt)
		if e.Status != journal.Intended {
			w.ops.claim(e.Ref.Attempt)
		}
		w.held.Go(func() {
			defer w.ops.drop(e.Ref.Attempt)
			w.settle(working, e)
		})
	}
}

func (w *Worker) settle(ctx context.Context, e journal.Entry) {
	w.Log.Info("found an attempt in the journal", "attempt", e.Ref.Attempt, "phase", e.Status.String())
	if e.Status == journal.Intended {
		// The register says whether the claim was won. If it is empty, the task is still in the queue.
		ours, err := w.isOurs(ctx, e.Ref, e.Nonce)
		if err != nil {
			return // the next start tries again
		}
		if !ours {
			w.forget(e.Ref)
			return
		}
	}
	if !w.publish(ctx, e.Ref, func(ctx context.Context) ([]byte, error) { return w.spillKept(ctx, e), nil }) {
		return
	}
	if e.Status == journal.Started {
		// Doubt is a final state: the journal's table has no transition from started to done.
		if err := w.Journal.End(e.Ref, e.Message); errors.Is(err, journal.ErrFull) {
			return // it is published once more at the next start
		} else if err != nil {
			w.fail(err)
			return
		}
	}
	w.forget(e.Ref)
}

// spillKept returns the message of an entry in the form to publish. The journal has the whole message, and streams
// accept no large ones, so a large message is moved to a blob. That needs the run's key. The coordinator shares the key
// with this process when it resumes the run; until then, spillKept returns the message as it was.
func (w *Worker) spillKept(ctx context.Context, e journal.Entry) []byte {
	if len(e.Message) <= wire.SpillOver {
		return e.Message
	}
	mail, err := w.codecOf(ctx, e.Ref, answering(e.Message))
	defer mail.held.Release()
	var plain, light []byte
	if err == nil {
		plain, err = mail.packer().Unpack(ctx, wire.ResultSubject(e.Ref), e.Message)
	}
	if err == nil {
		light, err = mail.packer().Pack(ctx, wire.ResultSubject(e.Ref), plain)
	}
	if err != nil {
		w.Log.Warn("a large result of the journal cannot be moved to a blob now", "attempt", e.Ref.Attempt, "error", err)
		return e.Message
	}
	return light
}
