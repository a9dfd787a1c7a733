package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// The message store fails, as a NATS server does whose disk is full: it keeps the error, and stores nothing more,
// though it answers, until it is started again. What it holds can be read all the while.

const (
	// refusedFor is how long a command may go on that the message store refuses all along: each of its phases waits
	// for half a minute (loop.StoreTimeout), and a network and a disk are slow now and then.
	refusedFor = 150 * time.Second
	// storeLook is how often that is looked at.
	storeLook = time.Second
)

var errStore = fmt.Errorf("%w: no space left on device", wire.ErrStore)

// stores are the calls that write.
var stores = map[string]bool{"PublishTask": true, "PublishResult": true, "Claim": true, "PutKey": true, "PutKeys": true,
	"Acquire": true, "DeclareLimit": true, "ResizeLimit": true}

// refuses answers a call that writes while nothing can be stored, and reports whether it did.
func (n *nats) refuses(o *op) bool {
	switch {
	case n.failing.IsZero() || !stores[o.name] && o.name != "HighWater":
		return false
	case n.w.options.without != guardTold:
		o.reply(errStore)
		return true
	case o.name == "HighWater":
		return false
	}
	// The guard is away: the transport makes of it what the server does, which answers nobody who publishes.
	n.w.after(5*time.Second, func() { o.p.awake(func() { o.finish(errTimeout) }) })
	return true
}

// drawFailures has the message store fail in some of the seeds. It has chance of its own, so that the others do what
// they did.
func (w *world) drawFailures() {
	chance := rand.New(rand.NewPCG(w.seed, 3))
	if w.options.fair || chance.IntN(3) > 0 {
		return
	}
	at := time.Duration(1+chance.Int64N(30)) * time.Second
	lasts := time.Duration(1+chance.Int64N(45)) * time.Second
	if chance.IntN(3) == 0 { // for good, as far as a command is concerned
		lasts = refusedFor + time.Minute
	}
	w.after(at, func() { w.nats.fail(lasts) })
}

// fail has the store refuse all writes, until somebody makes room and starts the server again.
func (n *nats) fail(lasts time.Duration) {
	n.w.note("the message store fails")
	n.w.faults["message store full"]++
	n.failing = time.Now()
	n.w.after(lasts, func() {
		n.w.note("the message store has room")
		n.failing = time.Time{}
		n.restart()
	})
	n.w.after(storeLook, n.mustEnd)
}

// mustEnd claims that no command goes on for long that is refused all along.
func (n *nats) mustEnd() {
	if n.failing.IsZero() {
		return
	}
	for _, s := range n.w.sites {
		p := s.current
		if s.team != nil { // the service itself goes on
			continue
		}
		if p == nil || p.dead || p.conn == nil || !p.conn.isUp() || !p.frozen.IsZero() {
			continue
		}
		since := n.failing
		for _, at := range []time.Time{s.since, p.conn.since} {
			if at.After(since) {
				since = at
			}
		}
		if d := time.Since(since); d > refusedFor {
			n.w.violate("end", "%s goes on, and the message store has refused all it was to store for %s", p.name,
				d.Round(time.Second))
			return
		}
	}
	n.w.after(storeLook, n.mustEnd)
}
