package loop

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
)

// investigateEvery is the interval at which the loop has the holders of a contended limit looked up.
const investigateEvery = 10 * time.Second

// doubtful returns the addresses of this run's operations in doubt that hold permits, by limit, once for each permit.
func (l *Loop) doubtful() map[*limit][]string {
	if len(l.suspects)+len(l.permits.kept) == 0 {
		return nil
	}
	held := map[*limit][]string{}
	add := func(v int, ps []permit) {
		for _, p := range ps {
			held[p.limit] = append(held[p.limit], l.Program.Describe(v).Address)
		}
	}
	for _, v := range l.suspects {
		if x := &l.vertices[v]; x.phase == doubtful {
			add(v, x.work.permits)
		}
	}
	for _, a := range slices.Sorted(maps.Keys(l.permits.kept)) {
		add(l.attempts[a].vertex, l.permits.kept[a].permits)
	}
	return held
}

// missing returns what vertices wait for: workers of a pool, permits of a limit that others hold, or operations in
// doubt. inDoubt has those of this run. investigate is called for each limit whose holders are to be looked up.
func (qs *queues) missing(inDoubt map[*limit][]string, investigate func(*limit)) []Wait {
	var waits []Wait
	for i, c := range qs.classes {
		n := qs.sched.ReadyIn(i + firstClass)
		if n == 0 {
			continue
		}
		if !c.served() {
			waits = addWait(waits, Wait{Pool: c.pool.name, Away: c.pool.away, Vertices: n, Address: c.example})
			continue
		}
		for lim := range c.needs() {
			if lim.pool != nil && qs.halted() {
				continue // its places were given back
			}
			own := inDoubt[lim]
			if lim.declared && lim.available() == 0 && lim.inUse == len(own) {
				waits = addWait(waits, Wait{
					Limit: lim.name, Slots: lim.slots, Vertices: n, Address: c.example,
					InDoubt: slices.Concat(own, lim.blockers), Holders: lim.holders})
				investigate(lim)
				break
			}
		}
	}
	return waits
}

func addWait(waits []Wait, w Wait) []Wait {
	for i := range waits {
		if waits[i].Pool == w.Pool && waits[i].Limit == w.Limit {
			waits[i].Vertices += w.Vertices
			return waits
		}
	}
	return append(waits, w)
}

// investigate asks which operations in doubt of earlier runs hold permits of a limit.
func (ps *permits) investigate(lim *limit) {
	if lim.pool != nil { // no doubt holds a place
		return
	}
	if !lim.investigated.IsZero() && ps.now.Sub(lim.investigated) < investigateEvery {
		return
	}
	lim.investigated = ps.now
	ps.do(FindBlockers{lim.name})
}

// blocked returns a limit whose permits all belong to operations in doubt, if every vertex that is ready waits for such
// a limit; nil if not.
func (qs *queues) blocked() (held *limit) {
	for i, c := range qs.classes {
		if qs.sched.ReadyIn(i+firstClass) == 0 {
			continue
		}
		at := slices.IndexFunc(c.limits, func(lim *limit) bool { return lim.kept+len(lim.blockers) >= lim.slots })
		if at < 0 {
			return nil
		}
		held = c.limits[at]
	}
	return held
}

// namedDoubts is the most operations in doubt that a message names.
const namedDoubts = 20

// interruptBlocked interrupts a run that cannot make progress, because all permits of a limit belong to operations in
// doubt. Only the user can resolve the doubts, and for that the run must end, because it holds the lock of the state.
func (l *Loop) interruptBlocked() {
	if l.under+l.records.saving+len(l.permits.acking)+l.counts[doubtful]+l.counts[parked] > 0 || l.halted() {
		return
	}
	held := l.queues.blocked()
	if held == nil {
		return
	}
	list := slices.Concat(l.doubtful()[held], held.blockers)
	var names strings.Builder
	for i, address := range list {
		if i == namedDoubts {
			fmt.Fprintf(&names, "  and %d more: "+diag.Program()+" runs list\n", len(list)-i)
			break
		}
		fmt.Fprintf(&names, "  "+diag.Program()+" runs resolve '%s' -not-created\n", address)
	}
	l.tell(-1, diag.Errors("Nothing more can be started",
		fmt.Sprintf("All %d permits of the limit %q are held by operations whose outcome is not known, because they "+
			"may still be running. If a worker that has one of them can come back, start it, and resume its run: "+
			diag.Program()+" runs resume. If it is gone for good, find out the outcome of each operation, and record it "+
			"(with -created=ID if it happened), which releases its permit:\n\n%s\nAn operation that is not resolved "+
			"holds its permit for %s. A larger limit lets other operations run meanwhile: "+diag.Program()+
			" limits %s=%d", held.slots, held.name, names.String(), l.permits.doubtHolds(held), held.name, 2*held.slots),
		nil))
	l.onInterrupted(Interrupted{})
}
