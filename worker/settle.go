package worker

import (
	"context"
	"errors"

	"github.com/millipede-iac/millipede/worker/journal"
)

// settleAll reports what an earlier life of the worker left in its journal: the message of the last step that is
// noted, which was sealed then. It begins nothing.
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
		// Whether the claim had been won is in the register. Where it is empty, the task is still in the queue.
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
		// Doubt is an end of its own: the journal's table knows no way from started to done.
		if err := w.Journal.End(e.Ref, e.Message); errors.Is(err, journal.ErrFull) {
			return // it is published once more at the next start
		} else if err != nil {
			w.fail(err)
			return
		}
	}
	w.forget(e.Ref)
}
