// Package seat has the phases of runs carried out by engines that are other processes.
//
// An engine sits on a seat, which has a number, a directory of its own, and an epoch. When its process dies, the next
// process takes the seat with a higher epoch, and the calls that were in progress are reported as lost: the service
// begins these phases again. What a process of an older epoch still sends is refused. The package evaluates nothing,
// and neither knows how processes are started nor what they may do; package host is the other side of the protocol.
package seat

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/service/work"
)

// Options are what seats need. All fields are required.
type Options struct {
	// Seats is the number of seats, at least 1.
	Seats int
	// Epoch records that the next engine takes a seat, and returns its epoch. It is durable when Epoch returns.
	Epoch func(seat int) (uint64, error)
	// Start starts the process of an engine. memory bounds its memory, in MiB; 0 is the bound of all engines.
	Start func(ctx context.Context, seat int, epoch uint64, memory int64) (*Process, error)
	// Handler answers the requests of an engine that are not about calls.
	Handler func(Peer) http.Handler
	// Ready is called with each new engine before its first call, when Engines lists it already.
	Ready func(context.Context, Peer) error
	Log   *slog.Logger
	// MaxState and MaxAnswer bound the size of a state, and that of the answer of a call, in bytes: the result of a plan
	// is one.
	MaxState, MaxAnswer int64
}

// Process is the process of an engine that was started.
type Process struct {
	// Calls and Back are the connections to it: for the calls, and for its requests. Seats closes them.
	Calls, Back net.Conn
	// Setup is the part of the first message that Start has made.
	Setup []byte
	// Done is closed when the process has ended; Reason returns why it has. Kill ends it, and can be called at any time.
	Done   <-chan struct{}
	Reason func() error
	Kill   func()
}

// Peer is an engine, as the handler of its requests knows it.
type Peer interface {
	// Works reports whether a call of a workspace is in progress. An engine is believed about such workspaces only.
	Works(workspace string) bool
	// Client sends requests to it.
	Client() *http.Client
	// Ended is closed when it has ended.
	Ended() <-chan struct{}
}

// aside is the number of the first seat that an engine takes for a single call.
const aside = 1000

// pauses are the shortest and the longest time between the starts of processes that fail.
const (
	shortPause = 50 * time.Millisecond
	longPause  = 5 * time.Second
	// quitTime is how long an engine may take to end in order.
	quitTime = 5 * time.Second
)

// Seats implements work.Engine. Safe for concurrent use.
type Seats struct {
	o Options

	ending context.Context //nolint:containedctx // Close ends it
	end    context.CancelFunc
	group  sync.WaitGroup

	seats []*seat // the first one has the number 1

	mu    sync.Mutex      // guards alone
	alone map[int]*engine // on the seats from aside on; nil while it is being started
}

var _ work.Engine = (*Seats)(nil)

// New returns the seats, without engines. The caller calls Start, and Close after all calls.
func New(o Options) *Seats {
	s := &Seats{o: o, alone: map[int]*engine{}}
	s.ending, s.end = context.WithCancel(context.Background())
	for n := 1; n <= o.Seats; n++ {
		s.seats = append(s.seats, &seat{number: n, changed: make(chan struct{})})
	}
	return s
}

// Start starts the engines, and keeps one on each seat until Close.
func (s *Seats) Start() {
	for _, t := range s.seats {
		s.group.Go(func() { s.keep(s.ending, t) })
	}
}

// Close ends all engines, in order: none of them has a call in progress.
func (s *Seats) Close() error {
	s.end()
	s.group.Wait()
	return nil
}

// Abandon kills all engines: somebody else carries out their phases. Calls end as lost, and no engine is started any
// more. Close has to be called all the same.
func (s *Seats) Abandon() {
	s.end()
	s.mu.Lock()
	var all []*engine
	for _, e := range s.alone {
		if e != nil {
			all = append(all, e)
		}
	}
	s.mu.Unlock()
	for _, t := range s.seats {
		t.mu.Lock()
		if t.engine != nil {
			all = append(all, t.engine)
		}
		t.mu.Unlock()
	}
	for _, e := range all {
		e.process.Kill()
	}
}

// seat is a place for one engine.
type seat struct {
	number int

	mu      sync.Mutex // guards the fields below
	engine  *engine
	ready   bool          // the engine takes calls
	trouble error         // why there is no engine
	changed chan struct{} // closed and replaced when engine or trouble change
	// taken counts the engines that have sat here since the service was started.
	taken int
}

func (t *seat) set(e *engine, trouble error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e != nil {
		t.taken++
	}
	t.engine, t.ready, t.trouble = e, false, trouble
	close(t.changed)
	t.changed = make(chan struct{})
}

// open lets the engine take calls.
func (t *seat) open() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ready = true
	close(t.changed)
	t.changed = make(chan struct{})
}

// current returns the engine on the seat. It waits for the next one while there is none.
func (t *seat) current(ctx context.Context) (*engine, error) {
	for {
		t.mu.Lock()
		e, ready, trouble, changed := t.engine, t.ready, t.trouble, t.changed
		t.mu.Unlock()
		if ready {
			return e, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), trouble)
		}
	}
}

// keep starts an engine, and the next one whenever it has ended.
func (s *Seats) keep(ctx context.Context, t *seat) {
	pause := time.Duration(0)
	for {
		if pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			t.set(nil, errors.New("the service ends"))
			return
		}
		began := time.Now()
		e, err := s.begin(ctx, t.number, 0)
		if err != nil {
			if ctx.Err() == nil {
				s.o.Log.Error("an engine cannot be started; will retry", "seat", t.number, "error", err)
			}
			t.set(nil, fmt.Errorf("the engine of seat %d cannot be started: %w", t.number, err))
			pause = min(max(2*pause, shortPause), longPause)
			continue
		}
		t.set(e, nil)
		if err := s.o.Ready(ctx, e); err != nil {
			e.process.Kill()
		} else {
			t.open()
		}
		select {
		case <-e.ended:
			s.o.Log.Error("an engine has ended unexpectedly; the phases that it had begun are begun again",
				"seat", t.number, "epoch", e.epoch, "lost", e.lost(), "reason", e.process.Reason())
			t.set(nil, errors.New("the engine has ended unexpectedly"))
		case <-ctx.Done():
			e.quit()
		}
		if pause = min(max(2*pause, shortPause), longPause); time.Since(began) > longPause {
			pause = 0
		} else if pause == shortPause {
			pause = time.Millisecond // the first time nobody waits
		}
	}
}

// begin starts an engine, and greets it. memory is that of Options.Start.
func (s *Seats) begin(ctx context.Context, number int, memory int64) (*engine, error) {
	epoch, err := s.o.Epoch(number)
	if err != nil {
		return nil, fmt.Errorf("recording the epoch: %w", err)
	}
	p, err := s.o.Start(ctx, number, epoch, memory)
	if err != nil {
		return nil, err
	}
	e := newEngine(p, number, epoch, s.o)
	if err := e.greet(ctx); err != nil {
		p.Kill()
		<-e.ended
		return nil, err
	}
	return e, nil
}

// insist is begin, and tries again while that is not possible, as when NATS is away, until ctx ends.
func (s *Seats) insist(ctx context.Context, number int, memory int64) (*engine, error) {
	for pause := shortPause; ; pause = min(2*pause, longPause) {
		e, err := s.begin(ctx, number, memory)
		if err == nil {
			return e, nil
		}
		if ctx.Err() == nil {
			s.o.Log.Error("an engine cannot be started; will retry", "seat", number, "error", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}

// Status describes a seat for operators.
type Status struct {
	Seat  int
	Epoch uint64
	// Program is the version of Millipede that its engine is; empty if there is none at the moment.
	Program string
	// Since is when its engine has taken the seat; zero if there is none at the moment, for which Trouble is the reason.
	Since   time.Time
	Trouble string
	// Calls is the number of calls in progress, and Restarts how many engines have died since the service was started.
	Calls, Restarts int
}

// Status returns the state of each seat, in the order of their numbers.
func (s *Seats) Status() (all []Status) {
	for _, t := range s.seats {
		t.mu.Lock()
		one := Status{Seat: t.number, Restarts: max(0, t.taken-1)}
		if t.engine != nil {
			one.Epoch, one.Since, one.Calls = t.engine.epoch, t.engine.since, t.engine.count()
			one.Program = t.engine.welcome.Program
		}
		if t.trouble != nil {
			one.Trouble = t.trouble.Error()
		}
		t.mu.Unlock()
		all = append(all, one)
	}
	return all
}

// Engines returns a client for each engine that is there, by the numbers of their seats: for requests that are not
// calls.
func (s *Seats) Engines() map[int]*http.Client {
	out := map[int]*http.Client{}
	for _, t := range s.seats {
		t.mu.Lock()
		if t.engine != nil {
			out[t.number] = t.engine.client
		}
		t.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, e := range s.alone {
		if e != nil {
			out[n] = e.client
		}
	}
	return out
}

// seatOf returns the number of the seat on which all phases of a workspace run. Rendezvous hashing finds the same one
// after a restart, when results wait there, and another one for few workspaces when there are more seats.
func seatOf(workspace string, seats int) int {
	best, most := 1, uint64(0)
	for n := 1; n <= seats; n++ {
		h := fnv.New64a()
		_, _ = fmt.Fprintf(h, "%d/%s", n, workspace) // it cannot fail
		if v := mixed(h.Sum64()); v > most {
			best, most = n, v
		}
	}
	return best
}

// mixed spreads the last bytes of a text over all bits of its FNV hash (the finalizer of SplitMix64).
func mixed(v uint64) uint64 {
	v ^= v >> 30
	v *= 0xbf58476d1ce4e5b9
	v ^= v >> 27
	v *= 0x94d049bb133111eb
	return v ^ v>>31
}

// alone reports whether a call has a process of its own: a plan during which an engine has died, because it may be what
// the engine died of, and one of a workspace with a bound on memory. That is not possible where runs share the store of
// their workspace.
func alone(j *work.Job) bool {
	return j != nil && j.Run.Status == record.Planning && !j.Workspace.ObjectLocks &&
		(j.Run.Deaths > 0 || j.Workspace.Bounds.PlanMemory != 0)
}

// place returns the engine for a call, and a function to be called after it.
func (s *Seats) place(ctx context.Context, workspace string, j *work.Job) (*engine, func(), error) {
	if !alone(j) {
		e, err := s.seats[seatOf(workspace, s.o.Seats)-1].current(ctx)
		return e, func() {}, err
	}
	s.mu.Lock()
	n := aside
	for _, taken := s.alone[n]; taken; _, taken = s.alone[n] {
		n++
	}
	s.alone[n] = nil
	s.mu.Unlock()
	free := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.alone, n)
	}
	e, err := s.insist(ctx, n, j.Workspace.Bounds.PlanMemory)
	if err != nil {
		free()
		return nil, nil, err
	}
	s.mu.Lock()
	s.alone[n] = e
	s.mu.Unlock()
	end := func() {
		e.quit()
		free()
	}
	if err := s.o.Ready(ctx, e); err != nil {
		end()
		return nil, nil, err
	}
	return e, end, nil
}

// Plan implements work.Engine.
func (s *Seats) Plan(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
	a, err := s.carryOut(ctx, &protocol.Call{Kind: protocol.Plan}, j)
	if err != nil {
		return nil, err
	}
	return a.Plan, nil
}

// PlanJSON implements work.Engine.
func (s *Seats) PlanJSON(ctx context.Context, workspace, data string, plan, shape []byte) ([]byte, error) {
	for try := 1; ; try++ {
		a, err := s.call(ctx, workspace, &protocol.Call{Kind: protocol.PlanJSON, Workspace: workspace, Data: data,
			Text: plan, Shape: shape}, nil)
		if errors.Is(err, work.ErrLost) && try == 1 {
			continue // another call may have been the reason
		}
		if err != nil {
			return nil, err
		}
		return a.Data, nil
	}
}

// Apply implements work.Engine.
func (s *Seats) Apply(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
	a, err := s.carryOut(ctx, &protocol.Call{Kind: protocol.Apply}, j)
	if a == nil {
		return nil, err
	}
	return a.Apply, err
}

// Resolve implements work.Engine.
func (s *Seats) Resolve(ctx context.Context, j *work.Job, r work.Resolution, who string) error {
	_, err := s.carryOut(ctx, &protocol.Call{Kind: protocol.Resolve, Resolution: &r, Who: who}, j)
	return err
}

// ChangeObjects implements work.Engine.
func (s *Seats) ChangeObjects(ctx context.Context, j *work.Job, c work.ObjectChange) error {
	_, err := s.carryOut(ctx, &protocol.Call{Kind: protocol.ChangeObjects, Change: &c}, j)
	return err
}

// Watch implements work.Engine.
func (s *Seats) Watch(ctx context.Context, j *work.Job, addresses []string, reads int) ([]work.Found, error) {
	a, err := s.carryOut(ctx, &protocol.Call{Kind: protocol.Watch, Addresses: addresses, Reads: reads}, j)
	if a == nil {
		return nil, err
	}
	return a.Found, err
}

func (s *Seats) carryOut(ctx context.Context, c *protocol.Call, j *work.Job) (*protocol.Answer, error) {
	job, err := encode(j)
	if err != nil {
		return nil, err
	}
	c.Job = job
	return s.call(ctx, j.Workspace.ID, c, j)
}

// call has an engine carry out a call. The answer may come with an error.
func (s *Seats) call(ctx context.Context, workspace string, c *protocol.Call, j *work.Job) (*protocol.Answer, error) {
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	if j != nil {
		defer context.AfterFunc(j.Stopping, func() {
			// Whoever waits for an engine has begun nothing. But a run that has, and is canceled, has to be settled.
			if cause := context.Cause(j.Stopping); !j.Resumed || errors.Is(cause, work.ErrSuspended) {
				end(work.ErrStopped)
			}
		})()
	}
	e, free, err := s.place(waiting, workspace, j)
	if err != nil {
		return nil, err
	}
	defer free()
	a, err := e.call(ctx, c, workspace, j)
	if a == nil {
		return nil, err
	}
	return a, errors.Join(err, a.Failure.Err())
}
