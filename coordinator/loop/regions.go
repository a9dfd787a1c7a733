package loop

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// A pool may have a message store of its own, in its region. While that does not answer, the region may be cut off, and
// go on: its workers execute what was dispatched, and their results are kept there. So the silence of its workers means
// nothing, nothing is dispatched to the pool, and the run waits for it. Other pools are not affected.

const (
	// awayTold is how long a store may be silent before the user is told.
	awayTold = wire.DeadAfter
	// answerGap is the longest time between two answers of a store that answers.
	answerGap = 2500 * time.Millisecond
)

// ownStore is what a run knows about the message store of a pool that has one of its own.
type ownStore struct {
	answered time.Time // when it was asked for its last answer; zero before the first one
	back     time.Time // the first answer, also after a gap: only from then on does silence of a worker count
	away     time.Time // since when it has not answered; zero while it does
	why      string    // why not
	told     bool
}

// storesAnswered records which stores of pools have answered, and when they were asked: the reason why not, by pool, or
// nothing. An answer may have been under way for long: the region may be cut off since, but was not when it was asked.
func (l *Loop) storesAnswered(stores map[string]string, asked time.Time) {
	for _, name := range slices.Sorted(maps.Keys(stores)) {
		s := l.workers.stores[name]
		if s == nil {
			s = &ownStore{}
			l.workers.stores[name] = s
		}
		if why := stores[name]; why != "" {
			if s.away.IsZero() {
				s.away = l.now
			}
			s.why = why
		} else {
			l.storeAnswered(name, s, asked)
		}
		l.permits.poolOf(name).away = s.away
		if !s.away.IsZero() && !s.told && l.now.Sub(s.away) >= awayTold && l.uses(name) {
			s.told = true
			l.tell(-1, diag.List{diag.New(diag.Warning, "A region does not answer", fmt.Sprintf(
				"The message store of the pool %q has not answered for %s: %s.\n\nThe run goes on in other pools. "+
					"What was dispatched to this one is carried out there, and its results are kept there. The run waits "+
					"for them, and goes on by itself when the region is there again; it can be interrupted, and resumed "+
					"later.", name, l.now.Sub(s.away).Round(time.Second), s.why), nil)})
		}
	}
}

func (l *Loop) storeAnswered(name string, s *ownStore, asked time.Time) {
	if !s.away.IsZero() || asked.Sub(s.answered) > answerGap {
		s.back = l.now
	}
	if s.told {
		s.told = false
		l.tell(-1, diag.List{diag.New(diag.Warning, "A region answers again", fmt.Sprintf(
			"The message store of the pool %q answers again, after %s. The run goes on there.", name,
			l.now.Sub(s.away).Round(time.Second)), nil)})
	}
	s.away, s.answered, s.why = time.Time{}, asked, ""
}

// uses reports whether vertices of the run wait for a pool, or run there.
func (l *Loop) uses(pool string) bool {
	return l.permits.poolOf(pool).Queued > 0 || slices.ContainsFunc(l.out, func(v int) bool {
		w := l.vertices[v].work
		return w != nil && w.pool == pool
	})
}

// away reports whether the store of a pool does not answer.
func (ws *workers) away(pool string) bool {
	s := ws.stores[pool]
	return s != nil && !s.away.IsZero()
}

// onlyAway reports whether everything that is under way is in pools whose stores do not answer.
func (l *Loop) onlyAway() bool {
	for _, v := range l.out {
		if w := l.vertices[v].work; w == nil || !l.workers.away(w.pool) {
			return false
		}
	}
	return len(l.out) > 0
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// waitsForStores adds what the run waits for in pools whose stores do not answer, other than what is queued.
func (l *Loop) waitsForStores(waits []Wait) []Wait {
	if !slices.ContainsFunc(l.permits.poolOrder, func(p *pool) bool { return !p.away.IsZero() }) {
		return waits
	}
	running := map[string]*Wait{}
	for _, v := range l.out {
		w := l.vertices[v].work
		if w == nil || !l.workers.away(w.pool) {
			continue
		}
		if running[w.pool] == nil {
			running[w.pool] = &Wait{Pool: w.pool, Away: l.permits.poolOf(w.pool).away, Address: w.desc.Address}
		}
		running[w.pool].Vertices++
	}
	for _, pool := range slices.Sorted(maps.Keys(running)) {
		waits = addWait(waits, *running[pool])
	}
	return waits
}
