package sim

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// taker is one run of TakeHanded.
type taker struct {
	c            *conn
	pool, worker string
	o            *op
	inbox        []*handing
}

// handing is a task on its way from a coordinator to a worker that has reserved a slot for it.
type handing struct {
	o     *op
	after wire.AttemptID
	task  *wire.HandedTask
}

// HandTask implements wire.DirectTasks.
func (c *conn) HandTask(ctx context.Context, worker string, after wire.AttemptID, ref wire.TaskRef, data []byte) error {
	return c.p.do(ctx, network, "HandTask", string(ref.Attempt), func(o *op) {
		for _, t := range c.n.takers {
			if t.pool == ref.Pool && t.worker == worker && t.c.isUp() {
				h := &handing{o, after, &wire.HandedTask{Task: ref, Content: data}}
				c.n.w.after(c.n.w.latency(), func() {
					if t.c.isUp() { // otherwise the task is lost
						t.inbox = append(t.inbox, h)
						t.hand()
					}
				})
				c.n.w.after(aliveLost, func() {
					if o.stage == pending {
						o.reply(errTimeout)
					}
				})
				return
			}
		}
		o.reply(wire.ErrNoWorker)
	})
}

func (t *taker) hand() {
	if t.o != nil && t.o.stage == pending && len(t.inbox) > 0 {
		t.o.reply(nil)
	}
}

// TakeHanded implements wire.DirectTasks.
func (c *conn) TakeHanded(ctx context.Context, pool, worker string,
	take func(wire.AttemptID, wire.Delivery) bool) error {
	t := &taker{c: c, pool: pool, worker: worker}
	w := c.p.w
	w.mu.Lock()
	c.n.takers = append(c.n.takers, t)
	slices.SortStableFunc(c.n.takers, func(a, b *taker) int { return cmp.Compare(a.c.p.name, b.c.p.name) })
	w.mu.Unlock()
	for {
		err := c.p.do(ctx, local, "TakeHanded", pool, func(o *op) { t.o = o; t.hand() })
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		if err != nil {
			return err
		}
		w.mu.Lock()
		got := t.inbox
		t.inbox = nil
		for _, h := range got {
			c.fetched[h.task.Task.Attempt] = time.Now()
		}
		w.mu.Unlock()
		for _, h := range got {
			taken := take(h.after, h.task)
			_ = c.p.do(context.Background(), local, "took", string(h.task.Task.Attempt), func(o *op) {
				o.reply(nil)
				w.after(w.latency(), func() {
					switch {
					case h.o.stage != pending:
					case taken:
						h.o.reply(nil)
					default:
						h.o.reply(wire.ErrNotTaken)
					}
				})
			})
		}
	}
}
