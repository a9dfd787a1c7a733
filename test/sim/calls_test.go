package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// serving is one run of Serve.
type serving struct {
	c     *conn
	pool  string
	slots int
	busy  int
	o     *op
	inbox []*call
	ended bool
}

// call is one call of the fast lane.
type call struct {
	o      *op
	pool   string
	data   []byte
	answer []byte
}

// Call implements wire.Caller.
func (c *conn) Call(ctx context.Context, pool string, data []byte) ([]byte, error) {
	x := &call{pool: pool, data: data}
	o := &op{p: c.p, kind: network, name: "Call", key: pool + " " + about(data), twice: true}
	o.effect = func(o *op) { x.o = o; c.n.route(x) }
	err := c.p.stand(ctx, o)
	if errors.Is(err, errTimeout) {
		err = wire.ErrLostCall
	}
	if err != nil {
		return nil, err
	}
	return x.answer, nil
}

// about distinguishes the calls of one moment: a plan reads all objects at once, in no order, and on a busy machine
// seeds were not replayed exactly as long as their calls were executed in the order of arrival.
func about(data []byte) string {
	plain, err := wire.Packer{Blobs: noBlobs{}}.Unpack(context.Background(), "", data)
	if err != nil {
		return err.Error()
	}
	task, err := wire.DecodeTask(plain)
	if err != nil {
		return err.Error()
	}
	task.Provider.Dir, task.Provider.Package.Unlocked = "", "" // the directory is different in each simulation
	h := fnv.New64a()
	_, _ = h.Write(wire.EncodeTask(task))
	return fmt.Sprintf("%s %s %x", task.Address, task.Operation(), h.Sum64())
}

// noBlobs has no blobs: the simulation does not use them.
type noBlobs struct{ wire.Blobs }

func (noBlobs) GetBlobIf(context.Context, string, func(int64) error) ([]byte, error) {
	return nil, errors.New("the simulation has no blobs")
}

// route passes a call to a worker with a free slot.
func (n *nats) route(x *call) {
	if x.o.over() {
		return
	}
	alive := false
	for i := range n.serving {
		s := n.serving[(n.turn+i)%len(n.serving)]
		if s.pool != x.pool || s.ended || !s.c.isUp() || n.away(s.pool) {
			continue
		}
		if alive = true; s.busy >= s.slots {
			continue
		}
		n.turn += i + 1
		s.busy++
		n.w.after(n.w.latency(), func() {
			if !s.c.isUp() { // messages of the fast lane are not stored, so the call is lost
				s.busy--
				n.w.after(aliveLost, func() { x.o.reply(wire.ErrLostCall) })
				return
			}
			s.inbox = append(s.inbox, x)
			s.hand()
		})
		n.listen(x, s)
		return
	}
	if !alive {
		x.o.reply(wire.ErrNoWorker)
		return
	}
	n.w.after(10*time.Millisecond, func() { n.route(x) })
}

// listen cancels a call when its worker sends no heartbeats any more.
func (n *nats) listen(x *call, s *serving) {
	n.w.after(time.Second, func() {
		switch {
		case x.o.over() || x.o.stage != pending:
		case !s.c.isUp() && time.Since(s.c.downAt) > aliveLost:
			x.o.reply(wire.ErrLostCall)
		default:
			n.listen(x, s)
		}
	})
}

func (s *serving) hand() {
	if s.o != nil && s.o.stage == pending && len(s.inbox) > 0 && s.c.isUp() {
		s.o.reply(nil)
	}
}

// Serve implements wire.Caller.
func (c *conn) Serve(ctx context.Context, pool string, slots int, handle func(ctx context.Context,
	data []byte) []byte) error {
	s := &serving{c: c, pool: pool, slots: slots}
	w := c.p.w
	w.mu.Lock()
	c.n.serving = append(c.n.serving, s)
	slices.SortStableFunc(c.n.serving, func(a, b *serving) int { return cmp.Compare(a.c.p.name, b.c.p.name) })
	w.mu.Unlock()
	running := 0
	ended := make(chan struct{}, 1024)
	var err error
	for {
		err = c.p.do(ctx, local, "Serve", pool, func(o *op) { s.o = o; s.hand() })
		if err != nil {
			break
		}
		w.mu.Lock()
		got := s.inbox
		s.inbox = nil
		w.mu.Unlock()
		for _, x := range got {
			running++
			go func() {
				defer func() { ended <- struct{}{} }()
				c.answer(s, x, handle(context.WithoutCancel(ctx), x.data))
			}()
		}
	}
	w.mu.Lock()
	s.ended = true
	w.mu.Unlock()
	for range running {
		<-ended
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was told to end
	}
	return fmt.Errorf("serving: %w", err)
}

// answer sends the response to a call.
func (c *conn) answer(s *serving, x *call, data []byte) {
	_ = c.p.do(context.Background(), local, "Answer", s.pool, func(o *op) {
		s.busy--
		o.reply(nil)
		w := c.p.w
		if w.odds(60) || !c.isUp() || c.n.away(s.pool) {
			w.faults["call lost"]++
			w.after(aliveLost, func() { x.o.reply(wire.ErrLostCall) })
			return
		}
		w.after(w.latency(), func() {
			if x.o.stage == pending {
				x.answer = data
				x.o.reply(nil)
			}
		})
	})
}
