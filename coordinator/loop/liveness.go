package loop

import (
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// onBeat processes a worker's heartbeat about one of its pools.
func (l *Loop) onBeat(pool string, h wire.Heartbeat) {
	w, isNew := l.workers.find(pool, h.Worker)
	if w == nil {
		return
	}
	why := h.Unsuited(l.permits.versions)
	if detail := fmt.Sprintf("A worker of pool %q is given no work: %s.", pool, why); why != "" && isNew &&
		l.messages.shouldReport(detail) {
		l.tell(-1, diag.List{diag.New(diag.Warning, "Worker of another version", detail, nil)})
	}
	l.permits.staff(w, false)
	w.Heartbeat, w.seen = h, l.now
	l.permits.staff(w, !h.Draining && !h.Leaving && why == "")
	l.permits.fit(l.permits.poolOf(pool), l.workers.surveyed())
	for _, id := range h.Attempts {
		a := l.attempts[id]
		if a == nil || a.pool != pool {
			continue
		}
		if x := l.vertices[a.vertex].work; x != nil && x.attempt == id {
			l.held(a.vertex, h.Worker)
			x.listed = l.now
		}
		l.permits.stillRuns(id)
	}
}

// freeze stops the run because the transport has lost data that it had acknowledged. A claim may be among it, so
// nothing that was dispatched may be dispatched again.
func (l *Loop) freeze(e LostData) {
	if !l.lose(e.Older) {
		return
	}
	if e.Older {
		l.tell(-1, diag.Errors("The run was begun by an earlier version",
			"An earlier version of Millipede began this run, and kept its registers in streams that this version "+
				"does not use. Nothing more is started, because this version cannot tell which operations were started. "+
				"The operations under way are in doubt. To resume the run, use the version that began it.", nil))
	} else {
		text := "NATS JetStream has lost messages that it had acknowledged, or its streams were made anew. Nothing more " +
			"is started, because what was started cannot be told from what was not. The operations under way are in doubt."
		if e.Detail != "" {
			text += "\n\n" + e.Detail + "."
		}
		l.tell(-1, diag.Errors("The message store lost data", text, nil))
	}
	const reason = "the message store lost acknowledged data"
	for v := range l.vertices {
		switch x := &l.vertices[v]; {
		case x.phase == running || x.phase == publishing:
			l.suspect(v, reason)
		case x.phase == idle && x.status == journal.Dispatched:
			l.suspectUnseen(v, reason)
		}
	}
}

// onTicked does what depends on the time.
func (l *Loop) onTicked(e Ticked) {
	l.workers.connected(e.Connected)
	away := l.workers.connectedSince.IsZero() || !l.store.silentSince.IsZero() || l.onlyAway()
	if l.waitedForTransport(l.now, away) {
		l.tell(-1, transportGone(l.Run))
		l.onAbandoned()
	}
	l.unpark()
	for _, w := range l.workers.order {
		if w.takes && l.workers.silent(w.Pools[0], w.seen) {
			l.permits.staff(w, false)
			l.recheckClaims(w)
		}
	}
	for _, v := range l.out { // suspecting a vertex does not change the list
		l.watch(v)
	}
	l.permits.checkPlaces(l.workers.surveyed())
	l.permits.checkLimits()
	l.passTerms()
	if l.Durable && !l.halted() {
		l.workers.checkTaking(l.permits.poolOrder, l.unclaimed())
	}
	l.interruptBlocked()
	l.showProgress()
}

// transportGone tells why a run that is asked to stop is abandoned while the transport is away: it may never learn the
// outcome of what runs. Workers continue, and the resumed run takes their results.
func transportGone(run string) diag.List {
	return diag.Errors("The message server is gone",
		fmt.Sprintf("The run was interrupted while its NATS server, or that of a region, could not be reached, so "+
			"nothing is known of the operations that workers still carry out. Their results are kept. To take them, and "+
			"go on, when the server is there again: coordinator runs resume %s", run), nil)
}

// recheckClaims reads the registers of the attempts that a dead worker may have claimed without reporting it.
func (l *Loop) recheckClaims(dead *worker) {
	for _, v := range l.out {
		x := &l.vertices[v]
		if x.phase != running || x.work.worker != "" || x.work.register != quiet {
			continue
		}
		for _, p := range dead.Pools {
			if p == x.work.pool {
				l.readRegister(v)
				break
			}
		}
	}
}

// watch checks on an attempt that is under way.
func (l *Loop) watch(v int) {
	x := &l.vertices[v]
	w := x.work
	if x.phase != running || l.workers.away(w.pool) {
		return
	}
	switch {
	case w.worker == "" && w.register != quiet:
	case w.worker == "" && w.sending != published && l.now.Sub(w.sent) >= time.Second:
		l.move(v, publishing)
		l.post(v)
	case w.worker == "" && l.now.Sub(w.sent) >= claimWait && !l.stops():
		l.readRegister(v)
	case w.worker == "":
	default:
		if why := l.workers.unfinished(w.pool, w.worker, w.listed); why != "" {
			l.suspect(v, why)
		}
	}
}

// readRegister asks who holds the attempt of a vertex.
func (l *Loop) readRegister(v int) {
	w := l.vertices[v].work
	set(v, &w.register, reading)
	l.do(ReadClaim{v, l.ref(w)})
}

// revoke asks for a tombstone in the register of the attempt of a vertex, so that nobody may start it.
func (l *Loop) revoke(v int, reason string) {
	w := l.vertices[v].work
	set(v, &w.register, revoking)
	w.reason = reason
	l.do(Revoke{v, l.ref(w), reason})
}

// onRegistered processes the content of an attempt's register.
func (l *Loop) onRegistered(e Registered) {
	x := &l.vertices[e.Vertex]
	w := x.work
	if w == nil || w.attempt != e.Attempt {
		return
	}
	set(e.Vertex, &w.register, quiet)
	if x.phase != running && x.phase != publishing && x.phase != doubtful || e.Err != nil {
		return
	}
	switch {
	case e.Found && e.Claim.Tombstone:
		if e.Claim.Reason != "" {
			w.reason = e.Claim.Reason
		}
		if e.Claim.Worker != "" {
			l.onTombstone(e.Vertex)
			return
		}
		l.discardAttempt(e.Vertex, "it was revoked: "+w.reason)
	case e.Found:
		l.held(e.Vertex, e.Claim.Worker)
		w.listed = l.now
		set(e.Vertex, &w.sending, published)
	case x.phase == running && !l.halted():
		l.move(e.Vertex, publishing)
		l.post(e.Vertex)
	}
}

// held records which worker has the task of a vertex, and shows it when that is new.
func (l *Loop) held(v int, worker string) {
	x := &l.vertices[v]
	if w := x.work; w.worker != worker {
		w.worker = worker
		if l.Traced && !x.hidden && worker != "" && x.phase != settled {
			shown := about(ShownHeld, v, &w.desc)
			shown.Worker, shown.Attempt = worker, w.attempt
			l.do(shown)
		}
	}
}
