package jet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/wire"
)

// How long the first call of Workers waits: until no more announcements arrive, and no longer than the limit.
const (
	announceQuiet = 40 * time.Millisecond
	announceLimit = 250 * time.Millisecond
)

// presence keeps the last heartbeat of each worker, from the first use on.
type presence struct {
	c    *Conn
	once lazy[struct{}]

	mu          sync.Mutex // guards the fields below
	workers     map[member]*lastHeartbeat
	members     map[string]int // how many workers are known, by pool
	rates       map[string]*rate
	subscribers map[*subscriber]bool
	// announced is closed when a call of Workers has waited for announcements; nil before the first call, and after
	// one that was given up. heard says that one has waited.
	announced chan struct{}
	heard     bool
	beat      chan struct{} // buffers one event: a heartbeat came
}

// member identifies a worker within one pool. Every sender of a pool may use any name, so a name alone identifies
// nobody.
type member struct{ pool, worker string }

type lastHeartbeat struct {
	wire.Heartbeat
	at time.Time
}

func (p *presence) init(c *Conn) {
	p.c = c
	p.workers, p.members, p.rates = map[member]*lastHeartbeat{}, map[string]int{}, map[string]*rate{}
	p.subscribers = map[*subscriber]bool{}
	p.beat = make(chan struct{}, 1)
}

func (p *presence) start(ctx context.Context) error {
	_, err := p.once.get(func() (struct{}, error) {
		s, err := p.c.nc.SubscribeSync("hb.>")
		if err != nil {
			return struct{}{}, fmt.Errorf("listening to heartbeats: %w", problem(err))
		}
		if err := s.SetPendingLimits(pendingBeats, pendingBytes); err != nil {
			return struct{}{}, fmt.Errorf("listening to heartbeats: %w", problem(err))
		}
		if err := p.c.flush(ctx); err != nil {
			return struct{}{}, errors.Join(err, p.c.unsubscribe(s)) // the next attempt has one of its own
		}
		p.c.begin(func() {
			p.c.receiveAlways(s, func(m *nats.Msg) { p.take(m, time.Now()) })
		})
		return struct{}{}, nil
	})
	return err
}

// subscriber is a function that is not called any more once its subscription has ended.
type subscriber struct {
	mu    sync.Mutex // held during a call
	ended bool
	fn    func(wire.Heartbeat)
}

func (w *subscriber) call(h wire.Heartbeat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.fn(h)
	}
}

func (w *subscriber) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

// take accepts a heartbeat as far as its subject proves it, up to a rate for each pool, so that a flood from one pool
// does not hide the others.
func (p *presence) take(m *nats.Msg, now time.Time) {
	subject, data := m.Subject, m.Data
	if !p.admit(poolToken(subject), len(data), now) {
		return
	}
	h, err := wire.ReadHeartbeat(subject, data)
	if err != nil {
		p.c.complaints.log(p.c.opts.Log, "heartbeat "+poolToken(subject), "a heartbeat on "+subject+
			" is ignored: "+err.Error())
		return
	}
	if h.Trouble == "" {
		h.Trouble = p.c.regions.misplaced(h.Pools[0], m.Header)
	}
	p.mu.Lock()
	known := p.note(h, now)
	subscribers := slices.Collect(maps.Keys(p.subscribers))
	p.mu.Unlock()
	if !known {
		p.c.complaints.log(p.c.opts.Log, "members "+h.Pools[0], fmt.Sprintf("pool %s has more than %d workers; the "+
			"others are ignored", h.Pools[0], maxMembers))
		return
	}
	for _, w := range subscribers {
		w.call(h)
	}
	select {
	case p.beat <- struct{}{}:
	default:
	}
}

// note records a heartbeat. It returns false if the pool has too many workers for another one.
func (p *presence) note(h wire.Heartbeat, now time.Time) bool {
	of := member{h.Pools[0], h.Worker}
	switch old := p.workers[of]; {
	case h.Leaving && old != nil:
		p.forget(of)
	case h.Leaving:
	case old != nil:
		*old = lastHeartbeat{h, now}
	default:
		if p.members[of.pool] >= maxMembers {
			for m, s := range p.workers {
				if m.pool == of.pool && now.Sub(s.at) > memberMemory {
					p.forget(m)
				}
			}
		}
		if p.members[of.pool] >= maxMembers {
			return false
		}
		p.workers[of] = &lastHeartbeat{h, now}
		p.members[of.pool]++
	}
	return true
}

func (p *presence) forget(m member) {
	delete(p.workers, m)
	if p.members[m.pool]--; p.members[m.pool] == 0 {
		delete(p.members, m.pool)
	}
}

// Beat implements wire.Presence.
func (p *presence) Beat(ctx context.Context, h wire.Heartbeat) error {
	if len(h.Pools) == 0 {
		return fmt.Errorf("worker %s serves no pool", h.Worker)
	}
	for _, pool := range h.Pools {
		m := &nats.Msg{Subject: wire.HeartbeatSubject(pool, h.Worker), Data: wire.EncodeHeartbeat(h.For(pool)),
			Header: nats.Header{domainHeader: {p.c.opts.Domain}}}
		if err := p.c.nc.PublishMsg(m); err != nil {
			return problem(err)
		}
	}
	return nil
}

// Workers implements wire.Presence.
func (p *presence) Workers(ctx context.Context) ([]wire.Worker, error) {
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	if err := p.awaitAnnouncements(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now() // under the lock: no heartbeat that was noted is later
	list := make([]wire.Worker, 0, len(p.workers))
	for _, s := range p.workers {
		list = append(list, wire.Worker{Heartbeat: s.Heartbeat, Since: now.Sub(s.at)})
	}
	return list, nil
}

// awaitAnnouncements asks all workers to announce themselves and waits for them, once per connection. Calls at the same
// time wait for the same announcements.
func (p *presence) awaitAnnouncements(ctx context.Context) error {
	for {
		p.mu.Lock()
		heard, announced, first := p.heard, p.announced, p.announced == nil
		if !heard && first {
			announced = make(chan struct{})
			p.announced = announced
		}
		p.mu.Unlock()
		switch {
		case heard:
			return nil
		case first:
			err := p.hear(ctx)
			p.mu.Lock()
			p.heard, p.announced = err == nil, nil
			p.mu.Unlock()
			close(announced)
			return err
		}
		select {
		case <-announced: // perhaps because the other call was given up
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hear asks all workers to announce themselves, and waits until they have.
func (p *presence) hear(ctx context.Context) error {
	if err := p.Control(ctx, "", wire.Control{Kind: "announce"}); err != nil {
		return err
	}
	limit := time.NewTimer(announceLimit)
	defer limit.Stop()
	wait := limit.C
	for {
		select {
		case <-wait:
			return nil
		case <-limit.C:
			return nil
		case <-p.beat:
			if p.all() {
				return nil
			}
			wait = time.After(announceQuiet)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// all reports whether all existing workers are known.
func (p *presence) all() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.c.opts.Workers > 0 && len(p.workers) >= p.c.opts.Workers
}

// SubscribeHeartbeats implements wire.Presence.
func (p *presence) SubscribeHeartbeats(ctx context.Context, fn func(wire.Heartbeat)) error {
	if err := p.start(ctx); err != nil {
		return err
	}
	w := &subscriber{fn: fn}
	p.mu.Lock()
	p.subscribers[w] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.subscribers, w)
		p.mu.Unlock()
		w.end()
	}()
	return p.c.untilDone(ctx)
}

// untilDone waits for the end of ctx, which is no error, or of the connection.
func (c *Conn) untilDone(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.ctx.Done():
		return wire.ErrDisconnected
	}
}

// Control implements wire.Presence.
func (p *presence) Control(ctx context.Context, pool string, m wire.Control) error {
	if err := p.c.nc.Publish(wire.ControlSubject(pool, m.Kind), wire.EncodeControl(m)); err != nil {
		return fmt.Errorf("sending %q to the workers: %w", m.Kind, problem(err))
	}
	return nil
}

// SubscribeControl implements wire.Presence.
func (p *presence) SubscribeControl(ctx context.Context, pool string, fn func(wire.Control)) error {
	handle := func(m *nats.Msg) {
		control, err := wire.DecodeControl(m.Data)
		if err != nil {
			p.c.opts.Log("a control message cannot be read: " + err.Error())
			return
		}
		fn(control)
	}
	return p.c.listen(ctx, handle, "ctl.all.>", "ctl.pool."+wire.Token(pool)+".>")
}

// Emit implements wire.Presence.
func (p *presence) Emit(ctx context.Context, pool, run string, data []byte) error {
	return problem(p.c.nc.Publish(wire.EventSubject(pool, run), data))
}

// Events implements wire.Presence.
func (p *presence) Events(ctx context.Context, run string, fn func(pool string, data []byte)) error {
	return p.c.listen(ctx, func(m *nats.Msg) {
		if pool, of, err := wire.ParseEvent(m.Subject); err == nil && of == run && len(m.Data) <= wire.MaxEvent {
			fn(pool, m.Data)
		}
	}, "ev.*."+wire.Token(run))
}

// listen passes the messages on the subjects to handle, one at a time, until ctx ends, which is no error.
func (c *Conn) listen(ctx context.Context, handle func(*nats.Msg), subjects ...string) error {
	var subs []*nats.Subscription
	defer func() { // those that nothing was received from, too
		for _, s := range subs {
			if err := c.unsubscribe(s); err != nil {
				c.opts.Log("no longer listening to " + s.Subject + ": " + err.Error())
			}
		}
	}()
	for _, subject := range subjects {
		s, err := c.nc.SubscribeSync(subject)
		if err != nil {
			return fmt.Errorf("listening to %s: %w", subject, problem(err))
		}
		subs = append(subs, s)
	}
	if err := c.flush(ctx); err != nil { // and with it, a refusal has arrived
		return err
	}
	var one sync.Mutex // held while handle runs
	group, gctx := errgroup.WithContext(ctx)
	for _, s := range subs {
		group.Go(func() error {
			return c.receive(gctx, s, func(m *nats.Msg) {
				one.Lock()
				defer one.Unlock()
				handle(m)
			})
		})
	}
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// receive passes the messages of a subscription to handle, and ends it with ctx.
func (c *Conn) receive(ctx context.Context, s *nats.Subscription, handle func(*nats.Msg)) error {
	for {
		m, err := s.NextMsgWithContext(ctx)
		switch {
		case err == nil:
			handle(m)
		case errors.Is(err, nats.ErrSlowConsumer): // messages were lost; the error handler has told
		default:
			return errors.Join(fmt.Errorf("listening to %s: %w", s.Subject, problem(err)), c.unsubscribe(s))
		}
	}
}

// receiveAlways is receive until the connection ends.
func (c *Conn) receiveAlways(s *nats.Subscription, handle func(*nats.Msg)) {
	if err := c.receive(c.ctx, s, handle); c.ctx.Err() == nil {
		c.opts.Log(err.Error())
	}
}

// unsubscribe ends a subscription that may have ended by itself.
func (c *Conn) unsubscribe(s *nats.Subscription) error {
	err := s.Unsubscribe()
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription) {
		return nil
	}
	return problem(err)
}

// flush waits until the server has received everything that was sent.
func (c *Conn) flush(ctx context.Context) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	return problem(c.nc.FlushWithContext(ctx))
}
