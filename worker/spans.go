package worker

import (
	"github.com/millipede-iac/millipede/trace"
	"github.com/millipede-iac/millipede/wire"
)

// sentUnder returns the span that a delivery was sent under; none where its sender records none.
func sentUnder(d wire.Delivery) trace.Context {
	if t, ok := d.(wire.Traced); ok {
		return t.Trace()
	}
	return trace.Context{}
}

// describe notes in the span of a task what it was about, and how it has ended. What a result says in words may hold
// what must not be shown, so it is not noted.
func (w *Worker) describe(span *trace.Span, ref wire.TaskRef, t *wire.Task, r *wire.Result) {
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
	switch {
	case r.NotStarted:
		span.Fail("not started")
	case r.Doubt != "":
		span.Fail("in doubt")
	case wire.DiagsFromWire(r.Diagnostics).HasErrors():
		span.Fail("failed")
	}
}
