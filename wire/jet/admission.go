package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

// admission is a delivery of an admission message, of any coordinator.
type admission struct {
	wire.PermitOffer
	since time.Time // it is trusted from here on
}

func (a admission) subject() string { return wire.AdmitSubject(a.Limit, a.Request) }

// pull starts the limit's puller while requests wait. l.mu is held.
func (l *limitUse) pull() {
	if !l.pulling {
		l.pulling = true
		l.s.c.begin(l.pullAdmissions)
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

const (
	// pullBatch is the most admissions that one pull fetches.
	pullBatch = 64
	// pullRetry is the pause after a pull that failed.
	pullRetry = 100 * time.Millisecond
)

// pullAdmissions takes admissions while requests wait, until the connection ends.
func (l *limitUse) pullAdmissions() {
	c := l.s.c
	for {
		l.mu.Lock()
		n := min(l.waiting, pullBatch)
		l.mu.Unlock()
		if n == 0 {
			select {
			case <-l.wake:
				continue
			case <-c.ctx.Done():
				return
			}
		}
		err := l.pullOnce(n)
		if c.ctx.Err() != nil {
			return
		}
		if err == nil {
			continue
		}
		if gone(err) || errors.Is(err, nats.ErrNoResponders) {
			c.topology.slot(admitStream, limitPrefix+wire.Token(l.name)).forget()
		}
		if !temporary(err) && !errors.Is(err, wire.ErrNotFound) { // those who wait find a missing limit themselves
			c.opts.Log(fmt.Sprintf("pulling permits of limit %q: %v", l.name, err))
		}
		if sleep.For(c.ctx, pullRetry) != nil {
			return
		}
	}
}

// pullOnce fetches up to n admissions and handles them. A pull lasts for half the ack wait, so that its deliveries are
// still trusted.
func (l *limitUse) pullOnce(n int) error {
	c := l.s.c
	consumer, err := c.semaphore.limitOf(c.ctx, l.name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ctx, l.s.wait/2)
	defer cancel()
	asked := time.Now()
	batch, err := consumer.Fetch(n, jetstream.FetchContext(ctx))
	if err != nil {
		return problem(err)
	}
	for m := range batch.Messages() {
		a, err := readAdmission(m, asked)
		if err != nil {
			c.opts.Log("an admission cannot be read: " + err.Error())
			continue
		}
		l.s.arrived(a)
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return problem(err)
	}
	return nil
}

func readAdmission(m jetstream.Msg, asked time.Time) (admission, error) {
	limit, coordinator, id, err := wire.ParseAdmit(m.Subject())
	if err != nil {
		return admission{}, err
	}
	r, err := wire.DecodePermitRequest(m.Data())
	if err != nil {
		return admission{}, err
	}
	if r.Coordinator != coordinator || r.ID != id {
		return admission{}, fmt.Errorf("the message on %s is of request %s of coordinator %s", m.Subject(),
			r.ID, r.Coordinator)
	}
	return admission{PermitOffer: wire.PermitOffer{Limit: limit, Request: r, Ack: m.Reply()}, since: asked}, nil
}

// arrived handles an admission that was delivered to this connection.
func (s *semaphore) arrived(a admission) {
	now := time.Now()
	if elapsed(a.since, now) >= s.trustWindow() {
		return // it may be somebody else's by now; it comes again
	}
	s.mu.Lock()
	ours := s.owner == a.Request.Coordinator
	s.mu.Unlock()
	l := s.limit(a.Limit)
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.requests[a.subject()]; q != nil {
		l.matched(q, a)
		return
	}
	if l.deciding[a.subject()] {
		return // it came again while somebody thinks about it
	}
	l.deciding[a.subject()] = true
	if ours {
		l.left[a.subject()] = leftover{ack: a.Ack, since: a.since}
	}
	s.c.begin(func() {
		l.resolve(a, ours)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.deciding, a.subject())
	})
}

// matched gives an admission to its request. l.mu is held.
func (l *limitUse) matched(q *request, a admission) {
	switch q.status {
	case waiting, held:
		l.granted(q, a.Ack, a.since)
	case ending:
		q.ack = a.Ack
		l.s.c.begin(func() {
			ctx, cancel := context.WithTimeout(l.s.c.ctx, l.s.c.opts.Timeout)
			defer cancel()
			if err := l.free(ctx, q); err != nil {
				l.s.c.opts.Log(fmt.Sprintf("freeing a slot of limit %q: %v", l.name, err))
			}
		})
	}
}

// resolve finds the owner of an admission of another coordinator, or of an earlier process of this one. Without an
// owner it stays unacknowledged and keeps its slot: the server delivers it again after the ack wait.
func (l *limitUse) resolve(a admission, ours bool) {
	c := l.s.c
	if !ours {
		answer := l.offer(a)
		if !errors.Is(answer, nats.ErrNoResponders) {
			return // given to its owner, or perhaps given
		}
	}
	if l.s.abandoned == nil {
		return
	}
	deadline := a.since.Add(l.s.trustWindow())
	ctx, cancel := context.WithDeadline(c.ctx, deadline.Add(-l.s.wait/8))
	defer cancel()
	if !l.s.abandoned(ctx, a.Limit, a.Request) {
		return
	}
	l.mu.Lock()
	_, still := l.left[a.subject()]
	if l.requests[a.subject()] != nil || ours && !still || elapsed(a.since, time.Now()) >= l.s.trustWindow() {
		l.mu.Unlock()
		return // it is wanted after all, or the decision took too long and the next one has it
	}
	delete(l.left, a.subject())
	l.mu.Unlock()
	ctx, cancel = context.WithDeadline(c.ctx, deadline)
	defer cancel()
	if _, err := c.nc.RequestWithContext(ctx, a.Ack, []byte("+ACK")); err != nil && c.ctx.Err() == nil {
		c.opts.Log(fmt.Sprintf("freeing the permit of request %s of limit %q: %v", a.Request.ID, a.Limit, problem(err)))
	}
}

// An offer takes three messages, so that two coordinators never decide about one admission at the same time: the offer;
// "take", from the owner; "given", unless the offer has expired. If one of the first two is lost, the admission is
// offered again later. If the third is lost, nobody decides until the server delivers the admission again.
const (
	offerTake  = "take"
	offerGiven = "given"
)

// offer offers an admission to its owner. It returns nats.ErrNoResponders if there certainly is none.
func (l *limitUse) offer(a admission) error {
	c := l.s.c
	good := a.since.Add(l.s.wait / 2)
	ctx, cancel := context.WithDeadline(c.ctx, good)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, wire.PermitSubject(a.Request.Coordinator),
		wire.EncodePermitOffer(a.PermitOffer))
	if err != nil {
		return err
	}
	if string(m.Data) != offerTake || elapsed(a.since, time.Now()) >= l.s.wait/2 {
		return context.DeadlineExceeded
	}
	return c.nc.Publish(m.Reply, []byte(offerGiven))
}

// offered accepts an admission of this coordinator that was delivered to another one. It runs on the goroutine of the
// subscription, so the rest is done on another goroutine.
func (s *semaphore) offered(m *nats.Msg) {
	if len(m.Data) == 0 { // somebody asks whether this coordinator is there, and what for it holds permits
		if err := m.Respond(wire.EncodePermitUses(s.uses.all())); err != nil {
			s.c.opts.Log("answering who holds permits: " + problem(err).Error())
		}
		return
	}
	o, err := wire.DecodePermitOffer(m.Data)
	if err != nil {
		s.c.opts.Log("an offer cannot be read: " + err.Error())
		return
	}
	s.c.begin(func() {
		asked := time.Now()
		ctx, cancel := context.WithDeadline(s.c.ctx, asked.Add(s.wait/2))
		defer cancel()
		answer, err := s.c.nc.RequestWithContext(ctx, m.Reply, []byte(offerTake))
		if err != nil || string(answer.Data) != offerGiven {
			return // too late: the other one has given up, and the message comes again
		}
		// The other coordinator sent it within half the ack wait after its delivery, so half the ack wait is left, counted
		// from asked.
		s.arrived(admission{PermitOffer: o, since: asked.Add(-s.wait / 2)})
	})
}
