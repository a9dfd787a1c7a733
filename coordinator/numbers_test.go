package coordinator

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// numbers is a program whose vertices compute a number each, from those that they wait for: so the numbers at the end
// are right only if each vertex ran, once, after what it waits for. Visible vertices have a worker compute it, hidden
// ones do it in place.
type numbers struct {
	t      testing.TB
	graph  *dag.Graph
	before [][]int
	lane   program.Lane
	hidden func(v int) bool
	fails  func(v int) bool
	// unkept says that the answer to a vertex cannot be kept.
	unkept func(v int) bool
	place  func(v int) program.Placement
	// ops is the number of operations of a visible vertex; 0 means 1. quick says that the first of several goes by the fast
	// lane, as that of the built-in resource does before its provisioners.
	ops   int
	quick bool
	// stored says that numbers are kept in the state, as outputs.
	stored bool

	mu       sync.Mutex // guards what follows
	results  []uint64
	asked    map[int]int // the operation that the last task of a vertex is for
	prepared []int
	accepted []int
	doubts   []int
}

func newNumbers(t testing.TB, n int, edges ...dag.Edge) *numbers {
	p := &numbers{t: t, graph: dag.New(n), before: make([][]int, n), results: make([]uint64, n), asked: map[int]int{},
		prepared: make([]int, n), accepted: make([]int, n)}
	for _, e := range edges {
		p.graph.Edge(e.Before, e.After)
		p.before[e.After] = append(p.before[e.After], e.Before)
	}
	return p
}

// randomNumbers has edges that lead upwards only.
func randomNumbers(t testing.TB, n int, seed uint64) *numbers {
	chance := rand.New(rand.NewPCG(seed, 1))
	var edges []dag.Edge
	for v := 1; v < n; v++ {
		for range chance.IntN(4) {
			edges = append(edges, dag.Edge{Before: chance.IntN(v), After: v})
		}
	}
	return newNumbers(t, n, edges...)
}

func (p *numbers) Graph() *dag.Graph { return p.graph }

func (p *numbers) isHidden(v int) bool { return p.hidden != nil && p.hidden(v) }

func (p *numbers) Describe(v int) program.Description {
	return program.Description{Address: fmt.Sprintf("number.n%d", v), Class: "number", Action: "create", Hidden: p.isHidden(v)}
}

// combine is what a vertex computes from its inputs.
func combine(v int, inputs []uint64) uint64 {
	sum := uint64(v) + 1
	for _, n := range inputs {
		sum = sum*31 + n
	}
	return sum | 1
}

func (p *numbers) inputs(v int) []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := make([]uint64, 0, len(p.before[v]))
	for _, b := range p.before[v] {
		if p.results[b] == 0 {
			p.t.Errorf("vertex %d runs before %d", v, b)
		}
		in = append(in, p.results[b])
	}
	return in
}

func (p *numbers) Prepare(_ context.Context, v int) program.Step {
	p.mu.Lock()
	p.prepared[v]++
	p.mu.Unlock()
	if p.isHidden(v) {
		return program.Step{Value: combine(v, p.inputs(v))}
	}
	return p.ask(v, 1)
}

func (p *numbers) PrepareAfter(_ context.Context, v, phase int, worker string) program.Step {
	if worker != "w" && !p.quick {
		p.t.Errorf("vertex %d is gone on with after %d operations, and the last one is said to be of worker %q", v, phase, worker)
	}
	return p.ask(v, phase+1)
}

// ask makes the task of the op-th operation of a vertex.
func (p *numbers) ask(v, op int) program.Step {
	p.mu.Lock()
	p.asked[v] = op
	p.mu.Unlock()
	lane := p.lane
	if p.quick && op == 1 && p.ops > 1 {
		lane = program.Fast
	}
	step := program.Step{Lane: lane, Task: &wire.Task{Address: p.Describe(v).Address, Function: &wire.FunctionTask{
		Name: fmt.Sprintf("%d/%d", v, op), Args: [][]byte{encodeNumbers(append([]uint64{uint64(v), uint64(op)}, p.inputs(v)...))},
	}}}
	if p.place != nil {
		step.Place = p.place(v)
	}
	return step
}

func encodeNumbers(ns []uint64) []byte {
	var b []byte
	for _, n := range ns {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func decodeNumbers(b []byte) (ns []uint64) {
	for ; len(b) >= 8; b = b[8:] {
		ns = append(ns, binary.BigEndian.Uint64(b))
	}
	return ns
}

// compute is what a worker does with a task of numbers.
func compute(t *wire.Task) *wire.Result {
	ns := decodeNumbers(t.Function.Args[0])
	return &wire.Result{Attempt: t.Attempt, Worker: "w", Started: time.Now(), Ended: time.Now(),
		Function: &wire.FunctionResult{Value: encodeNumbers([]uint64{ns[0], ns[1], combine(int(ns[0]), ns[2:])})}}
}

func (p *numbers) Complete(_ context.Context, v int, r *wire.Result) program.Step {
	if diags := wire.DiagsFromWire(r.Diagnostics); diags.HasErrors() {
		return program.Step{Diags: diags}
	}
	ns := decodeNumbers(r.Function.Value)
	if int(ns[0]) != v {
		p.t.Errorf("vertex %d got the answer to %d", v, ns[0])
	}
	p.mu.Lock()
	if asked := p.asked[v]; int(ns[1]) != asked {
		p.t.Errorf("vertex %d asked for its operation %d, and got the answer to its operation %d", v, asked, ns[1])
	}
	p.mu.Unlock()
	if p.fails != nil && p.fails(v) {
		return program.Step{Diags: diag.Errors("Told to fail", "", nil)}
	}
	if p.unkept != nil && p.unkept(v) {
		return program.Step{Diags: diag.Errors("It cannot be kept", "", nil), Doubt: &program.Unkept{
			Reason: "the answer cannot be kept", Answer: &wire.Answer{Known: []byte("{}"), Raw: r.Function.Value}}}
	}
	if int(ns[1]) < p.ops {
		return p.ask(v, int(ns[1])+1)
	}
	step := program.Step{Value: ns[2]}
	if p.stored {
		step.Changes = []state.Change{state.SetOutput{Name: outputName(v), Output: &state.Output{Value: cty.NumberUIntVal(ns[2])}}}
	}
	return step
}

func outputName(v int) string { return fmt.Sprintf("n%d", v) }

func (p *numbers) Accept(v int, step *program.Step) {
	if step.Task != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted[v]++
	if n, ok := step.Value.(uint64); ok {
		p.results[v] = n
	}
}

func (p *numbers) Doubt(v int, d state.Doubt) []state.Change {
	p.doubts = append(p.doubts, v)
	text := "in doubt: " + d.Attempt
	if d.Answer != nil {
		text += ", answered " + string(d.Answer.Known)
	}
	return []state.Change{state.SetOutput{Name: outputName(v), Output: &state.Output{Value: cty.StringVal(text)}}}
}

// Undoubt takes nothing back: the result of the vertex overwrites what was in doubt.
func (p *numbers) Undoubt(int) []state.Change { return nil }

// check compares the results with those of a plain walk.
func (p *numbers) check() {
	p.t.Helper()
	want := make([]uint64, len(p.before))
	wrong := 0
	order, _ := p.graph.Order()
	for _, v := range order {
		var in []uint64
		for _, b := range p.before[v] {
			in = append(in, want[b])
		}
		want[v] = combine(v, in)
		if p.results[v] != want[v] {
			wrong++
		}
	}
	if wrong > 0 {
		p.t.Errorf("%d of %d numbers are wrong", wrong, len(want))
	}
}
