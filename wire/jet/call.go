package jet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/wire"
)

// callQueue is the queue group of the workers of a pool.
const callQueue = "workers"

// The first byte of a worker's message to a caller.
const (
	frameAnswer = 'a' // the answer follows
	frameBusy   = 'b' // not taken: all slots are in use
	frameAlive  = 'l' // the call goes on
)

const (
	// aliveEvery is the interval of a worker's signs of life during a call; aliveLost is how long a caller waits for one.
	aliveEvery = time.Second
	aliveLost  = 4 * time.Second
	// A caller that was refused by a busy worker tries again after a random pause that doubles between these bounds.
	busyFirst = time.Millisecond
	busyMost  = 50 * time.Millisecond
)

// calls are the calls of this connection that wait for an answer. All answers arrive on one subscription.
type calls struct {
	c     *Conn
	inbox string
	once  lazy[*nats.Subscription]

	mu      sync.Mutex // guards pending and next
	pending map[uint64]chan *nats.Msg
	next    uint64
}

func (s *calls) init(c *Conn) {
	s.c = c
	s.inbox = c.nc.NewInbox()
	s.pending = map[uint64]chan *nats.Msg{}
}

func (s *calls) start() error {
	_, err := s.once.get(func() (*nats.Subscription, error) { return s.c.nc.Subscribe(s.inbox+".*", s.route) })
	return problem(err)
}

// route runs on the subscription's goroutine, so it never blocks.
func (s *calls) route(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 36, 64)
	if err != nil {
		return // not one of ours
	}
	s.mu.Lock()
	ch := s.pending[id]
	s.mu.Unlock()
	if len(m.Data) > 0 && m.Data[0] == frameAlive && len(ch) > 0 {
		return // the caller has something newer to look at
	}
	select {
	case ch <- m:
	default: // a second answer to the same call, or to a call that was given up
	}
}

func (s *calls) open() (uint64, chan *nats.Msg) {
	ch := make(chan *nats.Msg, 2) // a sign of life, and the answer
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	s.pending[s.next] = ch
	return s.next, ch
}

func (s *calls) close(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
}

// Call implements wire.Caller.
func (c *Conn) Call(ctx context.Context, pool string, data []byte) ([]byte, error) {
	if int64(len(data)) > c.nc.MaxPayload() {
		return nil, fmt.Errorf("calling pool %s: the message has %d bytes, and the server takes %d", pool, len(data),
			c.nc.MaxPayload())
	}
	if err := c.preparePool(ctx, pool); err != nil { // the answer may be large
		return nil, fmt.Errorf("calling pool %s: %w", pool, err)
	}
	if err := c.calls.start(); err != nil {
		return nil, fmt.Errorf("calling pool %s: %w", pool, err)
	}
	subject := wire.CallSubjectOf(pool, data)
	for wait := busyFirst; ; wait = min(2*wait, busyMost) {
		answer, err := c.callOnce(ctx, subject, data)
		if !errors.Is(err, errBusy) {
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("calling pool %s: %w", pool, err)
			}
			return answer, err
		}
		if sleep.For(ctx, wait/2+rand.N(wait)) != nil {
			return nil, ctx.Err()
		}
	}
}

var errBusy = errors.New("every slot of the worker is in use")

// timers are stopped timers, for reuse: a new one for each call would take a fiftieth of a plan's memory allocations.
var timers = sync.Pool{New: func() any {
	t := time.NewTimer(aliveLost)
	t.Stop()
	return t
}}

func (c *Conn) callOnce(ctx context.Context, subject string, data []byte) ([]byte, error) {
	id, answers := c.calls.open()
	defer c.calls.close(id)
	m := &nats.Msg{Subject: subject, Reply: c.calls.inbox + "." + strconv.FormatUint(id, 36), Data: data}
	traced(ctx, m)
	if err := c.nc.PublishMsg(m); err != nil {
		return nil, problem(err)
	}
	lost := timers.Get().(*time.Timer)
	lost.Reset(aliveLost)
	defer func() {
		lost.Stop()
		timers.Put(lost)
	}()
	for {
		select {
		case m := <-answers:
			switch {
			case len(m.Data) == 0 && m.Header.Get("Status") == "503":
				return nil, wire.ErrNoWorker
			case len(m.Data) == 0:
				return nil, errors.New("the worker sent an empty frame")
			}
			switch m.Data[0] {
			case frameAnswer:
				return m.Data[1:], nil
			case frameBusy:
				return nil, errBusy
			case frameAlive:
				lost.Reset(aliveLost)
			default:
				return nil, fmt.Errorf("the worker sent a frame of the unknown kind %q", m.Data[0])
			}
		case <-lost.C:
			return nil, wire.ErrLostCall
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ctx.Done():
			return nil, wire.ErrDisconnected
		}
	}
}

// Serve implements wire.Caller. A call that finds all slots in use is refused at once, so that its caller tries another
// worker: no call waits here while another worker is free.
func (c *Conn) Serve(ctx context.Context, pool string, slots int, handle func(ctx context.Context,
	data []byte) []byte) error {
	subs, err := c.subscribeCalls(pool)
	if err != nil {
		return fmt.Errorf("serving calls of pool %s: %w", pool, problem(err))
	}
	if err := c.flush(ctx); err != nil {
		return fmt.Errorf("serving calls of pool %s: %w", pool, err)
	}
	s := &serving{c: c, slots: slots, handle: handle, next: make(chan *nats.Msg), running: map[*nats.Msg]bool{}}
	ticks, stop := context.WithCancel(c.ctx)
	s.aside.Go(func() { s.sendKeepalives(ticks) })
	group, taking := errgroup.WithContext(ctx)
	for _, sub := range subs {
		group.Go(func() error {
			err := s.takeAll(taking, sub)
			return errors.Join(err, s.refuseRest(sub))
		})
	}
	err = group.Wait()
	close(s.next)
	s.calls.Wait()
	stop()
	s.aside.Wait()
	if err != nil {
		return fmt.Errorf("serving calls of pool %s: %w", pool, err)
	}
	return nil
}

// subscribeCalls subscribes to the calls of each version that this program speaks, and to no others: so a worker of
// another version is given none.
func (c *Conn) subscribeCalls(pool string) ([]*nats.Subscription, error) {
	var subs []*nats.Subscription
	for version := wire.Spoken().Lowest; version <= wire.Spoken().Highest; version++ {
		sub, err := c.nc.QueueSubscribeSync(wire.CallSubject(pool, version), callQueue)
		if err != nil {
			for _, s := range subs {
				err = errors.Join(err, s.Unsubscribe())
			}
			return nil, err
		}
		subs = append(subs, sub)
	}
	return subs, nil
}

// serving is one run of Serve.
type serving struct {
	c      *Conn
	slots  int
	handle func(ctx context.Context, data []byte) []byte
	next   chan *nats.Msg // the work that an idle goroutine takes; see answer
	calls  sync.WaitGroup
	aside  sync.WaitGroup

	mu      sync.Mutex // guards running
	running map[*nats.Msg]bool
}

// takeAll receives calls until ctx ends, which is no error.
func (s *serving) takeAll(ctx context.Context, sub *nats.Subscription) error {
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case err == nil:
			s.take(m)
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was told to end
		case !errors.Is(err, nats.ErrSlowConsumer): // calls that were lost, their callers repeat
			return problem(err)
		}
	}
}

func (s *serving) take(m *nats.Msg) {
	s.mu.Lock()
	free := len(s.running) < s.slots
	if free {
		s.running[m] = true
	}
	s.mu.Unlock()
	if !free {
		s.reply(m, []byte{frameBusy})
		return
	}
	select {
	case s.next <- m:
	default:
		s.calls.Go(func() { s.answer(m) })
	}
}

// answer executes a call, and then the calls that takeAll passes to it, until there are no more. Its goroutine is
// reused because its stack has already grown to the size that calls need: growing a new stack for each call took a
// twentieth of an embedded plan's CPU time.
func (s *serving) answer(m *nats.Msg) {
	for more := true; more; m, more = <-s.next {
		answer := s.handle(trace.Under(s.c.ctx, traceOf(m.Header)), m.Data)
		s.mu.Lock()
		delete(s.running, m)
		s.mu.Unlock()
		s.reply(m, append([]byte{frameAnswer}, answer...))
	}
}

// reply sends a frame. If that fails, the caller gets no answer and repeats the call.
func (s *serving) reply(m *nats.Msg, frame []byte) {
	if err := s.c.nc.Publish(m.Reply, frame); err != nil {
		s.c.opts.Log("answering a call: " + err.Error())
	}
}

// sendKeepalives sends a sign of life to each caller every second.
func (s *serving) sendKeepalives(ctx context.Context) {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		replies := make([]string, 0, len(s.running))
		for m := range s.running {
			replies = append(replies, m.Reply)
		}
		s.mu.Unlock()
		for _, reply := range replies {
			s.reply(&nats.Msg{Reply: reply}, []byte{frameAlive})
		}
	}
}

// refuseRest ends the subscription, and refuses the calls that still wait in it, so that their callers try other
// workers.
func (s *serving) refuseRest(sub *nats.Subscription) error {
	if err := sub.Drain(); err != nil {
		return problem(err)
	}
	for {
		m, err := sub.NextMsg(s.c.opts.Timeout)
		if err != nil {
			return nil //nolint:nilerr // empty, and closed
		}
		s.reply(m, []byte{frameBusy})
	}
}
