package loop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/wire"
)

// aLimit returns permits of a limit of two, which the transport has declared.
func aLimit() (ps permits, lim *limit) {
	ps = newPermits(at(0), &Settings{Run: "run", Slots: 2})
	lim = ps.limitOf(wire.Limit{Name: "api", Slots: 2}, true)
	ps.onDeclared(Declared{"api", 2})
	ps.took()
	return ps, lim
}

// want makes ready vertices want permits of a limit, and returns the actions.
func (ps *permits) demand(lim *limit, n int) []string {
	ps.beginWants()
	lim.want = n
	ps.acquire()
	ps.passOn()
	return ps.took()
}

func (ps *permits) grant(t *testing.T, limit, id string) {
	t.Helper()
	if of, earlier := ps.granted(Granted{PermitKey{limit, id}}); earlier {
		t.Errorf("the permit %s belongs to the attempt %s", id, of)
	}
}

func wantActions(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: the actions are %q, not %q", what, got, want)
	}
}

func TestALimitIsDeclaredWhenItIsNewAndWhenItsSizeIsKnown(t *testing.T) {
	ps := newPermits(at(0), &Settings{OwnSlots: true})
	ps.limitOf(wire.Limit{Name: "api", Slots: 2}, false)
	wantActions(t, "a limit known by its name", ps.took(), "Declare{{api 2} false}")
	ps.limitOf(wire.Limit{Name: "api", Slots: 3}, false)
	wantActions(t, "the same once more", ps.took())
	ps.limitOf(wire.Limit{Name: "api", Slots: 3}, true)
	wantActions(t, "with the size of the rules", ps.took(), "Declare{{api 3} true}")
	ps.limitOf(wire.Limit{Name: "api", Slots: 3}, true)
	wantActions(t, "with the same size", ps.took())
	if lim := ps.limitOf(wire.Limit{Name: wire.DefaultLimit, Slots: 4}, true); !lim.local || lim.available() != 4 {
		t.Errorf("the run's own slots are %+v", lim)
	}
	wantActions(t, "the run's own slots", ps.took())
}

func TestPermitsAreRequestedUpToTheSizeOfTheLimit(t *testing.T) {
	ps, lim := aLimit()
	wantActions(t, "one is wanted", ps.demand(lim, 1), "Acquire{{api run-0}}")
	wantActions(t, "one is wanted still", ps.demand(lim, 1))
	wantActions(t, "many are wanted", ps.demand(lim, 9), "Acquire{{api run-1}}")
	ps.grant(t, "api", "run-0")
	wantActions(t, "one has come", ps.demand(lim, 9))
	ps.use(lim)
	ps.onRefused(Refused{PermitKey{"api", "run-1"}, wire.ErrDisconnected}, nil)
	wantActions(t, "one was refused: its name is free again", ps.demand(lim, 9), "Acquire{{api run-1}}")
	lim.declared = false
	ps.onRefused(Refused{PermitKey{"api", "run-1"}, wire.ErrDisconnected}, nil)
	wantActions(t, "the limit is not declared", ps.demand(lim, 9))
}

func TestAPermitIsUsedByOneVertexAfterAnother(t *testing.T) {
	for name, c := range map[string]struct {
		change func(ps *permits, lim *limit)
		held   time.Duration // how long
		want   []string
	}{
		"nobody else waits": {nil, time.Hour, nil},
		"another run waits": {func(_ *permits, lim *limit) { lim.contended = true }, quantum,
			[]string{"Release{{api run-0}}"}},
		"another run waits, for a moment": {func(_ *permits, lim *limit) { lim.contended = true }, quantum - 1, nil},
		"another run waits, and this one yields": {func(ps *permits, lim *limit) { ps.Yields, lim.contended = true, true }, 0,
			[]string{"Release{{api run-0}}"}},
		"the limit was made smaller":  {func(_ *permits, lim *limit) { lim.slots = 0 }, 0, []string{"Release{{api run-0}}"}},
		"the run starts nothing more": {func(ps *permits, _ *limit) { ps.toStop() }, 0, []string{"Release{{api run-0}}"}},
	} {
		ps, lim := aLimit()
		ps.demand(lim, 1)
		ps.grant(t, "api", "run-0")
		w := &work{}
		ps.take(w, &class{pool: &pool{}, limits: []*limit{lim}})
		if lim.inUse != 1 || lim.available() != 0 || len(w.permits) != 1 {
			t.Fatalf("%s: a permit that was taken is %+v", name, lim)
		}
		ps.pass(c.held)
		if c.change != nil {
			c.change(&ps, lim)
		}
		ps.leave(w)
		wantActions(t, name, ps.took(), c.want...)
		if idle := len(c.want) == 0; lim.inUse != 0 || (lim.available() == 1) != idle || len(w.permits) > 0 {
			t.Errorf("%s: the permit is kept: %t", name, lim.available() == 1)
		}
	}
}

func TestAPermitIsFreeOnceTheMessageOfItsResultIsConfirmed(t *testing.T) {
	ps, lim := aLimit()
	ps.demand(lim, 1)
	ps.grant(t, "api", "run-0")
	w := &work{delivery: 7}
	w.permits = append(w.permits, ps.use(lim))
	ps.confirm(w)
	wantActions(t, "a result was taken", ps.took(), "Ack{7}")
	if lim.inUse != 1 || len(w.permits) > 0 || w.delivery != 0 {
		t.Errorf("before the message is confirmed, %d permits are in use", lim.inUse)
	}
	ps.onAcked(Acked{7})
	if lim.inUse != 0 || len(ps.acking) > 0 || lim.available() != 1 {
		t.Errorf("after the message was confirmed, %d permits are in use", lim.inUse)
	}
	w.permits = append(w.permits, ps.use(lim))
	ps.confirm(w)
	if lim.inUse != 0 {
		t.Error("without a message, the permit stays in use")
	}
	wantActions(t, "no result was taken", ps.took())
}

func TestPermitsBesideALostOneAreNotUsedAgain(t *testing.T) {
	ps, lim := aLimit()
	ps.demand(lim, 2)
	ps.grant(t, "api", "run-0")
	ps.grant(t, "api", "run-1")
	w := &work{}
	w.permits = append(w.permits, ps.use(lim))
	w.place = ps.use(lim)
	ps.drop(w)
	wantActions(t, "one was lost", ps.took(), "Release{{api run-1}}", "Release{{api run-0}}")
	if lim.inUse != 0 || lim.available() != 0 || len(w.permits) > 0 || w.place.limit != nil {
		t.Errorf("%+v", lim)
	}
	wantActions(t, "their names are in use until they are released", ps.demand(lim, 1), "Acquire{{api run-2}}")
	ps.forget(lim, "run-0")
	ps.onRefused(Refused{PermitKey{"api", "run-2"}, wire.ErrDisconnected}, nil)
	wantActions(t, "one was released", ps.demand(lim, 1), "Acquire{{api run-0}}")
}

func TestThePermitOfAnEarlierProcessIsTakenOverForItsAttempt(t *testing.T) {
	is := func(open bool) func(wire.AttemptID) bool { return func(wire.AttemptID) bool { return open } }
	key := PermitKey{"api", "run-old-0"}
	ps, lim := aLimit()
	ps.reacquire("api", key.ID, "a1")
	wantActions(t, "an attempt is adopted", ps.took(), "Acquire{{api run-old-0}}")
	ps.toStop()
	ps.giveBack()
	wantActions(t, "an interrupt does not withdraw the request", ps.took())
	ps.onRefused(Refused{key, wire.ErrDisconnected}, is(true))
	wantActions(t, "it is refused while the attempt is open", ps.took(), "Acquire{{api run-old-0}}")
	of, earlier := ps.granted(Granted{key})
	if !earlier || of != "a1" {
		t.Errorf("it belongs to %q", of)
	}
	if p, held := ps.takeOver(key, true); !held || p.id != key.ID || lim.inUse != 1 || len(ps.reclaims) > 0 {
		t.Errorf("it is held: %t, %d are in use", held, lim.inUse)
	}
	ps.keep(of, ps.now, permit{limit: lim, id: key.ID})
	if !ps.isLeft(of) || ps.isLeft("a2") || lim.kept != 1 {
		t.Errorf("%d permits are kept for attempts in doubt", lim.kept)
	}
	ps.reacquire("api", key.ID, "a3")
	ps.took()
	if _, held := ps.takeOver(key, false); held || lim.inUse != 1 {
		t.Error("the permit of an attempt that is over is held")
	}
	wantActions(t, "the attempt is over", ps.took(), "Release{{api run-old-0}}")
	ps.reacquire("api", key.ID, "a4")
	ps.took()
	ps.onRefused(Refused{key, wire.ErrDisconnected}, is(false))
	wantActions(t, "it is refused after the attempt has ended", ps.took())
	if len(ps.reclaims)+len(lim.queued) > 0 {
		t.Errorf("the requests %v are left", lim.queued)
	}
}

func TestAPermitThatNobodyUsesIsGivenBack(t *testing.T) {
	ps, lim := aLimit()
	ps.demand(lim, 2)
	ps.grant(t, "api", "run-0")
	ps.grant(t, "api", "run-1")
	check := func(want int) []string {
		ps.demand(lim, want)
		ps.checkLimits()
		list := ps.took()
		return slices.DeleteFunc(list, func(s string) bool { return strings.HasPrefix(s, "AskContention") })
	}
	wantActions(t, "both are wanted", check(2))
	wantActions(t, "one is wanted", check(1))
	ps.pass(surplusTime - 1)
	wantActions(t, "for a moment", check(1))
	ps.pass(1)
	wantActions(t, "for long enough", check(1), "Release{{api run-0}}")
	ps.onContention(Contention{"api", true})
	wantActions(t, "another run waits, and this one wants it", ps.took())
	check(0)
	ps.onContention(Contention{"api", true})
	wantActions(t, "another run waits", ps.took(), "Release{{api run-1}}")
}

func TestALimitIsMeasuredAgainWhileMoreIsWanted(t *testing.T) {
	ps, lim := aLimit()
	ps.demand(lim, 2)
	ps.grant(t, "api", "run-0")
	ps.grant(t, "api", "run-1")
	ps.use(lim)
	ps.use(lim)
	for _, c := range []struct {
		wait time.Duration
		want int
		is   bool
	}{{remeasure - 1, 3, false}, {1, 0, false}, {0, 3, true}, {remeasure - 1, 3, false}, {1, 3, true}} {
		ps.pass(c.wait)
		ps.demand(lim, c.want)
		ps.checkLimits()
		if got := slices.Contains(ps.took(), "Declare{{api 2} false}"); got != c.is {
			t.Errorf("after %s, with %d wanted, the limit is measured: %t", c.wait, c.want, got)
		}
	}
}

func TestAPoolHasAsManyPlacesAsItsWorkersHaveSlots(t *testing.T) {
	ps := newPermits(at(0), &Settings{})
	eu := ps.poolOf("eu")
	places := ps.placesOf(eu, false)
	wantActions(t, "a pool without workers", ps.took())
	a := &worker{Heartbeat: wire.Heartbeat{Protocol: wire.ProtocolVersion, Pools: []string{"eu"}, Slots: 3}}
	b := &worker{Heartbeat: wire.Heartbeat{Protocol: wire.ProtocolVersion, Pools: []string{"eu"}, Slots: maxSlots + 1}}
	for _, step := range []struct {
		name            string
		w               *worker
		takes, surveyed bool
		live, slots     int
		want            []string
	}{
		{"a worker", a, true, false, 1, 3, []string{"Resize{{pool/eu 3} false}"}},
		{"the same worker", a, true, false, 1, 3, nil},
		{"one with too many slots", b, true, false, 2, 3 + maxSlots, []string{"Resize{{pool/eu 65539} false}"}},
		{"it is gone, before the survey", b, false, false, 1, 3, nil},
		{"after the survey", b, false, true, 1, 3, []string{"Resize{{pool/eu 3} true}"}},
		{"all are gone", a, false, true, 0, 0, nil},
	} {
		ps.staff(step.w, step.takes)
		ps.fit(eu, step.surveyed)
		wantActions(t, step.name, ps.took(), step.want...)
		if eu.live != step.live || eu.slots != step.slots || ps.isLive("eu") != (step.live > 0) {
			t.Errorf("%s: %d workers with %d slots are alive", step.name, eu.live, eu.slots)
		}
		if places.sizing {
			ps.onDeclared(Declared{places.name, eu.slots})
		}
	}
}

func TestAPoolIsFullWhenItsPlacesAreTaken(t *testing.T) {
	ps := newPermits(at(0), &Settings{Sole: true})
	eu, us := ps.poolOf("eu"), ps.poolOf("us")
	ps.placesOf(eu, true)
	ps.placesOf(us, true)
	ps.staff(&worker{Heartbeat: wire.Heartbeat{Protocol: wire.ProtocolVersion, Pools: []string{"eu", "us"}, Slots: 1}},
		true)
	ps.fit(eu, true)
	ps.fit(us, true)
	if eu.full() || !ps.idleElsewhere(us) {
		t.Error("a pool is full without work")
	}
	place := ps.use(eu.places)
	if !eu.full() || ps.idleElsewhere(us) || !ps.idleElsewhere(eu) {
		t.Error("a pool with as many operations as slots is not full")
	}
	ps.free([]permit{place})
	if eu.full() {
		t.Error("a place that is free is taken")
	}
	wantActions(t, "places that no other coordinator uses", ps.took())
}

func TestAVertexWaitsForThePoolsThatHaveNotBeenHeardOf(t *testing.T) {
	for name, c := range map[string]struct {
		at       program.Placement
		embedded bool
		want     bool
	}{
		"no region":                        {program.Placement{}, false, false},
		"a region with a worker":           {program.Placement{Region: "eu"}, false, false},
		"a region without one":             {program.Placement{Region: "us"}, false, true},
		"a provider's region without one":  {program.Placement{Region: "eu", ProviderRegion: "us"}, false, true},
		"one of several":                   {program.Placement{Among: []string{"us", "eu"}}, false, false},
		"none of several":                  {program.Placement{Among: []string{"us", "ap"}}, false, true},
		"none of several, but the own one": {program.Placement{Among: []string{"us", "ap"}}, true, false},
	} {
		ps := newPermits(at(0), &Settings{Embedded: c.embedded})
		ps.staff(&worker{Heartbeat: wire.Heartbeat{Protocol: wire.ProtocolVersion, Pools: []string{"eu"}, Slots: 1}}, true)
		if got := ps.unheard(&c.at); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
