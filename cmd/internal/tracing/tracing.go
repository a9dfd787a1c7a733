// Package tracing starts the export of spans in a process whose environment requests it.
package tracing

import (
	"context"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/internal/trace/otlp"
)

// flushTimeout is the time limit for sending the last spans when the process ends.
const flushTimeout = 3 * time.Second

// Begin returns a context in which spans are recorded, as children of the span in TRACEPARENT, if there is one. end
// sends the last spans. If the environment does not request traces, Begin returns ctx, and end does nothing. log, which
// may be nil, is called during the process about spans that cannot be sent.
func Begin(ctx context.Context, env cloud.Environment, program, version string, log func(line string)) (
	traced context.Context, end func() error, err error) {
	none := func() error { return nil }
	if !otlp.Enabled(env) {
		return ctx, none, nil
	}
	exporter, tracer, err := otlp.Open(otlp.Options{Environment: env, Program: program, Version: version, Log: log})
	if err != nil {
		return ctx, none, fmt.Errorf("traces were asked for (OTEL_TRACES_EXPORTER), and cannot be sent: %w", err)
	}
	ctx = trace.Under(trace.With(ctx, tracer), otlp.Inherited(env))
	return ctx, func() error {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		return exporter.Close(last)
	}, nil
}
