package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// The times of wire/jet.
const (
	taskWait     = 5 * time.Second // the time after which an unacknowledged message is delivered again
	resultWait   = 3 * time.Second
	permitWait   = 5 * time.Second
	claimWindow  = 10 * time.Minute // how long after its delivery a task may be claimed
	releaseDelay = 250 * time.Millisecond
	aliveLost    = 4 * time.Second
)

// nats is the server: its durable data, and its listeners. The world's loop changes it, under the world's lock.
type nats struct {
	w            *world
	born         int
	tasks        stream
	results      stream
	claims       map[string]wire.Claim
	claimed      []string // in the order of the claims
	blobs        map[string][]byte
	names        map[string]string
	keys         map[string][]byte
	limits       map[string]*limit
	order        []string // of the limits
	conns        []*conn
	serving      []*serving
	takers       []*taker
	turn         int
	watchers     []*watcher
	workers      map[string]seen
	known        []wire.TaskRef // of all tasks
	byzantineKey string
	severed      bool // the region with a store of its own is cut off, since severedAt
	severedAt    time.Time
	backAt       time.Time // when it was there again last
	failing      time.Time // the time since which nothing can be stored; zero if it can
}

func newNats(w *world) *nats {
	n := &nats{w: w, born: 1, claims: map[string]wire.Claim{}, blobs: map[string][]byte{}, names: map[string]string{},
		keys:   map[string][]byte{},
		limits: map[string]*limit{}, workers: map[string]seen{}}
	n.tasks.n, n.results.n = n, n
	return n
}

// stream is a work queue.
type stream struct {
	n        *nats
	messages []*message
	last     uint64
	own      uint64 // the last sequence of this stream in the region with a store of its own
	ids      map[string]bool
	waiting  []*fetch
}

// message stays in its stream until it is acknowledged. While a receiver may be working on it, it is hidden.
type message struct {
	ref    wire.TaskRef
	data   []byte
	seq    uint64
	own    uint64 // the sequence in the region's stream; zero for a message of another pool
	hidden time.Time
	forged bool
}

// fetch is a call that waits for messages.
type fetch struct {
	o     *op
	c     *conn
	n     int
	match func(wire.TaskRef) bool
	got   []*message
}

func (q *stream) publish(ref wire.TaskRef, data []byte, id string) {
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
	m := &message{ref: ref, data: data, seq: q.last}
	if ref.Pool == q.n.w.options.region {
		q.own++
		m.own = q.own
	}
	q.messages = append(q.messages, m)
	q.hand()
}

// hand passes messages to the waiting receivers.
func (q *stream) hand() {
	w := q.n.w
	q.waiting = slices.DeleteFunc(q.waiting, func(f *fetch) bool { return f.o.over() })
	now := time.Now()
	// The order of the receivers is random: the server does not define one.
	for _, i := range w.chance.Perm(len(q.waiting)) {
		f := q.waiting[i]
		if !f.c.isUp() || f.o.stage != pending {
			continue
		}
		for _, m := range q.messages {
			if len(f.got) == f.n {
				break
			}
			if m.hidden.After(now) || !f.match(m.ref) || f.c.coordinator != "" && q.n.away(m.ref.Pool) {
				continue
			}
			wait := taskWait
			if q == &q.n.results {
				wait = resultWait
			}
			if w.odds(25) { // the server forgets that it has delivered the message
				w.faults["redelivered"]++
				wait = w.between(0, time.Second)
			}
			m.hidden = now.Add(wait)
			w.after(wait+time.Microsecond, q.hand)
			f.got = append(f.got, m)
		}
		if len(f.got) > 0 {
			f.o.reply(nil)
		}
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(f *fetch) bool { return len(f.got) > 0 })
}

func (q *stream) remove(match func(*message) bool) { q.messages = slices.DeleteFunc(q.messages, match) }

// restart is a crash of the server. It has forgotten which messages it delivered, and everybody has to connect again.
func (n *nats) restart() {
	n.w.note("nats restarts")
	n.w.faults["server restarted"]++
	for _, q := range []*stream{&n.tasks, &n.results} {
		for _, m := range q.messages {
			m.hidden = time.Time{}
		}
	}
	n.workers = map[string]seen{}
	for _, c := range slices.Clone(n.conns) {
		if c.isUp() {
			c.down()
			n.w.after(n.w.between(50*time.Millisecond, 3*time.Second), func() {
				if !c.p.dead && !c.p.cut && c.p.frozen.IsZero() {
					c.up()
				}
			})
		}
	}
}

// loseTail loses the newest tasks and results, although their storage was acknowledged. Their sequence numbers are used
// again.
func (n *nats) loseTail(k int) {
	n.w.note("nats loses its tail")
	n.w.faults["tail lost"]++
	for _, q := range []*stream{&n.tasks, &n.results} {
		for range k {
			if q.last == 0 {
				break
			}
			q.remove(func(m *message) bool {
				if m.seq == q.last {
					delete(q.ids, string(m.ref.Attempt))
				}
				return m.seq == q.last
			})
			q.last--
		}
	}
}

// purge removes the data of a run, except for its registers: NATS keeps them as long as an attempt may be claimed.
func (n *nats) purge(run string) {
	for _, q := range []*stream{&n.tasks, &n.results} {
		q.remove(func(m *message) bool { return m.ref.Run == run })
	}
	for subject := range n.keys {
		if strings.Split(subject, ".")[2] == wire.Token(run) {
			delete(n.keys, subject)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.limits)) {
		l := n.limits[name]
		l.list = slices.DeleteFunc(l.list, func(a *admission) bool { return a.Run == run })
		l.hand()
	}
}

func (n *nats) highWater(pools []string) wire.HighWater {
	mark := wire.HighWater{Tasks: n.tasks.last, Results: n.results.last, Incarnation: strconv.Itoa(n.born),
		Claims: map[string]wire.Position{}}
	for _, pool := range pools {
		at := wire.Position{Incarnation: strconv.Itoa(n.born)}
		for _, subject := range n.claimed {
			if strings.HasPrefix(subject, "claim."+wire.Token(pool)+".") {
				at.Last++
			}
		}
		if pool == n.w.options.region && n.w.options.without != guardAway {
			var why error
			if n.severed {
				why = wire.ErrUnanswered
			}
			mark.SetStore(pool, why)
			if n.severed {
				continue
			}
			if mark.Queues == nil {
				mark.Queues, mark.Outcomes = map[string]wire.Position{}, map[string]wire.Position{}
			}
			mark.Queues[pool] = wire.Position{Last: n.tasks.own, Incarnation: at.Incarnation}
			mark.Outcomes[pool] = wire.Position{Last: n.results.own, Incarnation: at.Incarnation}
		}
		mark.Claims[pool] = at
	}
	return mark
}

// claim writes the register of an attempt, unless it was written before. It returns the content.
func (n *nats) claim(ref wire.TaskRef, c wire.Claim) wire.Claim {
	subject := wire.ClaimSubject(ref)
	if there, ok := n.claims[subject]; ok {
		return there
	}
	n.claims[subject] = c
	n.claimed = append(n.claimed, subject)
	return c
}

// conn is a process's connection. It implements wire.Transport.
type conn struct {
	p           *process
	n           *nats
	coordinator string // the coordinator's name; empty for a worker

	// Guarded by the world's lock.
	since     time.Time // when the connection was established or restored
	downAt    time.Time // zero while it is up
	fetched   map[wire.AttemptID]time.Time
	abandoned wire.AbandonedFunc
	asked     bool
	sem       semaphore
}

var _ wire.Transport = (*conn)(nil)

func (n *nats) connect(p *process, coordinator string) *conn {
	c := &conn{p: p, n: n, coordinator: coordinator, since: time.Now(), fetched: map[wire.AttemptID]time.Time{}}
	c.sem.init()
	n.conns = append(n.conns, c)
	// The order must not depend on that of the goroutines.
	slices.SortStableFunc(n.conns, func(a, b *conn) int { return cmp.Compare(a.p.name, b.p.name) })
	p.conn = c
	return c
}

func (c *conn) isUp() bool { return c.downAt.IsZero() }

func (c *conn) down() {
	if !c.isUp() {
		return
	}
	c.downAt = time.Now()
	if c.n.w.options.without != guardPermit {
		return
	}
	// The guard is disabled: a slot is freed once its holder has been disconnected for a while.
	c.n.w.after(time.Second, func() {
		for _, name := range c.n.order {
			if l := c.n.limits[name]; !c.isUp() {
				l.list = slices.DeleteFunc(l.list, func(a *admission) bool { return a.to == c })
				l.hand()
			}
		}
	})
}

// up restores the connection.
func (c *conn) up() {
	if c.isUp() {
		return
	}
	c.sem.lapse(c)
	c.downAt, c.since = time.Time{}, time.Now()
	c.n.tasks.hand()
	c.n.results.hand()
	for _, name := range c.n.order {
		c.n.limits[name].hand()
	}
	for _, s := range c.n.serving {
		if s.c == c {
			s.hand()
		}
	}
}

// gone closes the connection of a process that has ended.
func (c *conn) gone() {
	c.down()
	n := c.n
	n.conns = slices.DeleteFunc(n.conns, func(o *conn) bool { return o == c })
	n.watchers = slices.DeleteFunc(n.watchers, func(w *watcher) bool { return w.c == c })
	n.takers = slices.DeleteFunc(n.takers, func(t *taker) bool { return t.c == c })
	n.serving = slices.DeleteFunc(n.serving, func(s *serving) bool { return s.c == c })
}

var errOffline = fmt.Errorf("no response: %w", wire.ErrDisconnected)
