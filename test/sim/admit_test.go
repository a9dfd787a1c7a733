package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// trusted is how long a connection relies on the delivery of an admission.
const trusted = permitWait - permitWait/8

// limit is a queue of admissions. At most slots of them are delivered and not acknowledged at a time.
type limit struct {
	n     *nats
	name  string
	slots int
	list  []*admission
	turn  int
	next  time.Time // when hand will be called; zero if no call is scheduled
}

// admission is the message that requests a permit. While it is delivered and not acknowledged it occupies a slot,
// whatever happens to its receiver; after a while it is delivered again.
type admission struct {
	wire.PermitRequest
	subject   string
	delivered bool
	to        *conn
	expires   time.Time // when the delivery ends, if its receiver does not extend it
}

// semaphore is a connection's record of its permits.
type semaphore struct {
	requests map[string]*request
	left     map[string]time.Time // when admissions of this coordinator arrived that belong to none of its requests
	deciding map[string]bool
}

func (s *semaphore) init() {
	s.requests, s.left, s.deciding = map[string]*request{}, map[string]time.Time{}, map[string]bool{}
}

type status byte

const (
	waiting status = iota
	held
	lapsed // it was held, but was not extended in time
	ending
	lost
)

// request is one request of a connection, from Acquire until its slot is free.
type request struct {
	wire.PermitRequest
	limit   string
	subject string
	status  status
	o       *op // the call that waits for it
}

func (n *nats) limit(name string) (*limit, error) {
	l := n.limits[name]
	if l == nil {
		return nil, fmt.Errorf("limit %q: %w", name, wire.ErrNotFound)
	}
	return l, nil
}

func (l *limit) find(subject string) *admission {
	for _, a := range l.list {
		if a.subject == subject {
			return a
		}
	}
	return nil
}

func (l *limit) free(subject string) {
	l.list = slices.DeleteFunc(l.list, func(a *admission) bool { return a.subject == subject })
	l.hand()
}

// extends reports whether the receiver of an admission still extends its delivery. If not, it returns the time from
// which the admission counts as undelivered.
func (a *admission) extends() (bool, time.Time) {
	if a.to == nil {
		return false, a.expires
	}
	q := a.to.sem.requests[a.subject]
	if q == nil || q.status != held && q.status != ending {
		return false, a.expires
	}
	if a.to.isUp() {
		return true, time.Time{}
	}
	return false, a.to.downAt.Add(permitWait - permitWait/8)
}

// hand delivers admissions to waiting connections, not necessarily to those that have published them.
func (l *limit) hand() {
	w := l.n.w
	now := time.Now()
	var pullers []*conn
	for _, c := range l.n.conns {
		if c.isUp() && c.sem.pulls(l.name) {
			pullers = append(pullers, c)
		}
	}
	if len(pullers) == 0 {
		return
	}
	taken := 0
	for _, a := range l.list {
		if a.delivered {
			taken++
		}
	}
	for _, a := range l.list {
		if a.delivered {
			keeps, until := a.extends()
			if keeps {
				continue
			}
			if until.After(now) {
				l.handAt(until)
				continue
			}
		} else if taken >= l.slots {
			continue
		} else {
			taken++
		}
		l.turn++
		c := pullers[l.turn%len(pullers)]
		a.delivered, a.to, a.expires = true, c, now.Add(permitWait)
		l.handAt(a.expires)
		w.after(w.latency(), func() { c.arrived(l, a, now) })
	}
}

// handAt schedules a call of hand right after the given time.
func (l *limit) handAt(at time.Time) {
	if !l.next.IsZero() && !at.Before(l.next) {
		return
	}
	l.next = at
	l.n.w.after(time.Until(at)+time.Microsecond, func() {
		if l.next.Equal(at) {
			l.next = time.Time{}
		}
		l.hand()
	})
}

func (s *semaphore) pulls(limit string) bool {
	for _, q := range s.requests {
		if q.limit == limit && q.status == waiting {
			return true
		}
	}
	return false
}

// arrived handles an admission that was delivered to this connection.
func (c *conn) arrived(l *limit, a *admission, since time.Time) {
	if c.p.dead || !c.isUp() || a.to != c || l.find(a.subject) != a || time.Since(since) >= trusted {
		return
	}
	if q := c.sem.requests[a.subject]; q != nil {
		switch q.status {
		case waiting, lapsed:
			c.granted(q)
		case ending:
			l.free(a.subject)
		}
		return
	}
	if c.sem.deciding[a.subject] {
		return
	}
	ours := c.coordinator == a.Coordinator
	if ours {
		c.sem.left[a.subject] = since
	} else if l.offer(c, a) {
		return
	}
	if c.abandoned == nil {
		return
	}
	c.sem.deciding[a.subject] = true
	c.n.w.note("%s decides about %s", c.p.name, a.subject)
	go c.decide(l, a, since, ours)
}

// offer delivers an admission to a connection of the coordinator that has published it, if there is one.
func (l *limit) offer(from *conn, a *admission) bool {
	for _, c := range l.n.conns {
		if c != from && c.isUp() && c.coordinator == a.Coordinator && !c.p.dead {
			since := time.Now()
			a.to, a.expires = c, since.Add(permitWait/2)
			l.n.w.after(l.n.w.latency(), func() { c.arrived(l, a, since.Add(-permitWait/2)) })
			return true
		}
	}
	return false
}

// decide asks the product whether to free a permit whose owner does not respond.
func (c *conn) decide(l *limit, a *admission, since time.Time, ours bool) {
	ctx, cancel := context.WithDeadline(context.Background(), since.Add(trusted-permitWait/8))
	defer cancel()
	free := c.abandoned(ctx, l.name, a.PermitRequest)
	_ = c.p.do(context.Background(), local, "decided", a.subject, func(o *op) {
		o.reply(nil)
		delete(c.sem.deciding, a.subject)
		_, still := c.sem.left[a.subject]
		if !free || a.to != c || c.sem.requests[a.subject] != nil || ours && !still || time.Since(since) >= trusted {
			return
		}
		delete(c.sem.left, a.subject)
		c.n.w.after(c.n.w.latency(), func() {
			if c.isUp() && a.to == c && l.find(a.subject) == a && time.Since(since) < permitWait {
				c.n.w.note("%s frees %s", c.p.name, a.subject)
				l.free(a.subject)
			}
		})
	})
}

func (c *conn) granted(q *request) {
	q.status = held
	if q.o != nil && q.o.stage == pending {
		q.o.reply(nil)
	}
}

// lapse marks the permits that were not extended in time, when the connection is restored.
func (s *semaphore) lapse(c *conn) {
	if time.Since(c.downAt) < trusted-permitWait/4 {
		return
	}
	for _, q := range s.requests {
		if q.status == held {
			q.status = lapsed
		}
	}
}

// OnAbandoned implements wire.Semaphore.
func (c *conn) OnAbandoned(fn wire.AbandonedFunc) { c.abandoned = fn }

// DeclareLimit implements wire.Semaphore.
func (c *conn) DeclareLimit(ctx context.Context, l wire.Limit) (wire.Limit, error) {
	err := c.request(ctx, "DeclareLimit", l.Name, func() error {
		if there := c.n.limits[l.Name]; there != nil {
			l.Slots = there.slots
			return nil
		}
		if c.p.w.options.without == guardPlace && isPlaces(l.Name) {
			l.Slots = unbounded
		}
		c.n.limits[l.Name] = &limit{n: c.n, name: l.Name, slots: l.Slots}
		c.n.order = append(c.n.order, l.Name)
		return nil
	})
	return l, err
}

// ResizeLimit implements wire.Semaphore.
func (c *conn) ResizeLimit(ctx context.Context, l wire.Limit) error {
	return c.request(ctx, "ResizeLimit", l.Name, func() error {
		there, err := c.n.limit(l.Name)
		if err == nil {
			if c.p.w.options.without == guardPlace && isPlaces(l.Name) {
				l.Slots = unbounded
			}
			there.slots = l.Slots
			there.hand()
		}
		return err
	})
}

// Contended implements wire.Semaphore.
func (c *conn) Contended(ctx context.Context, name, run string) (yes bool, err error) {
	err = c.request(ctx, "Contended", name, func() error {
		l, err := c.n.limit(name)
		if err != nil {
			return err
		}
		for _, a := range l.list {
			yes = yes || !a.delivered && a.Run != run
		}
		return nil
	})
	return yes, err
}

// Limits implements wire.Semaphore.
func (c *conn) Limits(ctx context.Context) (list []wire.LimitStatus, err error) {
	err = c.request(ctx, "Limits", "", func() error {
		list = nil
		for _, name := range slices.Sorted(maps.Keys(c.n.limits)) {
			l := c.n.limits[name]
			status := wire.LimitStatus{Limit: wire.Limit{Name: name, Slots: l.slots}}
			for _, a := range l.list {
				if a.delivered {
					status.Held = append(status.Held, a.PermitRequest)
				} else {
					status.Waiting = append(status.Waiting, a.PermitRequest)
				}
			}
			list = append(list, status)
		}
		return nil
	})
	return list, err
}

// Acquire implements wire.Semaphore.
func (c *conn) Acquire(ctx context.Context, name string, r wire.PermitRequest) (wire.Permit, error) {
	q := &request{PermitRequest: r, limit: name, subject: wire.AdmitSubject(name, r)}
	err := c.p.do(ctx, network, "Acquire", q.subject, func(o *op) {
		if c.n.refuses(o) {
			return
		}
		if _, err := c.n.limit(name); err != nil {
			o.reply(err)
			return
		}
		if c.sem.requests[q.subject] != nil {
			o.reply(fmt.Errorf("request %s for limit %q is under way already", r.ID, name))
			return
		}
		q.o = o
		c.sem.requests[q.subject] = q
		if at, ok := c.sem.left[q.subject]; ok {
			delete(c.sem.left, q.subject)
			if l := c.n.limits[name]; time.Since(at) < trusted && l.find(q.subject) != nil &&
				l.find(q.subject).to == c {
				c.granted(q)
				return
			}
		}
		c.admit(q)
	})
	if err != nil {
		c.giveUp(q, ctx.Err() == nil || errors.Is(context.Cause(ctx), wire.ErrLeft))
		return nil, fmt.Errorf("waiting for a permit of limit %q: %w", name, err)
	}
	return &permit{c, q}, nil
}

// admit stores the admission, and checks repeatedly that it still exists: another coordinator may have freed it because
// it believed that this process is dead.
func (c *conn) admit(q *request) {
	if q.status != waiting || c.p.dead || q.o.over() {
		return
	}
	l := c.n.limits[q.limit]
	if c.isUp() {
		if l.find(q.subject) == nil {
			l.list = append(l.list, &admission{PermitRequest: q.PermitRequest, subject: q.subject})
		}
		l.hand()
	}
	c.n.w.after(permitWait, func() { c.admit(q) })
}

// giveUp withdraws a request after its caller has canceled it.
func (c *conn) giveUp(q *request, left bool) {
	w := c.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.sem.requests[q.subject] != q || c.p.dead {
		return
	}
	q.status = ending
	if left {
		delete(c.sem.requests, q.subject)
		return
	}
	// The loop draws how long that takes, because several requests may be canceled at one instant in any order.
	w.givenUp = append(w.givenUp, givenUp{c, q})
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// givenUp is a request that its caller has canceled.
type givenUp struct {
	c *conn
	q *request
}

// freeing frees a slot, and tries again until it succeeds.
func (c *conn) freeing(q *request) {
	switch {
	case c.p.dead || c.sem.requests[q.subject] != q:
	case !c.isUp():
		c.n.w.after(permitWait/4, func() { c.freeing(q) })
	default:
		delete(c.sem.requests, q.subject)
		c.n.limits[q.limit].free(q.subject)
	}
}

type permit struct {
	c *conn
	q *request
}

func (p *permit) Limit() string               { return p.q.limit }
func (p *permit) Request() wire.PermitRequest { return p.q.PermitRequest }

// Confirm implements wire.Permit.
func (p *permit) Confirm(ctx context.Context) error {
	w := p.c.p.w
	w.mu.Lock()
	if p.q.status == held && (p.c.isUp() || time.Since(p.c.downAt) < trusted-permitWait/4) {
		w.mu.Unlock()
		return nil
	}
	w.mu.Unlock()
	err := p.c.p.do(ctx, network, "Confirm", p.q.subject, p.regain)
	if err != nil {
		return fmt.Errorf("confirming a permit of limit %q: %w", p.q.limit, err)
	}
	return nil
}

// regain waits until the admission is delivered to this connection again, or is gone.
func (p *permit) regain(o *op) {
	c, q := p.c, p.q
	l := c.n.limits[q.limit]
	switch a := l.find(q.subject); {
	case o.over() || o.stage != pending:
	case q.status == held && c.isUp():
		o.reply(nil)
	case q.status == ending || q.status == lost:
		o.reply(wire.ErrPermitLost)
	case c.isUp() && a == nil:
		q.status = lost
		delete(c.sem.requests, q.subject)
		o.reply(wire.ErrPermitLost)
	default:
		if q.status == lapsed {
			q.status = waiting
		}
		q.o = o
		if c.isUp() {
			l.hand()
		}
		c.n.w.after(permitWait/2, func() { p.regain(o) })
	}
}

// Leave implements wire.Permit.
func (p *permit) Leave() {
	c, q := p.c, p.q
	c.p.w.mu.Lock()
	defer c.p.w.mu.Unlock()
	if c.sem.requests[q.subject] == q && q.status == held {
		now, l := time.Now(), c.n.limits[q.limit]
		c.sem.left[q.subject] = now
		if a := l.find(q.subject); a != nil && a.to == c {
			a.expires = now.Add(permitWait)
			l.handAt(a.expires)
		}
	}
	if q.status != ending {
		q.status = lost
		delete(c.sem.requests, q.subject)
	}
}

// Release implements wire.Permit.
func (p *permit) Release(ctx context.Context) error {
	w := p.c.p.w
	w.mu.Lock()
	if p.q.status != lost {
		p.q.status = ending
	}
	w.mu.Unlock()
	err := p.c.request(ctx, "Permit.Release", p.q.subject, func() error {
		if p.c.sem.requests[p.q.subject] == p.q {
			delete(p.c.sem.requests, p.q.subject)
		}
		p.c.n.limits[p.q.limit].free(p.q.subject)
		return nil
	})
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.after(permitWait/4, func() { p.c.freeing(p.q) })
	}
	return err
}
