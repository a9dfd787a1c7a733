package sim

import (
	"context"
	"runtime"
	"time"
)

// kind is the kind of operation behind a gate.
type kind byte

const (
	local   kind = iota // nothing: it goes on at once
	disk                // the process's own disk
	network             // the way to NATS
	outside             // the way from a provider to its cloud
)

// stage is how far an op has come.
type stage byte

const (
	submitted stage = iota // on its way there
	pending                // there, and waiting for something
	replied                // on its way back
	finished
)

// op is one call that stands at a gate. The loop of the world carries it out.
type op struct {
	p         *process
	kind      kind
	name, key string
	from      [12]uintptr // who calls; it tells those apart that come at one moment with one key
	serial    int
	// effect is carried out there, once, or twice if twice may be. It answers with reply, now or later.
	effect  func(*op)
	twice   bool
	stage   stage
	carried bool // the effect took place
	lost    bool // the effect will not take place
	failing bool // the answer will be lost
	err     error
	answer  chan struct{}
}

// do stands at a gate until the world has carried the call out, or ctx ends. effect is called by the world's loop.
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

// like reports whether nothing but the scheduler decides which of two comes first, if they come at one moment.
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

// reply sends the answer on its way. Only the first answer counts.
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
