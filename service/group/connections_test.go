package group_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/service/group"
	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/mem"
)

// hears reports whether messages reach the member.
func (n *node) hears() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.alone && !n.offline && n.paused == nil
}

func (n *node) reached() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.offline
}

// Ask implements group.Peers.
func (p *process) Ask(ctx context.Context, own group.Info, wait time.Duration, each func(group.Info) bool) error {
	p.n.gate()
	if p.dead.Load() || !p.n.reached() {
		_ = sleep.For(ctx, time.Millisecond)
		return log.ErrUnanswered
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	p.n.c.mu.Lock()
	all := slices.Clone(p.n.c.processes)
	p.n.c.mu.Unlock()
	for _, q := range all {
		if q != p && (!q.n.hears() || !p.n.hears()) || q.dead.Load() {
			continue
		}
		if sleep.For(ctx, time.Millisecond) != nil {
			return nil
		}
		q.mu.Lock()
		answer := q.answer
		q.mu.Unlock()
		if !each(answer(own)) {
			return nil
		}
	}
	<-ctx.Done()
	return nil
}

// Answer implements group.Peers.
func (p *process) Answer(f func(group.Info) group.Info) (stop func() error, err error) {
	p.mu.Lock()
	p.answer = f
	p.mu.Unlock()
	c := p.n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.processes = slices.DeleteFunc(c.processes, func(q *process) bool { return q == p })
		return nil
	}, nil
}

func (p *process) changed(leader *group.Info) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if leader == nil {
		p.leaders = append(p.leaders, "-")
		return
	}
	p.leaders = append(p.leaders, leader.Name)
}

// copy returns the options of the member's copy.
func (p *process) copy() (log.Options, error) {
	n := p.n
	return log.Options{Transport: &transport{Member: n.conn, p: p}, Incarnation: incarnation, Store: "records",
		Member: n.name, Key: n.c.key, First: n == n.c.nodes[0] && n.c.log.Last() == 0, Boot: "boot", Now: n.now,
		Elapsed: func() time.Duration { return n.now().Sub(time.Unix(0, 0)) },
		Pause: func(ctx context.Context, d time.Duration) error {
			err := sleep.For(ctx, d)
			if p.dead.Load() {
				return errors.New("killed")
			}
			return err
		}}, nil
}

// transport is the connection of a process to the log.
type transport struct {
	*mem.Member
	p *process
}

// around calls f while the machine runs and has a server, and returns when the machine runs.
func (t *transport) around(f func() error) error {
	t.p.n.gate()
	if t.p.dead.Load() || !t.p.n.reached() {
		return log.ErrUnanswered
	}
	err := f()
	t.p.n.gate()
	if t.p.dead.Load() {
		return log.ErrUnanswered
	}
	return err
}

func (t *transport) Append(ctx context.Context, store string, expected uint64, data []byte) (sequence uint64,
	err error) {
	t.p.appends.Add(1)
	err = t.around(func() (err error) {
		sequence, err = t.Member.Append(ctx, store, expected, data)
		refused := (*log.Refused)(nil)
		if t.p.n.c.without == exactly && errors.As(err, &refused) && refused.Last > expected {
			if e, bad := log.Parse(data); bad == nil && e.Kind == log.Lead {
				sequence, err = t.Member.Append(ctx, store, refused.Last, data)
			}
		}
		return err
	})
	return sequence, err
}

func (t *transport) Next(ctx context.Context, store string, from uint64, wait time.Duration) (sequence uint64,
	data []byte, err error) {
	err = t.around(func() (err error) {
		sequence, data, err = t.Member.Next(ctx, store, from, wait)
		return err
	})
	return sequence, data, err
}
