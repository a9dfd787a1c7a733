package worker

import (
	"context"
	"errors"

	"github.com/millipede-iac/millipede/worker/journal"
)

// settleAll reports the attempts that an earlier process of the worker has left in its journal, by the message of the
// last recorded step, which was sealed then. It starts nothing.
func (w *Worker) settleAll(working context.Context) {
	for _, e := range w.Journal.Pending() {
		w.ops.hold(e.Ref.Attempt)
		if e.Phase != journal.Intended {
			w.ops.claim(e.Ref.Attempt)
		}
		w.held.Go(func() {
			defer w.ops.drop(e.Ref.Attempt)
			w.settle(working, e)
		})
	}
}

func (w *Worker) settle(ctx context.Context, e journal.Entry) {
	w.Log.Info("found an attempt in the journal", "attempt", e.Ref.Attempt, "phase", e.Phase.String())
	if e.Phase == journal.Intended {
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
	whole := func(context.Context) ([]byte, error) { return e.Message, nil }
	if !w.publish(ctx, e.Ref, whole) {
		return
	}
	if e.Phase == journal.Started {
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
