package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/cloud"
	"github.com/millipede-iac/millipede/cmd/tracing"
	"github.com/millipede-iac/millipede/trace"
)

// traced begins the span of a command, where the environment asks for traces. ended ends it, and sends what is left.
// Traces that cannot be sent are told of, and change nothing else: they are about the command, not part of it.
func (a *app) traced(ctx context.Context, name string) (traced context.Context, ended func(code int)) {
	warn := func(err error) {
		if err != nil {
			a.tell(fmt.Sprintf("Warning: %s\n", err))
		}
	}
	ctx, sent, err := tracing.Begin(ctx, cloud.Surroundings{Dir: a.dir, Environ: a.environ}, "millipede", version,
		func(line string) { a.logs.Core.Warn(line) })
	if warn(err); !trace.On(ctx) {
		return ctx, func(int) {}
	}
	var span *trace.Span
	if name != "serve" { // it lasts for as long as the service, whose runs have traces of their own
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
