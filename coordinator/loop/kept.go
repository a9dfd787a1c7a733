package loop

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// An operation in doubt may still be running, so it keeps its permits when the run no longer waits for it. Those of
// limits that pools share keep other pools from working, which have nothing to do with the trouble of this one. They
// are released once the operation can hardly be running any more: when no worker has named it for its term. The permits
// of limits of its own pool stay held until the doubt is resolved.

// keeping are the permits of an operation in doubt that the run does not wait for any more.
type keeping struct {
	permits []permit
	heard   time.Time // the last sign that it was running, or its start
	passing bool      // that its term has passed is being recorded
}

// keep holds the permits of an attempt in doubt for which the run no longer waits. Permits of an earlier process may be
// granted only afterwards.
func (ps *permits) keep(a wire.AttemptID, heard time.Time, list ...permit) {
	k := ps.kept[a]
	if k == nil {
		k = &keeping{}
		ps.kept[a] = k
	}
	k.heard = later(k.heard, heard)
	k.permits = append(k.permits, list...)
	for _, p := range list {
		p.limit.kept++
	}
}

// letGo makes the permits of an attempt in doubt free once a message is acknowledged, and reports whether it was one
// that the run did not wait for any more.
func (ps *permits) letGo(a wire.AttemptID, delivery int) (kept bool) {
	k, kept := ps.kept[a]
	if !kept {
		ps.acking[delivery] = nil
		return false
	}
	for _, p := range k.permits {
		p.limit.kept--
	}
	delete(ps.kept, a)
	ps.acking[delivery] = k.permits
	return true
}

// isLeft reports whether an attempt in doubt, for which the run no longer waits, may still run under its permits.
func (ps *permits) isLeft(a wire.AttemptID) bool {
	_, is := ps.kept[a]
	return is
}

// stillRuns notes that a worker has named an attempt in doubt.
func (ps *permits) stillRuns(a wire.AttemptID) {
	if k := ps.kept[a]; k != nil {
		k.heard = ps.now
	}
}

// shared reports whether operations of several pools may need a permit like this one.
func (ps *permits) shared(p permit) bool { return ps.OfOnePool == nil || !ps.OfOnePool(p.limit.name) }

// doubtHolds says for how long a doubt holds a permit of a limit if nobody resolves it.
func (ps *permits) doubtHolds(lim *limit) string {
	if term := ps.DoubtTerm; term > 0 && term < wire.OperationLimit && ps.shared(permit{limit: lim}) {
		return strings.TrimSuffix(strings.TrimSuffix(term.String(), "0s"), "0m")
	}
	return "a day"
}

// passTerms records which operations in doubt can hardly be running any more. Their permits are released once that is
// durable: a resumed run must not take permits again that others have meanwhile.
func (l *Loop) passTerms() {
	if l.DoubtTerm == 0 || !l.Durable {
		return
	}
	for _, a := range slices.Sorted(maps.Keys(l.permits.kept)) {
		k := l.permits.kept[a]
		if k.passing || l.now.Sub(k.heard) < l.DoubtTerm || !slices.ContainsFunc(k.permits, l.permits.shared) {
			continue
		}
		k.passing = true
		v := l.attempts[a].vertex
		d := l.Program.Describe(v)
		e := l.event(v, journal.Suspect)
		e.Address, e.Action, e.Attempt, e.Pool = d.Address, d.Action, string(a), l.attempts[a].pool
		e.Detail = "nobody has reported it within its term of " + l.DoubtTerm.String()
		for _, p := range k.permits {
			if !l.permits.shared(p) {
				e.Permits = append(e.Permits, journal.PermitName(p.limit.name, p.id))
			}
		}
		e.Over = len(e.Permits) == 0
		l.save(Record{Vertex: v, Kind: TermPassed, Events: []journal.Event{e}})
		l.tell(v, diag.List{diag.New(diag.Warning, "An operation in doubt has given its permits back",
			"No worker has named the operation on "+d.Address+" for "+l.DoubtTerm.String()+". Its outcome is still not "+
				"known, but other operations may use its permits of limits that pools share.", nil)})
	}
}

// freeShared frees the permits of an operation in doubt that pools share.
func (ps *permits) freeShared(a wire.AttemptID) {
	k := ps.kept[a]
	if k == nil { // a worker has reported its end meanwhile
		return
	}
	k.passing = false
	var free, left []permit
	for _, p := range k.permits {
		if !ps.shared(p) {
			left = append(left, p)
			continue
		}
		p.limit.kept--
		free = append(free, p)
	}
	if k.permits = left; len(left) == 0 {
		delete(ps.kept, a)
	}
	ps.free(free)
}
