package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// request is a call of the server that waits for a response.
func (c *conn) request(ctx context.Context, name, key string, effect func() error) error {
	return c.p.do(ctx, network, name, key, func(o *op) {
		if !c.n.refuses(o) {
			o.reply(effect())
		}
	})
}

// Close implements wire.Transport.
func (c *conn) Close() error { return nil }

// PublishTask implements wire.WorkQueue.
func (c *conn) PublishTask(ctx context.Context, ref wire.TaskRef, data []byte) error {
	o := &op{p: c.p, kind: network, name: "PublishTask", key: string(ref.Attempt), twice: true}
	o.effect = func(o *op) {
		if c.n.refuses(o) || c.beyond(o, ref.Pool) {
			return
		}
		c.n.known = append(c.n.known, ref)
		c.n.tasks.publish(ref, data, string(ref.Attempt))
		o.reply(nil)
	}
	return c.p.stand(ctx, o)
}

// PublishResult implements wire.WorkQueue.
func (c *conn) PublishResult(ctx context.Context, ref wire.TaskRef, data []byte) error {
	o := &op{p: c.p, kind: network, name: "PublishResult", key: string(ref.Attempt), twice: true}
	o.effect = func(o *op) {
		if c.n.refuses(o) {
			return
		}
		c.n.results.publish(ref, data, "")
		o.reply(nil)
	}
	return c.p.stand(ctx, o)
}

// FetchTasks implements wire.WorkQueue.
func (c *conn) FetchTasks(ctx context.Context, pool string, n int) ([]wire.Delivery, error) {
	return c.fetch(ctx, &c.n.tasks, "FetchTasks", pool, n, func(ref wire.TaskRef) bool { return ref.Pool == pool })
}

// FetchResults implements wire.WorkQueue.
func (c *conn) FetchResults(ctx context.Context, coordinator string, n int) ([]wire.Delivery, error) {
	return c.fetch(ctx, &c.n.results, "FetchResults", coordinator, n,
		func(ref wire.TaskRef) bool { return ref.Coordinator == coordinator })
}

func (c *conn) fetch(ctx context.Context, q *stream, name, key string, n int, match func(wire.TaskRef) bool) (
	[]wire.Delivery, error) {
	for {
		f := &fetch{c: c, n: n, match: match}
		err := c.p.do(ctx, network, name, key, func(o *op) {
			f.o = o
			q.waiting = append(q.waiting, f)
			q.hand()
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, errDead) {
			return nil, err
		}
		if err != nil {
			continue // like the real client; the server delivers such messages again
		}
		w := c.p.w
		w.mu.Lock()
		defer w.mu.Unlock()
		list := make([]wire.Delivery, len(f.got))
		for i, m := range f.got {
			list[i] = &delivery{c, q, m}
			c.fetched[m.ref.Attempt] = time.Now()
		}
		return list, nil
	}
}

type delivery struct {
	c *conn
	q *stream
	m *message
}

func (d *delivery) Ref() wire.TaskRef { return d.m.ref }
func (d *delivery) Data() []byte      { return d.m.data }
func (d *delivery) Sequence() uint64  { return d.m.seq }

// key identifies a message: a byzantine worker sends many for one attempt. The end of a run releases its messages in no
// particular order, and calls with equal keys pass a gate in the order of arrival; so seeds with equal keys would not
// be replayed exactly.
func (d *delivery) key() string { return fmt.Sprintf("%s #%d", d.m.ref.Attempt, d.m.seq) }

func (d *delivery) Ack(ctx context.Context) error {
	return d.c.request(ctx, "Ack", d.key(), d.c.requestIn(d.m.ref.Pool, func() error {
		if d.q == &d.c.n.results && !d.m.forged && !d.c.p.w.isByzantine(d.m.ref.Pool) {
			d.c.p.w.mustBeRecorded(d.m.ref)
		}
		d.q.remove(func(m *message) bool { return m == d.m })
		return nil
	}))
}

func (d *delivery) Release(ctx context.Context) error {
	return d.c.request(ctx, "Release", d.key(), func() error {
		d.m.hidden = time.Now().Add(releaseDelay)
		d.c.p.w.after(releaseDelay+time.Microsecond, d.q.hand)
		return nil
	})
}

// PurgeRun implements wire.WorkQueue.
func (c *conn) PurgeRun(ctx context.Context, run string, _ []string) error {
	return c.request(ctx, "PurgeRun", run, func() error { c.n.purge(run); return nil })
}

// HighWater implements wire.WorkQueue.
func (c *conn) HighWater(ctx context.Context, pools []string) (mark wire.HighWater, err error) {
	err = c.request(ctx, "HighWater", "", func() error { mark = c.n.highWater(pools); return nil })
	return mark, err
}

// Claim implements wire.Claims.
func (c *conn) Claim(ctx context.Context, ref wire.TaskRef, claim wire.Claim) (held wire.Claim, err error) {
	err = c.request(ctx, "Claim", string(ref.Attempt), c.requestIn(ref.Pool, func() error {
		if at, ok := c.fetched[ref.Attempt]; ok && !claim.Tombstone && time.Since(at) > claimWindow {
			return wire.ErrStale
		}
		held = c.n.claim(ref, claim)
		switch c.p.w.options.without {
		case guardClaim:
			if !claim.Tombstone {
				held = claim
			}
		case guardTomb:
			if claim.Tombstone { // without the guard, the register is not checked before an attempt is withdrawn
				held = claim
			}
		}
		return nil
	}))
	return held, err
}

// ReadClaim implements wire.Claims.
func (c *conn) ReadClaim(ctx context.Context, ref wire.TaskRef) (claim wire.Claim, err error) {
	err = c.request(ctx, "ReadClaim", ref.Pool+" "+string(ref.Attempt), c.requestIn(ref.Pool, func() error {
		there, ok := c.n.claims[wire.ClaimSubject(ref)]
		if !ok {
			return wire.ErrNotFound
		}
		claim = there
		return nil
	}))
	return claim, err
}

// PutBlob implements wire.Blobs.
func (c *conn) PutBlob(ctx context.Context, sum string, data []byte) error {
	return c.request(ctx, "PutBlob", "", func() error { c.n.blobs[sum] = data; return nil })
}

// GetBlob implements wire.Blobs.
func (c *conn) GetBlob(ctx context.Context, sum string) (data []byte, err error) {
	err = c.request(ctx, "GetBlob", "", func() error { data = c.n.blobs[sum]; return found(data != nil) })
	return data, err
}

// GetBlobIf implements wire.Blobs.
func (c *conn) GetBlobIf(ctx context.Context, sum string, ok func(bytes int64) error) ([]byte, error) {
	data, err := c.GetBlob(ctx, sum)
	if err == nil {
		err = ok(int64(len(data)))
	}
	return data, err
}

// HasBlob implements wire.Blobs.
func (c *conn) HasBlob(ctx context.Context, sum string) (there bool, err error) {
	err = c.request(ctx, "HasBlob", "", func() error { _, there = c.n.blobs[sum]; return nil })
	return there, err
}

// NameBlob implements wire.Blobs.
func (c *conn) NameBlob(ctx context.Context, name, sum string) error {
	return c.request(ctx, "NameBlob", "", func() error { c.n.names[name] = sum; return nil })
}

// LookupBlob implements wire.Blobs.
func (c *conn) LookupBlob(ctx context.Context, name string) (sum string, err error) {
	err = c.request(ctx, "LookupBlob", "", func() error { sum = c.n.names[name]; return found(sum != "") })
	return sum, err
}

func found(ok bool) error {
	if !ok {
		return wire.ErrNotFound
	}
	return nil
}

// PoolBlobs implements wire.PoolBlobs. The simulation does not restrict access.
func (c *conn) PoolBlobs(string) wire.Blobs { return c }

// PutKey implements wire.Keys.
func (c *conn) PutKey(ctx context.Context, pool, run, recipient string, sealed []byte) error {
	return c.request(ctx, "PutKey", pool+" "+run+" "+recipient, c.requestIn(pool, func() error {
		c.n.keys[wire.KeySubject(pool, run, recipient)] = sealed
		return nil
	}))
}

// PutKeys implements wire.Keys.
func (c *conn) PutKeys(ctx context.Context, pool, run string, sealed []wire.SealedKey) error {
	return c.request(ctx, "PutKeys", pool+" "+run, c.requestIn(pool, func() error {
		for _, k := range sealed {
			c.n.keys[wire.KeySubject(pool, run, k.Recipient)] = k.Sealed
		}
		return nil
	}))
}

// PurgeKeys implements wire.Keys.
func (c *conn) PurgeKeys(ctx context.Context, pool, run string) error {
	return c.request(ctx, "PurgeKeys", pool+" "+run, func() error {
		prefix := wire.KeyPrefix(pool, run)
		maps.DeleteFunc(c.n.keys, func(subject string, _ []byte) bool { return strings.HasPrefix(subject, prefix) })
		return nil
	})
}

// GetKey implements wire.Keys.
func (c *conn) GetKey(ctx context.Context, pool, run, recipient string) (sealed []byte, err error) {
	err = c.request(ctx, "GetKey", pool+" "+run, c.requestIn(pool, func() error {
		sealed = c.n.keys[wire.KeySubject(pool, run, recipient)]
		return found(sealed != nil)
	}))
	return sealed, err
}

// seen is the listeners' knowledge of a worker.
type seen struct {
	wire.Heartbeat
	at time.Time
}

// watcher is a listener for heartbeats or control messages.
type watcher struct {
	c       *conn
	control bool
	// who is the source file of the listener. It distinguishes two listeners of one process.
	who   string
	o     *op
	inbox []any
}

// tell passes a message to all listeners. It is not stored.
func (n *nats) tell(control bool, m any) {
	for _, w := range n.watchers {
		// A killed process may leave its watcher in the list, depending on how far its goroutines had come.
		if w.control != control || w.c.p.dead || n.w.odds(50) {
			continue
		}
		if n.severed && w.c.within(n.w.options.region) { // a control message; heartbeats are not for workers
			continue
		}
		n.w.after(n.w.latency(), func() {
			if w.c.isUp() {
				w.inbox = append(w.inbox, m)
				w.hand()
			}
		})
	}
}

func (w *watcher) hand() {
	if w.o != nil && w.o.stage == pending && len(w.inbox) > 0 {
		w.o.reply(nil)
	}
}

func (c *conn) watch(ctx context.Context, control bool, fn func(any)) error {
	name := "WatchWorkers"
	if control {
		name = "WatchControl"
	}
	who := "" // the caller of WatchWorkers or WatchControl
	if _, file, _, ok := runtime.Caller(2); ok {
		who = filepath.Base(file)
	}
	l := &watcher{c: c, control: control, who: who}
	w := c.p.w
	w.mu.Lock()
	c.n.watchers = append(c.n.watchers, l)
	slices.SortStableFunc(c.n.watchers, func(a, b *watcher) int {
		return cmp.Or(cmp.Compare(a.c.p.name, b.c.p.name), cmp.Compare(a.who, b.who))
	})
	w.mu.Unlock()
	for {
		var got []any
		err := c.p.do(ctx, local, name, who, func(o *op) { l.o = o; l.hand() })
		w.mu.Lock()
		if err == nil {
			got, l.inbox = l.inbox, nil
		}
		w.mu.Unlock()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		if err != nil {
			return err
		}
		for _, m := range got {
			fn(m)
		}
	}
}

// Beat implements wire.Presence. Each worker of the simulation serves one pool.
func (c *conn) Beat(ctx context.Context, h wire.Heartbeat) error {
	return c.beat(ctx, wire.HeartbeatSubject(h.Pools[0], h.Worker), wire.EncodeHeartbeat(h))
}

func (c *conn) beat(ctx context.Context, subject string, data []byte) error {
	c.p.w.mu.Lock()
	up := c.isUp()
	c.p.w.mu.Unlock()
	if !up {
		return errOffline
	}
	return c.p.do(ctx, local, "Beat", "", func(o *op) {
		o.reply(nil)
		if c.p.w.odds(30) {
			return
		}
		c.p.w.after(c.p.w.latency(), func() {
			if !c.isUp() {
				return
			}
			h, err := wire.ReadHeartbeat(subject, data) // like every real listener
			if err != nil || c.n.away(h.Pools[0]) {
				return
			}
			c.n.workers[subject] = seen{h, time.Now()}
			if h.Leaving {
				delete(c.n.workers, subject)
			}
			c.n.tell(false, h)
		})
	})
}

// Connected implements wire.Presence.
func (c *conn) Connected() time.Duration {
	c.p.w.mu.Lock()
	defer c.p.w.mu.Unlock()
	if !c.isUp() {
		return 0
	}
	return max(time.Since(c.since), 1)
}

// Workers implements wire.Presence.
func (c *conn) Workers(ctx context.Context) (list []wire.Worker, err error) {
	if !c.asked {
		c.asked = true
		if err := c.Control(ctx, "", wire.Control{Kind: "announce"}); err != nil {
			return nil, err
		}
		if err := c.p.do(ctx, local, "announced", "", func(o *op) {
			c.p.w.after(50*time.Millisecond, func() { o.reply(nil) })
		}); err != nil {
			return nil, err
		}
	}
	err = c.p.do(ctx, local, "Workers", "", func(o *op) {
		list = nil
		for _, h := range c.p.w.hosts { // in a fixed order
			if s, ok := c.n.workers[wire.HeartbeatSubject(h.pool, h.id)]; ok {
				list = append(list, wire.Worker{Heartbeat: s.Heartbeat, Since: time.Since(s.at)})
			}
		}
		if c.p.w.options.byzantine {
			for _, pool := range c.p.w.options.pools {
				for _, name := range byzantineNames {
					s, ok := c.n.workers[wire.HeartbeatSubject(pool, name)]
					if ok && s.PublicKey == c.n.byzantineKey {
						list = append(list, wire.Worker{Heartbeat: s.Heartbeat, Since: time.Since(s.at)})
					}
				}
			}
		}
		o.reply(nil)
	})
	return list, err
}

// SubscribeHeartbeats implements wire.Presence.
func (c *conn) SubscribeHeartbeats(ctx context.Context, fn func(wire.Heartbeat)) error {
	return c.watch(ctx, false, func(m any) { fn(m.(wire.Heartbeat)) })
}

// Control implements wire.Presence.
func (c *conn) Control(ctx context.Context, _ string, m wire.Control) error {
	return c.request(ctx, "Control", m.Kind, func() error { c.n.tell(true, m); return nil })
}

// SubscribeControl implements wire.Presence.
func (c *conn) SubscribeControl(ctx context.Context, _ string, fn func(wire.Control)) error {
	return c.watch(ctx, true, func(m any) { fn(m.(wire.Control)) })
}

// Emit implements wire.Presence. The simulation ignores live events.
func (c *conn) Emit(context.Context, string, string, []byte) error { return nil }

// Events implements wire.Presence.
func (c *conn) Events(ctx context.Context, _ string, _ func(string, []byte)) error {
	<-ctx.Done()
	return nil
}
