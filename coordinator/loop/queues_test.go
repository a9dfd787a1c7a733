package loop

import (
	"slices"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/sched"
	"github.com/millipede-iac/millipede/state/journal"
)

// aTable returns a table of vertices of which each weighs a second and none waits for another one, except by edges. All
// that could be prepared are being prepared.
func aTable(n int, edges ...dag.Edge) *table {
	t := &table{common: at(0), vertices: make([]vertex, n)}
	t.counts[idle] = n
	g := dag.New(n)
	for _, e := range edges {
		g.Edge(e.Before, e.After)
	}
	t.sched = sched.New(g, sched.Traits{Class: t.classOf})
	for {
		v, ok := t.sched.PopClass(visibleClass)
		if !ok {
			return t
		}
		x := &t.vertices[v]
		x.weight, x.work = 1, &work{desc: program.Description{Address: string(rune('a' + v))}, out: -1}
		t.move(v, preparing)
	}
}

// aClass adds a class whose pool has workers with one slot.
func aClass(qs *queues, name string, limits ...*limit) *class {
	c := &class{lane: program.Safe, pool: &pool{name: name, live: 1, slots: 1}, limits: limits}
	c.places = &limit{name: "pool/" + name, slots: 1, local: true, declared: true}
	c.lack = newLack(c, qs.now)
	qs.add(name, c)
	return c
}

func (qs *queues) enter(v int, name string) {
	qs.vertices[v].class = qs.byClass[name]
	qs.join(v)
}

func TestQueuesCountTheirVertices(t *testing.T) {
	qs := newQueues(aTable(3))
	eu := aClass(&qs, "eu")
	for v := range 3 {
		qs.enter(v, "eu")
	}
	if eu.pool.Queued != 3 || eu.pool.backlog() != 3 || eu.example != "c" || qs.counts[queued] != 3 {
		t.Errorf("three are queued: %+v", eu.pool)
	}
	for range 3 {
		v, ok := qs.sched.PopClass(qs.mostUrgentClass())
		if !ok {
			t.Fatal("nothing can start")
		}
		qs.dequeue(&qs.vertices[v])
		qs.move(v, calling)
	}
	if eu.pool.Queued != 0 || eu.pool.load != 0 || qs.mostUrgentClass() != -1 {
		t.Errorf("none is queued: %+v", eu.pool)
	}
}

func TestTheClassThatDeterminesTheEndIsStartedFrom(t *testing.T) {
	for name, c := range map[string]struct {
		change func(eu, us *class)
		want   string
	}{
		"both have one vertex: the first one":    {func(_, _ *class) {}, "eu"},
		"us has more work than it has slots for": {func(_, us *class) { us.pool.load = 9 }, "us"},
		"us has more work, and more slots": {func(_, us *class) { us.pool.load, us.pool.slots = 9, 20 },
			"eu"},
		"us has more work, and no place": {func(_, us *class) { us.pool.load, us.places.slots = 9, 0 },
			"eu"},
		"us has more work, and no worker": {func(_, us *class) { us.pool.load, us.pool.live = 9, 0 }, "eu"},
		"us has more work, and a limit without a free permit": {func(_, us *class) {
			us.pool.load, us.limits = 9, []*limit{{}}
		}, "eu"},
		"us has more work, and a limit with one": {func(_, us *class) {
			us.pool.load, us.limits = 9, []*limit{{idle: make([]permit, 1)}}
		}, "us"},
		"neither has a place": {func(eu, us *class) { eu.places.slots, us.places.slots = 0, 0 }, ""},
	} {
		qs := newQueues(aTable(2))
		eu, us := aClass(&qs, "eu"), aClass(&qs, "us")
		qs.enter(0, "eu")
		qs.enter(1, "us")
		c.change(eu, us)
		got := ""
		if i := qs.mostUrgentClass(); i >= 0 {
			got = qs.classes[i-firstClass].pool.name
		}
		if got != c.want {
			t.Errorf("%s: %q is next", name, got)
		}
	}
}

func TestAPermitIsWantedByWhoCouldUseIt(t *testing.T) {
	for name, c := range map[string]struct {
		n              int
		places, narrow int    // that are free
		want, soon     [3]int // of the places, the narrow and the wide limit
		short          [3]bool
	}{
		"nobody":                                  {0, 5, 5, [3]int{0, 0, 0}, [3]int{}, [3]bool{true, true, true}},
		"two, and all is free":                    {2, 5, 5, [3]int{2, 2, 2}, [3]int{2}, [3]bool{}},
		"no more than the narrowest limit has":    {9, 5, 5, [3]int{3, 3, 3}, [3]int{3}, [3]bool{}},
		"the wide ones by who has a place":        {3, 1, 5, [3]int{3, 1, 1}, [3]int{3}, [3]bool{}},
		"a place by who has the narrow permit":    {3, 3, 1, [3]int{3, 3, 1}, [3]int{1}, [3]bool{}},
		"the wide one by nobody without a place":  {3, 0, 5, [3]int{3, 0, 0}, [3]int{3}, [3]bool{false, true, true}},
		"the wide one by nobody without a narrow": {3, 3, 0, [3]int{3, 3, 0}, [3]int{0}, [3]bool{false, false, true}},
	} {
		qs := newQueues(aTable(1))
		narrow, wide := &limit{slots: 3, spare: c.narrow}, &limit{slots: 20, spare: 20}
		cl := aClass(&qs, "eu", narrow, wide)
		cl.places.slots, cl.places.spare = 5, c.places
		cl.want(c.n)
		for i, lim := range []*limit{cl.places, narrow, wide} {
			if lim.want != c.want[i] || lim.soon != c.soon[i] || lim.short != c.short[i] {
				t.Errorf("%s: limit %d is wanted by %d, soon by %d, short: %t", name, i, lim.want, lim.soon, lim.short)
			}
		}
	}
}

func TestAClassLacksTheFirstThingThatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *class)
		paused bool
		want   journal.Wait
	}{
		"nothing":            {func(*class) {}, false, journal.Wait{Kind: journal.WaitOther}},
		"the run is to stop": {func(c *class) { c.pool.live = 0 }, true, journal.Wait{Kind: journal.WaitOther}},
		"there is no worker": {func(c *class) { c.pool.live, c.places.slots = 0, 0 }, false,
			journal.Wait{Kind: journal.WaitWorker, Name: "eu"}},
		"there is no place": {func(c *class) { c.places.slots, c.limits[0].idle = 0, nil }, false,
			journal.Wait{Kind: journal.WaitPlace, Name: "eu"}},
		"there is no permit": {func(c *class) { c.limits[0].idle = nil }, false,
			journal.Wait{Kind: journal.WaitPermit, Name: "api"}},
		"a call finds out whether there is a worker": {func(c *class) { c.lane, c.pool.live = program.Fast, 0 }, false,
			journal.Wait{Kind: journal.WaitOther}},
		"a call has found none": {func(c *class) { c.lane, c.pool.live, c.pool.missing = program.Fast, 0, true }, false,
			journal.Wait{Kind: journal.WaitWorker, Name: "eu"}},
	} {
		qs := newQueues(aTable(1))
		cl := aClass(&qs, "eu", &limit{name: "api", idle: make([]permit, 1)})
		c.change(cl)
		if got := cl.wait(cl.lacking(c.paused)); !slices.Equal(got, []journal.Wait{c.want}) {
			t.Errorf("%s: it lacks %v", name, got)
		}
	}
}

func TestAVertexWaitsForWhatItsClassLacksMeanwhile(t *testing.T) {
	qs := newQueues(aTable(2))
	eu := aClass(&qs, "eu")
	account := func(after time.Duration, live, places int) {
		qs.pass(after)
		eu.pool.live, eu.places.slots = live, places
		qs.accountLacks(false)
	}
	qs.enter(0, "eu")
	account(0, 0, 0)
	account(3*time.Second, 1, 0)
	qs.enter(1, "eu")
	account(2*time.Second, 1, 1)
	qs.pass(waitWorthTelling - 1)
	worker, place := journal.Wait{Kind: journal.WaitWorker, Name: "eu"}, journal.Wait{Kind: journal.WaitPlace, Name: "eu"}
	worker.For, place.For = 3*time.Second, 2*time.Second
	for v, want := range [][]journal.Wait{{worker, place}, {place}} {
		x := &qs.vertices[v]
		if qs.dequeue(x); !slices.Equal(x.work.waits, want) {
			t.Errorf("vertex %d has waited for %v", v, x.work.waits)
		}
	}
}

func TestAParkedVertexIsDueWhenItsTimeHasCome(t *testing.T) {
	for name, c := range map[string]struct {
		change func(qs *queues)
		want   []int
	}{
		"at once":                  {func(*queues) {}, nil},
		"after a second":           {func(qs *queues) { qs.pass(time.Second) }, []int{0}},
		"after the survey":         {func(qs *queues) { qs.pass(5 * time.Second) }, []int{0, 1}},
		"after a minute":           {func(qs *queues) { qs.pass(time.Minute) }, []int{0, 1, 2}},
		"when nothing more starts": {func(qs *queues) { qs.toStop() }, []int{0, 1, 2}},
	} {
		qs := newQueues(aTable(3))
		surveyed := qs.now.Add(5 * time.Second)
		for v, until := range []time.Time{qs.now.Add(time.Second), {}, qs.now.Add(time.Minute)} {
			qs.vertices[v].work.until = until
			qs.parked = append(qs.parked, v)
		}
		c.change(&qs)
		if got := qs.due(surveyed); !slices.Equal(got, c.want) || len(qs.parked) != 3-len(c.want) {
			t.Errorf("%s: due are %v, parked %v", name, got, qs.parked)
		}
	}
}

func TestARunIsBlockedWhenAllThatIsReadyWaitsForDoubts(t *testing.T) {
	full := func() *limit { return &limit{slots: 2, kept: 1, blockers: []string{"a.b"}} }
	for name, c := range map[string]struct {
		eu, us *limit
		want   bool
	}{
		"both":       {full(), full(), true},
		"one of two": {full(), &limit{slots: 2, kept: 1}, false},
		"neither":    {&limit{slots: 1}, &limit{slots: 1}, false},
	} {
		qs := newQueues(aTable(2))
		aClass(&qs, "eu", c.eu)
		aClass(&qs, "us", c.us)
		qs.enter(0, "eu")
		qs.enter(1, "us")
		if got := qs.blocked() != nil; got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
