package hub

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/wire"
)

// ErrTaken means that another call receives the results of the run: it is executed in this process already.
var ErrTaken = errors.New("this process already executes the run")

const (
	// fetchBatch is the most results that one fetch returns.
	fetchBatch = 64
	// The limits for strays in memory, in messages and bytes. Those beyond are delivered again later.
	maxStrays     = 256
	maxStrayBytes = 64 << 20
	// releaseTime is the time limit for releasing strays.
	releaseTime = 5 * time.Second
)

// results routes results to their runs. A result of a run that this process does not execute is a stray: it stays in
// the stream until the run is resumed. It is kept in memory meanwhile, because the stream delivers it to nobody else
// before its ack wait is over.
type results struct {
	fetch  func(ctx context.Context, n int) ([]wire.Delivery, error)
	shared shared

	mu     sync.Mutex // guards the rest
	takers map[string]*receiver
	strays map[streamPosition]wire.Delivery
	bytes  int // of the strays
}

// streamPosition is the position of a result: its pool, and its sequence among the results of the pool.
type streamPosition struct {
	pool     string
	sequence uint64
}

func positionOf(d wire.Delivery) streamPosition { return streamPosition{d.Ref().Pool, d.Sequence()} }

// receiver receives the results of a run.
type receiver struct {
	fn    func(wire.Delivery)
	ended chan error // gets one error
}

func (r *results) init(fetch func(ctx context.Context, n int) ([]wire.Delivery, error)) {
	r.fetch, r.takers, r.strays = fetch, map[string]*receiver{}, map[streamPosition]wire.Delivery{}
	r.shared.run = r.run
}

func (r *results) take(ctx context.Context, run string, fn func(wire.Delivery)) error {
	t := &receiver{fn: fn, ended: make(chan error, 1)}
	r.mu.Lock()
	if r.takers[run] != nil {
		r.mu.Unlock()
		return ErrTaken
	}
	r.takers[run] = t
	var came []wire.Delivery
	for at, d := range r.strays {
		if d.Ref().Run == run {
			came = append(came, d)
			r.drop(at)
		}
	}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.takers, run)
		r.mu.Unlock()
	}()
	for _, d := range came {
		fn(d)
	}
	r.shared.join()
	defer r.shared.leave()
	select {
	case <-ctx.Done():
		return nil
	case err := <-t.ended:
		return err
	}
}

// run fetches results until ctx ends, and then releases the strays, because another process may resume their runs.
func (r *results) run(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := r.fetch(ctx, fetchBatch)
		for _, d := range list {
			r.route(d)
		}
		if err != nil && !pause(ctx, retryEvery, nil) {
			break
		}
	}
	r.mu.Lock()
	var left []wire.Delivery
	for at, d := range r.strays {
		left = append(left, d)
		r.drop(at)
	}
	r.mu.Unlock()
	short, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	var group sync.WaitGroup
	for _, d := range left {
		group.Go(func() { _ = d.Release(short) }) // else it comes again by itself
	}
	group.Wait()
}

func (r *results) route(d wire.Delivery) {
	r.mu.Lock()
	t := r.takers[d.Ref().Run]
	if t == nil {
		r.keep(d)
	}
	r.mu.Unlock()
	if t == nil {
		return
	}
	if err := bug.Catch(func() error { t.fn(d); return nil }); err != nil {
		select {
		case t.ended <- err:
		default: // it has ended by an earlier one
		}
	}
}

// keep keeps a stray. The caller has the lock.
func (r *results) keep(d wire.Delivery) {
	r.drop(positionOf(d)) // an earlier delivery of the same message
	if len(r.strays) < maxStrays && r.bytes+len(d.Data()) <= maxStrayBytes {
		r.strays[positionOf(d)] = d
		r.bytes += len(d.Data())
	}
}

// drop forgets a stray. The caller has the lock.
func (r *results) drop(at streamPosition) {
	if d := r.strays[at]; d != nil {
		r.bytes -= len(d.Data())
		delete(r.strays, at)
	}
}

// forget forgets the strays of a run whose messages are removed.
func (r *results) forget(run string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, d := range r.strays {
		if d.Ref().Run == run {
			r.drop(at)
		}
	}
}
