package operation

import (
	"context"
	"errors"

	"github.com/millipede-iac/millipede/bug"
	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Stop is what the caller of operations asks them to stop. It latches: whoever looks later finds it asked for as well,
// so that no phase of an operation begins after it because an earlier phase has heard it. Both contexts are children of
// the caller's. Neither of them ever ends in the zero value.
type Stop struct {
	// Stopping ends when nothing new may be started: no run, no phase, no vertex, no call to a worker. What changes the
	// world, and runs already, is awaited.
	Stopping context.Context
	// Leaving ends when operations shall return at once, whatever still runs. Stopping ends with it.
	Leaving context.Context
}

// NewStop returns a Stop and the functions that ask for it. The cause says why.
func NewStop(ctx context.Context) (s Stop, stop, leave context.CancelCauseFunc) {
	s.Leaving, leave = context.WithCancelCause(ctx)
	s.Stopping, stop = context.WithCancelCause(s.Leaving)
	return s, stop, leave
}

// child returns a Stop of its own for one of several operations. It is asked for when s is, when ctx ends, and by the
// functions. The end of ctx asks to stop; only where s cannot say that, it asks to leave as well: commands pass the
// context that ends with the first interrupt, and what changes the world is awaited after that. As what comes of an
// operation may still call functions of providers, it outlives the operation.
func (s Stop) child(ctx context.Context) (own Stop, stop, leave context.CancelCauseFunc) {
	base := ctx
	if s.Leaving != nil {
		base = context.WithoutCancel(ctx)
	}
	own, stop, leave = NewStop(base)
	follow(ctx, stop)
	follow(s.Stopping, stop)
	follow(s.Leaving, leave)
	return own, stop, leave
}

// follow cancels with the cause of ctx, which may be nil, when that ends. Where it has ended, that is done before
// follow returns, so that nothing is begun meanwhile.
func follow(ctx context.Context, cancel context.CancelCauseFunc) {
	switch {
	case ctx == nil:
	case ctx.Err() != nil:
		cancel(context.Cause(ctx))
	default:
		context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	}
}

// Asked tells whether nothing new may be started.
func (s Stop) Asked() bool { return s.Stopping != nil && s.Stopping.Err() != nil }

// stopping returns Stopping, or for the zero value a context that never ends.
func (s Stop) stopping() context.Context {
	if s.Stopping == nil {
		return context.Background()
	}
	return s.Stopping
}

// running returns the context of what is awaited after a stop, and ends only when the operation is to leave. Without a
// Stop it is ctx.
func (s Stop) running(ctx context.Context) context.Context {
	if s.Leaving == nil {
		return ctx
	}
	return s.Leaving
}

// ErrInterrupted is the usual cause of a Stop.
var ErrInterrupted = errors.New("the command was interrupted")

// ErrSuspended is the cause of a Stop after which somebody goes on with the run: what is under way is finished. It is
// not asked to stop, because it would fail then.
var ErrSuspended = errors.New("the run is suspended")

// interrupted returns the diagnostic of an operation that was stopped before it began, or between two of its phases. It
// returns nil while nobody has asked for that.
func (s *Session) interrupted(what string) diag.List {
	if !s.Stop.Asked() {
		return nil
	}
	return diag.Errors("Operation interrupted", what, nil)
}

// caught has a panic of an operation told as a bug: it ends that operation, with its trace, and nothing else of the
// process. Defer it first.
func caught(diags *diag.List) {
	if p := recover(); p != nil {
		*diags = diags.Append(runFailed(bug.New(p)))
	}
}

// watch passes the session's Stop on to a run until release is called. A run that begins after the stop was asked for
// hears it before it starts anything.
func (s *Session) watch(r *coordinator.Runner) (release func()) {
	forget := func() bool { return true }
	interrupt := func() {
		if errors.Is(context.Cause(s.Stop.stopping()), ErrSuspended) {
			r.Settle()
		} else {
			r.Interrupt()
		}
	}
	if s.Stop.Asked() {
		interrupt() // here and now, because AfterFunc would call it beside the run's first steps
	} else {
		forget = context.AfterFunc(s.Stop.stopping(), interrupt)
	}
	leave := func() bool { return true }
	if s.Stop.Leaving != nil {
		leave = context.AfterFunc(s.Stop.Leaving, r.Leave)
	}
	return func() {
		forget()
		leave()
	}
}

// unlessStopped returns a context that ends with ctx, and when the session is stopped: for what is not worth awaiting.
func (s *Session) unlessStopped(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stopping := s.Stop.stopping()
	forget := context.AfterFunc(stopping, func() { cancel(context.Cause(stopping)) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}
