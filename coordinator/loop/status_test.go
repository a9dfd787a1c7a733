package loop

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
)

func TestAStatusChangesAsItsTableSaysAndInNoOtherWay(t *testing.T) {
	checkTable[phase](t, "phase", phases)
	checkTable[origin](t, "origin", origins)
	checkTable[sending](t, "sending", sendings)
	checkTable[register](t, "register", registers)
	checkTable[effect](t, "effect", effects)
	checkTable[course](t, "course", courses)
	checkTable[evidence](t, "evidence", evidences)
	checkTable[taking](t, "taking", takings)
}

// checkTable tries all changes of a status with n values.
func checkTable[S status](t *testing.T, kind string, n int) {
	t.Helper()
	names := map[string]bool{}
	reached := map[S]bool{0: true}
	for from := range S(n) {
		if name := from.String(); name == "" || names[name] {
			t.Errorf("%s: the name %q of %d is empty, or that of another one", kind, name, from)
		}
		names[from.String()] = true
		if from.next()>>n != 0 {
			t.Errorf("%s: what follows %s is no status", kind, from)
		}
		for to := range S(n) {
			is, allowed := from, from.next()&(1<<to) != 0
			text := recovered(func() { become(7, &is, to) })
			switch {
			case allowed && (text != "" || is != to):
				t.Errorf("%s: %s does not become %s: %s", kind, from, to, text)
			case !allowed && (is != from || !strings.Contains(text, "vertex 7 is "+from.String()) ||
				!strings.HasSuffix(text, "cannot become "+to.String())):
				t.Errorf("%s: %s becomes %s, or the bug does not name both: %q", kind, from, to, text)
			}
			if allowed {
				reached[to] = true
			}
		}
	}
	if len(reached) != n {
		t.Errorf("%s: only %v follow something", kind, reached)
	}
}

func recovered(do func()) (text string) {
	defer func() {
		if bug := recover(); bug != nil {
			text = fmt.Sprint(bug)
		}
	}()
	do()
	return ""
}

// statusFields are the fields that have a status.
var statusFields = []string{"phase", "origin", "sending", "register", "effect", "course", "evidence", "taking"}

func TestNothingButBecomeAndMoveChangesAStatus(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	changes := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		isStatus := func(e ast.Expr) bool {
			s, ok := e.(*ast.SelectorExpr)
			return ok && slices.Contains(statusFields, s.Sel.Name)
		}
		passed := map[ast.Expr]bool{} // to become, or set
		within := ""
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				within = n.Name.Name
			case *ast.CallExpr:
				if name, ok := n.Fun.(*ast.Ident); ok && (name.Name == "become" || name.Name == "set") && len(n.Args) == 3 {
					passed[n.Args[1]] = true
					changes++
				}
			case *ast.UnaryExpr:
				if n.Op == token.AND && isStatus(n.X) && !passed[n] {
					t.Errorf("%s: the address of a status is taken", files.Position(n.Pos()))
				}
			case *ast.AssignStmt:
				if slices.ContainsFunc(n.Lhs, isStatus) && within != "move" {
					t.Errorf("%s: a status is assigned", files.Position(n.Pos()))
				}
			case *ast.KeyValueExpr:
				if name, ok := n.Key.(*ast.Ident); ok && slices.Contains(statusFields, name.Name) {
					t.Errorf("%s: a status begins with another value than its first", files.Position(n.Pos()))
				}
			}
			return true
		})
	}
	if changes < 20 {
		t.Errorf("only %d changes were looked at", changes)
	}
}

// changes records the changes of all statuses, from one step to the next, of the worlds that it follows.
type changes struct {
	seen map[string]int // by status, before and after
	run  Loop           // before the step: its statuses
	of   *Loop
	list []vertex // before the step
	work []work
}

func (c *changes) follow(t *testing.T, w *world) {
	before := w.log
	w.log = func(at time.Time, in Input, actions []Action) {
		if before != nil {
			before(at, in, actions)
		}
		c.compare(t, w.loop)
	}
}

func (c *changes) compare(t *testing.T, l *Loop) {
	if c.of == l {
		changed(t, c, "course", c.run.course, l.course)
		changed(t, c, "evidence", c.run.evidence, l.evidence)
		changed(t, c, "taking", c.run.store.taking, l.store.taking)
		for v, was := range c.list {
			x := &l.vertices[v]
			changed(t, c, "phase", was.phase, x.phase)
			if x.work == nil {
				continue
			}
			before := c.work[v]
			if x.work != was.work {
				before = work{} // it has begun in this step
			}
			changed(t, c, "origin", before.origin, x.work.origin)
			changed(t, c, "sending", before.sending, x.work.sending)
			changed(t, c, "register", before.register, x.work.register)
			changed(t, c, "effect", before.effect, x.work.effect)
		}
	}
	c.of, c.list = l, append(c.list[:0], l.vertices...)
	c.run.ending, c.run.store = l.ending, l.store
	c.work = slices.Grow(c.work[:0], len(c.list))[:len(c.list)]
	for v, x := range c.list {
		if x.work != nil {
			c.work[v] = *x.work
		}
	}
}

// changed records a change, and finds out whether it is in the table: a step may make several at once.
func changed[S status](t *testing.T, c *changes, name string, from, to S) {
	if from == to {
		return
	}
	if from.next()&(1<<to) != 0 {
		c.seen[fmt.Sprintf("%s: %s, %s", name, from, to)]++
		return
	}
	reached, fresh := map[S]bool{}, []S{from}
	for len(fresh) > 0 && !reached[to] {
		s := fresh[0]
		fresh = fresh[1:]
		for next := range S(16) {
			if s.next()&(1<<next) != 0 && !reached[next] {
				reached[next] = true
				fresh = append(fresh, next)
			}
		}
	}
	if !reached[to] {
		t.Errorf("the %s %s has become %s, which no way in its table leads to", name, from, to)
	}
}

// stormy returns a world in which everything goes wrong that can, by chance.
func stormy(t *testing.T, seed uint64) *world {
	p := numbers.Random(t, 25, seed)
	p.Lane, p.Stored, p.Ops = program.Safe, true, 1+int(seed%2)
	p.Hidden = func(v int) bool { return v%6 == 1 }
	p.Fails = func(v int) bool { return v == 20 }
	p.Unkept = func(v int) bool { return seed%5 == 0 && v == 12 }
	w := newWorld(t, seed, p)
	w.change = func(s *Settings) { s.Traced = seed%4 == 0 }
	w.latency = func(string) time.Duration { return time.Duration(1+seed%900) * time.Millisecond }
	w.overtaken = true
	if seed%3 == 0 {
		w.storing = func() time.Duration { return 3 * w.soon() }
	}
	one := func(in int) bool { return w.chance.IntN(in) == 0 }
	w.confirm = func(PermitKey) error {
		if one(25) {
			return wire.ErrPermitLost
		}
		return nil
	}
	w.answerOf = func(Publish) error {
		if one(5) {
			return context.DeadlineExceeded
		}
		return nil
	}
	w.answer = func(task *wire.Task) *wire.Result {
		r := numbers.Compute(task)
		switch w.chance.IntN(25) {
		case 0:
			w.began[task.Function.Name]--
			return &wire.Result{NotStarted: true}
		case 1: // the worker says that it does not know the outcome, and then it does
			ref := w.tasks[task.Attempt].ref
			later := time.Duration(w.chance.IntN(30_000_000))
			if w.chance.IntN(2) == 0 { // before the doubt is settled
				later /= 100
			}
			w.arrange(later, 0, func() {
				r.Attempt, r.Pool, r.Worker, r.Nonce = ref.Attempt, ref.Pool, w.claims[ref.Attempt].Worker,
					w.claims[ref.Attempt].Nonce
				w.report(ref, r)
			})
			return &wire.Result{Doubt: "the worker stopped"}
		}
		return r
	}
	w.work = func(w *world, id wire.AttemptID) bool {
		switch w.chance.IntN(25) {
		case 0:
			w.claims[id] = wire.Claim{Nonce: "n-dead", Worker: "dead"}
			return false
		case 1:
			w.claims[id] = wire.Claim{Nonce: "t", Worker: "keyless", Tombstone: true, Reason: "it has no key"}
			return false
		case 2: // nobody claims it before it is delivered again
			delete(w.claims, id)
			w.arrange(25*time.Second, 0, func() { w.take(id) })
			return false
		}
		return true
	}
	return w
}

// strike makes something happen to the run.
func (w *world) strike() {
	probes := []error{nil, wire.ErrStore, wire.ErrUnconfirmed, wire.ErrUnanswered, errors.New("odd")}
	for range 1 + w.chance.IntN(3) {
		kind, at := w.chance.IntN(8), time.Duration(w.chance.IntN(3000))*time.Millisecond
		if w.chance.IntN(2) == 0 {
			at /= 1000
		}
		w.later(at, func() {
			switch kind {
			case 0:
				w.send(Interrupted{Settle: w.chance.IntN(3) == 0})
			case 1:
				w.send(Interrupted{Cancel: true})
			case 2:
				if w.chance.IntN(3) == 0 {
					w.send(Abandoned{})
				}
				w.send(Interrupted{Cancel: true})
			case 3:
				if w.chance.IntN(2) == 0 {
					w.send(LostData{Older: w.chance.IntN(2) == 0})
				}
			case 4:
				until := w.now.Add(20 * time.Second)
				w.connected = func() time.Duration { return max(0, w.now.Sub(until)) }
			default:
				for i := range 1 + w.chance.IntN(5) {
					err := probes[w.chance.IntN(len(probes))]
					w.later(time.Duration(i)*time.Second, func() { w.send(Probed{Err: err}) })
				}
				w.later(6*time.Second, func() { w.send(Probed{}) })
			}
		})
	}
}

func TestEveryChangeOfAStatusInWholeSimulationsIsInItsTable(t *testing.T) {
	c := &changes{seen: map[string]int{}}
	for seed := range uint64(600) {
		w := stormy(t, seed)
		c.follow(t, w)
		w.boot()
		w.strike()
		for range seed % 4 {
			if w.run(20 + w.chance.IntN(300)) {
				break
			}
			w.crash()
			w.restore()
			w.connected = nil
			w.boot()
			w.strike()
		}
		w.run(1 << 20)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	wantAll[origin](t, c, "origin", origins)
	wantAll[sending](t, c, "sending", sendings)
	wantAll[register](t, c, "register", registers)
	wantAll[effect](t, c, "effect", effects)
	wantAll[course](t, c, "course", courses)
	wantAll[evidence](t, c, "evidence", evidences)
	wantAll[taking](t, c, "taking", takings)
}

// wantAll finds the entries of a table that nothing has needed.
func wantAll[S status](t *testing.T, c *changes, name string, n int) {
	for from := range S(n) {
		for to := range S(n) {
			one := fmt.Sprintf("%s: %s, %s", name, from, to)
			if from.next()&(1<<to) != 0 && c.seen[one] == 0 {
				t.Errorf("no simulation has needed this: %s", one)
			}
		}
	}
}
