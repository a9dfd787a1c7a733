// Package numbers is a program for tests of the run loop and its executor: its vertices compute numbers.
package numbers

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

// Program is a program whose vertices compute a number each, from those of their dependencies: so the final numbers are
// right only if each vertex ran once, after its dependencies. A worker computes visible vertices; hidden ones are
// computed in place.
type Program struct {
	t      testing.TB
	edges  []dag.Edge
	graph  *dag.Graph
	Before [][]int
	Lane   program.Lane
	Hidden func(v int) bool
	Fails  func(v int) bool
	// Unkept says that the answer to a vertex cannot be kept.
	Unkept func(v int) bool
	Place  func(v int) program.Placement
	// Ops is the number of operations of a visible vertex; 0 means 1. quick says that the first of several goes by the
	// fast lane, as that of the built-in resource does before its provisioners.
	Ops   int
	Quick bool
	// Stored says that numbers are kept in the state, as outputs.
	Stored bool

	mu       sync.Mutex // guards the fields below
	Results  []uint64
	asked    map[int]int // the operation that the last task of a vertex is for
	Prepared []int
	Accepted []int
	Doubts   []int
}

// New returns a program of n vertices. Edges lead from lower to higher numbers, or as the caller likes, without
// circles.
func New(t testing.TB, n int, edges ...dag.Edge) *Program {
	p := &Program{t: t, edges: edges, graph: dag.New(n), Before: make([][]int, n), Results: make([]uint64, n),
		asked:    map[int]int{},
		Prepared: make([]int, n), Accepted: make([]int, n)}
	for _, e := range edges {
		p.graph.Edge(e.Before, e.After)
		p.Before[e.After] = append(p.Before[e.After], e.Before)
	}
	return p
}

// Again returns the same program as a new process would make it. It has the numbers that result returns, and no others;
// 0 is no number.
func (p *Program) Again(result func(v int) uint64) *Program {
	q := New(p.t, len(p.Before), p.edges...)
	q.Lane, q.Hidden, q.Fails, q.Unkept, q.Ops, q.Quick, q.Stored, q.Place =
		p.Lane, p.Hidden, p.Fails, p.Unkept, p.Ops, p.Quick, p.Stored, p.Place
	for v := range q.Results {
		q.Results[v] = result(v)
	}
	return q
}

// Random has edges that lead upwards only.
func Random(t testing.TB, n int, seed uint64) *Program {
	chance := rand.New(rand.NewPCG(seed, 1))
	var edges []dag.Edge
	for v := 1; v < n; v++ {
		for range chance.IntN(4) {
			edges = append(edges, dag.Edge{Before: chance.IntN(v), After: v})
		}
	}
	return New(t, n, edges...)
}

func (p *Program) Graph() *dag.Graph { return p.graph }

func (p *Program) IsHidden(v int) bool { return p.Hidden != nil && p.Hidden(v) }

func (p *Program) Describe(v int) program.Description {
	return program.Description{Address: fmt.Sprintf("number.n%d", v), Class: "number", Action: "create",
		Hidden: p.IsHidden(v)}
}

// combine returns the number of a vertex from its inputs.
func combine(v int, inputs []uint64) uint64 {
	sum := uint64(v) + 1
	for _, n := range inputs {
		sum = sum*31 + n
	}
	return sum | 1
}

func (p *Program) inputs(v int) []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := make([]uint64, 0, len(p.Before[v]))
	for _, b := range p.Before[v] {
		if p.Results[b] == 0 {
			p.t.Errorf("vertex %d runs before %d", v, b)
		}
		in = append(in, p.Results[b])
	}
	return in
}

func (p *Program) Prepare(_ context.Context, v int) program.Step {
	p.mu.Lock()
	p.Prepared[v]++
	p.mu.Unlock()
	if p.IsHidden(v) {
		return program.Step{Value: combine(v, p.inputs(v))}
	}
	return p.ask(v, 1)
}

func (p *Program) PrepareAfter(_ context.Context, v, phase int, worker string) program.Step {
	if worker != "w" && !p.Quick {
		p.t.Errorf("vertex %d is gone on with after %d operations, and the last one is said to be of worker %q",
			v, phase, worker)
	}
	return p.ask(v, phase+1)
}

// ask makes the task of the op-th operation of a vertex.
func (p *Program) ask(v, op int) program.Step {
	p.mu.Lock()
	p.asked[v] = op
	p.mu.Unlock()
	lane := p.Lane
	if p.Quick && op == 1 && p.Ops > 1 {
		lane = program.Fast
	}
	step := program.Step{Lane: lane, Task: &wire.Task{Address: p.Describe(v).Address, Function: &wire.FunctionTask{
		Name: fmt.Sprintf("%d/%d", v, op),
		Args: [][]byte{encodeNumbers(append([]uint64{uint64(v), uint64(op)}, p.inputs(v)...))},
	}}}
	if p.Place != nil {
		at := p.Place(v)
		step.Place = &at
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

// Compute returns the result of a task, as a worker computes it.
func Compute(t *wire.Task) *wire.Result {
	ns := decodeNumbers(t.Function.Args[0])
	return &wire.Result{Attempt: t.Attempt, Worker: "w", Started: time.Now(), Ended: time.Now(),
		Function: &wire.FunctionResult{Value: encodeNumbers([]uint64{ns[0], ns[1], combine(int(ns[0]), ns[2:])})}}
}

func (p *Program) Complete(_ context.Context, v int, r *wire.Result) program.Step {
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
	if p.Fails != nil && p.Fails(v) {
		return program.Step{Diags: diag.Errors("Told to fail", "", nil)}
	}
	if p.Unkept != nil && p.Unkept(v) {
		return program.Step{Diags: diag.Errors("It cannot be kept", "", nil), Doubt: &program.Unstorable{
			Reason: "the answer cannot be kept", Answer: &wire.Answer{Known: []byte("{}"), Raw: r.Function.Value}}}
	}
	if int(ns[1]) < p.Ops {
		return p.ask(v, int(ns[1])+1)
	}
	step := program.Step{Value: ns[2]}
	if p.Stored {
		step.Changes = []state.Change{state.SetOutput{Name: OutputName(v),
			Output: &state.Output{Value: cty.NumberUIntVal(ns[2])}}}
	}
	return step
}

func OutputName(v int) string { return fmt.Sprintf("n%d", v) }

func (p *Program) Accept(v int, step *program.Step) {
	if step.Task != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Accepted[v]++
	if n, ok := step.Value.(uint64); ok {
		p.Results[v] = n
	}
}

func (p *Program) Doubt(v int, d state.Doubt) []state.Change {
	p.Doubts = append(p.Doubts, v)
	text := "in doubt: " + d.Attempt
	if d.Answer != nil {
		text += ", answered " + string(d.Answer.Known)
	}
	return []state.Change{state.SetOutput{Name: OutputName(v), Output: &state.Output{Value: cty.StringVal(text)}}}
}

// ResolveDoubt returns no changes: the result of the vertex overwrites the doubt.
func (p *Program) ResolveDoubt(int) []state.Change { return nil }

// Check compares the results with those of a plain walk.
func (p *Program) Check() {
	p.t.Helper()
	want := make([]uint64, len(p.Before))
	wrong := 0
	order, _ := p.graph.Order()
	for _, v := range order {
		var in []uint64
		for _, b := range p.Before[v] {
			in = append(in, want[b])
		}
		want[v] = combine(v, in)
		if p.Results[v] != want[v] {
			wrong++
		}
	}
	if wrong > 0 {
		p.t.Errorf("%d of %d numbers are wrong", wrong, len(want))
	}
}
