package sim

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// regional draws the pool that has a message store of its own, in a region that can be cut off; empty in most seeds. It
// has a random source of its own, so that the other draws of a seed do not depend on it.
func (o *options) regional(chance *rand.Rand) string {
	if o.fair || o.byzantine || chance.IntN(2) > 0 {
		return ""
	}
	return o.pools[chance.IntN(len(o.pools))]
}

// isolate cuts the region off for a time, and schedules the next time.
func (w *world) isolate() {
	if w.calm {
		return
	}
	n, last := w.nats, time.Duration(1+w.remote.IntN(60))*time.Second
	w.note("the region of %s is cut off for %s", w.options.region, last)
	w.faults["region cut off"]++
	n.severed, n.severedAt = true, time.Now()
	w.after(last, func() {
		if w.options.loss && w.remote.IntN(2) == 0 {
			n.loseOwnTail(uint64(1 + w.remote.IntN(3)))
		}
		w.note("the region of %s is there again", w.options.region)
		n.severed, n.backAt = false, time.Now()
		n.results.hand()
		w.after(time.Duration(1+w.remote.IntN(40))*time.Second, w.isolate)
	})
}

// loseOwnTail loses the newest tasks and results of the region, although their storage was acknowledged: its server has
// started again while it was cut off, and its disk had not written everything. Their sequence numbers are used again.
func (n *nats) loseOwnTail(k uint64) {
	n.w.note("the region of %s has lost its tail", n.w.options.region)
	n.w.faults["tail of a region lost"]++
	for _, q := range []*stream{&n.tasks, &n.results} {
		last := q.own - min(k, q.own)
		q.remove(func(m *message) bool {
			if m.own > last {
				delete(q.ids, string(m.ref.Attempt))
			}
			return m.own > last
		})
		q.own = last
	}
}

// mustNotDoubt checks that nothing is in doubt because of the silence of a worker whose region is cut off, or has just
// come back, if nothing else has happened to the worker or to the coordinator since before.
func (w *world) mustNotDoubt(p *process, events []journal.Event) {
	n := w.nats
	if !n.severed && (n.backAt.IsZero() || time.Since(n.backAt) > wire.DeadAfter-time.Millisecond) ||
		time.Since(n.severedAt) < settled || p.conn == nil || !p.conn.isUp() || p.conn.since.After(n.severedAt) {
		return
	}
	for _, e := range events {
		if e.Kind != journal.Suspect || e.Pool != w.options.region || !strings.Contains(e.Detail, "has not been heard of") {
			continue
		}
		for _, h := range w.hosts {
			if h.id != e.Worker || h.p == nil || h.p.dead || h.p.conn == nil || !h.p.conn.isUp() ||
				h.p.conn.since.After(n.severedAt) {
				continue
			}
			w.violate("cut", "%s is in doubt (%s), although only the region of %s is cut off, since %s", e.Address, e.Detail,
				e.Worker, time.Since(n.severedAt))
		}
	}
}

// settled is how long after the cut a doubt may still be due to an earlier silence.
const settled = 2 * time.Second

// Domains implements wire.Regions.
func (c *conn) Domains(context.Context) (map[string]string, error) {
	o := c.p.w.options
	if o.region == "" || o.without == guardAway {
		return nil, nil
	}
	return map[string]string{o.region: o.region}, nil
}

// TaskBlobs implements wire.Regions. All blobs of the simulation are in one place.
func (c *conn) TaskBlobs(string) (wire.Blobs, bool) { return c, false }

// away reports whether a pool cannot be reached by a coordinator.
func (n *nats) away(pool string) bool { return n.severed && pool == n.w.options.region }

// beyond replies to a coordinator's call about a pool that is cut off, and reports whether it did.
func (c *conn) beyond(o *op, pool string) bool {
	if c.coordinator == "" || !c.n.away(pool) {
		return false
	}
	o.reply(wire.ErrUnanswered)
	return true
}

// requestIn is request for something in the store of a pool.
func (c *conn) requestIn(pool string, effect func() error) func() error {
	return func() error {
		if c.coordinator != "" && c.n.away(pool) {
			return wire.ErrUnanswered
		}
		return effect()
	}
}

// within reports whether a connection is in the region, or else of a coordinator.
func (c *conn) within(region string) bool {
	for _, h := range c.p.w.hosts {
		if h.p == c.p {
			return h.pool == region
		}
	}
	return false
}
