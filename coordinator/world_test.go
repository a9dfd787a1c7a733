package coordinator

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// world is everything around a loop, simulated: store, streams, registers, limits, workers, clock. All chance comes from
// one seed. The loop of the process can be lost at any step, and another one made from what is durable.
type world struct {
	t      *testing.T
	chance *rand.Rand
	now    time.Time
	agenda agenda
	serial int

	program *numbers
	change  func(*settings)
	loop    *loop
	life    int // counts the processes
	steps   int

	// Durable.
	events  []journal.Event
	outputs map[string]*state.Output
	tasks   map[wire.AttemptID]*taskInStream
	claims  map[wire.AttemptID]wire.Claim
	results map[int]*resultInStream // by delivery
	held    map[permitKey]bool
	asked   map[string][]permitKey
	slots   map[string]int
	began   map[string]int // how often the operations began, by name
	busy    int            // operations under way at workers
	most    int

	// Behaviour.
	latency   func(name string) time.Duration
	silent    bool                                  // there are no workers
	loseCall  func(name string, n int) error        // the fast lane's error
	answer    func(t *wire.Task) *wire.Result       // what a worker answers
	work      func(w *world, a wire.AttemptID) bool // false: the worker never comes to an end
	asking    func(permitKey)                       // told of each request for a permit
	confirm   func(permitKey) error                 // what a permit says when something is to be started under it
	survey    time.Duration                         // how long it takes until all workers were asked
	unchecked bool                                  // the graph is too large to check the loop after each step
	connected func() time.Duration                  // for how long the transport is
	others    map[string][]permitKey                // what other runs hold or wait for
	calls     map[string]int                        // fast-lane calls by name
	seen      []string                              // what the observer was told
}

type taskInStream struct {
	ref  wire.TaskRef
	task *wire.Task
}

type resultInStream struct {
	ref    wire.TaskRef
	result *wire.Result
}

// appointment is something that will happen.
type appointment struct {
	at     time.Time
	serial int
	life   int // the process that it concerns; 0: none, it survives a crash
	do     func()
	commit bool
}

type agenda []appointment

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return cmp.Or(a[i].at.Compare(a[j].at), cmp.Compare(a[i].serial, a[j].serial)) < 0
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(appointment)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

func newWorld(t *testing.T, seed uint64, p *numbers) *world {
	w := &world{
		t: t, chance: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1_700_000_000, 0), program: p,
		outputs: map[string]*state.Output{}, tasks: map[wire.AttemptID]*taskInStream{}, claims: map[wire.AttemptID]wire.Claim{},
		results: map[int]*resultInStream{}, held: map[permitKey]bool{}, asked: map[string][]permitKey{},
		slots: map[string]int{}, began: map[string]int{}, others: map[string][]permitKey{}, calls: map[string]int{},
		latency: func(string) time.Duration { return 10 * time.Millisecond }, answer: compute,
	}
	return w
}

// later has something happen after a while, if the process lives that long.
func (w *world) later(d time.Duration, do func()) { w.arrange(d, w.life, do) }

func (w *world) arrange(d time.Duration, life int, do func()) {
	w.serial++
	heap.Push(&w.agenda, appointment{at: w.now.Add(d), serial: w.serial, life: life, do: do})
}

// soon is the time that most things take.
func (w *world) soon() time.Duration { return time.Duration(w.chance.IntN(1000)) * time.Microsecond }

// boot starts a process: a new run, or the resumption of one.
func (w *world) boot() {
	w.life++
	memory, err := recollect(w.program.graph.Len(), w.events)
	if err != nil {
		w.t.Fatal(err)
	}
	s := settings{
		run: "run", coordinator: "c", durable: true, cores: 4, slots: 4, doubtWait: 30 * time.Second, settleFor: time.Second,
		program: w.program, weight: func(program.Description) float64 { return 1 },
		place: func(program.Placement, func(string) bool) (string, []wire.Limit) {
			return "default", []wire.Limit{{Name: "default", Slots: 4}}
		},
		attempt: func() wire.AttemptID { w.serial++; return wire.AttemptID(fmt.Sprintf("a%d", w.serial)) },
	}
	if len(w.events) > 0 {
		s.past = memory
	}
	if w.change != nil {
		w.change(&s)
	}
	w.loop = newLoop(s)
	for _, n := range sortedKeys(w.results) { // what is in the stream is delivered again
		w.deliver(n)
	}
	w.send(began{})
	w.later(w.survey, func() { w.send(surveyed{}) })
	w.heartbeats()
	w.tick()
}

func sortedKeys(m map[int]*resultInStream) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// crash loses the process and all that it had in hand. What it had asked the store or the streams for may have been
// done just before, though nobody will be told.
func (w *world) crash() {
	w.life = -w.life // so that nothing reaches the loop
	committing := true
	under := slices.Clone(w.agenda)
	slices.SortFunc(under, func(a, b appointment) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.serial, b.serial)) })
	for _, a := range under {
		happens := w.chance.IntN(2) == 0
		if a.commit {
			happens = happens && committing // one after the other
			committing = happens
		}
		if a.life == -w.life && happens {
			a.do()
		}
	}
	w.life = -w.life
	w.agenda = slices.DeleteFunc(w.agenda, func(a appointment) bool { return a.life != 0 })
	heap.Init(&w.agenda)
}

func (w *world) tick() {
	w.later(tickEvery, func() {
		connected := time.Minute
		if w.connected != nil {
			connected = w.connected()
		}
		w.send(ticked{connected})
		w.tick()
	})
}

func (w *world) heartbeats() {
	if !w.silent {
		var holding []wire.AttemptID
		for id, c := range w.claims {
			if c.Worker == "w" && w.tasks[id] != nil {
				holding = append(holding, id)
			}
		}
		slices.Sort(holding)
		w.send(beat{wire.Heartbeat{Worker: "w", Pools: []string{"default"}, Slots: 100, Protocol: wire.ProtocolVersion, Attempts: holding}})
	}
	w.later(time.Second, w.heartbeats)
}

// send gives the loop an event and has done what follows.
func (w *world) send(e event) {
	if w.life < 0 {
		return
	}
	w.steps++
	for _, a := range slices.Clone(w.loop.step(w.now, e)) {
		w.do(a)
	}
	if w.unchecked {
		return
	}
	if err := w.loop.check(); err != nil {
		w.t.Fatalf("after %T: %v", e, err)
	}
}

// run goes on until the loop is over, or a number of steps was taken; it reports which.
func (w *world) run(steps int) (over bool) {
	for limit := w.steps + steps; !w.loop.over(); {
		if w.steps >= limit {
			return false
		}
		if w.now.Sub(time.Unix(1_700_000_000, 0)) > 24*time.Hour {
			w.t.Fatalf("the run does not end: %v", w.loop.counts)
		}
		next := heap.Pop(&w.agenda).(appointment)
		if next.life != 0 && next.life != w.life {
			continue
		}
		w.now = next.at
		next.do()
	}
	return true
}

func (w *world) finish() {
	w.t.Helper()
	w.run(1 << 30)
	if w.loop.broken != nil {
		w.t.Fatal(w.loop.broken)
	}
	w.send(ticked{time.Minute})
	// What the loop holds when it ends is given back, but for what operations in doubt need.
	keep := w.loop.held()
	for key := range w.held {
		if strings.HasPrefix(key.id, "run-") && !slices.Contains(keep, key) {
			delete(w.held, key)
		}
	}
}

func (w *world) do(a action) {
	switch a := a.(type) {
	case show:
		a(&ear{w: w})
	case prepare:
		w.later(w.soon(), func() {
			step := program.Step{}
			if a.phase == 0 {
				step = w.loop.program.Prepare(context.Background(), a.vertex)
			} else {
				step = w.program.PrepareAfter(context.Background(), a.vertex, a.phase)
			}
			w.send(prepared{a.vertex, step})
		})
	case complete:
		w.later(w.soon(), func() {
			w.send(completed{vertex: a.vertex, step: w.program.Complete(context.Background(), a.vertex, a.result)})
		})
	case call:
		w.called(a)
	case commit:
		w.serial++
		heap.Push(&w.agenda, appointment{at: w.now, serial: w.serial, life: w.life, commit: true, do: func() { // in order, because the agenda is
			w.events = append(w.events, a.record.events...)
			for _, c := range a.record.changes {
				o := c.(state.SetOutput)
				w.outputs[o.Name] = o.Output
			}
			w.send(committed{[]record{a.record}})
		}})
	case publish:
		w.later(w.soon(), func() {
			err := w.confirmed(a.permits)
			if err == nil {
				w.stored(a)
			}
			w.send(published{a.vertex, a.ref.Attempt, err})
		})
	case ack:
		w.later(w.soon(), func() { delete(w.results, a.delivery); w.send(acked{a.delivery}) })
	case readClaim:
		w.later(w.soon(), func() {
			c, ok := w.claims[a.ref.Attempt]
			w.send(registered{a.vertex, a.ref.Attempt, c, ok, nil})
		})
	case bury:
		w.later(w.soon(), func() {
			if _, ok := w.claims[a.ref.Attempt]; !ok {
				w.claims[a.ref.Attempt] = wire.Claim{Nonce: "tomb", Tombstone: true, Reason: a.reason}
			}
			w.send(registered{a.vertex, a.ref.Attempt, w.claims[a.ref.Attempt], true, nil})
		})
	case declare:
		w.later(w.soon(), func() {
			if w.slots[a.limit.Name] == 0 {
				w.slots[a.limit.Name] = a.limit.Slots
			}
			w.send(declared{a.limit.Name, w.slots[a.limit.Name]})
		})
	case acquire:
		if w.asking != nil {
			w.asking(permitKey{a.limit, a.id})
		}
		w.later(w.soon(), func() { w.ask(permitKey{a.limit, a.id}) })
	case withdraw:
		w.later(w.soon(), func() {
			key := permitKey{a.limit, a.id}
			if i := slices.Index(w.asked[a.limit], key); i >= 0 {
				w.asked[a.limit] = slices.Delete(w.asked[a.limit], i, i+1)
				w.send(refused{a.limit, a.id, context.Canceled})
			}
		})
	case release:
		w.later(w.soon(), func() {
			key := permitKey{a.limit, a.id}
			if !w.held[key] && w.life > 0 {
				w.t.Fatalf("the permit %v is released, but not held", key)
			}
			delete(w.held, key)
			w.admit(a.limit)
			w.send(released{a.limit, a.id})
		})
	case askContention:
		w.later(w.soon(), func() { w.send(contention{a.limit, len(w.others[a.limit]) > 0}) })
	case control:
	default:
		w.t.Fatalf("unknown action %T", a)
	}
}

// confirmed asks the permits.
func (w *world) confirmed(keys []permitKey) error {
	for _, k := range keys {
		if !w.held[k] {
			w.t.Fatalf("something is started under %v, which is not held", k)
		}
		if w.confirm != nil {
			if err := w.confirm(k); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) called(a call) {
	if err := w.confirmed(a.permits); err != nil {
		w.later(w.soon(), func() { w.send(callFailed{a.vertex, err}) })
		return
	}
	name := a.task.Function.Name
	w.calls[name]++
	if w.loseCall != nil {
		if err := w.loseCall(name, w.calls[name]); err != nil {
			w.later(w.soon(), func() { w.send(callFailed{a.vertex, err}) })
			return
		}
	}
	w.enter()
	d := w.latency(name)
	w.later(d, func() {
		w.busy--
		w.send(completed{a.vertex, w.program.Complete(context.Background(), a.vertex, w.answer(a.task)), d})
	})
}

func (w *world) enter() {
	w.busy++
	w.most = max(w.most, w.busy)
}

// ask queues a request for a permit, or offers the permit that is held under its name.
func (w *world) ask(key permitKey) {
	if w.held[key] {
		w.send(granted{key.limit, key.id})
		return
	}
	w.asked[key.limit] = append(w.asked[key.limit], key)
	w.admit(key.limit)
}

func (w *world) admit(limit string) {
	for len(w.asked[limit]) > 0 && w.heldOf(limit) < w.slots[limit] {
		key := w.asked[limit][0]
		w.asked[limit] = w.asked[limit][1:]
		w.held[key] = true
		if strings.HasPrefix(key.id, "run-") {
			w.later(w.soon(), func() { w.send(granted{key.limit, key.id}) })
		} else {
			w.others[limit] = slices.DeleteFunc(w.others[limit], func(k permitKey) bool { return k == key })
		}
	}
}

func (w *world) heldOf(limit string) (n int) {
	for k := range w.held {
		if k.limit == limit {
			n++
		}
	}
	return n
}

// stored puts a task into the stream, where the worker finds it.
func (w *world) stored(a publish) {
	if w.tasks[a.ref.Attempt] != nil {
		return
	}
	w.tasks[a.ref.Attempt] = &taskInStream{a.ref, a.task}
	for range 1 + w.chance.IntN(2) { // once, or twice
		w.arrange(w.soon(), 0, func() { w.take(a.ref.Attempt) })
	}
}

// take is a worker that gets a task delivered.
func (w *world) take(id wire.AttemptID) {
	if _, taken := w.claims[id]; taken || w.silent {
		return
	}
	w.serial++
	nonce := fmt.Sprintf("n%d", w.serial)
	w.claims[id] = wire.Claim{Nonce: nonce, Worker: "w"}
	task := w.tasks[id].task
	if w.work != nil && !w.work(w, id) {
		return
	}
	w.began[task.Function.Name]++
	w.enter()
	w.arrange(w.latency(task.Function.Name), 0, func() {
		w.busy--
		r := w.answer(task)
		r.Attempt, r.Nonce, r.Worker = id, nonce, "w"
		w.report(w.tasks[id].ref, r)
	})
}

// report puts a result into the stream.
func (w *world) report(ref wire.TaskRef, r *wire.Result) {
	w.serial++
	n := w.serial
	w.results[n] = &resultInStream{ref, r}
	w.deliver(n)
	if w.chance.IntN(4) == 0 { // and once more
		w.serial++
		w.results[w.serial] = w.results[n]
		w.deliver(w.serial)
	}
}

func (w *world) deliver(n int) {
	w.later(w.soon(), func() {
		if r := w.results[n]; r != nil {
			w.send(arrived{n, r.ref, uint64(n), r.result, w.claims[r.ref.Attempt]})
		}
	})
}

// stateAgrees compares what is durable with what a plain walk computes.
func (w *world) stateAgrees() {
	w.t.Helper()
	w.program.check()
	for v, n := range w.program.results {
		if w.program.isHidden(v) {
			continue
		}
		o := w.outputs[outputName(v)]
		if o == nil {
			w.t.Errorf("the number of %d is not in the state", v)
			continue
		}
		if got, _ := o.Value.AsBigFloat().Uint64(); got != n {
			w.t.Errorf("the state has %d for %d, which is %d", got, v, n)
		}
	}
}

// once checks that no operation began twice.
func (w *world) once() {
	w.t.Helper()
	for name, n := range w.began {
		if n > 1 {
			w.t.Errorf("the operation %s began %d times", name, n)
		}
	}
}

// restore makes a program that knows what the state knows, as a new process would.
func (w *world) restore() {
	fresh := w.program
	p := &numbers{t: fresh.t, graph: fresh.graph, before: fresh.before, lane: fresh.lane, hidden: fresh.hidden, fails: fresh.fails,
		ops: fresh.ops, stored: fresh.stored, place: fresh.place}
	n := len(fresh.before)
	p.results, p.prepared, p.accepted = make([]uint64, n), make([]int, n), make([]int, n)
	for v := range n {
		if o := w.outputs[outputName(v)]; o != nil && !p.isHidden(v) && o.Value.Type().FriendlyName() == "number" {
			p.results[v], _ = o.Value.AsBigFloat().Uint64()
		}
	}
	w.program = p
}

// ear is the observer of the world.
type ear struct {
	Silent
	w *world
}

func (e *ear) hear(format string, args ...any) {
	e.w.seen = append(e.w.seen, fmt.Sprintf(format, args...))
}

func (e *ear) Started(v int, d program.Description, pool string, at time.Time) {
	e.hear("started %d in %s", v, pool)
}
func (e *ear) Progress(v int, d program.Description, elapsed time.Duration) {
	e.hear("still %d %s", v, elapsed)
}
func (e *ear) Finished(v int, d program.Description, n program.Notes, took time.Duration) {
	e.hear("finished %d", v)
}
func (e *ear) Failed(v int, d program.Description, took time.Duration) { e.hear("failed %d", v) }
func (e *ear) Skipped(v int, d program.Description, because string) {
	e.hear("skipped %d because of %s", v, because)
}
func (e *ear) Doubtful(v int, d program.Description, reason string) {
	e.hear("in doubt %d: %s", v, reason)
}
func (e *ear) Waiting(waits []Wait) { e.hear("waiting %v", waits) }
func (e *ear) Diagnostics(l diag.List) {
	for _, d := range l {
		e.hear("%s: %s", d.Severity, d.Summary)
	}
}
