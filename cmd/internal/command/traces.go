package command

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/cmd/internal/tracing"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/trace"
)

// traced begins the span of a command if the environment enables traces. ended ends the span, and sends pending
// ones. A failure to send traces is reported, but has no effect on the command.
func (a *App) traced(ctx context.Context, name string) (traced context.Context, ended func(code int)) {
	warn := func(err error) {
		if err != nil {
			a.Tell(fmt.Sprintf("Warning: %s\n", err))
		}
	}
	at := cloud.Environment{Dir: a.Dir, Environ: a.Environ}
	ctx, sent, err := tracing.Begin(ctx, at, "millipede", a.program.Version, func(line string) { a.Logs.Core.Warn(line) })
	if warn(err); !trace.On(ctx) {
		return ctx, func(int) {}
	}
	var span *trace.Span
	if name != "serve" { // a service runs indefinitely, and its runs have traces of their own
		ctx, span = trace.Start(ctx, name, trace.Internal)
	}
	return ctx, func(code int) {
		span.SetInt("process.exit.code", int64(code))
		if code != 0 {
			span.Fail("failed")
		}
		span.End()
		warn(sent())
	}
}
