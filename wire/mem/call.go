package mem

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/wire"
)

// aliveLost is how long a caller waits for a sign of life of the worker.
const aliveLost = 4 * time.Second

// serving is one run of Serve.
type serving struct {
	c      *Conn
	pool   string
	slots  int
	handle func(ctx context.Context, data []byte) []byte
	ctx    context.Context // ends with the connection
	calls  sync.WaitGroup

	busy int // guarded by System.mu
}

// Call implements wire.Caller. The workers of a pool take turns.
func (c *Conn) Call(ctx context.Context, pool string, data []byte) ([]byte, error) {
	subject := wire.CallSubjectOf(pool, data)
	f := c.fault("Call", subject)
	if f.Before != nil {
		return nil, f.Before
	}
	answer := make(chan []byte, 2)
	var to *serving
	err := c.wait(ctx, func(time.Time) (bool, time.Time, error) {
		if !c.cutAt.IsZero() {
			return false, time.Time{}, wire.ErrDisconnected
		}
		alive := false
		for i := range c.s.servers {
			w := c.s.servers[(c.s.turn+i)%len(c.s.servers)]
			if w.pool != pool || !w.c.cutAt.IsZero() {
				continue
			}
			if alive = true; w.busy < w.slots {
				c.s.turn += i + 1
				to = w
				to.begin(data, trace.Current(ctx), answer)
				if f.Twice {
					to.begin(data, trace.Current(ctx), answer)
				}
				return true, time.Time{}, nil
			}
		}
		if !alive {
			return false, time.Time{}, wire.ErrNoWorker
		}
		return false, time.Time{}, nil
	})
	if err != nil {
		return nil, err
	}
	got, err := c.awaitAnswer(ctx, to, answer)
	if err == nil {
		err = f.After
	}
	if err != nil {
		return nil, err
	}
	return got, nil
}

// awaitAnswer waits for the answer, and no longer than aliveLost if the worker is gone or its answer was lost.
func (c *Conn) awaitAnswer(ctx context.Context, to *serving, answer <-chan []byte) ([]byte, error) {
	var got []byte
	var silent time.Time
	err := c.wait(ctx, func(now time.Time) (bool, time.Time, error) {
		select {
		case data, ok := <-answer:
			if ok && data != nil {
				got = data
				return true, time.Time{}, nil
			}
			silent = now // the answer was lost on the way
			answer = nil
		default:
		}
		if silent.IsZero() && !to.c.cutAt.IsZero() {
			silent = to.c.cutAt
		}
		if silent.IsZero() && !c.cutAt.IsZero() {
			silent = c.cutAt
		}
		if silent.IsZero() {
			return false, time.Time{}, nil
		}
		lost := silent.Add(aliveLost)
		if !lost.After(now) {
			return false, time.Time{}, wire.ErrLostCall
		}
		return false, lost, nil
	})
	return got, err
}

// begin starts handling a call. s.mu is held.
func (w *serving) begin(data []byte, under trace.Context, answer chan<- []byte) {
	w.busy++
	request := bytes.Clone(data)
	w.calls.Go(func() {
		got := append([]byte{}, w.handle(trace.Under(w.ctx, under), request)...)
		f := w.c.fault("Answer", wire.CallSubjectOf(w.pool, data))
		s := w.c.s
		s.mu.Lock()
		defer s.mu.Unlock()
		w.busy--
		if f.Before != nil || !w.c.cutAt.IsZero() {
			got = nil
		}
		answer <- got // its capacity suffices for a call that is handled twice
		s.change()
	})
}

// Serve implements wire.Caller.
func (c *Conn) Serve(ctx context.Context, pool string, slots int, handle func(ctx context.Context,
	data []byte) []byte) error {
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	w := &serving{c: c, pool: pool, slots: slots, handle: handle, ctx: alive}
	s := c.s
	s.mu.Lock()
	if c.closed {
		s.mu.Unlock()
		return wire.ErrDisconnected
	}
	s.servers = append(s.servers, w)
	s.change()
	s.mu.Unlock()
	var err error
	select {
	case <-ctx.Done():
	case <-c.done:
		err = wire.ErrDisconnected
		end()
	}
	s.mu.Lock()
	for i := range s.servers {
		if s.servers[i] == w {
			s.servers = append(s.servers[:i:i], s.servers[i+1:]...)
			break
		}
	}
	s.change()
	s.mu.Unlock()
	w.calls.Wait()
	return err
}
