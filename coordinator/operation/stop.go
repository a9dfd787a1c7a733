package operation

import (
	"context"
	"errors"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Stop has the caller's requests to stop operations. It latches: a request stays in force, so that no later phase
// of an operation begins although only an earlier one has noticed it. Both contexts are children of the caller's.
// In the zero value neither ever ends.
type Stop struct {
	// Stopping ends when nothing new may be started: no run, no phase, no vertex, no call to a worker. Operations
	// that are in progress, and change something, are awaited.
	Stopping context.Context
	// Leaving ends when operations must return at once, whatever is still in progress. Stopping ends with it.
	Leaving context.Context
}

// NewStop returns a Stop, and the functions that end its contexts with a cause.
func NewStop(ctx context.Context) (s Stop, stop, leave context.CancelCauseFunc) {
	s.Leaving, leave = context.WithCancelCause(ctx)
	s.Stopping, stop = context.WithCancelCause(s.Leaving)
	return s, stop, leave
}

// child returns a separate Stop for one of several operations. It is requested when s is requested, when ctx ends, and
// by the returned functions. The end of ctx requests a stop; only if s cannot request leaving, it requests that too:
// commands pass the context that ends with the first interrupt, and operations with effects are awaited after that. The
// Stop remains valid after the operation, because the result may still call functions of providers.
func (s Stop) child(ctx context.Context) (own Stop, stop, leave context.CancelCauseFunc) {
	base := ctx
	if s.Leaving != nil {
		base = context.WithoutCancel(ctx)
	}
	own, stop, leave = NewStop(base)
	// Of a stop and a leaving that follows it, either may be noticed first. How to stop is the cause of the stop.
	after := func(end context.CancelCauseFunc) context.CancelCauseFunc {
		return func(cause error) {
			if s.Asked() {
				stop(context.Cause(s.Stopping))
			}
			end(cause)
		}
	}
	follow(ctx, after(stop))
	follow(s.Stopping, stop)
	follow(s.Leaving, after(leave))
	return own, stop, leave
}

// follow cancels with the cause of ctx, which may be nil, when that ends. If it has already ended, this is done
// before follow returns, so that nothing is started in between.
func follow(ctx context.Context, cancel context.CancelCauseFunc) {
	switch {
	case ctx == nil:
	case ctx.Err() != nil:
		cancel(context.Cause(ctx))
	default:
		context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	}
}

// Asked reports whether a stop was requested: nothing new may be started.
func (s Stop) Asked() bool { return s.Stopping != nil && s.Stopping.Err() != nil }

// stopping returns Stopping or, for the zero value, a context that never ends.
func (s Stop) stopping() context.Context {
	if s.Stopping == nil {
		return context.Background()
	}
	return s.Stopping
}

// running returns the context for work that is awaited after a stop. It ends only when the operation is to leave.
// Without a Stop it is ctx.
func (s Stop) running(ctx context.Context) context.Context {
	if s.Leaving == nil {
		return ctx
	}
	return s.Leaving
}

// ErrInterrupted is the usual cause of a Stop.
var ErrInterrupted = errors.New("the command was interrupted")

// interrupted returns the error of an operation that was stopped before it began, or between two phases; nil if there
// was no request to stop.
func (s *Session) interrupted(what string) diag.List {
	if !s.Stop.Asked() {
		return nil
	}
	return diag.Errors("Operation interrupted", what, nil)
}

// caught converts a panic of an operation into an error with its stack trace, so that nothing else in the process
// is affected. Defer it first.
func caught(diags *diag.List) {
	if p := recover(); p != nil {
		*diags = diags.Append(runFailed(bug.New(p)))
	}
}

// forwardStop passes the session's Stop to a run until release is called. If the stop was requested before, the run
// starts nothing.
func (s *Session) forwardStop(r *coordinator.Runner) (release func()) {
	forget := func() bool { return true }
	interrupt := func() {
		if errors.Is(context.Cause(s.Stop.stopping()), program.ErrSuspended) {
			r.Settle()
		} else {
			r.Interrupt()
		}
	}
	if s.Stop.Asked() {
		interrupt() // synchronously, because AfterFunc would call it concurrently with the run's first steps
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

// unlessStopped returns a context that ends with ctx and when the session is stopped, for work that need not be
// awaited.
func (s *Session) unlessStopped(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stopping := s.Stop.stopping()
	forget := context.AfterFunc(stopping, func() { cancel(context.Cause(stopping)) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}
