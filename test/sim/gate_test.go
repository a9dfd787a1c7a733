package sim

import (
	"context"
	"runtime"
	"time"
)

// kind is the place where an operation takes effect.
type kind byte

const (
	local   kind = iota // the process itself: it takes no time
	disk                // the process's own disk
	network             // NATS
	outside             // a cloud
)

// stage is the progress of an op.
type stage byte

const (
	submitted stage = iota // the request is on its way
	pending                // the request has arrived, and waits for something
	replied                // the response is on its way
	finished
)

// op is a call that waits at a gate. The loop of the world executes it.
type op struct {
	p         *process
	kind      kind
	name, key string
	from      [12]uintptr // the call stack; it distinguishes calls that arrive at one moment with the same key
	serial    int
	// effect is executed at the destination: once, or also twice if twice is set. It calls reply, at once or later.
	effect  func(*op)
	twice   bool
	stage   stage
	carried bool // effect was called
	lost    bool // effect will not be called
	failing bool // the response will be lost
	err     error
	answer  chan struct{}
}

// do waits at a gate until the world has executed the call, or until ctx ends. The world's loop calls effect.
func (p *process) do(ctx context.Context, k kind, name, key string, effect func(*op)) error {
	return p.stand(ctx, &op{p: p, kind: k, name: name, key: key, effect: effect})
}

func (p *process) stand(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.answer = make(chan struct{})
	runtime.Callers(2, o.from[:])
	w := p.w
	w.mu.Lock()
	if p.dead {
		w.mu.Unlock()
		return errDead
	}
	p.ops[o] = true
	w.arrivals = append(w.arrivals, o)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	select {
	case <-o.answer:
		return o.err
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		if o.stage == finished {
			return o.err
		}
		o.stage = finished
		delete(p.ops, o)
		return ctx.Err()
	}
}

// like reports whether the order of two ops that arrive at one moment depends only on the scheduler.
func (o *op) like(b *op) bool {
	return o.p == b.p && o.name == b.name && o.key == b.key && o.from == b.from
}

// over reports that nobody waits for the op any more.
func (o *op) over() bool { return o.stage == finished || o.p.dead }

// finish continues the op's goroutine.
func (o *op) finish(err error) {
	if o.stage == finished {
		return
	}
	o.stage, o.err = finished, err
	delete(o.p.ops, o)
	close(o.answer)
}

// submit sends an op on its way.
func (p *process) submit(o *op) {
	w := p.w
	w.serial++
	o.serial = w.serial
	w.note("%s %s %s", p.name, o.name, o.key)
	var way time.Duration
	switch o.kind {
	case local:
		way = w.between(0, 20*time.Microsecond)
	case disk:
		way = w.between(10*time.Microsecond, 300*time.Microsecond)
		if w.odds(60) {
			w.faults["slow disk"]++
			way = w.between(10*time.Millisecond, 3*time.Second)
		}
	case network:
		way = w.latency()
		switch {
		case w.odds(60):
			w.faults["request lost"]++
			o.lost = true
			w.after(w.between(time.Second, 5*time.Second), func() { p.awake(func() { o.finish(errTimeout) }) })
		case w.odds(60):
			w.faults["answer lost"]++
			o.failing = true
		}
	case outside:
		way = w.latency()
	}
	arrive := func() {
		if o.lost || o.carried {
			return
		}
		if o.kind == network && p.conn != nil && !p.conn.isUp() && !p.dead {
			w.after(w.between(time.Millisecond, 2*time.Second), func() { p.awake(func() { o.finish(errOffline) }) })
			return
		}
		o.carried = true
		if o.stage == submitted {
			o.stage = pending
		}
		o.effect(o)
		if o.twice && w.odds(15) {
			w.faults["duplicated"]++
			o.effect(o)
		}
	}
	w.after(way, func() {
		if !p.dead && p.frozen.After(time.Now()) && o.kind != outside {
			p.thaw = append(p.thaw, arrive)
			return
		}
		arrive()
	})
}

// reply sends the response. Only the first response counts.
func (o *op) reply(err error) {
	if o.stage != pending {
		return
	}
	o.stage = replied
	w := o.p.w
	var way time.Duration
	switch o.kind {
	case network, outside:
		way = w.latency()
	default:
		way = w.between(0, 10*time.Microsecond)
	}
	w.after(way, func() {
		if o.over() {
			return
		}
		if o.kind == network && (o.failing || o.p.conn != nil && !o.p.conn.isUp()) {
			w.after(w.between(time.Second, 5*time.Second), func() { o.p.awake(func() { o.finish(errTimeout) }) })
			return
		}
		o.p.awake(func() { o.finish(err) })
	})
}
