package jet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// permit is a granted request.
type permit struct {
	l *limitUse
	q *request
}

func (p *permit) Limit() string               { return p.l.name }
func (p *permit) Request() wire.PermitRequest { return p.q.PermitRequest }

// Release implements wire.Permit.
func (p *permit) Release(ctx context.Context) error {
	l := p.l
	l.mu.Lock()
	was := p.q.status
	if was == waiting { // it lapsed, and somebody confirms it at the moment
		l.waiting--
	}
	p.q.status = ending
	l.mu.Unlock()
	ctx, cancel := l.s.c.bounded(ctx)
	defer cancel()
	if err := l.free(ctx, p.q); err != nil {
		return fmt.Errorf("releasing a permit of limit %q: %w", l.name, err)
	}
	return nil
}

// Leave implements wire.Permit. While the delivery is trusted, the same request gets the permit again at once; after
// that the server delivers the admission again.
func (p *permit) Leave() {
	l, q := p.l, p.q
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests[q.subject] != q || q.status != held && q.status != waiting {
		return // it is given back already
	}
	if q.status == held {
		l.left[q.subject] = leftover{ack: q.ack, since: q.since}
	} else { // it lapsed, and somebody confirms it at the moment
		l.waiting--
	}
	q.status = lost
	delete(l.requests, q.subject)
}

// Confirm implements wire.Permit. A permit that has lapsed, because it could not be extended for an ack wait, is waited
// for like a new one: when it is delivered again, no other connection uses it any more.
func (p *permit) Confirm(ctx context.Context) error {
	l := p.l
	for {
		l.mu.Lock()
		switch p.q.status {
		case held:
			if elapsed(p.q.since, time.Now()) < l.s.trustWindow() {
				l.mu.Unlock()
				return nil
			}
			p.q.status = waiting
			p.q.grant = make(chan struct{})
			l.waiting++
			l.pull()
		case ending, lost:
			l.mu.Unlock()
			return wire.ErrPermitLost
		case waiting: // another goroutine confirms it too
		}
		l.mu.Unlock()
		if err := p.awaitRedelivery(ctx); err != nil {
			return fmt.Errorf("confirming a permit of limit %q: %w", l.name, err)
		}
	}
}

// awaitRedelivery waits until the admission is delivered to this connection again, or is gone.
func (p *permit) awaitRedelivery(ctx context.Context) error {
	for {
		if done, err := p.l.granting(ctx, p.q, p.l.s.wait/2); done || err != nil {
			return err
		}
		_, err := p.l.s.c.lastMessage(ctx, admitStream, p.q.subject)
		if errors.Is(err, wire.ErrNotFound) {
			p.l.mu.Lock()
			defer p.l.mu.Unlock()
			if p.q.status == waiting {
				p.l.waiting--
				p.q.status = lost
			}
			delete(p.l.requests, p.q.subject)
			return wire.ErrPermitLost
		}
		if err != nil && !temporary(err) {
			return err
		}
	}
}

// extendAll extends the permits of this connection, and frees slots that could not be freed at once, until the
// connection ends.
func (s *semaphore) extendAll() {
	tick := time.NewTicker(s.wait / 4)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.c.ctx.Done():
			return
		}
		s.mu.Lock()
		limits := make([]*limitUse, 0, len(s.limits))
		for _, l := range s.limits {
			limits = append(limits, l)
		}
		s.mu.Unlock()
		for _, l := range limits {
			l.extend()
		}
	}
}

// extendAtOnce is how many extensions are under way at a time.
const extendAtOnce = 32

func (l *limitUse) extend() {
	now := time.Now()
	var alive, over []*request
	l.mu.Lock()
	for _, q := range l.requests {
		switch {
		case q.status == held && elapsed(q.since, now) < l.s.trustWindow():
			alive = append(alive, q)
		case q.status == ending:
			over = append(over, q)
		}
	}
	for subject, old := range l.left {
		if elapsed(old.since, now) >= l.s.trustWindow() {
			delete(l.left, subject)
		}
	}
	l.mu.Unlock()
	var group sync.WaitGroup
	slots := make(chan struct{}, extendAtOnce)
	for _, q := range alive {
		slots <- struct{}{}
		group.Go(func() { l.extendOne(q); <-slots })
	}
	group.Wait()
	for _, q := range over {
		ctx, cancel := context.WithTimeout(l.s.c.ctx, l.s.c.opts.Timeout)
		if err := l.free(ctx, q); err != nil && !temporary(err) && l.s.c.ctx.Err() == nil {
			l.s.c.opts.Log(fmt.Sprintf("freeing a slot of limit %q: %v", l.name, err))
		}
		cancel()
	}
}

// extendOne restarts the ack wait of one permit. An answer that arrives when the permit is no longer trusted is
// ignored: the server may have delivered the message to another connection meanwhile.
func (l *limitUse) extendOne(q *request) {
	l.mu.Lock()
	ack, since := q.ack, q.since
	l.mu.Unlock()
	asked := time.Now()
	ctx, cancel := context.WithDeadline(l.s.c.ctx, since.Add(l.s.trustWindow()))
	defer cancel()
	if _, err := l.s.c.nc.RequestWithContext(ctx, ack, []byte("+WPI")); err != nil {
		return // the next tick tries again; Confirm tells when it is too late
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.status == held && q.ack == ack && elapsed(since, time.Now()) < l.s.trustWindow() {
		q.since = asked
	}
}
