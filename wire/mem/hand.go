package mem

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/wire"
)

// receiver is one run of TakeHanded.
type receiver struct {
	c            *Conn
	pool, worker string
	inbox        []offer
}

// offer is a task on its way to a worker.
type offer struct {
	after  wire.AttemptID
	task   *wire.HandedTask
	answer chan error
}

// HandTask implements wire.DirectTasks.
func (c *Conn) HandTask(ctx context.Context, worker string, after wire.AttemptID, ref wire.TaskRef, data []byte) error {
	answer := make(chan error, 2)
	err := c.do(ctx, "HandTask", wire.HandSubject(ref.Pool, worker), func(f Fault) error {
		for _, t := range c.s.takers {
			if t.pool != ref.Pool || t.worker != worker || !t.c.cutAt.IsZero() {
				continue
			}
			o := offer{after, &wire.HandedTask{Task: ref, Content: bytes.Clone(data), Under: trace.Current(ctx)}, answer}
			t.inbox = append(t.inbox, o)
			if f.Twice {
				t.inbox = append(t.inbox, o)
			}
			c.s.change()
			return nil
		}
		return wire.ErrNoWorker
	})
	if err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-c.done:
		return wire.ErrDisconnected
	}
}

// TakeHanded implements wire.DirectTasks.
func (c *Conn) TakeHanded(ctx context.Context, pool, worker string,
	take func(wire.AttemptID, wire.Delivery) bool) error {
	s := c.s
	t := &receiver{c: c, pool: pool, worker: worker}
	s.mu.Lock()
	s.takers = append(s.takers, t)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.takers = slices.DeleteFunc(s.takers, func(o *receiver) bool { return o == t })
	}()
	for {
		var batch []offer
		err := c.wait(ctx, func(time.Time) (bool, time.Time, error) {
			batch, t.inbox = t.inbox, nil
			return len(batch) > 0, time.Time{}, nil
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, o := range batch {
			var refused error
			if !take(o.after, o.task) {
				refused = wire.ErrNotTaken
			}
			o.answer <- refused
		}
	}
}
