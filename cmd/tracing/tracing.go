// Package tracing has a process record spans, and send them, where its environment asks for that.
package tracing

import (
	"context"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/cloud"
	"github.com/millipede-iac/millipede/trace"
	"github.com/millipede-iac/millipede/trace/otlp"
)

// flushTimeout is how long the end of a process waits for its last spans to be sent.
const flushTimeout = 3 * time.Second

// Begin returns a context in which spans are recorded, under the one that the process was started under (TRACEPARENT),
// and what sends the last of them. Where the environment does not ask for traces it returns ctx, and end does nothing.
// log is told, while the process goes on, of spans that cannot be sent; it may be nil.
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
