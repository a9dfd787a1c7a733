package seat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/service/work"
)

// engine is a process on a seat.
type engine struct {
	o       Options
	process *Process
	number  int // of the seat
	epoch   uint64
	since   time.Time
	client  *http.Client
	// room bounds, in bytes, the large messages of the engine that are being received.
	room    *semaphore.Weighted
	welcome protocol.Welcome // set by greet
	// ended is closed when the process has ended, and no request of it is answered any more.
	ended chan struct{}

	mu    sync.Mutex // guards the fields below
	calls map[uint64]*call
	next  uint64
	over  bool
	died  int // the calls that were in progress when the process ended
}

// newEngine takes over a process.
func newEngine(p *Process, number int, epoch uint64, o Options) *engine {
	e := &engine{o: o, process: p, number: number, epoch: epoch, since: time.Now(),
		client: protocol.NewClient(p.Calls), ended: make(chan struct{}), calls: map[uint64]*call{},
		room: semaphore.NewWeighted(max(o.MaxAnswer+small, o.MaxState, protocol.MaxProgress))}
	served := make(chan struct{})
	go func() { // it ends with the connection, which the process has
		defer close(served)
		if err := protocol.Serve(p.Back, e.handler(o.Handler(e)), protocol.MostRequests); err != nil {
			o.Log.Warn("the requests of an engine cannot be received", "seat", number, "error", err)
		}
	}()
	alive, over := context.WithCancel(context.Background())
	heeded := make(chan struct{})
	go func() { // it ends with the process
		defer close(heeded)
		if Frozen(alive, e.client) {
			o.Log.Error("an engine is frozen: it is killed", "seat", number, "epoch", epoch, "unanswered", FrozenTime)
			p.Kill()
		}
	}()
	go func() { // it ends with the process
		select {
		case <-p.Done:
		case <-served: // an engine that cannot be heard is of no use
			p.Kill()
			<-p.Done
		}
		_ = errors.Join(p.Calls.Close(), p.Back.Close()) // the process has ended
		over()
		<-heeded
		<-served
		e.mu.Lock()
		e.over, e.died = true, len(e.calls)
		e.mu.Unlock()
		close(e.ended)
	}()
	return e
}

// Works implements Peer.
func (e *engine) Works(workspace string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.calls {
		if c.workspace == workspace {
			return true
		}
	}
	return false
}

// Client implements Peer.
func (e *engine) Client() *http.Client { return e.client }

// Ended implements Peer.
func (e *engine) Ended() <-chan struct{} { return e.ended }

// lost returns how many calls were in progress when the process ended.
func (e *engine) lost() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.died
}

// count returns the number of calls in progress.
func (e *engine) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.calls)
}

// greet sends the first message.
func (e *engine) greet(ctx context.Context) (err error) {
	e.welcome, err = Greet(ctx, e.client, protocol.Hello{Seat: e.number, Epoch: e.epoch, Setup: e.process.Setup})
	return err
}

// GreetTime is how long a process may take to answer its first message. It is generous: an engine connects to NATS.
const GreetTime = 30 * time.Second

// Greet sends the first message to a process, in which it sets the versions. It fails if the process does not answer
// within GreetTime.
func Greet(ctx context.Context, client *http.Client, hello protocol.Hello) (
	welcome protocol.Welcome, err error) {
	ctx, end := context.WithTimeoutCause(ctx, GreetTime, fmt.Errorf("it has not answered for %v", GreetTime))
	defer end()
	hello.Lowest, hello.Highest = protocol.Lowest, protocol.Highest
	var body bytes.Buffer
	if err := protocol.Write(&body, hello); err != nil {
		return welcome, err
	}
	response, err := post(ctx, client, protocol.HelloPath, &body)
	if err != nil {
		return welcome, fmt.Errorf("the first message to a process: %w", errors.Join(err, context.Cause(ctx)))
	}
	err = protocol.Read(response.Body, &welcome, protocol.MaxMessage)
	if v := welcome.Version; err == nil && (v < protocol.Lowest || v > protocol.Highest) {
		err = fmt.Errorf("the process wants version %d of the protocol, and the service has %d to %d", v, protocol.Lowest,
			protocol.Highest)
	}
	return welcome, errors.Join(err, response.Body.Close())
}

// post sends a request to an engine. The caller closes the body of the response.
func post(ctx context.Context, client *http.Client, path string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine"+path, body)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10)) // for the message alone
		return nil, errors.Join(fmt.Errorf("the engine answers %s: %s", response.Status, bytes.TrimSpace(text)),
			response.Body.Close())
	}
	return response, nil
}

// quit ends the process in order, and returns when it has ended.
func (e *engine) quit() {
	ctx, cancel := context.WithTimeout(context.Background(), quitTime)
	defer cancel()
	if response, err := post(ctx, e.client, protocol.QuitPath, nil); err == nil {
		_ = response.Body.Close() // nothing is read
	}
	select {
	case <-e.ended:
	case <-ctx.Done():
		e.process.Kill()
		<-e.ended
	}
}

// call is a call in progress.
type call struct {
	workspace string
	job       *work.Job // nil for PlanJSON

	reading sync.Mutex // held while the state is read for the engine: one of its copies is in memory at a time

	mu      sync.Mutex // guards the fields below, and is held while a request is answered that changes something
	ended   bool
	answers answers // of such requests
}

// enter registers a call.
func (e *engine) enter(workspace string, j *work.Job) (number uint64, c *call, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return 0, nil, work.ErrLost
	}
	e.next++
	c = &call{workspace: workspace, job: j}
	e.calls[e.next] = c
	return e.next, c, nil
}

// leave ends a call: from now on, requests about it are refused.
func (e *engine) leave(number uint64, c *call) {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.calls, number)
}

// leaveTime is how long an engine may take to answer a call after it was told to leave it. Then it is killed.
const leaveTime = 10 * time.Second

// call sends a call, and follows it until its answer. The error wraps work.ErrLost if the process ends before.
func (e *engine) call(ctx context.Context, c *protocol.Call, workspace string, j *work.Job) (*protocol.Answer,
	error) {
	number, entry, err := e.enter(workspace, j)
	if err != nil {
		return nil, err
	}
	defer e.leave(number, entry)
	c.Number, c.Most = number, e.o.MaxAnswer
	if j != nil && j.Workspace.Bounds.PlanSize != 0 {
		c.Most = min(c.Most, j.Workspace.Bounds.PlanSize<<20)
	}
	requesting, abort := context.WithCancel(context.WithoutCancel(ctx))
	body, frames := io.Pipe()
	var sending sync.WaitGroup
	defer func() {
		abort()
		_ = body.Close() // ends what is being sent
		sending.Wait()
	}()
	sending.Go(func() { e.send(ctx, requesting, abort, frames, c, j) })
	answer, err := e.follow(requesting, body, j)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil && requesting.Err() != nil:
		// What it still does would have an effect without anybody who waits for it.
		e.o.Log.Error("an engine has not left a call: it is killed", "seat", e.number, "epoch", e.epoch, "after", leaveTime)
		e.process.Kill()
		<-e.ended
		return nil, fmt.Errorf("the engine has not answered in time: %w", work.ErrStopped)
	}
	// A stream does not end by itself: the process has died, or is of no use any more.
	select {
	case <-e.ended:
	case <-time.After(time.Second):
		e.o.Log.Error("the stream of a call has failed: its engine is ended", "seat", e.number, "error", err)
		e.process.Kill()
		<-e.ended
	}
	return nil, work.ErrLost
}

// send sends the call, and then that it must stop, or that it is left. It returns when requesting has ended.
func (e *engine) send(ctx, requesting context.Context, abort func(), to *io.PipeWriter, c *protocol.Call,
	j *work.Job) {
	defer to.Close() //nolint:errcheck // it returns none
	first := protocol.ToEngine{Call: c}
	var stopping <-chan struct{}
	if j != nil {
		stopping = j.Stopping.Done()
		if j.Stopping.Err() != nil { // the engine knows it before it begins: a canceled apply is settled, not resumed
			first.Stop, stopping = stopOf(j.Stopping), nil
		}
	}
	if protocol.Write(to, first) != nil {
		return
	}
	leaving := ctx.Done()
	var late <-chan time.Time
	for {
		var f protocol.ToEngine
		select {
		case <-requesting.Done():
			return
		case <-late:
			abort()
			return
		case <-stopping:
			f.Stop, stopping = stopOf(j.Stopping), nil
		case <-leaving:
			f.Leave, leaving, late = true, nil, time.After(leaveTime)
		}
		if protocol.Write(to, f) != nil {
			return
		}
	}
}

// stopOf returns the message about the end of a context that stops a job.
func stopOf(stopping context.Context) *protocol.Stop {
	cause := context.Cause(stopping)
	return &protocol.Stop{Suspended: errors.Is(cause, work.ErrSuspended), Canceled: errors.Is(cause, work.ErrCanceled)}
}

// follow sends the request of a call, and passes the frames of the response on until the answer.
func (e *engine) follow(ctx context.Context, body io.Reader, j *work.Job) (*protocol.Answer, error) {
	response, err := post(ctx, e.client, protocol.CallPath, body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	p := &progress{job: j}
	for {
		f, err := e.frame(ctx, response.Body)
		switch {
		case err != nil:
			return nil, err
		case f.Answer != nil:
			return p.answer(f.Answer), nil
		case j == nil:
			return nil, errors.New("the engine sends progress of a call that has none")
		}
		if err := p.pass(f); err != nil {
			return nil, err
		}
	}
}

// small is the size up to which frames are read at once, in bytes. Larger ones share the room of their engine.
const small = 1 << 20

// frame reads a frame of a call.
func (e *engine) frame(ctx context.Context, from io.Reader) (*protocol.ToService, error) {
	var f protocol.ToService
	var held int64
	defer func() { e.room.Release(held) }()
	err := protocol.ReadAdmitted(from, &f, func(size int64) error {
		switch most := max(e.o.MaxAnswer+small, protocol.MaxProgress); {
		case size > most:
			return &protocol.Sized{Size: size, Most: most}
		case size <= small:
			return nil
		}
		if err := e.room.Acquire(ctx, size); err != nil {
			return err
		}
		held = size
		return nil
	})
	if err == nil && f.Answer == nil && held > protocol.MaxProgress {
		err = &protocol.Sized{Size: held, Most: protocol.MaxProgress}
	}
	return &f, err
}

// encode returns the message for a job.
func encode(j *work.Job) (*protocol.Job, error) {
	run, err := json.Marshal(&j.Run)
	if err != nil {
		return nil, fmt.Errorf("the record of the run: %w", err)
	}
	workspace, err := json.Marshal(&j.Workspace)
	if err != nil {
		return nil, fmt.Errorf("the record of the workspace: %w", err)
	}
	return &protocol.Job{Run: run, Workspace: workspace, Scratch: j.Scratch, Data: j.Data, Kept: j.Kept,
		Variables: j.Variables, Environment: j.Environment, Plan: j.Plan, Resumed: j.Resumed, Who: j.Who,
		Structured: j.Structured, Configured: j.Configuration != nil, Concealed: j.Conceal != nil,
		Watched: j.Watched != nil, Doubted: j.Doubtful != nil}, nil
}
