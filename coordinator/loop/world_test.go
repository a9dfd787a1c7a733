package loop

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
)

// world simulates everything around a loop: store, streams, registers, limits, workers, clock. All randomness comes
// from one seed. The process with its loop can crash at any step, and another one continues from the durable data.
type world struct {
	t      *testing.T
	chance *rand.Rand
	now    time.Time
	agenda agenda
	serial int

	program *numbers.Program
	change  func(*Settings)
	loop    *Loop
	life    int // counts the processes
	steps   int

	// Durable.
	events   []journal.Event
	outputs  map[string]*state.Output
	tasks    map[wire.AttemptID]*taskInStream
	reported map[wire.AttemptID]bool // whose results the stream has: no worker holds them any more
	claims   map[wire.AttemptID]wire.Claim
	results  map[int]*resultInStream // by delivery
	held     map[PermitKey]bool
	wanted   map[PermitKey]bool // the requests of this process that it has not given back
	asked    map[string][]PermitKey
	slots    map[string]int
	began    map[string]int // how often the operations began, by name
	commits  time.Time      // when the last commit is durable
	busy     int            // operations under way at workers
	most     int

	// Behaviour.
	latency   func(name string) time.Duration
	silent    bool                                  // there are no workers
	deaf      bool                                  // workers take no tasks
	trouble   func() string                         // why the workers take no tasks; nil: they do
	loseCall  func(name string, n int) error        // the fast lane's error
	answer    func(t *wire.Task) *wire.Result       // what a worker answers
	work      func(w *world, a wire.AttemptID) bool // false: the worker never comes to an end
	asking    func(PermitKey)                       // told of each request for a permit
	refuse    func(PermitKey) error                 // why a request for a permit fails; nil: it does not
	blockers  []string                              // what of earlier runs is in doubt, and holds permits
	confirm   func(PermitKey) error                 // what a permit says when something is to be started under it
	answerOf  func(Publish) error                   // the answer about a task that the stream took; nil: that it did
	survey    time.Duration                         // how long it takes until all workers were asked
	overtaken bool                                  // the end of a run may release permits before a task is on its way
	storing   func() time.Duration                  // how long a commit takes; nil: no time
	unchecked bool                                  // the graph is too large to check the loop after each step
	connected func() time.Duration                  // for how long the transport is
	others    map[string][]PermitKey                // what other runs hold or wait for
	calls     map[string]int                        // fast-lane calls by name
	handed    map[string]int                        // tasks that were offered to a worker that keeps a slot, by worker
	crews     map[string]*crew                      // who works in which pool; nil: one worker, who never waits
	seen      []string                              // what the observer was told
	// log is called for each step. It may be nil.
	log func(at time.Time, in Input, actions []Action)
}

type taskInStream struct {
	ref  wire.TaskRef
	task *wire.Task
}

type resultInStream struct {
	ref    wire.TaskRef
	result *wire.Result
}

// crew has the workers of a pool. They execute as many operations at a time as they have slots, first come, first
// served.
type crew struct {
	slots, busy int
	queue       []func(done func())
	longest     int       // that the queue ever was
	last        time.Time // when the last operation ended
}

// employ executes an operation as soon as the pool has a slot for it. do must call done at its end.
func (w *world) employ(pool string, do func(done func())) {
	c := w.crews[pool]
	if c == nil {
		do(func() {})
		return
	}
	if c.busy == c.slots {
		c.queue = append(c.queue, do)
		c.longest = max(c.longest, len(c.queue))
		return
	}
	c.busy++
	do(func() {
		c.busy--
		c.last = w.now
		if len(c.queue) > 0 {
			next := c.queue[0]
			c.queue = c.queue[1:]
			w.employ(pool, next)
		}
	})
}

// appointment is a future event.
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

func newWorld(t *testing.T, seed uint64, p *numbers.Program) *world {
	w := &world{
		t: t, chance: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1_700_000_000, 0), program: p,
		outputs: map[string]*state.Output{}, tasks: map[wire.AttemptID]*taskInStream{},
		reported: map[wire.AttemptID]bool{}, claims: map[wire.AttemptID]wire.Claim{},
		results: map[int]*resultInStream{}, held: map[PermitKey]bool{}, asked: map[string][]PermitKey{},
		slots: map[string]int{}, began: map[string]int{}, others: map[string][]PermitKey{}, calls: map[string]int{},
		handed:  map[string]int{},
		latency: func(string) time.Duration { return 10 * time.Millisecond }, answer: numbers.Compute,
	}
	return w
}

// later schedules a function after a delay, if the process lives that long.
func (w *world) later(d time.Duration, do func()) { w.arrange(d, w.life, do) }

func (w *world) arrange(d time.Duration, life int, do func()) {
	w.serial++
	heap.Push(&w.agenda, appointment{at: w.now.Add(d), serial: w.serial, life: life, do: do})
}

// soon returns the delay of most events.
func (w *world) soon() time.Duration { return time.Duration(w.chance.IntN(1000)) * time.Microsecond }

// boot starts a process: a new run, or the resumption of one.
func (w *world) boot() {
	w.life++
	memory, err := PastOf(w.program.Graph().Len(), w.events)
	if err != nil {
		w.t.Fatal(err)
	}
	s := Settings{
		Run: "run", Coordinator: "c", Durable: true, Cores: 4, Slots: 4, DoubtWait: 30 * time.Second,
		SettleFor: time.Second,
		Program:   w.program, Weight: func(program.Description) float64 { return 1 },
		Place: func(program.Placement, func(string) bool) (string, []wire.Limit) {
			return "default", []wire.Limit{{Name: "default", Slots: 4}}
		},
		Attempt: func() wire.AttemptID { w.serial++; return wire.AttemptID(fmt.Sprintf("a%d", w.serial)) },
	}
	if len(w.events) > 0 {
		s.Past = memory
	}
	if w.wanted = map[PermitKey]bool{}; w.life > 1 {
		s.Process = fmt.Sprint("p", w.life)
		w.orphans()
	}
	if w.change != nil {
		w.change(&s)
	}
	w.loop = New(s)
	for _, n := range sortedKeys(w.results) { // what is in the stream is delivered again
		w.deliver(n)
	}
	w.send(Began{})
	w.later(w.survey, func() { w.send(Surveyed{}) })
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

// orphans releases the permits of earlier processes under which nothing is in progress, when they are delivered to this
// process.
func (w *world) orphans() {
	free := func(key PermitKey) bool {
		return strings.HasPrefix(key.ID, "run-") && !w.wanted[key] && !w.isUnder(key)
	}
	w.later(time.Second, func() {
		for limit, list := range w.asked {
			w.asked[limit] = slices.DeleteFunc(list, free)
		}
		for key := range w.held {
			if free(key) {
				delete(w.held, key)
			}
		}
		for _, limit := range slices.Sorted(maps.Keys(w.asked)) {
			w.admit(limit)
		}
		w.orphans()
	})
}

// crash ends the process and loses its memory. Requests to the store or the streams may have been executed just before,
// without an answer.
func (w *world) crash() {
	w.life = -w.life // so that nothing reaches the loop
	committing := true
	under := slices.Clone(w.agenda)
	slices.SortFunc(under, func(a, b appointment) int {
		return cmp.Or(a.at.Compare(b.at),
			cmp.Compare(a.serial, b.serial))
	})
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
	w.later(TickEvery, func() {
		connected := time.Minute
		if w.connected != nil {
			connected = w.connected()
		}
		w.send(Ticked{connected})
		w.tick()
	})
}

func (w *world) heartbeats() {
	for _, pool := range slices.Sorted(maps.Keys(w.crews)) {
		w.beats(pool, w.crews[pool].slots)
	}
	if !w.silent && w.crews == nil {
		w.beats("default", 100)
	}
	w.later(time.Second, w.heartbeats)
}

// beats makes the workers of a pool send heartbeats with their attempts.
func (w *world) beats(pool string, slots int) {
	var holding []wire.AttemptID
	for id, c := range w.claims {
		if t := w.tasks[id]; c.Worker == w.workerOf(pool) && t != nil && !w.reported[id] {
			holding = append(holding, id)
		}
	}
	slices.Sort(holding)
	h := wire.Heartbeat{Worker: w.workerOf(pool), Pools: []string{pool}, Slots: slots, Protocol: wire.ProtocolVersion,
		Attempts: holding}
	if w.trouble != nil {
		h.Trouble = w.trouble()
	}
	w.send(Beat{h})
}

func (w *world) workerOf(pool string) string {
	if w.crews == nil {
		return "w"
	}
	return "w-" + pool
}

// crashAt starts the run, ends its process after a number of steps, and has another process resume the run and finish
// it. It reports whether the run was over before.
func (w *world) crashAt(step int) (over bool) {
	w.boot()
	if over = w.run(step); !over {
		w.crash()
		w.restore()
		w.boot()
	}
	w.finish()
	return over
}

// send passes an event to the loop and executes the resulting actions.
func (w *world) send(e Input) {
	if w.life < 0 {
		return
	}
	w.steps++
	actions := slices.Clone(w.loop.Step(w.now, e))
	if w.log != nil {
		w.log(w.now, e, actions)
	}
	var records []Record
	for _, a := range actions {
		if c, ok := a.(Commit); ok {
			records = append(records, c.Record)
			continue
		}
		w.do(a)
	}
	w.commit(records)
	if w.unchecked {
		return
	}
	if err := w.loop.check(); err != nil {
		w.t.Fatalf("after %T: %v", e, err)
	}
}

// run continues until the loop has ended, or a number of steps was taken; it reports which.
func (w *world) run(steps int) (over bool) {
	for limit := w.steps + steps; !w.loop.Over(); {
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
	if w.loop.err != nil {
		w.t.Fatal(w.loop.err)
	}
	w.send(Ticked{time.Minute})
	// When the loop has ended, it has released all permits except those of operations in doubt.
	keep := w.loop.Held()
	for key := range w.held {
		if strings.HasPrefix(key.ID, "run-") && !slices.Contains(keep, key) {
			delete(w.held, key)
		}
	}
}

// stateAgrees compares the durable data with the result of a plain walk.
func (w *world) stateAgrees() {
	w.t.Helper()
	w.program.Check()
	for v, n := range w.program.Results {
		if w.program.IsHidden(v) {
			continue
		}
		o := w.outputs[numbers.OutputName(v)]
		if o == nil {
			w.t.Errorf("the number of %d is not in the state", v)
			continue
		}
		if got, _ := o.Value.AsBigFloat().Uint64(); got != n {
			w.t.Errorf("the state has %d for %d, which is %d", got, v, n)
		}
	}
}

// once checks that no operation was started twice.
func (w *world) once() {
	w.t.Helper()
	for name, n := range w.began {
		if n > 1 {
			w.t.Errorf("the operation %s began %d times", name, n)
		}
	}
	if w.most > 4 {
		w.t.Errorf("%d operations ran at a time, the limit is 4", w.most)
	}
}

// restore makes a program from the data in the state, as a new process would.
func (w *world) restore() {
	p := w.program
	w.program = p.Again(func(v int) uint64 {
		o := w.outputs[numbers.OutputName(v)]
		if o == nil || p.IsHidden(v) || o.Value.Type().FriendlyName() != "number" {
			return 0
		}
		n, _ := o.Value.AsBigFloat().Uint64()
		return n
	})
}
