// Package host is the engine's side of the protocol between the service and its engines: it answers the calls of the
// service with an implementation of work.Engine, in the process of the engine.
//
// It knows neither how the process was started nor what it may do. Package seat is the other side.
package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/service/work"
)

// Options are what an engine's process is made of.
type Options struct {
	// Program is the version of Millipede.
	Program string
	// Calls and Back are the connections to the service: for its calls, and for the engine's requests.
	Calls, Back net.Conn
	// Open makes the engine, when the service has said which seat it has.
	Open func(hello protocol.Hello, service *Service) (*Opened, error)
}

// Opened is an engine.
type Opened struct {
	Engine work.Engine
	// Context is that of its calls, with the tracer of the process.
	Context context.Context //nolint:containedctx // it lives as long as the process
	Log     *slog.Logger
	// Close is called when the service has asked the process to end, after all calls.
	Close func() error
}

// Serve answers calls until the service has asked for the end of the process, or the connection has ended. Then the
// process must exit: calls may still be in progress, for a service that is no longer there.
func Serve(o Options) error {
	h := &host{o: o, quit: make(chan struct{})}
	h.service = &Service{client: protocol.NewClient(o.Back), outdated: h.end}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+protocol.HelloPath, h.hello)
	mux.HandleFunc("POST "+protocol.CallPath, h.call)
	mux.HandleFunc("POST "+protocol.QuitPath, h.goodbye)
	mux.HandleFunc("GET "+protocol.BeatPath, protocol.Beat)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { // what the program itself has registered
		h.mu.Lock()
		further := h.service.further
		h.mu.Unlock()
		if further == nil {
			http.NotFound(w, r)
			return
		}
		further.ServeHTTP(w, r)
	})
	ended := make(chan error, 1)
	go func() { ended <- protocol.Serve(o.Calls, mux, protocol.MostCalls) }() // the process exits after this function
	select {
	case err := <-ended:
		return err
	case <-h.quit:
		return nil
	}
}

// host is an engine's process.
type host struct {
	o       Options
	service *Service
	quit    chan struct{}
	once    sync.Once

	mu     sync.Mutex // guards opened
	opened *Opened
}

// end ends the process.
func (h *host) end() { h.once.Do(func() { close(h.quit) }) }

// hello answers the first message: it makes the engine.
func (h *host) hello(w http.ResponseWriter, r *http.Request) {
	var hello protocol.Hello
	if err := protocol.Read(r.Body, &hello, protocol.MaxMessage); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	version, err := protocol.Agree(hello)
	if err == nil {
		err = h.open(hello)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	_ = protocol.Write(w, protocol.Welcome{Version: version, Lowest: protocol.Lowest, Highest: protocol.Highest,
		Program: h.o.Program}) // an error ends the connection
}

func (h *host) open(hello protocol.Hello) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opened != nil {
		return errors.New("the engine has a seat already")
	}
	h.service.epoch = hello.Epoch
	opened, err := h.o.Open(hello, h.service)
	if err == nil {
		h.opened = opened
	}
	return err
}

// goodbye closes the engine, and ends the process. The service has no calls in progress.
func (h *host) goodbye(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	opened := h.opened
	h.mu.Unlock()
	if opened != nil {
		if err := opened.Close(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
	_ = http.NewResponseController(w).Flush()
	h.end()
}

// call carries out a call of the service.
func (h *host) call(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	opened := h.opened
	h.mu.Unlock()
	var first protocol.ToEngine
	err := protocol.Read(r.Body, &first, protocol.MaxCall)
	switch {
	case err != nil || first.Call == nil:
		http.Error(w, fmt.Sprintf("the request has no call: %v", err), http.StatusBadRequest)
		return
	case opened == nil:
		http.Error(w, "the engine has no seat yet", http.StatusConflict)
		return
	}
	c := &call{Call: first.Call, host: h, out: newSender(w), log: opened.Log}
	var leave, stop context.CancelCauseFunc
	c.leaving, leave = context.WithCancelCause(opened.Context)
	c.stopping, stop = context.WithCancelCause(opened.Context)
	defer stop(nil)
	defer leave(nil)
	if first.Stop != nil {
		stop(causeOf(*first.Stop))
	}
	go c.listen(r.Body, leave, stop) // it ends with the request
	c.out.close(c.bounded(c.answer(opened.Engine)))
}

// call is a call in progress.
type call struct {
	*protocol.Call
	host              *host
	out               *sender
	log               *slog.Logger
	leaving, stopping context.Context //nolint:containedctx // the service ends both
}

// listen receives the frames after the first one. When there are no more, the service has lost interest, or is gone.
func (c *call) listen(body io.Reader, leave, stop context.CancelCauseFunc) {
	for {
		var f protocol.ToEngine
		if err := protocol.Read(body, &f, protocol.MaxMessage); err != nil {
			stop(work.ErrSuspended)
			leave(err)
			return
		}
		if f.Stop != nil {
			stop(causeOf(*f.Stop))
		}
		if f.Leave {
			leave(nil)
		}
	}
}

// causeOf returns the cause of a stop.
func causeOf(s protocol.Stop) error {
	switch {
	case s.Suspended:
		return work.ErrSuspended
	case s.Canceled:
		return work.ErrCanceled
	}
	return context.Canceled
}

// answer carries the call out. A panic ends this call only.
func (c *call) answer(engine work.Engine) (a *protocol.Answer) {
	a = &protocol.Answer{}
	defer func() {
		if bug := recover(); bug != nil {
			c.log.Error("a bug in Millipede has ended a call", "kind", c.Kind, "panic", bug, "stack", string(debug.Stack()))
			a = &protocol.Answer{Failure: protocol.FailureOf(fmt.Errorf("this is a bug in Millipede: %v", bug))}
		}
	}()
	if c.Kind == protocol.PlanJSON {
		data, err := engine.PlanJSON(c.leaving, c.Workspace, c.Data, c.Text, c.Shape)
		a.Data, a.Failure = data, protocol.FailureOf(err)
		return a
	}
	j, err := c.job()
	if err == nil {
		err = c.carryOut(engine, j, a)
	}
	a.Failure = protocol.FailureOf(err)
	return a
}

// bounded returns the answer, or an error in its place if the service does not accept as large an answer.
func (c *call) bounded(a *protocol.Answer) *protocol.Answer {
	if c.Most == 0 {
		return a
	}
	if err := work.FitsInto(a.Size(), c.Most); err != nil {
		return &protocol.Answer{Failure: protocol.FailureOf(err)}
	}
	return a
}

func (c *call) carryOut(engine work.Engine, j *work.Job, a *protocol.Answer) (err error) {
	switch c.Kind {
	case protocol.Plan:
		a.Plan, err = engine.Plan(c.leaving, j)
	case protocol.Apply:
		a.Apply, err = engine.Apply(c.leaving, j)
	case protocol.Resolve:
		err = engine.Resolve(c.leaving, j, *c.Resolution, c.Who)
	case protocol.ChangeObjects:
		err = engine.ChangeObjects(c.leaving, j, *c.Change)
	case protocol.Watch:
		a.Found, err = engine.Watch(c.leaving, j, c.Addresses, c.Reads)
	default:
		return fmt.Errorf("this engine cannot %s: it is older than the service", c.Kind)
	}
	return err
}

// job returns the job of a call, whose functions send frames, or ask the service.
func (c *call) job() (*work.Job, error) {
	from := c.Job
	if from == nil || c.Kind == protocol.Resolve && c.Resolution == nil || c.Kind == protocol.ChangeObjects &&
		c.Change == nil {
		return nil, fmt.Errorf("the call %s has no arguments", c.Kind)
	}
	j := &work.Job{
		Stopping: c.stopping, Scratch: from.Scratch, Data: from.Data, Kept: from.Kept, Variables: from.Variables,
		Environment: from.Environment, Plan: from.Plan, Resumed: from.Resumed, Who: from.Who,
		Structured: from.Structured, Log: logWriter{c.out}, State: callState{c},
		Alive: c.alive, Waits: func(kind, on, text string) {
			c.out.send(&protocol.ToService{Waits: &protocol.Waits{Run: on, Text: text, Kind: kind}})
		},
	}
	if err := errors.Join(json.Unmarshal(from.Run, &j.Run), json.Unmarshal(from.Workspace, &j.Workspace)); err != nil {
		return nil, fmt.Errorf("the call %s: %w", c.Kind, err)
	}
	if from.Configured {
		j.Configuration = c.configuration
	}
	if from.Concealed {
		j.Conceal = func(secrets []string) { c.out.send(&protocol.ToService{Conceal: secrets}) }
	}
	if from.Watched {
		j.Watched = c.out.follow
	}
	if from.Doubted {
		j.Doubtful = c.doubtful
	}
	return j, nil
}
