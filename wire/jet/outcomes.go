package jet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

// Results are in a stream of each pool, so that a pool that floods its stream fills no other one, and no result waits
// behind what another pool has published. A reader has a goroutine for each of these streams, which pulls while
// somebody waits for results of the coordinator.

const (
	// poolsEvery is the interval at which a reader looks for streams that another process has created. Those that this
	// connection creates it knows at once.
	poolsEvery = 5 * time.Second
	// readerRest is how long a reader goes on pulling when nobody waits for results, because the same caller will
	// usually be back at once.
	readerRest = 500 * time.Millisecond
)

// outcomes has the readers of a connection, by their coordinators.
type outcomes struct {
	c *Conn

	mu      sync.Mutex // guards the fields below, and all of the readers but their contexts
	readers map[string]*reader
	pools   map[string]bool // tokens of the pools whose results have a stream
	listed  time.Time       // when the server was asked for them
}

// reader receives the results of one coordinator.
type reader struct {
	coordinator string
	ctx         context.Context
	stop        context.CancelFunc
	group       sync.WaitGroup
	wake        chan struct{} // closed, and made anew, whenever something below changes

	waiting, most int // callers, and how many messages the last one can take
	rest          *time.Timer
	pumps         map[string]bool
	have          map[string][]wire.Delivery // by the token of their pool: not yet passed to a caller
	turn          int
	err           error
}

func (o *outcomes) init(c *Conn) {
	o.c, o.readers, o.pools = c, map[string]*reader{}, map[string]bool{}
}

// know has all readers pull from the stream of a pool, too.
func (o *outcomes) know(pools ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, pool := range pools {
		if o.pools[pool] {
			continue
		}
		o.pools[pool] = true
		for _, r := range o.readers {
			o.pump(r)
		}
	}
}

// list looks for streams of pools at times.
func (o *outcomes) list(ctx context.Context) error {
	o.mu.Lock()
	due := o.listed.IsZero() || time.Since(o.listed) >= poolsEvery
	o.mu.Unlock()
	if !due {
		return nil
	}
	names, err := o.c.purger.poolStreams(ctx)
	if err != nil {
		return err
	}
	var pools []string
	for _, name := range names {
		if pool, kind := poolOf(name); kind == resultsOfPool {
			pools = append(pools, pool)
		}
	}
	o.know(pools...)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.listed = time.Now()
	return nil
}

// fetch waits for results of a coordinator, of any pool.
func (o *outcomes) fetch(ctx context.Context, coordinator string, n int) ([]wire.Delivery, error) {
	r := o.enter(coordinator, n)
	defer o.leave(ctx, r)
	look := time.NewTicker(poolsEvery)
	defer look.Stop()
	for {
		if err := o.list(ctx); err != nil && ctx.Err() == nil && !temporary(err) {
			return nil, err
		}
		list, wake, err := o.next(r, n)
		if len(list) > 0 || err != nil {
			return list, err
		}
		select {
		case <-wake:
		case <-look.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-o.c.ctx.Done():
			return nil, wire.ErrDisconnected
		}
	}
}

// enter returns the reader of a coordinator, and counts the caller.
func (o *outcomes) enter(coordinator string, n int) *reader {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.readers[coordinator]
	if r == nil {
		r = &reader{coordinator: coordinator, wake: make(chan struct{}), pumps: map[string]bool{},
			have: map[string][]wire.Delivery{}}
		r.ctx, r.stop = context.WithCancel(o.c.ctx)
		o.readers[coordinator] = r
	}
	if r.rest != nil {
		r.rest.Stop()
	}
	r.waiting++
	r.most = n
	r.changed()
	o.pump(r)
	return r
}

// leave ends the reader when nobody waits any more: at once if the caller was told to stop, and else after a while.
func (o *outcomes) leave(ctx context.Context, r *reader) {
	o.mu.Lock()
	r.waiting--
	r.changed()
	end := r.waiting == 0 && ctx.Err() != nil
	switch {
	case end:
		o.end(r)
	case r.waiting == 0:
		r.rest = time.AfterFunc(readerRest, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			if r.waiting == 0 {
				o.end(r)
			}
		})
	}
	o.mu.Unlock()
	if end {
		r.group.Wait()
	}
}

// end ends a reader. The caller has the lock.
func (o *outcomes) end(r *reader) {
	r.stop()
	if o.readers[r.coordinator] == r {
		delete(o.readers, r.coordinator)
	}
}

// changed wakes all that wait for a change. The caller has the lock.
func (r *reader) changed() {
	close(r.wake)
	r.wake = make(chan struct{})
}

// next returns the results that have arrived. The pools take turns.
func (o *outcomes) next(r *reader, n int) ([]wire.Delivery, <-chan struct{}, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []wire.Delivery
	pools := slices.Sorted(maps.Keys(r.have))
	for i := range pools {
		pool := pools[(r.turn+i)%len(pools)]
		take := min(n-len(list), len(r.have[pool]))
		list = append(list, r.have[pool][:take]...)
		if r.have[pool] = r.have[pool][take:]; len(r.have[pool]) == 0 {
			delete(r.have, pool)
		}
	}
	r.turn++
	err := r.err
	if len(list) > 0 {
		err = nil
		r.changed()
	} else {
		r.err = nil
	}
	return list, r.wake, err
}

// pump starts the goroutines that are missing. The caller has the lock.
func (o *outcomes) pump(r *reader) {
	for pool := range o.pools {
		if r.pumps[pool] || r.ctx.Err() != nil {
			continue
		}
		r.pumps[pool] = true
		r.group.Add(1)
		if !o.c.begin(func() { defer r.group.Done(); o.pull(r, pool) }) {
			r.group.Done()
		}
	}
}

// pull receives the results of one pool while somebody waits for results. Results that nobody has taken at the end are
// released.
func (o *outcomes) pull(r *reader, pool string) {
	cfg := resultConsumer(r.coordinator, o.c.opts.ackWait(resultAckWait))
	cfg.FilterSubject = "result." + pool + "." + wire.Token(r.coordinator) + ".>"
	for {
		n := o.wanted(r, pool)
		if n == 0 {
			break
		}
		list, err := o.c.fetch(r.ctx, resultsPrefix+pool, cfg, n)
		o.mu.Lock()
		if len(list) > 0 {
			r.have[pool] = list
		}
		if err != nil && r.ctx.Err() == nil {
			r.err = err
		}
		r.changed()
		o.mu.Unlock()
		if err != nil && sleep.For(r.ctx, topologyPoll) != nil {
			break
		}
	}
	o.mu.Lock()
	left := r.have[pool]
	delete(r.have, pool)
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), o.c.opts.Timeout)
	defer cancel()
	for _, d := range left {
		if err := d.Release(ctx); err != nil {
			return // they come again by themselves
		}
	}
}

// wanted waits until somebody waits for results and all earlier ones of the pool are taken. It returns how many the
// caller can take, and 0 at the end of the reader.
func (o *outcomes) wanted(r *reader, pool string) int {
	for {
		o.mu.Lock()
		n, wake := r.most, r.wake
		ready := r.waiting > 0 && len(r.have[pool]) == 0
		o.mu.Unlock()
		if r.ctx.Err() != nil {
			return 0
		}
		if ready {
			return n
		}
		select {
		case <-wake:
		case <-r.ctx.Done():
			return 0
		}
	}
}

// FetchResults implements wire.WorkQueue.
func (c *Conn) FetchResults(ctx context.Context, coordinator string, n int) ([]wire.Delivery, error) {
	if n < 1 {
		panic("jet: a fetch of no messages")
	}
	list, err := c.outcomes.fetch(ctx, coordinator, n)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("fetching results for coordinator %s: %w", coordinator, err)
	}
	return list, nil
}
