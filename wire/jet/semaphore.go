package jet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

// semaphore has this connection's requests for permits of all limits. A connection acts for one coordinator, which all
// its requests must name, because a permit that was delivered elsewhere is offered to the coordinator by name.
//
// Admission messages are delivered to any coordinator that pulls. It offers messages of other coordinators to their
// owners; for a message whose owner is gone, it calls the AbandonedFunc. docs/adr has why this never frees a slot too
// early:
//   - A delivery is trusted for the ack wait, counted from the moment at which this process asked for it, so before the
//     server may hand the message to anybody else. After that it counts for nothing.
//   - An extension counts when it is confirmed while the delivery is trusted.
type semaphore struct {
	c         *Conn
	wait      time.Duration // the ack wait
	abandoned wire.AbandonedFunc
	boot      lazy[struct{}]
	uses      permitUses

	mu     sync.Mutex // guards the fields below
	limits map[string]*limitUse
	sizes  map[string]int // of the limits that this connection has declared
	owner  string         // the coordinator that this connection acts for; empty until it asks for a permit
}

func (s *semaphore) init(c *Conn) {
	s.c = c
	s.wait = c.opts.ackWait(permitAckWait)
	s.limits, s.sizes = map[string]*limitUse{}, map[string]int{}
}

// trustWindow is how long a delivery may be relied on: the ack wait, reduced by how much clocks may differ.
func (s *semaphore) trustWindow() time.Duration { return s.wait - s.wait/8 }

// limitUse has this connection's requests for permits of one limit.
type limitUse struct {
	s    *semaphore
	name string
	wake chan struct{} // buffers one event: somebody waits

	mu       sync.Mutex // guards the fields below
	requests map[string]*request
	left     map[string]leftover
	deciding map[string]bool
	waiting  int
	pulling  bool
	queued   int // requests of all coordinators that waited at queuedAt
	queuedAt time.Time
}

// request is one request of this connection, from Acquire until its slot is free. Its status:
//
//	waiting  the admission is in the stream, or on its way there
//	held     it was handed to this connection, which extends it
//	ending   it was withdrawn or released; the slot is not known to be free yet
//	lost     another coordinator freed it
type request struct {
	wire.PermitRequest
	subject string
	status  status
	grant   chan struct{} // closed when the request becomes held; a new one when it waits again
	ack     string        // where the admission is extended and acknowledged
	since   time.Time     // the delivery, or its last extension, is trusted from here on
}

type status byte

const (
	waiting status = iota
	held
	ending
	lost
)

// leftover is an admission of this coordinator that an earlier process requested.
type leftover struct {
	ack   string
	since time.Time
}

// OnAbandoned implements wire.Semaphore.
func (s *semaphore) OnAbandoned(fn wire.AbandonedFunc) { s.abandoned = fn }

func (s *semaphore) limit(name string) *limitUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limits[name]
	if l == nil {
		l = &limitUse{s: s, name: name, wake: make(chan struct{}, 1),
			requests: map[string]*request{}, left: map[string]leftover{}, deciding: map[string]bool{}}
		s.limits[name] = l
	}
	return l
}

// start starts to listen for offers and to extend permits, once.
func (s *semaphore) start(ctx context.Context, coordinator string) error {
	s.mu.Lock()
	if s.owner == "" {
		s.owner = coordinator
	}
	owner := s.owner
	s.mu.Unlock()
	if owner != coordinator {
		return fmt.Errorf("this connection asks for permits of coordinator %s, and not of %s too", owner, coordinator)
	}
	_, err := s.boot.get(func() (struct{}, error) {
		offers, err := s.c.nc.SubscribeSync(wire.PermitSubject(coordinator))
		if err != nil {
			return struct{}{}, problem(err)
		}
		if err := s.c.flush(ctx); err != nil {
			return struct{}{}, errors.Join(err, s.c.unsubscribe(offers)) // the next attempt has one of its own
		}
		s.c.begin(func() { s.c.receiveAlways(offers, s.offered) })
		s.c.begin(s.extendAll)
		return struct{}{}, nil
	})
	return err
}

// Acquire implements wire.Semaphore.
func (s *semaphore) Acquire(ctx context.Context, limit string, r wire.PermitRequest) (wire.Permit, error) {
	if _, err := s.limitOf(ctx, limit); err != nil {
		return nil, err
	}
	if err := s.start(ctx, r.Coordinator); err != nil {
		return nil, fmt.Errorf("asking for a permit of limit %q: %w", limit, err)
	}
	l := s.limit(limit)
	q, err := l.enter(r, time.Now())
	if err != nil {
		return nil, err
	}
	p := &permit{l: l, q: q}
	if err := l.await(ctx, q); err != nil {
		l.withdraw(ctx, q)
		return nil, fmt.Errorf("waiting for a permit of limit %q: %w", limit, err)
	}
	return p, nil
}

// enter registers the request before its admission can arrive.
func (l *limitUse) enter(r wire.PermitRequest, now time.Time) (*request, error) {
	q := &request{PermitRequest: r, subject: wire.AdmitSubject(l.name, r), grant: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests[q.subject] != nil {
		return nil, fmt.Errorf("request %s for limit %q is under way already", r.ID, l.name)
	}
	l.requests[q.subject] = q
	l.waiting++
	l.pull()
	if old, ok := l.left[q.subject]; ok {
		delete(l.left, q.subject)
		if elapsed(old.since, now) < l.s.trustWindow() {
			l.granted(q, old.ack, old.since)
		}
	}
	return q, nil
}

// granted marks a request as held. l.mu is held.
func (l *limitUse) granted(q *request, ack string, since time.Time) {
	q.ack = ack
	if since.After(q.since) {
		q.since = since
	}
	if q.status == waiting {
		q.status = held
		l.waiting--
		close(q.grant)
	}
}

// await queues the admission and waits until it is delivered to this connection. It checks from time to time that the
// admission exists, because a coordinator that took this one for dead may have freed it; then it queues it again.
func (l *limitUse) await(ctx context.Context, q *request) error {
	for {
		if err := l.admit(ctx, q); err != nil {
			return err
		}
		if done, err := l.granting(ctx, q, l.s.wait); done || err != nil {
			return err
		}
		if err := l.s.checkConsumer(ctx, l.name); err != nil && ctx.Err() == nil && !temporary(err) {
			return err
		}
		if _, err := l.s.limitOf(ctx, l.name); errors.Is(err, wire.ErrNotFound) {
			return err
		}
	}
}

// granting waits for the grant, but no longer than limit.
func (l *limitUse) granting(ctx context.Context, q *request, limit time.Duration) (bool, error) {
	l.mu.Lock()
	grant := q.grant
	l.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-grant:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-l.s.c.ctx.Done():
		return false, wire.ErrDisconnected
	}
}

// admit stores the admission if it does not exist. It retries until ctx ends, because only the server knows.
func (l *limitUse) admit(ctx context.Context, q *request) error {
	c := l.s.c
	for {
		l.mu.Lock()
		is := q.status
		l.mu.Unlock()
		if is == held {
			return nil
		}
		err := l.s.publishOnce(ctx, q.subject, wire.EncodePermitRequest(q.PermitRequest))
		if err == nil || conflict(err) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if c.ctx.Err() != nil {
			return wire.ErrDisconnected
		}
		if !temporary(err) {
			return err
		}
		if sleep.For(ctx, 100*time.Millisecond) != nil {
			return ctx.Err()
		}
	}
}

// publishOnce stores a message unless its subject has one.
func (s *semaphore) publishOnce(ctx context.Context, subject string, data []byte) error {
	return s.c.store(ctx, &nats.Msg{Subject: subject, Data: data}, jetstream.WithExpectLastSequencePerSubject(0))
}

// withdrawIn is how long Acquire waits for the withdrawal of its request after ctx has ended.
const withdrawIn = time.Second

// withdraw withdraws a request whose caller no longer waits; a failed request is only forgotten here. If its slot
// cannot be freed now, extendAll keeps trying.
func (l *limitUse) withdraw(ctx context.Context, q *request) {
	l.mu.Lock()
	if q.status == waiting {
		l.waiting--
	}
	q.status = ending
	left := ctx.Err() == nil || errors.Is(context.Cause(ctx), wire.ErrLeft)
	if left && l.requests[q.subject] == q {
		delete(l.requests, q.subject)
	}
	l.mu.Unlock()
	if left {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawIn)
	defer cancel()
	if err := l.free(ctx, q); err != nil && l.s.c.ctx.Err() == nil {
		l.s.c.opts.Log(fmt.Sprintf("withdrawing the request for limit %q: %v", l.name, err))
	}
}

// free removes the admission, and with it the slot. The stream's leader confirms it. Repeating it has no effect.
func (l *limitUse) free(ctx context.Context, q *request) error {
	l.mu.Lock()
	ack := q.ack
	l.mu.Unlock()
	if err := l.s.freeAdmission(ctx, q.subject, ack); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests[q.subject] == q {
		delete(l.requests, q.subject)
	}
	return nil
}

// freeAdmission acknowledges the delivery, if there was one, or deletes the message: after a crash the server ignores
// acknowledgements of deliveries that it has forgotten.
func (s *semaphore) freeAdmission(ctx context.Context, subject, ack string) error {
	if ack != "" {
		ctx, cancel := context.WithTimeout(ctx, s.c.opts.Timeout/2)
		_, err := s.c.nc.RequestWithContext(ctx, ack, []byte("+ACK"))
		cancel()
		if err == nil {
			return nil
		}
		if errors.Is(problem(err), wire.ErrDisconnected) {
			return problem(err)
		}
	}
	m, err := s.c.lastMessage(ctx, admitStream, subject)
	if errors.Is(err, wire.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.deleteAdmission(ctx, m.Sequence)
}

func (s *semaphore) deleteAdmission(ctx context.Context, sequence uint64) error {
	admissions, err := s.c.topology.stream(ctx, admitStream)
	if err != nil {
		return err
	}
	if err := admissions.DeleteMsg(ctx, sequence); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) &&
		!errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return problem(err)
	}
	return nil
}

// waitingOf returns the number of waiting requests of a run. l.mu is held.
func (l *limitUse) waitingOf(run string) int {
	n := 0
	for _, q := range l.requests {
		if q.status == waiting && q.Run == run {
			n++
		}
	}
	return n
}
