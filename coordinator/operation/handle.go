package operation

import (
	"context"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Handle is a started operation. It can be stopped, awaited and observed from any goroutine.
//
// A process may have any number of them. Each has its own Stop, so that one can be stopped while others continue. A
// panic in one does not affect the others: it becomes an error of that operation, with the stack trace.
type Handle[T any] struct {
	// ID is unique. Kind is the kind of the operation: "plan", "apply", ...
	ID, Kind string

	stop, leave context.CancelCauseFunc
	log         *log
	done        chan struct{}
	// The result; valid once done is closed.
	result T
	diags  diag.List
}

// Start starts an operation and returns at once. fn is the operation. It must use the session that it gets: a copy
// of s whose Stop also ends when that of s does, and when ctx ends. Wait for the handle before closing anything
// that the session uses.
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

// Stop asks the operation to start nothing new. Operations that are in progress, and change something, are awaited.
func (h *Handle[T]) Stop() { h.stop(ErrInterrupted) }

// Leave asks the operation to return at once, whatever is still in progress.
func (h *Handle[T]) Leave() { h.leave(ErrInterrupted) }

// Done is closed when the operation is over.
func (h *Handle[T]) Done() <-chan struct{} { return h.done }

// Wait waits for the operation and returns its result. It may be called repeatedly.
func (h *Handle[T]) Wait() (T, diag.List) {
	<-h.done
	return h.result, h.diags
}

// Events returns events of the operation since a cursor, at most a few hundred at a time, with the next cursor; the
// first cursor is 0. It waits while there are none. Only the last maxEvents events are kept: missed counts those
// after the cursor that are gone. It returns no events when the operation is over and all were returned, and the
// error of ctx if that ends first.
func (h *Handle[T]) Events(ctx context.Context, since uint64) (events []Event, next, missed uint64, err error) {
	return h.log.since(ctx, since)
}
