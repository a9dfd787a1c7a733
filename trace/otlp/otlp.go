// Package otlp sends spans to a collector over OpenTelemetry's protocol, as the OTEL_ variables of an environment say.
//
// It is a small exporter of our own: docs/dependencies.md says what OpenTelemetry's would cost each command. The
// environment is given to it; it asks the process for nothing.
package otlp

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/cloud"
	"github.com/millipede-iac/millipede/trace"
)

// Exporter collects spans and sends them in batches. Close it.
type Exporter struct {
	settings
	version string
	client  client
	log     func(string)
	wake    chan struct{}      // holds a token when there is enough for a batch
	leave   context.CancelFunc // gives up what is being sent
	quit    chan struct{}      // closed when nothing is to be sent beside Close any more
	done    chan struct{}

	mu    sync.Mutex // guards the rest
	spans []trace.Record
	lost  int // spans that were not delivered
	why   string
	tries int // failed exports
}

// client delivers one request. The error is a *refusal where to try again is of no use.
type client interface {
	export(ctx context.Context, request []byte) (response []byte, err error)
	close() error
}

// Options say who sends spans.
type Options struct {
	Surroundings cloud.Surroundings
	// Program and Version name it.
	Program, Version string
	// Log is told of spans that could not be delivered, while the process goes on; may be nil.
	Log func(line string)
}

// Open returns a tracer whose spans are sent where the environment says, until Close. It asks nobody yet.
func Open(o Options) (*Exporter, *trace.Tracer, error) {
	s, err := read(o.Surroundings, o.Program, o.Version)
	if err != nil {
		return nil, nil, err
	}
	e := &Exporter{settings: s, version: o.Version, log: o.Log, wake: make(chan struct{}, 1),
		quit: make(chan struct{}), done: make(chan struct{})}
	if s.grpc {
		e.client, err = dial(s)
	} else {
		e.client = post(s, o.Surroundings.Completed())
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

// run sends what there is, a batch at a time.
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

// Close sends what is left, until ctx ends at the latest. The error says how many spans were not delivered, and why.
func (e *Exporter) Close(ctx context.Context) error {
	close(e.quit)
	forget := context.AfterFunc(ctx, e.leave)
	<-e.done // what is being sent is awaited: given up and sent again it would arrive twice
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
			break // nobody takes them: whoever waits for the command is not kept waiting for the others
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
