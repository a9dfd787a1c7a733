package operation_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// start starts a plan of the estate's configuration.
func (e *estate) start(s *operation.Session) *operation.Handle[*operation.Planned] {
	return operation.Start(e.t.Context(), s, "plan",
		func(ctx context.Context, s *operation.Session) (*operation.Planned, diag.List) {
			return s.Plan(ctx, e.state(), plan.Options{})
		})
}

// applying starts the apply of a plan of the estate's configuration.
func (e *estate) applying() *operation.Handle[*operation.Applied] {
	p := e.plan(plan.Options{})
	return operation.Start(e.t.Context(), &e.session, "apply",
		func(ctx context.Context, s *operation.Session) (*operation.Applied, diag.List) {
			return s.Apply(ctx, operation.ApplyOptions{Plan: p, Command: "apply"})
		})
}

// A bug anywhere in an operation ended the process, and all other operations in it.
func TestAPanicEndsItsOperationWithItsTraceAndNoOther(t *testing.T) {
	for where, plant := range map[string]func(*operation.Session){
		"before it begins": func(s *operation.Session) { s.NewID = func() string { panic("planted") } },
		"before its run":   func(s *operation.Session) { s.Now = func() time.Time { panic("planted") } },
		"beside its run": func(s *operation.Session) {
			s.Package = func(addr.Provider) wire.Package {
				panic("planted")
			}
		},
	} {
		t.Run(where, func(t *testing.T) {
			e := newEstate(t)
			e.configure(`resource "fake_thing" "a" { name = "a" }`)
			sick := e.session
			plant(&sick)
			other := e.start(&e.session)
			_, diags := e.start(&sick).Wait()
			if b := bugOf(diags); b == nil || b.Value != "planted" ||
				!strings.Contains(string(b.Stack), "handle_test.go") {
				t.Errorf("the stack trace does not have the function with the bug: %v", diags)
			}
			sound, diags := other.Wait()
			e.clean(diags)
			e.equal("the other plan", changes(sound.Plan), []string{"create fake_thing.a"})
		})
	}
}

func TestAPanicOfTheCallersOwnPartEndsTheOperationOnly(t *testing.T) {
	e := newEstate(t)
	_, diags := operation.Do(t.Context(), &e.session, "odd",
		func(context.Context, *operation.Session) (int, diag.List) {
			panic("planted")
		})
	if !says(diags, "planted") || !says(diags, "bug in Millipede") {
		t.Error(diags)
	}
}

func TestStoppingOneOperationLeavesTheOthersAlone(t *testing.T) {
	e := newEstate(t)
	e.configure(`resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" {
  name       = "b"
  depends_on = [fake_thing.a]
}`)
	begun, goOn := make(chan struct{}), make(chan struct{})
	e.cloud.onApply = func(what string) error {
		if what == "create a" {
			close(begun)
			<-goOn
		}
		return nil
	}
	stopped := e.applying()
	<-begun
	stopped.Stop()
	other, diags := e.start(&e.session).Wait() // while the stopped one awaits what runs
	e.clean(diags)
	if len(other.Plan.Changes) == 0 {
		t.Error("the other operation has not changed anything")
	}
	select {
	case <-stopped.Done():
		t.Error("the stopped operation did not wait for the operations in progress")
	default:
	}
	close(goOn)
	applied, diags := stopped.Wait()
	if applied == nil || !applied.Outcome.Interrupted || !says(diags, "Operation interrupted") {
		t.Fatal(diags)
	}
	e.equal("what ran is in the state, nothing new was begun", existing(e.state()), []string{"fake_thing.a"})
}

func TestAnOperationThatIsLeftReturnsWhateverRuns(t *testing.T) {
	e := newEstate(t)
	e.configure(`resource "fake_thing" "a" { name = "a" }`)
	begun, goOn := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(goOn) })
	e.cloud.onApply = func(string) error {
		close(begun)
		<-goOn
		return nil
	}
	h := e.applying()
	<-begun
	h.Leave()
	_, diags := h.Wait()
	if !diags.HasErrors() {
		t.Error("no diagnostic says that the operation was left")
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.a in doubt"})
}

func TestAStopOfTheSessionOrTheEndOfTheContextReachesTheOperation(t *testing.T) {
	for sentence, ask := range map[string]func(e *estate, cancel func()){
		"the session is stopped": func(e *estate, _ func()) { e.interrupt() },
		"the context ends":       func(_ *estate, cancel func()) { cancel() },
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.configure(`resource "fake_thing" "a" { name = "a" }`)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ask(e, cancel) // it latches: operations that begin later are stopped, too
			_, diags := operation.Do(ctx, &e.session, "plan",
				func(ctx context.Context, s *operation.Session) (*operation.Planned, diag.List) {
					return s.Plan(ctx, e.state(), plan.Options{})
				})
			if !says(diags, "Operation interrupted") {
				t.Error(diags)
			}
		})
	}
}

// When a service was killed, its engine suspended the apply and left it to the next one. Now and then the cause of
// leaving arrived first: providers were asked to stop, so that the operations of the continued run failed.
func TestTheCauseOfAStopIsThatOfTheStopAndNotOfLeavingAfterIt(t *testing.T) {
	e := newEstate(t)
	for range 200 {
		var stop, leave context.CancelCauseFunc
		var cause error
		e.session.Stop, stop, leave = operation.NewStop(context.Background())
		h := operation.Start(e.session.Stop.Leaving, &e.session, "wait",
			func(_ context.Context, s *operation.Session) (struct{}, diag.List) {
				<-s.Stop.Stopping.Done()
				cause = context.Cause(s.Stop.Stopping)
				return struct{}{}, nil
			})
		stop(program.ErrSuspended)
		leave(errors.New("nobody listens any more"))
		if h.Wait(); !errors.Is(cause, program.ErrSuspended) {
			t.Fatalf("the cause is %v", cause)
		}
	}
}

// The context of a command ends with its first interrupt. An operation's own Leaving ended with that context, so that
// one interrupt left operations in progress in doubt, instead of waiting for them.
func TestTheEndOfTheContextStopsAndDoesNotLeave(t *testing.T) {
	e := newEstate(t)
	e.configure(`resource "fake_thing" "a" { name = "a" }`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun, goOn := make(chan struct{}), make(chan struct{})
	e.cloud.onApply = func(string) error {
		close(begun)
		<-goOn
		return nil
	}
	p := e.plan(plan.Options{})
	e.session.Stop, _, _ = operation.NewStop(context.Background())
	h := operation.Start(ctx, &e.session, "apply", func(ctx context.Context, s *operation.Session) (*operation.Applied,
		diag.List) {
		return s.Apply(ctx, operation.ApplyOptions{Plan: p, Saved: []byte("plan"), Command: "apply"})
	})
	<-begun
	cancel()
	select {
	case <-h.Done():
		t.Error("the operation ended before the changes in progress")
	case <-time.After(300 * time.Millisecond): // the time in which it would have been left
	}
	close(goOn)
	h.Wait()
	e.equal("state", existing(e.state()), []string{"fake_thing.a"})
}

// told collects the events of an operation from a cursor on.
func told(t *testing.T, h *operation.Handle[*operation.Applied], cursor uint64) (out []string, end uint64) {
	t.Helper()
	for {
		events, next, missed, err := h.Events(t.Context(), cursor)
		if err != nil || missed > 0 {
			t.Fatalf("%d events were missed: %v", missed, err)
		}
		if len(events) == 0 {
			return out, next
		}
		for _, e := range events {
			if cursor++; e.Sequence != cursor {
				t.Fatalf("event %d has the number %d", cursor, e.Sequence)
			}
			if e.Kind == loop.ShownStarted || e.Kind == loop.ShownFinished {
				out = append(out, map[loop.ShownKind]string{
					loop.ShownStarted: "started ", loop.ShownFinished: "finished ",
				}[e.Kind]+e.Action+" "+e.Address)
			}
		}
	}
}

func TestAReaderThatComesLaterGetsWhatItMissed(t *testing.T) {
	e := newEstate(t)
	e.configure(`resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" {
  name       = "b"
  depends_on = [fake_thing.a]
}`)
	h := e.applying()
	_, diags := h.Wait()
	e.clean(diags)
	all, end := told(t, h, 0)
	e.equal("events", all, []string{
		"started create fake_thing.a", "finished create fake_thing.a",
		"started create fake_thing.b", "finished create fake_thing.b",
	})
	again, _ := told(t, h, 0)
	e.equal("a second reader", again, all)
	if rest, _ := told(t, h, end); len(rest) > 0 {
		t.Errorf("after the last event there are %v", rest)
	}
}

func TestAReaderWaitsForEventsAndEndsWithItsContext(t *testing.T) {
	e := newEstate(t)
	e.configure(`resource "fake_thing" "a" { name = "a" }`)
	begun, goOn := make(chan struct{}), make(chan struct{})
	e.cloud.onApply = func(string) error {
		close(begun)
		<-goOn
		return nil
	}
	h := e.applying()
	<-begun
	events, next, _, err := h.Events(t.Context(), 0)
	e.check(err)
	if len(events) == 0 {
		t.Error("the events from before the end are missing")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, _, err := h.Events(ctx, next+1000); err == nil && len(events) == 0 {
		t.Error("a reader whose context has ended still waits")
	}
	close(goOn)
	_, diags := h.Wait()
	e.clean(diags)
}
