// Package otlp sends spans to a collector over OpenTelemetry's protocol, as configured by the OTEL_ variables of an
// environment.
//
// It is a small exporter: docs/dependencies.md has the cost of OpenTelemetry's exporter for each command. The
// environment is an argument; that of the process is not used.
package otlp

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/trace"
)

// Exporter collects spans and sends them in batches. Close it.
type Exporter struct {
	settings
	version string
	client  client
	log     func(string)
	wake    chan struct{}      // contains a token when there is enough for a batch
	leave   context.CancelFunc // cancels the current export
	quit    chan struct{}      // closed when only Close may send
	done    chan struct{}

	mu    sync.Mutex // guards the rest
	spans []trace.Record
	lost  int // spans that were not delivered
	why   string
	tries int // failed exports
}

// client delivers one request. The error is a *refusal if a retry is pointless.
type client interface {
	export(ctx context.Context, request []byte) (response []byte, err error)
	close() error
}

// Options identify the sender of spans.
type Options struct {
	Environment cloud.Environment
	// Program and Version identify the program.
	Program, Version string
	// Log is called about spans that could not be delivered, while the process continues; may be nil.
	Log func(line string)
}

// Open returns a tracer whose spans are sent to the configured collector, until Close. It does not connect yet.
func Open(o Options) (*Exporter, *trace.Tracer, error) {
	s, err := read(o.Environment, o.Program, o.Version)
	if err != nil {
		return nil, nil, err
	}
	e := &Exporter{settings: s, version: o.Version, log: o.Log, wake: make(chan struct{}, 1),
		quit: make(chan struct{}), done: make(chan struct{})}
	if s.grpc {
		e.client, err = dial(s)
	} else {
		e.client = post(s, o.Environment.Completed())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("preparing to send traces: %w", err)
	}
	ctx, leave := context.WithCancel(context.Background())
	e.leave = leave
	go e.run(ctx) // Close waits for it
	return e, trace.New(trace.Options{
		Sink: e, Sample: s.sample, Now: time.Now, Random: func(b []byte) { _, _ = rand.Read(b) }, // it never fails
	}), nil
}

// Take implements trace.Sink.
func (e *Exporter) Take(r trace.Record) {
	e.mu.Lock()
	if len(e.spans) >= e.queue {
		e.lost++
		e.why = "there were more of them than could be sent"
		e.mu.Unlock()
		return
	}
	e.spans = append(e.spans, r)
	enough := len(e.spans) >= e.batch
	e.mu.Unlock()
	if enough {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// run sends the collected spans in batches.
func (e *Exporter) run(ctx context.Context) {
	defer close(e.done)
	tick := time.NewTicker(e.delay)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-e.wake:
		case <-e.quit:
			return
		}
		for more := true; more && !e.ending(); {
			more = e.send(ctx)
		}
	}
}

func (e *Exporter) ending() bool {
	select {
	case <-e.quit:
		return true
	default:
		return false
	}
}

// send sends a batch, and reports whether there is enough for another one.
func (e *Exporter) send(ctx context.Context) bool {
	e.mu.Lock()
	batch := e.spans[:min(len(e.spans), e.batch)]
	e.mu.Unlock()
	if len(batch) == 0 {
		return false
	}
	err := e.deliver(ctx, batch)
	if err != nil && ctx.Err() != nil {
		return false // Close counts them
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spans = append([]trace.Record(nil), e.spans[len(batch):]...)
	if err != nil {
		e.lost, e.why = e.lost+len(batch), err.Error()
		if e.tries++; e.log != nil && (e.tries < 3 || e.tries%64 == 0) {
			e.log(fmt.Sprintf("%d spans could not be sent to %s: %s", len(batch), e.endpoint, err))
		}
	}
	return len(e.spans) >= e.batch
}

// Close sends the remaining spans, until ctx ends at the latest. The error contains the number of undelivered
// spans, and why.
func (e *Exporter) Close(ctx context.Context) error {
	close(e.quit)
	forget := context.AfterFunc(ctx, e.leave)
	<-e.done // await the current export: cancelled and repeated, it would arrive twice
	forget()
	e.leave()
	for ctx.Err() == nil {
		e.mu.Lock()
		left := len(e.spans)
		e.mu.Unlock()
		if left == 0 {
			break
		}
		failed := e.failures()
		e.send(ctx)
		if e.failures() > failed {
			break // the collector does not accept them: do not delay the end of the command
		}
	}
	err := e.client.close()
	e.mu.Lock()
	defer e.mu.Unlock()
	if lost := e.lost + len(e.spans); lost > 0 {
		if e.why == "" {
			e.why = "the collector did not answer in time"
		}
		return fmt.Errorf("%d spans of the trace were not delivered to %s: %s", lost, e.endpoint, e.why)
	}
	return err
}

func (e *Exporter) failures() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tries
}
