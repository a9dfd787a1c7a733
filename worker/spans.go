package worker

import (
	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/wire"
)

// sentUnder returns the span that a delivery was sent under; the zero value if its sender records none.
func sentUnder(d wire.Delivery) trace.Context {
	if t, ok := d.(wire.Traced); ok {
		return t.Trace()
	}
	return trace.Context{}
}

// describe passes the subject of a task and its outcome to Options.Done, and adds them to the span of the task. It
// leaves out the texts of results, which may contain sensitive values.
func (w *Worker) describe(span *trace.Span, ref wire.TaskRef, t *wire.Task, r *wire.Result) {
	outcome := outcomeOf(r)
	w.Done(Done{Operation: t.Operation(), Outcome: outcome, Pool: ref.Pool, Took: r.Ended.Sub(r.Started)})
	if span == nil {
		return
	}
	span.Set("millipede.operation", t.Operation())
	if t.Address != "" {
		span.Set("millipede.address", t.Address)
	}
	if ref.Attempt != "" {
		span.Set("millipede.attempt", string(ref.Attempt))
	}
	if ref.Run != "" {
		span.Set("millipede.run", ref.Run)
	}
	span.Set("millipede.provider", t.Provider.Package.Source)
	span.Set("millipede.pool", ref.Pool)
	span.Set("millipede.worker", w.ID)
	if outcome != succeeded {
		span.Fail(outcome)
	}
}

const succeeded = "succeeded"

// outcomeOf returns how an operation has ended, in a word.
func outcomeOf(r *wire.Result) string {
	switch {
	case r.NotStarted:
		return "not_started"
	case r.Doubt != "":
		return "in_doubt"
	case wire.DiagsFromWire(r.Diagnostics).HasErrors():
		return "failed"
	}
	return succeeded
}
