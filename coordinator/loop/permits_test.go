package loop

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
)

// counted counts the permits that the loop acquires.
func counted(w *world) *int {
	n := new(int)
	w.asking = func(PermitKey) { *n++ }
	return n
}

func TestManyReadsCostFewAdmissions(t *testing.T) {
	w := newWorld(t, 1, numbers.New(t, 10_000))
	w.unchecked = true
	n := counted(w)
	w.boot()
	w.finish()
	w.program.Check()
	if *n > 12 || w.most != 4 { // places in the pool, and permits of the limit
		t.Errorf("%d permits were requested, and %d calls ran at the same time", *n, w.most)
	}
}

// The journal does not have the run's own slots. A resumed run did not count the operations that were still in
// progress, and had more operations in progress than -parallelism allows.
func TestAResumedRunCountsWhatIsUnderWayAmongItsOwnSlots(t *testing.T) {
	p := numbers.New(t, 30)
	p.Lane, p.Stored = program.Safe, true
	w := newWorld(t, 1, p)
	w.change = func(s *Settings) { s.OwnSlots = true }
	w.latency = func(string) time.Duration { return 10 * time.Second }
	w.boot()
	for w.busy < 4 {
		w.run(1)
	}
	w.crash()
	w.restore()
	w.boot()
	w.finish()
	w.stateAgrees()
	w.once()
	if w.most != 4 {
		t.Errorf("%d operations were in progress at the same time, but there are 4 slots", w.most)
	}
}

func TestARunGivesPermitsUpWhileAnotherOneWaits(t *testing.T) {
	w := newWorld(t, 1, numbers.New(t, 2000))
	w.unchecked = true
	w.boot()
	// The other run wants 4 permits all the time and holds each for 100 ms.
	granted, waited := 0, time.Duration(0)
	var want func(i int)
	want = func(i int) {
		key := PermitKey{"default", "other-" + strconv.Itoa(i)}
		asked := w.now
		w.others["default"] = append(w.others["default"], key)
		w.asked["default"] = append(w.asked["default"], key)
		w.admit("default")
		var poll func()
		poll = func() {
			if !w.held[key] {
				w.arrange(time.Millisecond, 0, poll)
				return
			}
			granted++
			waited = max(waited, w.now.Sub(asked))
			w.arrange(100*time.Millisecond, 0, func() {
				delete(w.held, key)
				w.admit("default")
				want(i + 4)
			})
		}
		poll()
	}
	w.later(time.Second, func() {
		for i := range 4 {
			want(i)
		}
	})
	began := w.now
	w.finish()
	w.program.Check()
	took := w.now.Sub(began)
	if waited > time.Second || granted < 20 {
		t.Errorf("the other run got %d permits, and waited %s at most", granted, waited)
	}
	if took > 12*time.Second { // alone it takes 5 s, and it has half of the slots at least
		t.Errorf("the run took %s", took)
	}
}

func TestNarrowLimitsAreTakenBeforeWideOnes(t *testing.T) {
	w := newWorld(t, 1, numbers.New(t, 60))
	w.slots["narrow"] = 1
	w.change = func(s *Settings) {
		s.Place = func(p program.Placement, _ func(string) bool) (string, []wire.Limit) {
			wide := wire.Limit{Name: "default", Slots: 4}
			if p.Address == "narrow" {
				return "default", []wire.Limit{{Name: "narrow", Slots: 1}, wide}
			}
			return "default", []wire.Limit{wide}
		}
	}
	w.program.Place = func(v int) program.Placement {
		if v < 30 {
			return program.Placement{Address: "narrow"}
		}
		return program.Placement{}
	}
	running, most := 0, 0
	w.latency = func(string) time.Duration { return 100 * time.Millisecond }
	w.loseCall = func(name string, _ int) error {
		if v, _ := strconv.Atoi(strings.Split(name, "/")[0]); v < 30 {
			running++
			most = max(most, running)
			w.later(100*time.Millisecond, func() { running-- })
		}
		return nil
	}
	w.boot()
	began := w.now
	w.finish()
	w.program.Check()
	if most > 1 {
		t.Errorf("%d operations ran at the same time under a limit of 1", most)
	}
	if took := w.now.Sub(began); took > 3300*time.Millisecond {
		t.Errorf("took %s; 30 vertices of 100 ms one by one, with the others beside them, take 3 s", took)
	}
}

func TestTwoRunsThatNeedTwoLimitsEachDoNotBlockEachOther(t *testing.T) {
	// Both limits are held by another run that needs them in the same order.
	w := newWorld(t, 1, numbers.New(t, 5))
	w.slots["narrow"], w.slots["default"] = 1, 1
	w.change = func(s *Settings) {
		s.Slots = 1
		s.Place = func(p program.Placement, _ func(string) bool) (string, []wire.Limit) {
			if p.Address == "wide" {
				return "default", []wire.Limit{{Name: "default", Slots: 1}}
			}
			return "default", []wire.Limit{{Name: "narrow", Slots: 1}, {Name: "default", Slots: 1}}
		}
	}
	w.program.Place = func(v int) program.Placement {
		if v == 0 {
			return program.Placement{Address: "wide"}
		}
		return program.Placement{}
	}
	// The other run has the permit of the narrow limit and waits for that of the wide one, which this run holds after its
	// first vertex.
	narrow, wide := PermitKey{"narrow", "other-n"}, PermitKey{"default", "other-w"}
	w.held[narrow] = true
	w.boot()
	w.later(50*time.Millisecond, func() {
		w.others["default"] = append(w.others["default"], wide)
		w.asked["default"] = append(w.asked["default"], wide)
		var poll func()
		poll = func() {
			if !w.held[wide] {
				w.arrange(time.Millisecond, 0, poll)
				return
			}
			delete(w.held, wide)
			delete(w.held, narrow)
			w.admit("default")
			w.admit("narrow")
		}
		poll()
	})
	w.finish()
	w.program.Check()
}

func TestALimitThatIsRaisedIsUsedAndOneThatIsLoweredIsKept(t *testing.T) {
	w := newWorld(t, 1, numbers.New(t, 1000))
	w.unchecked = true
	w.latency = func(string) time.Duration { return 50 * time.Millisecond }
	w.boot()
	w.later(2*time.Second, func() { w.slots["default"] = 16 })
	w.later(5*time.Second, func() {
		if w.most != 16 {
			t.Errorf("%d operations ran at the same time after the limit was raised to 16", w.most)
		}
		w.slots["default"], w.most = 2, 0
	})
	w.later(10*time.Second, func() { w.most = w.busy })
	w.later(11*time.Second, func() {
		if w.most > 2 {
			t.Errorf("%d operations ran at the same time after the limit was lowered to 2", w.most)
		}
	})
	w.finish()
}

func TestALostPermitStartsNothing(t *testing.T) {
	for _, lane := range []program.Lane{program.Fast, program.Safe} {
		w := safely(t, 6)
		w.program.Lane = lane
		lost := 0
		w.confirm = func(k PermitKey) error {
			if lost++; lost == 3 {
				return wire.ErrPermitLost
			}
			return nil
		}
		w.boot()
		w.finish()
		w.stateAgrees()
		w.once()
		if lost < 7 {
			t.Errorf("%d confirmations", lost)
		}
	}
}

// The stream had stored a task, and a worker had started it, but the answer to the coordinator was lost. The
// coordinator was paused, lost its place in the pool meanwhile, and noticed that when it was about to publish the task
// again. It discarded the attempt as one of which nothing had been sent, and made another one: the object was created
// twice.
func TestAnAttemptThatMayHaveBeenPublishedIsNotTakenBackBecauseItsPermitIsLost(t *testing.T) {
	for _, claimed := range []bool{true, false} {
		w := safely(t, 1)
		w.deaf = !claimed
		w.latency = func(string) time.Duration { return 5 * time.Second }
		answers, lost := 0, false
		w.answerOf = func(Publish) error {
			if answers++; answers == 1 {
				w.later(100*time.Millisecond, func() { w.silent = true }) // nobody is heard who holds the attempt
				return context.DeadlineExceeded
			}
			return nil
		}
		w.confirm = func(PermitKey) error {
			if answers == 1 && !lost {
				lost, w.silent, w.deaf = true, false, false
				return wire.ErrPermitLost
			}
			return nil
		}
		w.boot()
		w.finish()
		w.stateAgrees()
		w.once()
		retracted := slices.ContainsFunc(w.events, func(e journal.Event) bool { return e.Kind == journal.Retract })
		if !lost || retracted == claimed {
			t.Errorf("claimed: %v, permit lost: %v, retracted: %v", claimed, lost, retracted)
		}
	}
}

func TestAVertexWaitsForTheSurveyWhenItsRegionMayBeAPool(t *testing.T) {
	w := safely(t, 2)
	w.silent = true
	w.change = func(s *Settings) { s.Place = (*placement.Rules)(nil).Placer(4) }
	w.program.Place = func(v int) program.Placement {
		if v == 0 {
			return program.Placement{Region: "eu-west-1"}
		}
		return program.Placement{Region: "us-east-1"}
	}
	w.survey = 300 * time.Millisecond
	w.boot()
	w.later(200*time.Millisecond, func() {
		w.send(Beat{wire.Heartbeat{Worker: "far", Pools: []string{"eu-west-1"}, Protocol: wire.ProtocolVersion}})
		w.silent = false
	})
	w.finish()
	wantHeard(t, w, "started 0 in eu-west-1", "started 1 in default")
}

func TestTheMakespanIsWithinATenthOfWhatNoScheduleCanBeat(t *testing.T) {
	for name, shape := range map[string]func(chance *rand.Rand) []dag.Edge{
		"wide": func(*rand.Rand) []dag.Edge { return nil },
		"layers": func(chance *rand.Rand) (edges []dag.Edge) {
			for v := 50; v < 500; v++ {
				layer := v/50*50 - 50
				edges = append(edges, dag.Edge{Before: layer + chance.IntN(50), After: v},
					dag.Edge{Before: layer + chance.IntN(50), After: v})
			}
			return edges
		},
		"a chain beside much small work": func(*rand.Rand) (edges []dag.Edge) {
			for v := 400; v < 499; v++ {
				edges = append(edges, dag.Edge{Before: v, After: v + 1})
			}
			return edges
		},
	} {
		t.Run(name, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(1, 2))
			p := numbers.New(t, 500, shape(chance)...)
			latency := make([]time.Duration, 500)
			var work, longest time.Duration
			for v := range latency {
				latency[v] = time.Duration(50+chance.IntN(500)) * time.Millisecond
				work += latency[v]
			}
			for _, seconds := range p.Graph().CriticalPath(func(v int) float64 { return latency[v].Seconds() }) {
				longest = max(longest, time.Duration(seconds*float64(time.Second)))
			}
			of := func(name string) time.Duration {
				v, _ := strconv.Atoi(name[:strings.IndexByte(name, '/')])
				return latency[v]
			}
			for _, lane := range []program.Lane{program.Fast, program.Safe} {
				w := newWorld(t, 1, p)
				w.restore()
				w.outputs = nil
				w = newWorld(t, 1, w.program)
				w.program.Lane, w.program.Stored = lane, true
				w.unchecked = true
				w.latency = of
				w.change = func(s *Settings) {
					s.Weight = func(d program.Description) float64 {
						return of(strings.TrimPrefix(d.Address, "number.n") + "/").Seconds()
					}
				}
				w.boot()
				began := w.now
				w.finish()
				w.program.Check()
				best := max(longest, work/4)
				if took := w.now.Sub(began); took > best*110/100 {
					t.Errorf("lane %d: %s, which is %.3f times the bound", lane, took, took.Seconds()/best.Seconds())
				}
			}
		})
	}
}

func TestAnExpansionGrowsTheRun(t *testing.T) {
	g := &growing{Program: numbers.New(t, 2, dag.Edge{Before: 0, After: 1}), n: 300}
	g.Hidden = func(v int) bool { return v < 2 }
	w := newWorld(t, 1, g.Program)
	w.change = func(s *Settings) { s.Program = g }
	w.boot()
	w.finish()
	g.Program.Check()
	if len(w.calls) != 300 || w.loop.Outcome().Counts.Total != 300 {
		t.Errorf("%d calls, %d in all", len(w.calls), w.loop.Outcome().Counts.Total)
	}
}

// growing is a program whose vertex 0 appends n vertices for which vertex 1 waits.
type growing struct {
	*numbers.Program
	n int
}

func (g *growing) Prepare(ctx context.Context, v int) program.Step {
	step := g.Program.Prepare(ctx, v)
	if v == 0 {
		step.Growth = &program.Growth{Vertices: g.n}
		for i := range g.n {
			step.Growth.Edges = append(step.Growth.Edges, dag.Edge{Before: 0, After: program.Grown(i)},
				dag.Edge{Before: program.Grown(i), After: 1})
		}
	}
	return step
}

func (g *growing) Accept(v int, step *program.Step) {
	if v == 0 {
		for i := range g.n {
			g.Before = append(g.Before, []int{0})
			g.Before[1] = append(g.Before[1], 2+i)
		}
		g.Results = append(g.Results, make([]uint64, g.n)...)
		g.Prepared = append(g.Prepared, make([]int, g.n)...)
		g.Accepted = append(g.Accepted, make([]int, g.n)...)
	}
	g.Program.Accept(v, step)
}

func TestWaitsAreListedOnce(t *testing.T) {
	waits := addWait(addWait(addWait(nil, Wait{Pool: "a", Vertices: 1}), Wait{Limit: "a", Vertices: 2}),
		Wait{Pool: "a", Vertices: 3})
	if !slices.EqualFunc(waits, []Wait{{Pool: "a", Vertices: 4}, {Limit: "a", Vertices: 2}}, Wait.equal) {
		t.Errorf("%v", waits)
	}
}

// A coordinator was paused while its release of a permit was not answered, and its lock was broken. Another process
// resumed the run, and requested a permit under the same name. The first one continued and released it once more, while
// an operation was in progress under it: one operation more was started than the limit allows.
func TestNoProcessOfARunAsksUnderTheNamesOfAnotherOne(t *testing.T) {
	again := 0
	for every := 20; every < 200; every += 7 {
		w := safely(t, 12)
		asked, under, own := map[PermitKey]bool{}, map[PermitKey]bool{}, map[PermitKey]bool{}
		w.asking = func(key PermitKey) {
			if asked[key] && !under[key] {
				t.Errorf("with a crash every %d steps: the permit %v of another process was released", every, key)
			}
			own[key] = true
		}
		w.boot()
		for !w.run(every) {
			w.crash()
			w.restore()
			maps.Copy(asked, own)
			for key := range asked {
				under[key] = w.isUnder(key)
			}
			again++
			w.boot()
		}
		w.stateAgrees()
		w.once()
	}
	if again < 50 {
		t.Errorf("%d processes have resumed runs", again)
	}
}

// A process whose run another one had resumed noticed that one of its permits was lost, and released the other permits
// of the same operation at once. The other process had these permits by then, and used them.
func TestPermitsAreGivenBackForALostOneOnceThatIsRecorded(t *testing.T) {
	w := safely(t, 1)
	w.change = func(s *Settings) {
		s.Place = func(program.Placement, func(string) bool) (string, []wire.Limit) {
			return "default", []wire.Limit{{Name: "narrow", Slots: 1}, {Name: "default", Slots: 4}}
		}
	}
	lost, recorded, released := false, false, 0
	w.confirm = func(k PermitKey) error {
		if k.Limit == "narrow" && !lost {
			lost = true
			return wire.ErrPermitLost
		}
		return nil
	}
	w.log = func(_ time.Time, in Input, actions []Action) {
		if c, ok := in.(Committed); ok && c.Records[0].Kind == Retracted {
			recorded = true
		}
		for _, a := range actions {
			if r, ok := a.(Release); ok && lost {
				released++
				if !recorded {
					t.Errorf("the permit %v is released before that is recorded", r.PermitKey)
				}
			}
		}
	}
	w.boot()
	w.finish()
	w.stateAgrees()
	w.once()
	if !lost || !recorded || released < 2 {
		t.Errorf("lost: %v, recorded: %v, released: %d", lost, recorded, released)
	}
}
