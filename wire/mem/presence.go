package mem

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// announceWait is how long the calls of Workers on a connection wait after it asked for announcements.
const announceWait = 50 * time.Millisecond

type seen struct {
	wire.Heartbeat
	at time.Time
}

// subscriber receives messages on the goroutine of the subscribing method.
type subscriber struct {
	c     *Conn
	match func(subject string) bool
	inbox []note
}

// note is a message that is not stored.
type note struct {
	subject string
	data    []byte
}

// send passes a message to all current subscribers of its subject. It is not stored for later ones.
func (c *Conn) send(ctx context.Context, name, subject string, data []byte) error {
	return c.do(ctx, name, subject, func(f Fault) error {
		for _, w := range c.s.subscribers {
			if !w.match(subject) || !w.c.cutAt.IsZero() {
				continue
			}
			w.inbox = append(w.inbox, note{subject, bytes.Clone(data)})
			if f.Twice {
				w.inbox = append(w.inbox, note{subject, bytes.Clone(data)})
			}
		}
		c.s.change()
		return nil
	})
}

// subscribe passes messages to fn, until ctx ends, which is not an error.
func (c *Conn) subscribe(ctx context.Context, match func(subject string) bool,
	fn func(subject string, data []byte)) error {
	s := c.s
	w := &subscriber{c: c, match: match}
	s.mu.Lock()
	s.subscribers = append(s.subscribers, w)
	s.change()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribers = slices.DeleteFunc(s.subscribers, func(o *subscriber) bool { return o == w })
	}()
	for {
		var batch []note
		err := c.wait(ctx, func(time.Time) (bool, time.Time, error) {
			batch, w.inbox = w.inbox, nil
			return len(batch) > 0, time.Time{}, nil
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, m := range batch {
			fn(m.subject, m.data)
		}
	}
}

// Beat implements wire.Presence.
func (c *Conn) Beat(ctx context.Context, h wire.Heartbeat) error {
	if len(h.Pools) == 0 {
		return fmt.Errorf("worker %s serves no pool", h.Worker)
	}
	f := c.fault("Beat", h.Worker)
	if f.Before != nil {
		return f.Before
	}
	for _, pool := range h.Pools {
		if err := c.beat(ctx, wire.HeartbeatSubject(pool, h.Worker), wire.EncodeHeartbeat(h.For(pool))); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) beat(ctx context.Context, subject string, data []byte) error {
	c.s.mu.Lock()
	if h, err := wire.ReadHeartbeat(subject, data); err == nil && c.cutAt.IsZero() {
		if h.Leaving {
			delete(c.s.workers, subject)
		} else {
			c.s.workers[subject] = seen{h, time.Now()}
		}
	}
	c.s.mu.Unlock()
	return c.send(ctx, "Beat.Send", subject, data)
}

// Workers implements wire.Presence.
func (c *Conn) Workers(ctx context.Context) ([]wire.Worker, error) {
	if err := c.announce(ctx); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	now := time.Now()
	list := make([]wire.Worker, 0, len(c.s.workers))
	for _, w := range c.s.workers {
		list = append(list, wire.Worker{Heartbeat: w.Heartbeat, Since: now.Sub(w.at)})
	}
	slices.SortFunc(list, func(a, b wire.Worker) int {
		return cmp.Or(strings.Compare(a.Worker, b.Worker), strings.Compare(a.Pools[0], b.Pools[0]))
	})
	return list, nil
}

// announce asks all workers to announce themselves, once per connection, and waits for them. Calls at the same time
// wait for the same announcements.
func (c *Conn) announce(ctx context.Context) error {
	c.s.mu.Lock()
	first := c.asked.IsZero()
	if first {
		c.asked = time.Now()
	}
	until := c.asked.Add(announceWait)
	c.s.mu.Unlock()
	if first {
		if err := c.Control(ctx, "", wire.Control{Kind: "announce"}); err != nil {
			return err
		}
	}
	return c.wait(ctx, func(now time.Time) (bool, time.Time, error) { return !now.Before(until), until, nil })
}

// SubscribeHeartbeats implements wire.Presence.
func (c *Conn) SubscribeHeartbeats(ctx context.Context, fn func(wire.Heartbeat)) error {
	return c.subscribe(ctx, func(subject string) bool { return strings.HasPrefix(subject, "hb.") },
		func(subject string, data []byte) {
			if h, err := wire.ReadHeartbeat(subject, data); err == nil {
				fn(h)
			}
		})
}

// Control implements wire.Presence.
func (c *Conn) Control(ctx context.Context, pool string, m wire.Control) error {
	return c.send(ctx, "Control", wire.ControlSubject(pool, m.Kind), wire.EncodeControl(m))
}

// SubscribeControl implements wire.Presence.
func (c *Conn) SubscribeControl(ctx context.Context, pool string, fn func(wire.Control)) error {
	ours := "ctl.pool." + wire.Token(pool) + "."
	match := func(subject string) bool {
		return strings.HasPrefix(subject, "ctl.all.") || strings.HasPrefix(subject, ours)
	}
	return c.subscribe(ctx, match, func(_ string, data []byte) {
		if m, err := wire.DecodeControl(data); err == nil {
			fn(m)
		}
	})
}

// Emit implements wire.Presence.
func (c *Conn) Emit(ctx context.Context, pool, run string, data []byte) error {
	return c.send(ctx, "Emit", wire.EventSubject(pool, run), data)
}

// Events implements wire.Presence.
func (c *Conn) Events(ctx context.Context, run string, fn func(pool string, data []byte)) error {
	match := func(subject string) bool {
		_, of, err := wire.ParseEvent(subject)
		return err == nil && of == run
	}
	return c.subscribe(ctx, match, func(subject string, data []byte) {
		if pool, _, err := wire.ParseEvent(subject); err == nil && len(data) <= wire.MaxEvent {
			fn(pool, data)
		}
	})
}
