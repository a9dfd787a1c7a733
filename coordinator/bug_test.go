package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/program"
	statemem "github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// mined is a program whose functions panic if the test has set them.
type mined struct {
	*numbers.Program
	prepare, complete, accept func()
	describe                  atomic.Pointer[func()]
}

func strike(fn func()) {
	if fn != nil {
		fn()
	}
}

func (m *mined) Prepare(ctx context.Context, v int) program.Step {
	strike(m.prepare)
	return m.Program.Prepare(ctx, v)
}

func (m *mined) Complete(ctx context.Context, v int, r *wire.Result) program.Step {
	strike(m.complete)
	return m.Program.Complete(ctx, v, r)
}

func (m *mined) Accept(v int, s *program.Step) {
	strike(m.accept)
	m.Program.Accept(v, s)
}

func (m *mined) Describe(v int) program.Description {
	if fn := m.describe.Load(); fn != nil {
		(*fn)()
	}
	return m.Program.Describe(v)
}

// minedView panics when a vertex has finished.
type minedView struct{ Silent }

func (minedView) Finished(int, program.Description, program.Notes, time.Duration) { planted() }

// minedEnvelope panics when it has to encrypt a task.
type minedEnvelope struct{ xor }

func (minedEnvelope) Wrap(context.Context, wire.TaskRef, []byte) ([]byte, error) {
	planted()
	return nil, nil
}

func planted() { panic("planted") }

// A panic on a goroutine of a run, or in a callback, ended the process, and with it all other runs.
func TestABugEndsItsRunWithItsTraceAndNoOtherRun(t *testing.T) {
	// Each function adds a panic to the options of an apply.
	places := map[string]func(o *Options, p *mined, end <-chan struct{}){
		"preparing":  func(_ *Options, p *mined, _ <-chan struct{}) { p.prepare = planted },
		"completing": func(_ *Options, p *mined, _ <-chan struct{}) { p.complete = planted },
		"accepting":  func(_ *Options, p *mined, _ <-chan struct{}) { p.accept = planted },
		"describing": func(_ *Options, p *mined, _ <-chan struct{}) {
			p.prepare = func() { fn := planted; p.describe.Store(&fn) }
		},
		"in a view": func(o *Options, _ *mined, _ <-chan struct{}) { o.Observer = minedView{} },
		"sealing":   func(o *Options, _ *mined, _ <-chan struct{}) { o.Envelope = minedEnvelope{} },
		"naming an attempt": func(o *Options, _ *mined,
			_ <-chan struct{}) {
			o.NewID = func() string { planted(); return "" }
		},
		"with a lock that others need": func(_ *Options, p *mined, end <-chan struct{}) { lock(p, end) },
	}
	for name, plant := range places {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				system := mem.New(mem.Options{})
				_, stop := serveTasks(t, system, "default", 100, time.Second)
				defer stop()
				conn := system.Connect("coordinator")
				defer func() { _ = conn.Close() }()
				shared := hub.New(conn, "c1")
				stores := [2]*statemem.Store{statemem.New(statemem.Options{}), statemem.New(statemem.Options{})}
				began := time.Now()
				var group sync.WaitGroup
				var ended [2]time.Duration
				var errs [2]error
				var outs [2]Outcome
				good := numbers.Random(t, 60, 1)
				good.Lane, good.Stored = program.Safe, true
				bad := &mined{Program: numbers.Random(t, 60, 2)}
				bad.Lane, bad.Stored = program.Safe, true
				end := make(chan struct{})
				for i, p := range []program.Program{good, bad} {
					o := applyOptions(conn, stores[i], p, fmt.Sprintf("a%d-", i))
					// operations that the bug leaves in doubt keep their permits
					o.Hub, o.RunID, o.Parallelism = shared, fmt.Sprintf("run%d", i), 1000
					beginNamed(t, stores[i], o.RunID, 60)
					if i == 1 {
						plant(&o, bad, end)
					}
					group.Go(func() {
						outs[i], errs[i] = New(o).Run(context.Background())
						ended[i] = time.Since(began)
					})
				}
				group.Wait()
				close(end)
				var bug *Bug
				if !errors.As(errs[1], &bug) || bug.Value != "planted" ||
					!strings.Contains(errs[1].Error(), "coordinator.planted") {
					t.Errorf("the run with the bug ends with: %v", errs[1])
				}
				if ended[1] > 2*bugTimeout {
					t.Errorf("the run with the bug ends after %s", ended[1])
				}
				if outs[1].Status == "done" {
					t.Error("the run with the bug is done")
				}
				if errs[0] != nil || outs[0].Status != "done" {
					t.Errorf("the other run: %v, %s", errs[0], outs[0].Status)
				}
				storedNumbers(t, stores[0], good)
			})
		})
	}
}

// lock makes a program panic while it holds the lock for which all other prepared vertices wait, until end is closed.
func lock(p *mined, end <-chan struct{}) {
	first := make(chan struct{}, 1)
	p.prepare = func() {
		select {
		case first <- struct{}{}:
			planted()
		default:
			<-end
		}
	}
}
