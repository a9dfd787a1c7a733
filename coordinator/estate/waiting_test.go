package estate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/state/mem"
)

// crowd has operations that share one state. Each has the name of its request.
type crowd struct {
	t      *testing.T
	store  *mem.Store
	shared SharedStores
	// dead has the requests whose process has ended.
	dead sync.Map
	told []string // what the operations were told that they wait for
}

func newCrowd(t *testing.T) *crowd {
	return &crowd{t: t, store: mem.New(mem.Options{Now: time.Now})}
}

func (c *crowd) operation(name string) *Operation {
	e := testEstate(c.t, c.t.TempDir())
	return &Operation{estate: e, watch: Watch{Note: func(string) {}}, Config: &Configuration{}, State: &Opened{
		estate: e, Workspace: "default", home: c.shared.home("home"), store: &openedStore{Store: &stored{Store: c.store}},
		info: journal.LockInfo{ID: "lock of " + name, Who: "the user of " + name},
		sharing: &Sharing{
			Request: name, Alive: func(request string) bool { return !c.isDead(request) },
			Waits: func(list []locks.Blocker) {
				text := name + " goes on"
				for i, b := range list {
					if text += ", "; i == 0 {
						text = name + " waits for "
					}
					text += fmt.Sprintf("%s of %s", b.Object, b.By.ID)
				}
				c.told = append(c.told, text)
			},
		},
	}}
}

func (c *crowd) isDead(request string) bool {
	_, dead := c.dead.Load(request)
	return dead
}

// begin makes an operation request locks, and returns a channel that gets its outcome.
func (c *crowd) begin(r *Operation, lock func(context.Context) diag.List) <-chan diag.List {
	over := make(chan diag.List, 1)
	go func() { over <- lock(c.t.Context()) }()
	synctest.Wait()
	return over
}

// objects makes an operation lock outputs.
func (c *crowd) objects(r *Operation, names ...string) <-chan diag.List {
	set := locks.Set{}
	for _, name := range names {
		set.Add(locks.Output(name), locks.Write)
	}
	return c.begin(r, func(ctx context.Context) diag.List { return r.lock(ctx, set) })
}

func (c *crowd) whole(r *Operation) <-chan diag.List { return c.begin(r, r.LockAll) }

// has checks that an operation has its locks, or that it waits.
func (c *crowd) has(over <-chan diag.List, yes bool, when string) {
	c.t.Helper()
	synctest.Wait()
	select {
	case diags := <-over:
		if !yes || diags.HasErrors() {
			c.t.Errorf("%s: the operation did not wait: %v", when, diags.Err())
		}
	default:
		if yes {
			c.t.Errorf("%s: the operation waits", when)
		}
	}
}

func (c *crowd) left() (names []string) {
	all, err := c.store.LockRequests(c.t.Context(), "default")
	if err != nil {
		c.t.Error(err)
	}
	for _, q := range all {
		names = append(names, q.ID)
	}
	return names
}

func TestTheWholeStateComesAfterThoseBeforeItAndBeforeThoseAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		a, b, whole, after := c.operation("a"), c.operation("b"), c.operation("whole"), c.operation("after")
		c.has(c.objects(a, "x"), true, "nobody else is there")
		c.has(c.objects(b, "y"), true, "it wants something else")
		must(t, diag.List{}.Append(a.State.store.Commit(t.Context(), journal.Commit{Workspace: "default", Fence: "a",
			Changes: []state.Change{
				state.SetOutput{Name: "x", Output: &state.Output{Sensitive: true}}}, EndVersion: true})))
		w := c.whole(whole)
		c.has(w, false, "two have objects")
		later := c.objects(after, "z")
		c.has(later, false, "nobody overtakes who wants everything")
		must(t, a.State.leaveLocks(t.Context()))
		time.Sleep(lookEvery)
		c.has(w, false, "one has objects")
		must(t, b.State.leaveLocks(t.Context()))
		c.has(w, true, "nobody has objects")
		if whole.Prior == nil || whole.Prior.Outputs["x"] == nil {
			t.Error("the operation uses a state from before the runs for which it has waited")
		}
		c.has(later, false, "somebody has everything")
		must(t, whole.State.leaveLocks(t.Context()))
		c.has(later, true, "nobody has anything")
		want := []string{"whole waits for the whole state of a", "after waits for the whole state of whole",
			"whole waits for the whole state of b", "whole goes on", "after goes on"}
		for _, text := range want {
			if !slices.Contains(c.told, text) {
				t.Errorf("there is no message %q, but %q", text, c.told)
			}
		}
		must(t, after.State.leaveLocks(t.Context()))
		if left := c.left(); len(left) > 0 {
			t.Errorf("at the end the locks of %v are left", left)
		}
	})
}

// A run that was left by force keeps its locks until another run settles it. A run that waits for these locks does so,
// but not before the process that executed the first run has ended.
func TestWhoWaitsForTheObjectsOfARunThatWasLeftGetsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		a, b, behind := c.operation("a"), c.operation("b"), c.operation("behind")
		c.has(c.objects(a, "x"), true, "nobody else is there")
		run := journal.Run{ID: "run of a", Workspace: "default", Status: journal.Running, Vertices: 1}
		must(t, diag.List{}.Append(c.store.BeginRun(t.Context(), "a", run, nil)))
		waits := c.objects(b, "x", "y")
		next := c.objects(behind, "y")
		c.dead.Store("a", true) // the service knows that it is left; its operation is still there
		time.Sleep(3 * lookEvery)
		c.has(waits, false, "the operation has not closed the state")
		a.estate.Stop = asked(t)
		must(t, a.State.leaveLocks(t.Context()))
		time.Sleep(2 * lookEvery)
		c.has(waits, true, "nobody works on the run")
		c.has(next, false, "it came later")
		if left := c.left(); !slices.Equal(left, []string{"b", "behind"}) {
			t.Errorf("the locks of %v are left", left)
		}
		must(t, b.State.leaveLocks(t.Context()))
		c.has(next, true, "the other one has ended")
	})
}

// A run that is cancelled while it waits keeps its place in the queue, because a service that shuts down stops it in
// the same way and continues it later. If it was cancelled for good, the requests after it waited for a request without
// locks.
func TestWhoWaitsBehindACancelledRunGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		a, b, behind := c.operation("a"), c.operation("b"), c.operation("behind")
		c.has(c.objects(a, "x"), true, "nobody else is there")
		stop, ask, _ := operation.NewStop(t.Context())
		b.estate.Stop = stop
		waits := c.objects(b, "x", "y")
		next := c.objects(behind, "y")
		ask(operation.ErrInterrupted)
		synctest.Wait()
		if diags := <-waits; !diags.HasErrors() || diags[0].Summary != "Operation interrupted" {
			t.Errorf("the operation ends with %v", diags.Err())
		}
		must(t, b.State.leaveLocks(t.Context()))
		time.Sleep(3 * lookEvery)
		c.has(next, false, "the run that waits before it may be continued")
		c.dead.Store("b", true)
		time.Sleep(2 * lookEvery)
		c.has(next, true, "nobody continues that")
		if left := c.left(); !slices.Equal(left, []string{"a", "behind"}) {
			t.Errorf("the locks of %v are left", left)
		}
	})
}

func asked(t *testing.T) operation.Stop {
	stop, ask, _ := operation.NewStop(t.Context())
	ask(operation.ErrInterrupted)
	return stop
}
