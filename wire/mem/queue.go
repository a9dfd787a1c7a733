package mem

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/wire"
)

// releaseDelay is the time after which a released message is offered again.
const releaseDelay = 250 * time.Millisecond

// stream is a work queue.
type stream struct {
	messages []*message // in order of their sequences
	last     uint64
	ids      map[string]bool
}

// message is stored until it is acknowledged. It is hidden while a consumer may be processing it.
type message struct {
	ref    wire.TaskRef
	data   []byte
	under  trace.Context
	seq    uint64
	hidden time.Time // until then; zero when it may be fetched
}

func (q *stream) publish(ref wire.TaskRef, data []byte, under trace.Context, id string, from time.Time) {
	if id != "" {
		if q.ids[id] {
			return
		}
		if q.ids == nil {
			q.ids = map[string]bool{}
		}
		q.ids[id] = true
	}
	q.last++
	q.messages = append(q.messages, &message{ref: ref, data: bytes.Clone(data), under: under, seq: q.last,
		hidden: from})
}

func (q *stream) remove(match func(*message) bool) {
	q.messages = slices.DeleteFunc(q.messages, match)
}

func (q *stream) loseTail(n int) {
	keep := max(len(q.messages)-n, 0)
	for _, m := range q.messages[keep:] {
		delete(q.ids, string(m.ref.Attempt))
	}
	q.messages = slices.Clone(q.messages[:keep])
	q.last -= min(uint64(n), q.last)
}

// PublishTask implements wire.WorkQueue.
func (c *Conn) PublishTask(ctx context.Context, ref wire.TaskRef, data []byte) error {
	return c.publish(ctx, &c.s.tasks, "PublishTask", wire.TaskSubject(ref), ref, data, string(ref.Attempt))
}

// PublishResult implements wire.WorkQueue.
func (c *Conn) PublishResult(ctx context.Context, ref wire.TaskRef, data []byte) error {
	return c.publish(ctx, &c.s.results, "PublishResult", wire.ResultSubject(ref), ref, data, "")
}

func (c *Conn) publish(ctx context.Context, q *stream, name, subject string, ref wire.TaskRef, data []byte,
	id string) error {
	return c.do(ctx, name, subject, func(f Fault) error {
		var from time.Time
		if f.Delay > 0 {
			from = time.Now().Add(f.Delay)
		}
		q.publish(ref, data, trace.Current(ctx), id, from)
		if f.Twice {
			q.publish(ref, data, trace.Current(ctx), "", from)
		}
		c.s.change()
		return nil
	})
}

// FetchTasks implements wire.WorkQueue.
func (c *Conn) FetchTasks(ctx context.Context, pool string, n int) ([]wire.Delivery, error) {
	return c.fetch(ctx, &c.s.tasks, n, func(ref wire.TaskRef) bool { return ref.Pool == pool })
}

// FetchResults implements wire.WorkQueue.
func (c *Conn) FetchResults(ctx context.Context, coordinator string, n int) ([]wire.Delivery, error) {
	return c.fetch(ctx, &c.s.results, n, func(ref wire.TaskRef) bool { return ref.Coordinator == coordinator })
}

func (c *Conn) fetch(ctx context.Context, q *stream, n int, match func(wire.TaskRef) bool) ([]wire.Delivery, error) {
	if n < 1 {
		panic("mem: a fetch of no messages")
	}
	var list []wire.Delivery
	err := c.wait(ctx, func(now time.Time) (bool, time.Time, error) {
		if !c.cutAt.IsZero() {
			return false, time.Time{}, nil
		}
		var next time.Time
		for _, m := range q.messages {
			if !match(m.ref) {
				continue
			}
			if m.hidden.After(now) {
				next = sooner(next, m.hidden)
				continue
			}
			if len(list) == n {
				break
			}
			f := c.fault("Deliver", wire.TaskSubject(m.ref))
			if m.hidden = now.Add(c.s.opts.AckWait); f.Twice {
				m.hidden = time.Time{}
			}
			next = sooner(next, m.hidden)
			if f.Before == nil {
				list = append(list, &delivery{c: c, q: q, m: m, fetched: now})
			}
		}
		return len(list) > 0, next, nil
	})
	if err != nil {
		return nil, fmt.Errorf("fetching: %w", err)
	}
	return list, nil
}

type delivery struct {
	c       *Conn
	q       *stream
	m       *message
	fetched time.Time
}

func (d *delivery) Ref() wire.TaskRef { return d.m.ref }
func (d *delivery) Data() []byte      { return bytes.Clone(d.m.data) }
func (d *delivery) Sequence() uint64  { return d.m.seq }

// Trace implements wire.Traced.
func (d *delivery) Trace() trace.Context { return d.m.under }

func (d *delivery) Ack(ctx context.Context) error {
	return d.c.do(ctx, "Delivery.Ack", wire.TaskSubject(d.m.ref), func(Fault) error {
		d.q.remove(func(m *message) bool { return m == d.m })
		return nil
	})
}

func (d *delivery) Release(ctx context.Context) error {
	return d.c.do(ctx, "Delivery.Release", wire.TaskSubject(d.m.ref), func(Fault) error {
		d.m.hidden = time.Now().Add(releaseDelay)
		d.c.s.change()
		return nil
	})
}

// PurgeRun implements wire.WorkQueue. Registers are never emptied, while wire/jet empties them after a grace period, so
// that no attempt of a finished run can be claimed.
func (c *Conn) PurgeRun(ctx context.Context, run string, _ []string) error {
	return c.do(ctx, "PurgeRun", run, func(Fault) error {
		s := c.s
		ours := func(m *message) bool { return m.ref.Run == run }
		s.tasks.remove(ours)
		s.results.remove(ours)
		for subject := range s.keys {
			if t := strings.Split(subject, "."); t[2] == wire.Token(run) {
				delete(s.keys, subject)
			}
		}
		for name, sum := range s.names {
			if strings.HasPrefix(name, wire.SpillPrefix(run)) {
				delete(s.names, name)
				delete(s.blobs, sum)
			}
		}
		for _, l := range s.limits {
			l.requests = slices.DeleteFunc(l.requests, func(q *request) bool { return q.Run == run })
		}
		s.change()
		return nil
	})
}

// HighWater implements wire.WorkQueue.
func (c *Conn) HighWater(ctx context.Context, pools []string) (mark wire.HighWater, err error) {
	err = c.do(ctx, "HighWater", "", func(Fault) error {
		born := strconv.Itoa(c.s.born)
		mark = wire.HighWater{Tasks: c.s.tasks.last, Results: c.s.results.last, Incarnation: born}
		for _, pool := range pools {
			if mark.Claims == nil {
				mark.Claims = map[string]wire.Position{}
			}
			mark.Claims[pool] = wire.Position{Last: c.s.claimed[pool], Incarnation: born}
		}
		return nil
	})
	return mark, err
}

// Claim implements wire.Claims.
func (c *Conn) Claim(ctx context.Context, ref wire.TaskRef, claim wire.Claim) (held wire.Claim, err error) {
	if claim.Nonce == "" {
		panic("mem: a claim without a nonce")
	}
	subject := wire.ClaimSubject(ref)
	err = c.do(ctx, "Claim", subject, func(Fault) error {
		if there, ok := c.s.claims[subject]; ok {
			held = there
			return nil
		}
		c.s.claimed[ref.Pool]++
		c.s.claims[subject] = claim
		held = claim
		return nil
	})
	if err != nil {
		return wire.Claim{}, err
	}
	return held, nil
}

// ReadClaim implements wire.Claims.
func (c *Conn) ReadClaim(ctx context.Context, ref wire.TaskRef) (claim wire.Claim, err error) {
	subject := wire.ClaimSubject(ref)
	err = c.do(ctx, "ReadClaim", subject, func(Fault) error {
		there, ok := c.s.claims[subject]
		if !ok {
			return fmt.Errorf("reading the claim of %s: %w", ref.Attempt, wire.ErrNotFound)
		}
		claim = there
		return nil
	})
	return claim, err
}
