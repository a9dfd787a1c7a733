package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// The message store fails like that of a NATS server whose disk is full: until the server is restarted, it responds to
// each write with an error. Reading works all the time.

const (
	// refusedFor is how long a command may continue while the message store refuses its writes: each of its phases waits
	// for half a minute (loop.StoreTimeout), and the network and the disk are sometimes slow.
	refusedFor = 150 * time.Second
	// storeLook is how often this is checked.
	storeLook = time.Second
)

var errStore = fmt.Errorf("%w: no space left on device", wire.ErrStore)

// stores are the calls that write.
var stores = map[string]bool{"PublishTask": true, "PublishResult": true, "Claim": true, "PutKey": true, "PutKeys": true,
	"Acquire": true, "DeclareLimit": true, "ResizeLimit": true}

// refuses replies to a call that writes while nothing can be stored, and reports whether it did.
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
	// The guard is disabled: the call gets no response, like a message that is published to a server with a full disk.
	n.w.after(5*time.Second, func() { o.p.awake(func() { o.finish(errTimeout) }) })
	return true
}

// drawFailures makes the message store fail in some of the seeds. It has a separate random source, so that the other
// draws of a seed do not depend on it.
func (w *world) drawFailures() {
	chance := rand.New(rand.NewPCG(w.seed, 3))
	if w.options.fair || chance.IntN(3) > 0 {
		return
	}
	at := time.Duration(1+chance.Int64N(30)) * time.Second
	lasts := time.Duration(1+chance.Int64N(45)) * time.Second
	if chance.IntN(3) == 0 { // longer than a command may take
		lasts = refusedFor + time.Minute
	}
	w.after(at, func() { w.nats.fail(lasts) })
}

// fail makes the store refuse all writes for a while, until somebody frees disk space and restarts the server.
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

// mustEnd checks that no command continues for long while all its writes are refused.
func (n *nats) mustEnd() {
	if n.failing.IsZero() {
		return
	}
	for _, s := range n.w.sites {
		p := s.current
		if s.team != nil { // a service does not end
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
			n.w.violate("end", "%s continues, although the message store has refused all its writes for %s", p.name,
				d.Round(time.Second))
			return
		}
	}
	n.w.after(storeLook, n.mustEnd)
}
