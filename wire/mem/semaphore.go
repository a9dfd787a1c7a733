package mem

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// limit is a queue of requests. The first ones, up to the number of slots, are held.
type limit struct {
	slots    int
	requests []*request
}

// request stays in its limit's queue until it is withdrawn, released, or freed as abandoned.
type request struct {
	wire.PermitRequest
	held    bool
	holder  *Conn     // the last requester
	decided time.Time // when it was last considered as abandoned
}

func (l *limit) held() int {
	n := 0
	for _, q := range l.requests {
		if q.held {
			n++
		}
	}
	return n
}

// admit makes requests held from the front while there are free slots. It does not consider whether the holder is
// alive, which the NATS server does not know either.
func (l *limit) admit() (changed bool) {
	free := l.slots - l.held()
	for _, q := range l.requests {
		if free <= 0 {
			break
		}
		if !q.held {
			q.held, changed = true, true
			free--
		}
	}
	return changed
}

func (l *limit) find(r wire.PermitRequest) *request {
	for _, q := range l.requests {
		if q.ID == r.ID && q.Coordinator == r.Coordinator {
			return q
		}
	}
	return nil
}

func (l *limit) remove(q *request) {
	l.requests = slices.DeleteFunc(l.requests, func(o *request) bool { return o == q })
}

func (s *System) limit(name string) (*limit, error) {
	l := s.limits[name]
	if l == nil {
		return nil, fmt.Errorf("limit %q: %w", name, wire.ErrNotFound)
	}
	return l, nil
}

// DeclareLimit implements wire.Semaphore.
func (c *Conn) DeclareLimit(ctx context.Context, l wire.Limit) (wire.Limit, error) {
	if err := l.Check(); err != nil {
		return wire.Limit{}, err
	}
	err := c.do(ctx, "DeclareLimit", l.Name, func(Fault) error {
		if there := c.s.limits[l.Name]; there != nil {
			l.Slots = there.slots
			return nil
		}
		c.s.limits[l.Name] = &limit{slots: l.Slots}
		return nil
	})
	return l, err
}

// ResizeLimit implements wire.Semaphore.
func (c *Conn) ResizeLimit(ctx context.Context, l wire.Limit) error {
	if err := l.Check(); err != nil {
		return err
	}
	return c.do(ctx, "ResizeLimit", l.Name, func(Fault) error {
		there, err := c.s.limit(l.Name)
		if err != nil {
			return err
		}
		there.slots = l.Slots
		c.s.change()
		return nil
	})
}

// OnAbandoned implements wire.Semaphore.
func (c *Conn) OnAbandoned(fn wire.AbandonedFunc) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.abandoned = fn
}

// Acquire implements wire.Semaphore. A permit that is already held, by a process that is gone, is returned
// immediately.
func (c *Conn) Acquire(ctx context.Context, name string, r wire.PermitRequest) (wire.Permit, error) {
	var q *request
	err := c.do(ctx, "Acquire", name, func(Fault) error {
		l, err := c.s.limit(name)
		if err != nil {
			return err
		}
		q = l.enter(r)
		if q.holder != nil && q.holder != c && !q.holder.lapsed(time.Now(), 0) || q.holder == c {
			q = nil
			return fmt.Errorf("request %s for limit %q is under way already", r.ID, name)
		}
		q.holder = c
		c.s.change()
		return nil
	})
	if err == nil {
		err = c.await(ctx, name, &q)
	}
	if err != nil {
		if q != nil {
			c.withdraw(name, q, ctx.Err() == nil || errors.Is(context.Cause(ctx), wire.ErrLeft))
		}
		return nil, fmt.Errorf("waiting for a permit of limit %q: %w", name, err)
	}
	return &permit{c: c, limit: name, q: q}, nil
}

func (l *limit) enter(r wire.PermitRequest) *request {
	q := l.find(r)
	if q == nil {
		q = &request{PermitRequest: r}
		l.requests = append(l.requests, q)
	}
	return q
}

// await waits until the request is held. Meanwhile it handles abandoned permits that block it.
func (c *Conn) await(ctx context.Context, name string, at **request) error {
	for {
		var lost *request
		err := c.wait(ctx, func(now time.Time) (bool, time.Time, error) {
			if !c.cutAt.IsZero() {
				return false, time.Time{}, nil
			}
			l, err := c.s.limit(name)
			if err != nil {
				return false, time.Time{}, err
			}
			if l.find((*at).PermitRequest) != *at { // freed as abandoned while this connection was cut off
				*at = l.enter((*at).PermitRequest)
				(*at).holder = c
			}
			if l.admit() {
				c.s.change()
			}
			if (*at).held {
				return true, time.Time{}, nil
			}
			var next time.Time
			lost, next = c.findAbandoned(l, now)
			return lost != nil, next, nil
		})
		if err != nil || lost == nil {
			return err
		}
		c.decide(ctx, name, lost)
	}
}

// findAbandoned returns a held request whose holder is gone, or when there may be one.
func (c *Conn) findAbandoned(l *limit, now time.Time) (*request, time.Time) {
	var next time.Time
	if c.abandoned == nil {
		return nil, next
	}
	wait := c.s.opts.AckWait
	for _, q := range l.requests {
		if !q.held || q.holder != nil && q.holder.cutAt.IsZero() {
			continue
		}
		due := q.decided
		if q.holder != nil {
			due = q.holder.cutAt
		}
		if q.decided.After(due) {
			due = q.decided
		}
		if due = due.Add(wait); due.After(now) {
			next = sooner(next, due)
			continue
		}
		q.decided = now
		return q, next
	}
	return nil, next
}

func (c *Conn) decide(ctx context.Context, name string, q *request) {
	s := c.s
	ctx, cancel := context.WithTimeout(ctx, s.opts.AckWait*3/4)
	defer cancel()
	free := c.abandoned(ctx, name, q.PermitRequest)
	s.mu.Lock()
	defer s.mu.Unlock()
	if free && c.cutAt.IsZero() && (q.holder == nil || q.holder.lapsed(time.Now(), s.opts.AckWait)) {
		if l := s.limits[name]; l != nil {
			l.remove(q)
		}
		s.change()
	}
}

// lapsed reports whether the connection has been gone for longer than wait. s.mu is held.
func (c *Conn) lapsed(now time.Time, wait time.Duration) bool {
	return c.closed && wait == 0 || !c.cutAt.IsZero() && now.Sub(c.cutAt) >= wait
}

// withdraw withdraws a request, unless the connection is gone, or the request is left to another process.
func (c *Conn) withdraw(name string, q *request, left bool) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if left {
		if q.holder == c {
			q.holder = nil
		}
		return
	}
	if l := s.limits[name]; l != nil && c.cutAt.IsZero() {
		l.remove(q)
		s.change()
	}
}

// Contended implements wire.Semaphore.
func (c *Conn) Contended(ctx context.Context, name, run string) (contended bool, err error) {
	err = c.do(ctx, "Contended", name, func(Fault) error {
		l, err := c.s.limit(name)
		if err != nil {
			return err
		}
		for _, q := range l.requests {
			if !q.held && q.Run != run {
				contended = true
			}
		}
		return nil
	})
	return contended, err
}

// permitUses has the functions that say what the permits of a connection are held for.
type permitUses struct {
	useMu sync.Mutex // guards uses
	uses  map[*func() []wire.PermitUse]bool
}

// OnPermitUses implements wire.PermitTeller.
func (u *permitUses) OnPermitUses(fn func() []wire.PermitUse) (remove func()) {
	u.useMu.Lock()
	defer u.useMu.Unlock()
	if u.uses == nil {
		u.uses = map[*func() []wire.PermitUse]bool{}
	}
	entry := &fn
	u.uses[entry] = true
	return func() {
		u.useMu.Lock()
		defer u.useMu.Unlock()
		delete(u.uses, entry)
	}
}

func (u *permitUses) all() (list []wire.PermitUse) {
	u.useMu.Lock()
	fns := slices.Collect(maps.Keys(u.uses))
	u.useMu.Unlock()
	for _, fn := range fns {
		list = append(list, (*fn)()...)
	}
	return list
}

// tellUses asks all connections what their permits are held for.
func (s *System) tellUses(list []wire.LimitStatus) {
	s.mu.Lock()
	var conns []*Conn
	for c := range s.conns {
		if !c.closed && c.cutAt.IsZero() {
			conns = append(conns, c)
		}
	}
	s.mu.Unlock()
	for _, c := range conns {
		for _, u := range c.all() {
			for i := range list {
				if list[i].Name != u.Limit || !slices.ContainsFunc(list[i].Held, func(r wire.PermitRequest) bool {
					return r.ID == u.ID
				}) {
					continue
				}
				if list[i].Uses == nil {
					list[i].Uses = map[string]wire.PermitUse{}
				}
				list[i].Uses[u.ID] = u
			}
		}
	}
}

// Limits implements wire.Semaphore.
func (c *Conn) Limits(ctx context.Context) (list []wire.LimitStatus, err error) {
	defer func() { c.s.tellUses(list) }()
	err = c.do(ctx, "Limits", "", func(Fault) error {
		for name, l := range c.s.limits {
			status := wire.LimitStatus{Limit: wire.Limit{Name: name, Slots: l.slots}}
			for _, q := range l.requests {
				if q.held {
					status.Held = append(status.Held, q.PermitRequest)
				} else {
					status.Waiting = append(status.Waiting, q.PermitRequest)
				}
			}
			list = append(list, status)
		}
		slices.SortFunc(list, func(a, b wire.LimitStatus) int { return strings.Compare(a.Name, b.Name) })
		return nil
	})
	return list, err
}

type permit struct {
	c     *Conn
	limit string
	q     *request
}

func (p *permit) Limit() string               { return p.limit }
func (p *permit) Request() wire.PermitRequest { return p.q.PermitRequest }

// Confirm implements wire.Permit.
func (p *permit) Confirm(ctx context.Context) error {
	c := p.c
	c.s.mu.Lock()
	if !c.cutAt.IsZero() && !c.closed && time.Since(c.cutAt) < c.s.opts.AckWait {
		c.s.mu.Unlock()
		return nil
	}
	c.s.mu.Unlock()
	return c.do(ctx, "Permit.Confirm", p.limit, func(Fault) error {
		l, err := c.s.limit(p.limit)
		if err != nil || l.find(p.q.PermitRequest) != p.q || p.q.holder != c {
			return fmt.Errorf("confirming a permit of limit %q: %w", p.limit, wire.ErrPermitLost)
		}
		return nil
	})
}

// Release implements wire.Permit.
func (p *permit) Release(ctx context.Context) error {
	return p.c.do(ctx, "Permit.Release", p.limit, func(Fault) error {
		if l := p.c.s.limits[p.limit]; l != nil && p.q.holder == p.c {
			l.remove(p.q)
		}
		p.c.s.change()
		return nil
	})
}

// Leave implements wire.Permit.
func (p *permit) Leave() {
	s := p.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.q.holder == p.c {
		p.q.holder, p.q.decided = nil, time.Now() // others may decide about it only after an ack wait
		s.change()
	}
}
