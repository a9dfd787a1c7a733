package operation

import (
	"context"

	"github.com/millipede-iac/millipede/bug"
	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/trace"
)

// Handle is an operation that was started: it can be stopped, left, awaited and looked at from any goroutine.
//
// A process has as many as it wants. Each has a Stop of its own, so that one can be stopped while others go on, and a
// bug of
// ours that ends one ends no other: it is an error of that operation, with its trace.
type Handle[T any] struct {
	// ID is unique; Kind says what the operation does: "plan", "apply", ...
	ID, Kind string

	stop, leave context.CancelCauseFunc
	log         *log
	done        chan struct{}
	// What came of it; there once done is closed.
	result T
	diags  diag.List
}

// Start starts an operation and returns at once. fn is the operation; it must use the session that it is given, a
// copy of s
// whose Stop is asked for when that of s is, and when ctx ends. Wait for the handle before what the session works
// with is
// closed.
func Start[T any](
	ctx context.Context, s *Session, kind string, fn func(context.Context, *Session) (T, diag.List),
) *Handle[T] {
	own := *s
	h := &Handle[T]{Kind: kind, done: make(chan struct{}), log: newLog(maxEvents)}
	if err := bug.Catch(func() error { h.ID = s.NewID(); return nil }); err != nil {
		fn = func(context.Context, *Session) (none T, diags diag.List) { return none, diag.List{runFailed(err)} }
	}
	ctx, span := trace.Start(ctx, kind, trace.Internal)
	own.Stop, h.stop, h.leave = s.Stop.child(ctx)
	r := &recorder{log: h.log, now: s.Now, next: s.Observer}
	own.Observer = r
	if t, is := s.Observer.(coordinator.Tracer); is {
		own.Observer = traced{r, t}
	}
	go func() { // Wait waits for it
		defer close(h.done)
		defer h.log.close()
		defer caught(&h.diags)
		defer func() {
			if h.diags.HasErrors() {
				span.Fail("failed")
			}
			span.End()
		}()
		h.result, h.diags = fn(ctx, &own)
	}()
	return h
}

// Do starts an operation and waits for it.
func Do[T any](
	ctx context.Context, s *Session, kind string, fn func(context.Context, *Session) (T, diag.List),
) (T, diag.List) {
	return Start(ctx, s, kind, fn).Wait()
}

// Stop asks the operation to start nothing new. What runs already, and changes the world, is awaited.
func (h *Handle[T]) Stop() { h.stop(ErrInterrupted) }

// Leave asks the operation to return at once, whatever still runs.
func (h *Handle[T]) Leave() { h.leave(ErrInterrupted) }

// Done is closed when the operation is over.
func (h *Handle[T]) Done() <-chan struct{} { return h.done }

// Wait returns what came of the operation when it is over. It may be called as often as one likes.
func (h *Handle[T]) Wait() (T, diag.List) {
	<-h.done
	return h.result, h.diags
}

// Events returns what the operation has told since a cursor, at most a few hundred events at a time, with the cursor
// to ask
// with next; the first cursor is 0. It waits while there is nothing new. Only the last maxEvents events are kept:
// missed
// counts those after the cursor that are gone. It returns no events when the operation is over and all was told, and
// the
// error of ctx when that ends before.
func (h *Handle[T]) Events(ctx context.Context, since uint64) (events []Event, next, missed uint64, err error) {
	return h.log.since(ctx, since)
}
