package loop

import (
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
)

// regions returns a world with two pools: eu with one slot, us with ten. The even vertices belong to eu, the odd ones
// to us, and each takes a second.
func regions(t *testing.T, n int, lane program.Lane, parallelism int) *world {
	w := newWorld(t, 1, numbers.New(t, n))
	w.unchecked = n > 200
	w.program.Lane, w.program.Stored = lane, lane == program.Safe
	w.crews = map[string]*crew{"eu": {slots: 1}, "us": {slots: 10}}
	w.latency = func(string) time.Duration { return time.Second }
	w.program.Place = func(v int) program.Placement {
		return program.Placement{Region: []string{"eu", "us"}[v%2]}
	}
	w.change = func(s *Settings) { s.Slots, s.Place = parallelism, (*placement.Rules)(nil).Placer(parallelism) }
	return w
}

// The tasks that waited for the only slot of eu held all ten permits: the last operation of us ended after 52 s, and
// could have ended after 6 s.
func TestAPoolThatIsFullKeepsNoOtherFromWorking(t *testing.T) {
	for name, lane := range map[string]program.Lane{"fast": program.Fast, "safe": program.Safe} {
		for parallelism, bound := range map[int]time.Duration{10: 6 * time.Second, 11: 5 * time.Second,
			40: 5 * time.Second} {
			w := regions(t, 100, lane, parallelism)
			w.boot()
			began := w.now
			w.finish()
			w.program.Check()
			eu, us := w.crews["eu"], w.crews["us"]
			if took := us.last.Sub(began); took > bound*110/100 {
				t.Errorf("%s lane, parallelism %d: us took %s; the bound is %s", name, parallelism, took, bound)
			}
			if took := eu.last.Sub(began); took > 55*time.Second {
				t.Errorf("%s lane, parallelism %d: eu took %s; the bound is 50s", name, parallelism, took)
			}
			if eu.longest+us.longest > 0 {
				t.Errorf("%s lane, parallelism %d: up to %d operations waited at eu, %d at us", name, parallelism,
					eu.longest, us.longest)
			}
		}
	}
}

// Vertices are prepared only in a window ahead of the running ones. An idle pool must find its work nevertheless,
// behind hundreds of vertices that wait for another pool.
func TestAPoolFindsItsWorkBehindThatOfAFullOne(t *testing.T) {
	w := regions(t, 600, program.Safe, 10)
	w.program.Place = func(v int) program.Placement {
		if v < 500 {
			return program.Placement{Region: "eu"}
		}
		return program.Placement{Region: "us"}
	}
	w.boot()
	began := w.now
	for w.crews["us"].busy == 0 {
		w.run(1)
	}
	if took := w.now.Sub(began); took > 3*time.Second {
		t.Errorf("us began after %s", took)
	}
}

// The number of operations that are sent follows the slots: when a worker dies, its slots are gone; a new worker adds
// slots.
func TestPlacesFollowTheWorkers(t *testing.T) {
	w := regions(t, 300, program.Fast, 40)
	w.program.Place = func(int) program.Placement { return program.Placement{Region: "us"} }
	w.boot()
	us := w.crews["us"]
	most := func(from, to time.Duration) *int {
		n := new(int)
		for at := from; at < to; at += 100 * time.Millisecond {
			w.later(at, func() { *n = max(*n, us.busy+len(us.queue)) })
		}
		return n
	}
	w.later(5*time.Second, func() { us.slots = 20 })
	w.later(12*time.Second, func() { us.slots = 4 })
	first, raised, lowered := most(time.Second, 5*time.Second), most(6*time.Second, 12*time.Second),
		most(15*time.Second, 20*time.Second)
	w.finish()
	w.program.Check()
	if *first != 10 || *raised != 20 || *lowered != 4 {
		t.Errorf("%d operations were sent at a time with 10 slots, %d with 20, %d with 4", *first, *raised, *lowered)
	}
}

// A place protects nothing outside, so an operation in doubt does not hold one: the slots of a dead worker are gone,
// and those of the other workers must stay in use.
func TestADoubtHoldsNoPlace(t *testing.T) {
	w := orphaned(t)
	w.boot()
	w.later(25*time.Second, func() {
		lim := w.loop.permits.limits[wire.PoolLimit("default")]
		if lim == nil || lim.inUse != 0 || w.loop.counts[doubtful] != 1 {
			t.Errorf("%+v with %d doubts", lim, w.loop.counts[doubtful])
		}
	})
	w.finish()
}

// A run took a place, and waited with it for a permit of a narrow limit that another run held: the slot was idle,
// although another run had work for it.
func TestAPlaceThatWaitsForANarrowLimitIsLeftToOthers(t *testing.T) {
	w := regions(t, 4, program.Safe, 10)
	w.crews = map[string]*crew{"us": {slots: 1}}
	w.program.Place = func(int) program.Placement { return program.Placement{Region: "us"} }
	w.change = func(s *Settings) {
		s.Place = func(program.Placement, func(string) bool) (string, []wire.Limit) {
			return "us", []wire.Limit{{Name: "narrow", Slots: 1}, {Name: "default", Slots: 10}}
		}
	}
	elsewhere, place := PermitKey{"narrow", "other-1"}, PermitKey{wire.PoolLimit("us"), "other-2"}
	w.slots["narrow"], w.held[elsewhere] = 1, true
	w.boot()
	w.later(2*time.Second, func() {
		w.others[place.Limit] = []PermitKey{place}
		w.asked[place.Limit] = []PermitKey{place}
		w.admit(place.Limit)
	})
	w.later(3*time.Second, func() {
		if !w.held[place] {
			t.Error("the other run has not got the place within a second")
		}
		delete(w.held, place)
		delete(w.held, elsewhere)
		w.admit("narrow")
		w.admit(place.Limit)
	})
	w.finish()
	w.program.Check()
}

// The second operations of vertices went into the queue, and waited there behind the first operations of other
// vertices.
func TestTheSecondOperationIsHandedToWhoDidTheFirst(t *testing.T) {
	w := safely(t, 30)
	w.program.Ops = 2
	w.boot()
	w.finish()
	w.stateAgrees()
	w.once()
	if w.handed["w"] != 30 || len(w.handed) != 1 {
		t.Errorf("%v of 30 second operations were handed over", w.handed)
	}
}

// The waiting time of an operation counted as part of its duration: 7.4 s for operations of one second, in the journal
// and in the durations that order later runs.
func TestWaitingIsNoWork(t *testing.T) {
	for name, lane := range map[string]program.Lane{"fast": program.Fast, "safe": program.Safe} {
		w := regions(t, 20, lane, 10)
		w.program.Stored = true
		w.answer = func(task *wire.Task) *wire.Result {
			r := numbers.Compute(task)
			r.Started, r.Ended = time.Unix(1_600_000_000, 0), time.Unix(1_600_000_001, 0) // by a clock of its own
			return r
		}
		w.boot()
		w.finish()
		waited := time.Duration(0)
		for _, e := range w.events {
			if e.Kind != journal.Finish {
				continue
			}
			waited = max(waited, e.Waited)
			if e.Took != time.Second {
				t.Errorf("%s lane: vertex %d took %s", name, e.Vertex, e.Took)
			}
		}
		if waited < 8*time.Second || waited > 10*time.Second {
			t.Errorf("%s lane: the last of ten operations of eu waited %s", name, waited)
		}
		for key, d := range w.loop.durations {
			if d != time.Second {
				t.Errorf("%s lane: %s is expected to take %s", name, key, d)
			}
		}
	}
}

// crossed is a world in which this run and another one need the only place of a pool and the only permit of a narrow
// limit. The other run has the permit. Each time that this run would be informed about that, the action is recorded.
func crossed(t *testing.T) (w *world, place, narrow PermitKey, told *[]string) {
	w = regions(t, 4, program.Safe, 10)
	w.crews = map[string]*crew{"us": {slots: 1}}
	w.program.Place = func(int) program.Placement { return program.Placement{Region: "us"} }
	w.change = func(s *Settings) {
		s.Place = func(program.Placement, func(string) bool) (string, []wire.Limit) {
			return "us", []wire.Limit{{Name: "narrow", Slots: 1}, {Name: "default", Slots: 10}}
		}
	}
	place, narrow = PermitKey{wire.PoolLimit("us"), "other-p"}, PermitKey{"narrow", "other-n"}
	w.slots["narrow"], w.held[narrow] = 1, true
	told = new([]string)
	w.log = func(at time.Time, in Input, actions []Action) {
		if g, ok := in.(Granted); ok {
			*told = append(*told, "got "+g.Limit)
		}
		for _, a := range actions {
			if r, ok := a.(Release); ok {
				*told = append(*told, "gave back "+r.Limit)
			}
		}
	}
	return w, place, narrow, told
}

// queue makes the other run request a permit.
func (w *world) queue(key PermitKey) {
	w.others[key.Limit] = append(w.others[key.Limit], key)
	w.asked[key.Limit] = append(w.asked[key.Limit], key)
	w.admit(key.Limit)
}

// A run released its place to another run, because it waited for a permit of a narrow limit with it, and then got the
// permit. The other run now had the place, and waited for the permit. At each tick, both released what they had and got
// what the other one had released: the slot was idle, and both waited for ever.
func TestAPermitThatComesAfterItsPlaceWasLeftIsPassedOnAtOnce(t *testing.T) {
	w, place, narrow, told := crossed(t)
	w.boot()
	w.later(2*time.Second, func() { w.queue(place) })
	w.later(3*time.Second, func() {
		if !w.held[place] {
			t.Fatal("the place was not released to the other run")
		}
		*told = nil
		delete(w.held, narrow)
		w.admit("narrow")
		w.queue(narrow)
	})
	w.later(3*time.Second+5*time.Millisecond, func() {
		if !w.held[narrow] {
			t.Errorf("the other run, which has the place, has not got the permit: %q", *told)
		}
		for _, key := range []PermitKey{place, narrow} {
			delete(w.held, key)
			w.admit(key.Limit)
		}
	})
	w.finish()
	w.program.Check()
}

// A run must not release its place at the next tick, which may be a moment after it got the place, so that a permit
// that others pass on finds the run with the place.
func TestAPlaceThatWaitsForANarrowLimitIsKeptForAQuantum(t *testing.T) {
	w, place, narrow, _ := crossed(t)
	var got time.Time
	log := w.log
	w.log = func(at time.Time, in Input, actions []Action) {
		log(at, in, actions)
		if g, ok := in.(Granted); ok && g.Limit == place.Limit {
			got = at
		}
		for _, a := range actions {
			r, ok := a.(Release)
			if ok && r.Limit == place.Limit && w.held[narrow] && at.Sub(got) < quantum {
				t.Errorf("the place was released %s after it was acquired", at.Sub(got))
			}
		}
	}
	w.boot()
	for n := range 40 { // at all times between two ticks
		w.later(2*time.Second+time.Duration(n)*1007*time.Millisecond, func() {
			w.queue(place)
			var give func()
			give = func() {
				if !w.held[place] {
					w.later(time.Millisecond, give)
					return
				}
				delete(w.held, place)
				w.admit(place.Limit)
				w.queue(place) // so that it is contended at once
				w.later(600*time.Millisecond, func() {
					if !w.held[place] {
						t.Error("the place was not released")
					}
					delete(w.held, place)
					w.others[place.Limit] = nil
					w.admit(place.Limit)
				})
			}
			give()
		})
	}
	w.later(50*time.Second, func() { delete(w.held, narrow); w.admit("narrow") })
	w.finish()
	w.program.Check()
}
