package loop

import (
	"slices"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/state"
)

// hiddenWeight is the expected duration of a vertex that users do not see, in seconds.
const hiddenWeight = 0.0001

// Failure is a vertex that failed.
type Failure struct {
	Vertex  int
	Address string
	// Earlier says that the vertex failed before the run was resumed, so that Diags has nothing about it; Reason is what
	// the journal has.
	Earlier bool
	Reason  string
}

// Skipped is a vertex that did not run because the vertex at another address failed.
type Skipped struct {
	Vertex           int
	Address, Because string
}

// Doubtful is a vertex whose operation has an unknown outcome.
type Doubtful struct {
	Vertex                         int
	Address, Attempt, Worker, Pool string
	Reason                         string
	Started                        time.Time
	// Answer is what is known of a result that arrived but could not be kept; nil if none arrived.
	Answer *state.Answer
}

// tally has what the loop keeps for the outcome and for views.
type tally struct {
	failed  []Failure
	skipped []Skipped
	doubted []Doubtful

	changed bool // since views were told last
	told    []Wait
	waits   map[waitKey]time.Time // since when vertices wait for something, by what it is

	total, ended, wrong, omitted int
	weights                      float64 // of all visible vertices that are not settled
	kinds                        []kind
	kindAt                       map[string]int32
	durations                    map[string]time.Duration
}

func (t *tally) add(weight float32) {
	t.total++
	t.weights += float64(weight)
	t.changed = true
}

func (t *tally) settle(x *vertex, bad bool) {
	if x.hidden {
		return
	}
	t.leave(x)
	if bad {
		t.wrong++
	} else {
		t.ended++
	}
}

func (t *tally) discount(x *vertex) {
	if !x.hidden {
		t.leave(x)
	}
}

func (t *tally) skip(x *vertex) {
	t.leave(x)
	t.omitted++
}

// sample records how long an operation took, without the time that it waited.
func (t *tally) sample(x *vertex, w *work, took time.Duration) {
	w.spent += took
	if x.hidden {
		return
	}
	if w.step.Bad() {
		return
	}
	if t.durations == nil {
		t.durations = map[string]time.Duration{}
	}
	t.durations[DurationKey(w.desc)] = took
}

// Durations returns how long the operations of this run took, by DurationKey.
func (t *tally) Durations() map[string]time.Duration { return t.durations }

// progress returns the progress of the run. It reads the other parts, and changes nothing of them.
func (t *tally) progress(qs *queues, ps *permits) Counts {
	c := Counts{
		Total: t.total, Done: t.ended, Failed: t.wrong, Skipped: t.omitted,
		InDoubt: qs.counts[doubtful] + len(t.doubted), Pools: make(map[string]PoolCounts, len(ps.poolOrder)),
	}
	for _, p := range ps.poolOrder {
		c.Pools[p.name] = p.PoolCounts
		c.Running += p.Running
	}
	c.Left = t.estimate(qs, ps.limitOrder, c.Running)
	return c
}

// showProgress shows what has changed.
func (l *Loop) showProgress() {
	for _, v := range l.out {
		x := &l.vertices[v]
		w := x.work
		elapsed := l.now.Sub(w.started)
		if n := int(elapsed / ProgressEvery); n > w.progress && !x.hidden {
			w.progress = n
			shown := about(ShownProgress, v, &w.desc)
			shown.Took = time.Duration(n) * ProgressEvery
			l.do(shown)
		}
	}
	if l.Traced {
		l.queues.showWaits()
	}
	waits := l.queues.missing(l.doubtful(), l.permits.investigate)
	for i := range waits {
		if pool := waits[i].Pool; pool != "" {
			waits[i].Unsuited = l.workers.unsuited(pool, l.permits.versions)
		}
	}
	waits = l.lasting(l.waitsForStores(waits), l.now)
	if !slices.EqualFunc(waits, l.told, Wait.equal) {
		l.told = waits
		l.do(Shown{Kind: ShownWaiting, Vertex: -1, Waits: waits})
	}
	if l.changed {
		l.changed = false
		l.do(Shown{Kind: ShownCounts, Vertex: -1, Counts: l.progress(&l.queues, &l.permits)})
	}
}

// momentary is how long vertices wait before it is told. On a busy machine a permit that is free takes a moment, too.
const momentary = 2 * time.Second

// waitKey is what vertices wait for.
type waitKey struct{ pool, limit string }

// lasting returns the waits that are to be told: those that are not over in a moment.
func (t *tally) lasting(waits []Wait, now time.Time) []Wait {
	since := make(map[waitKey]time.Time, len(waits))
	told := waits[:0]
	for _, w := range waits {
		key := waitKey{w.Pool, w.Limit}
		begun, known := t.waits[key]
		if !known {
			begun = now
		}
		since[key] = begun
		if now.Sub(begun) >= momentary || len(w.InDoubt) > 0 {
			told = append(told, w)
		}
	}
	t.waits = since
	return told
}

func DurationKey(d program.Description) string { return d.Class + " " + d.Action }
