// Package mem implements the transport of package wire in memory, with fault injection.
//
// A System corresponds to NATS for wire/jet: it outlives its connections, stores durable data, and can be
// restarted, disconnected and made to lose its newest messages. It starts no goroutines except those of
// Caller.Serve and uses no clock but time.Now and timers, so that it runs under testing/synctest in virtual time.
// Nothing is written to disk.
package mem

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// Options are the options of a system. The zero value is a system without faults.
type Options struct {
	// AckWait is the time after which an unacknowledged message is redelivered, and after which the permits of a
	// lost connection count as abandoned; 0 means 5 s.
	AckWait time.Duration
	// Fault, if not nil, is called before each operation and returns its fault. It must not block, nor use the
	// system.
	Fault func(Op) Fault
}

// Op is an operation that may fail.
type Op struct {
	// Actor is the name with which the connection was made.
	Actor string
	// Name is the method of package wire ("PublishTask", "Claim", "Permit.Release"); "Answer" is the answer to a call,
	// and "Deliver" the delivery of one message to a fetch.
	Name string
	// Subject is the subject of package wire, the limit, or the hash that the operation concerns.
	Subject string
}

// Fault is the fault of one operation. The zero value is none.
type Fault struct {
	// Before is returned without executing the operation: the request was lost.
	Before error
	// After is returned after executing the operation: the response was lost.
	After error
	// Twice executes it twice, like a redelivered message. It applies to publishing, delivering and calling.
	Twice bool
	// Delay delays the message, so that later ones overtake it. It applies to publishing.
	Delay time.Duration
}

// System is the shared part of all connections. It is safe for concurrent use.
type System struct {
	opts Options

	mu      sync.Mutex    // guards the fields below, and the state of connections
	changed chan struct{} // closed and replaced at every change that others may wait for
	born    int           // the number of times that the streams were created

	tasks, results stream
	claims         map[string]wire.Claim
	claimed        map[string]uint64 // by pool
	blobs          map[string][]byte
	names          map[string]string
	keys           map[string][]byte
	limits         map[string]*limit

	conns       map[*Conn]bool
	servers     []*serving
	turn        int
	takers      []*receiver
	parts       map[string]*parts // by subject
	subscribers []*subscriber
	workers     map[string]seen
}

// New returns an empty system.
func New(o Options) *System {
	if o.AckWait == 0 {
		o.AckWait = 5 * time.Second
	}
	return &System{
		opts: o, changed: make(chan struct{}), born: 1, claimed: map[string]uint64{},
		claims: map[string]wire.Claim{}, blobs: map[string][]byte{}, names: map[string]string{},
		keys: map[string][]byte{}, parts: map[string]*parts{},
		limits: map[string]*limit{}, conns: map[*Conn]bool{}, workers: map[string]seen{},
	}
}

// Conn is one connection. Its process is one actor in a test.
type Conn struct {
	s     *System
	actor string
	done  chan struct{} // closed by Close
	permitUses

	// Guarded by s.mu.
	closed    bool
	since     time.Time // when the connection was made or healed
	cutAt     time.Time // zero if it is connected
	abandoned wire.AbandonedFunc
	asked     time.Time // when workers were asked to announce themselves, zero if they were not
}

var _ wire.Transport = (*Conn)(nil)

// Connect creates a connection for an actor.
func (s *System) Connect(actor string) *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Conn{s: s, actor: actor, done: make(chan struct{}), since: time.Now()}
	s.conns[c] = true
	return c
}

// Close implements wire.Transport. To the others it looks like a crash of the process.
func (c *Conn) Close() error {
	s := c.s
	s.mu.Lock()
	if c.closed {
		s.mu.Unlock()
		return nil
	}
	c.closed, c.cutAt = true, time.Now()
	delete(s.conns, c)
	close(c.done)
	s.change()
	s.mu.Unlock()
	return nil
}

// Cut disconnects the connection: every operation fails with wire.ErrDisconnected, until Heal.
func (c *Conn) Cut() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.cutAt.IsZero() {
		c.cutAt = time.Now()
		c.s.change()
	}
}

// Heal ends a Cut.
func (c *Conn) Heal() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !c.closed && !c.cutAt.IsZero() {
		c.cutAt, c.since = time.Time{}, time.Now()
		c.s.change()
	}
}

// Connected implements wire.Presence.
func (c *Conn) Connected() time.Duration {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !c.cutAt.IsZero() {
		return 0
	}
	return max(time.Since(c.since), 1)
}

// Restart simulates a crash of the server: unacknowledged messages are redelivered immediately, because the server
// has forgotten their deliveries.
func (s *System) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range []*stream{&s.tasks, &s.results} {
		for _, m := range q.messages {
			m.hidden = time.Time{}
		}
	}
	now := time.Now()
	for c := range s.conns {
		if c.cutAt.IsZero() {
			c.since = now
		}
	}
	s.workers = map[string]seen{}
	s.change()
}

// LoseTail simulates a loss of acknowledged data: the newest n tasks and n results are lost, and their sequences
// are assigned again.
func (s *System) LoseTail(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks.loseTail(n)
	s.results.loseTail(n)
	s.change()
}

// Recreate simulates a loss of all durable data: the streams exist, but are empty and new.
func (s *System) Recreate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.born++
	s.tasks, s.results, s.claimed = stream{}, stream{}, map[string]uint64{}
	s.claims, s.blobs, s.names, s.keys = map[string]wire.Claim{}, map[string][]byte{}, map[string]string{},
		map[string][]byte{}
	s.limits = map[string]*limit{}
	s.change()
}

// change wakes all waiting callers. s.mu is held.
func (s *System) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// do executes an operation of the connection under the lock, with its fault.
func (c *Conn) do(ctx context.Context, name, subject string, act func(f Fault) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f := c.fault(name, subject)
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !c.cutAt.IsZero() {
		return fmt.Errorf("%s %s: %w", name, subject, wire.ErrDisconnected)
	}
	if f.Before != nil {
		return f.Before
	}
	if err := act(f); err != nil {
		return err
	}
	return f.After
}

func (c *Conn) fault(name, subject string) Fault {
	if c.s.opts.Fault == nil {
		return Fault{}
	}
	return c.s.opts.Fault(Op{Actor: c.actor, Name: name, Subject: subject})
}

// wait calls try, under the lock, until it is done: immediately, after each change, and at the time that it
// returned (zero: only after changes).
func (c *Conn) wait(ctx context.Context, try func(now time.Time) (done bool, next time.Time, err error)) error {
	s := c.s
	for {
		s.mu.Lock()
		now := time.Now()
		done, next, err := try(now)
		changed := s.changed
		s.mu.Unlock()
		if done || err != nil {
			return err
		}
		var timer *time.Timer
		var due <-chan time.Time
		if !next.IsZero() {
			timer = time.NewTimer(max(next.Sub(now), 0))
			due = timer.C
		}
		select {
		case <-changed:
		case <-due:
		case <-ctx.Done():
			err = ctx.Err()
		case <-c.done:
			err = wire.ErrDisconnected
		}
		if timer != nil {
			timer.Stop()
		}
		if err != nil {
			return err
		}
	}
}

// sooner returns the earlier of two times, ignoring zero times.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
