package loop

import (
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/sched"
	"github.com/millipede-iac/millipede/state/journal"
)

// check verifies that the data of the loop is consistent. It visits every vertex and edge, so it is only for tests.
func (l *Loop) check() error {
	wrong := []error{l.sched.Check()}
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }

	var counts [phases]int
	under, out, parkedNow := 0, 0, 0
	inUse := map[*limit]int{}
	queuedIn := map[*pool]int{}
	for v := range l.vertices {
		x := &l.vertices[v]
		counts[x.phase]++
		if x.phase.under() {
			under++
		}
		if (x.work != nil) != (x.phase != idle && x.phase != settled) {
			report("vertex %d is %s, and has work: %v", v, x.phase, x.work != nil)
		}
		l.checkAgainstOthers(v, report)
		if x.work == nil {
			continue
		}
		l.checkAttempt(v, report)
		for _, p := range x.work.permits {
			inUse[p.limit]++
		}
		if lim := x.work.place.limit; lim != nil {
			inUse[lim]++
		}
		if x.work.out >= 0 {
			out++
			if l.out[x.work.out] != v {
				report("vertex %d thinks it is at %d of the list of what is out", v, x.work.out)
			}
		}
		switch x.phase {
		case parked:
			parkedNow++
		case queued:
			queuedIn[l.queues.of(x).pool]++
		case calling, publishing, running:
			if x.work.out < 0 {
				report("vertex %d is %s, but not in the list of what is out", v, x.phase)
			}
		}
		if x.phase != doubtful && x.status == journal.Doubt && x.phase != completing && x.phase != concluding &&
			x.phase != preparing {
			report("vertex %d is %s, its journal says %s", v, x.phase, x.status)
		}
	}
	if counts != l.counts || under != l.under {
		report("the counts are %v and %d, but should be %v and %d", l.counts, l.under, counts, under)
	}
	if out != len(l.out) || parkedNow != len(l.queues.parked) {
		report("%d vertices are out, listed %d; %d parked, listed %d", out, len(l.out), parkedNow, len(l.queues.parked))
	}
	for _, ps := range l.permits.acking {
		for _, p := range ps {
			inUse[p.limit]++
		}
	}
	for _, k := range l.permits.kept {
		for _, p := range k.permits {
			inUse[p.limit]++
		}
	}
	for _, p := range l.Past {
		if l.pastHolds(p) {
			for _, pm := range p.permits {
				inUse[pm.limit]++
			}
		}
	}
	for _, lim := range l.permits.limitOrder {
		if lim.inUse != inUse[lim] {
			report("limit %s: %d permits in use, but vertices have %d", lim.name, lim.inUse, inUse[lim])
		}
		if !l.halted() && lim.declared && len(l.Past) == 0 && lim.inUse+len(lim.idle)+len(lim.queued) > lim.slots {
			report("limit %s: %d in use, %d idle, %d requested, of %d", lim.name, lim.inUse, len(lim.idle),
				len(lim.queued), lim.slots)
		}
	}
	for _, p := range l.permits.poolOrder {
		if p.Queued != queuedIn[p] || p.Running < 0 || p.live < 0 {
			report("pool %s: %+v, live %d; %d are queued", p.name, p.PoolCounts, p.live, queuedIn[p])
		}
	}
	l.checkRun(report)
	return errors.Join(wrong...)
}

// checkAttempt checks the statuses of a vertex beside its phase.
func (l *Loop) checkAttempt(v int, report func(string, ...any)) {
	x := &l.vertices[v]
	w := x.work
	say := func(what string) {
		report("vertex %d is %s: %s; its attempt is %s, the task %s, %s, the operation %s", v, x.phase, what, w.origin,
			w.sending, w.register, w.effect)
	}
	switch x.phase {
	case preparing, wanting, parked, queued, calling, intending:
		if w.sending != unsent || w.register != quiet {
			say("its next attempt does not begin as one that nothing is known of")
		}
		if w.origin == adopted && x.phase != preparing {
			say("it has the attempt of an earlier process, and goes on to another one")
		}
	case running:
		if w.sending == unsent && w.origin != adopted {
			say("its task was never sent")
		}
	case doubtful:
		if w.effect == over && l.records.saving == 0 {
			say("nothing more is to be expected")
		}
	}
	if w.sending == barred && x.phase != retracting {
		say("nothing may be sent")
	}
	if w.register != quiet && w.attempt == "" {
		say("it has no attempt that could have a register")
	}
	if (w.origin != own || w.effect == ended) && l.Past[v] == nil {
		say("no earlier process has seen it")
	}
}

// checkRun checks the statuses of the run, and that a step leaves nothing over for the next one.
func (l *Loop) checkRun(report func(string, ...any)) {
	if l.leaves() && l.records.saving == 0 && !l.Over() || l.awaits() && !l.halted() {
		report("the run is %s, its evidence %s, its error %v, and it goes on", l.course, l.evidence, l.err)
	}
	if l.course == goingOn && !l.awaySince.IsZero() {
		report("the run is %s, and waits for its transport in order to stop", l.course)
	}
	if s := &l.store; s.taking != takes && s.probes.Stopped() || s.silenceTold && s.silentSince.IsZero() {
		report("the store is %s, silent since %s, which was told: %t", s.taking, s.silentSince, s.silenceTold)
	}
	if rs := &l.records; rs.hurry || rs.saving < len(rs.gathered) || l.halted() && len(rs.gathered) > 0 {
		report("%d records are being saved, %d are gathered", rs.saving, len(rs.gathered))
	}
	if len(l.queues.fresh) > 0 {
		report("the vertices %v were not shown", l.queues.fresh)
	}
	for _, lim := range l.permits.limitOrder {
		if l.halted() && lim.want > 0 {
			report("limit %s: %d permits are wanted for nothing", lim.name, lim.want)
		}
	}
}

// pastHolds reports whether the permits of an adopted attempt are still recorded with its journalled vertex.
func (l *Loop) pastHolds(p *journalled) bool {
	if p.open == nil {
		return false
	}
	return l.vertices[p.open.Vertex].phase == idle
}

// checkAgainstOthers compares the data of graph/sched and of the loop about a vertex.
func (l *Loop) checkAgainstOthers(v int, report func(string, ...any)) {
	x := &l.vertices[v]
	var ok bool
	switch st := l.sched.Status(v); st {
	case sched.Waiting:
		ok = x.phase == idle
	case sched.Ready:
		ok = x.phase == idle || x.phase == queued
	case sched.Running:
		// see restoreReady
		ok = x.phase != idle && x.phase != queued && x.phase != settled || x.phase == idle && l.stops()
	default:
		ok = x.phase == settled
	}
	if !ok {
		report("vertex %d is %s for the loop, %s for the scheduler", v, x.phase, l.sched.Status(v))
	}
	if x.phase == queued && x.work != nil && (len(x.work.permits) > 0 || x.work.place.limit != nil) {
		report("vertex %d is queued, and holds permits", v)
	}
	if x.phase == calling && l.queues.of(x).lane != program.Fast {
		report("vertex %d is called on the safe lane", v)
	}
}
