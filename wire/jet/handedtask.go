package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millipede-iac/millipede/wire"
)

// The headers of a task that is offered to a worker, and the answers to it.
const (
	handSubject = "Millipede-Task"
	handAfter   = "Millipede-After"

	handTaken   = "+"
	handRefused = "-"
)

// HandTask implements wire.DirectTasks.
func (c *Conn) HandTask(ctx context.Context, worker string, after wire.AttemptID, ref wire.TaskRef, data []byte) error {
	m := nats.NewMsg(wire.HandSubject(ref.Pool, worker))
	m.Header.Set(handSubject, wire.TaskSubject(ref))
	m.Header.Set(handAfter, string(after))
	m.Data = data
	traced(ctx, m)
	c.placed(m, ref)
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	answer, err := c.nc.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return wire.ErrNoWorker
	case err != nil:
		return fmt.Errorf("handing a task to worker %s: %w", worker, problem(err))
	case string(answer.Data) != handTaken:
		return wire.ErrNotTaken
	}
	return nil
}

// TakeHanded implements wire.DirectTasks.
func (c *Conn) TakeHanded(ctx context.Context, pool, worker string,
	take func(wire.AttemptID, wire.Delivery) bool) error {
	return c.listen(ctx, func(m *nats.Msg) {
		ref, err := wire.ParseRef(m.Header.Get(handSubject))
		if err != nil || ref.Pool != pool {
			c.opts.Log(fmt.Sprintf("a task that was handed over names %q: %v", m.Header.Get(handSubject), err))
			return
		}
		c.fetched.note(ref.Attempt, time.Now(), m.Header)
		answer := handTaken
		if !take(wire.AttemptID(m.Header.Get(handAfter)), &handed{
			wire.HandedTask{Task: ref, Content: m.Data, Under: traceOf(m.Header)}, c,
		}) {
			c.fetched.forget(ref.Attempt)
			answer = handRefused
		}
		if err := c.nc.Publish(m.Reply, []byte(answer)); err != nil {
			c.opts.Log("answering the coordinator that handed over a task: " + err.Error())
		}
	}, wire.HandSubject(pool, worker))
}

// handed is a task that was offered to this connection.
type handed struct {
	wire.HandedTask
	c *Conn
}

func (h *handed) Ack(context.Context) error {
	h.c.fetched.forget(h.Task.Attempt)
	return nil
}

func (h *handed) Release(ctx context.Context) error { return h.Ack(ctx) }
