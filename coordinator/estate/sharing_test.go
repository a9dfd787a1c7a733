package estate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/state/mem"
)

// outrun is a store in which another operation creates each workspace right after a lookup has not found it.
type outrun struct{ Store }

func (o outrun) Workspaces(ctx context.Context) ([]string, error) {
	names, err := o.Store.Workspaces(ctx)
	return names, errors.Join(err, o.CreateWorkspace(ctx, "one"))
}

// The first two runs of a workspace began at the same time: one of them failed because the other one had created the
// workspace.
func TestTwoMakeAWorkspaceAtOnce(t *testing.T) {
	store := mem.New(mem.Options{Now: time.Now, NewID: rand.Text, EngineVersion: "1.12.6"})
	s := &Opened{store: &openedStore{Store: outrun{&stored{Store: store}}}, Workspace: "one"}
	if err := s.ensureWorkspace(t.Context()); err != nil {
		t.Error(err)
	}
	if err := store.CreateWorkspace(t.Context(), "one"); !errors.Is(err, journal.ErrWorkspaceExists) {
		t.Errorf("the workspace does not exist: %v", err)
	}
}

// A service was killed after the end of a run was recorded, and before the service had recorded it itself. The resumed
// apply found no unfinished run, started the plan again, and was refused because of its own changes; nor was the
// snapshot written.
func TestARunThatHasEndedIsFoundByItsRequest(t *testing.T) {
	ctx := t.Context()
	e := testEstate(t, t.TempDir())
	must(t, put(ctx, e, "first"))
	store := e.Stores.(*stores).all[homeOf(t, e).Store()]
	text, err := planfile.Encode(planfile.Saved{Plan: &plan.Plan{Workspace: "default", Prior: state.Empty()}, Engine: "0"})
	if err != nil {
		t.Fatal(err)
	}
	is := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	begin := func(request, id string, events ...journal.Event) {
		t.Helper()
		is(store.AskLocks(ctx, "default", locks.Request{ID: request, Set: locks.Set{locks.Output(id): locks.Write}}))
		run := journal.Run{ID: id, Request: request, Workspace: "default", Status: journal.Running, Vertices: 1}
		is(store.BeginRun(ctx, request, run, text))
		if len(events) > 0 {
			is(store.Commit(ctx, journal.Commit{Workspace: "default", Fence: request, Run: id, Events: events}))
		}
	}
	finds := func(request, want string) {
		t.Helper()
		run, saved, diags := e.Requested(ctx, StateOptions{Sharing: &Sharing{Stores: &SharedStores{}, Request: request}})
		must(t, diags)
		switch {
		case run == nil && want != "":
			t.Errorf("no run was found for the request %s", request)
		case run != nil && (run.ID+" "+run.Status != want || saved == nil):
			t.Errorf("for the request %s the run %s was found, which is %s, want %q", request, run.ID, run.Status, want)
		}
	}
	wants := journal.Event{Kind: journal.Want}
	begin("first", "one", wants)
	finds("first", "one running")
	is(store.EndRun(ctx, "first", "one", "done", time.Now()))
	finds("first", "one done")
	is(store.LeaveLocks(ctx, "default", "first"))
	finds("first", "one done")
	begin("second", "two", wants)
	is(store.EndRun(ctx, "second", "two", "failed", time.Now()))
	finds("second", "two failed")
	// The run did not start any part of the plan, so the plan may be started.
	begin("third", "three")
	is(store.EndRun(ctx, "third", "three", "failed", time.Now()))
	finds("third", "")
	// Its locks were released, so others may have changed the objects that it was to change.
	begin("fourth", "four", wants)
	is(store.EndRun(ctx, "fourth", "four", "interrupted", time.Now()))
	finds("fourth", "four interrupted")
	is(store.LeaveLocks(ctx, "default", "fourth"))
	finds("fourth", "")
	finds("nobody", "")
}

// shares opens a state that several operations share.
func shares(t *testing.T, e *Estate, shared *SharedStores, request string) *Opened {
	t.Helper()
	at, diags := e.OpenChangeable(t.Context(), Finding{}, StateOptions{Sharing: &Sharing{
		Stores: shared, Request: request, Alive: func(string) bool { return true },
	}}, "test")
	must(t, diags)
	return at.(*Opened)
}

// The store adopted changes of others in the snapshot only when its first user opened it. While a plan that cannot be
// applied had it open, a person could lock the workspace and push a state: the next run planned without that state, and
// the snapshot that it wrote reverted it.
func TestWhatOthersDidToTheSnapshotIsAdoptedWhileSomebodyHasTheStoreOpen(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	e := testEstate(t, dir)
	must(t, put(ctx, e, "first"))
	var shared SharedStores
	plan := shares(t, e, &shared, "plan")
	push := func(was, is string, serial int) {
		t.Helper()
		name := filepath.Join(dir, "terraform.tfstate")
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, "terraform.tfstate", strings.NewReplacer(was, is, fmt.Sprintf(`"serial": %d`, serial),
			fmt.Sprintf(`"serial": %d`, serial+1)).Replace(string(text)))
	}
	has := func(at *Opened) string {
		t.Helper()
		st, diags := at.Load(ctx)
		must(t, diags)
		return st.Outputs["x"].Value.AsString()
	}
	push("first", "pushed", 1)
	run := shares(t, e, &shared, "run")
	if got := has(run); got != "pushed" {
		t.Errorf("the run uses the state %q", got)
	}
	// A run with locks may write the snapshot meanwhile, and no other process writes it.
	set := locks.Set{locks.Output("x"): locks.Write}
	if err := run.ask(ctx, set); err != nil {
		t.Fatal(err)
	}
	other := shares(t, e, &shared, "other")
	run.LockID = "run"
	must(t, run.Commit(ctx, []state.Change{state.SetOutput{Name: "x", Output: &state.Output{
		Value: cty.StringVal("applied")}}}))
	if got := has(other); got != "applied" {
		t.Errorf("after the run the state is %q", got)
	}
	for _, at := range []*Opened{plan, run, other} {
		must(t, at.Close(ctx))
	}
	push("applied", "pushed again", 3)
	if got, diags := get(ctx, e); got != "pushed again" || diags.HasErrors() {
		t.Errorf("at the end the state is %q: %v", got, diags.Err())
	}
}

// observed is a backend that reports when a snapshot is read.
type observed struct {
	backend.Backend
	read func()
}

func (o observed) Read(ctx context.Context, workspace string) ([]byte, error) {
	o.read()
	return o.Backend.Read(ctx, workspace)
}

// An operation that opened the state read the snapshot and then the store's mark of it. In between, a run ended a
// version and wrote the snapshot. The operation took the older snapshot for a change by others, and reverted that
// version (make sim, seed 2246).
func TestNoVersionEndsWhileSomebodyLooksWhatOthersDidToTheSnapshot(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	e := testEstate(t, dir)
	must(t, put(ctx, e, "first"))
	var shared SharedStores
	reads := 0
	e.Backend = observed{backend.NewLocal(backend.LocalOptions{Dir: dir}), func() {
		reads++
		for path, home := range shared.homes {
			if len(home.ending) == 0 {
				t.Errorf("a version of %s can end while the state is read", path)
			}
		}
	}}
	first := shares(t, e, &shared, "first")
	second := shares(t, e, &shared, "second")
	if reads == 0 {
		t.Error("the snapshot was not read")
	}
	for _, home := range shared.homes {
		if len(home.ending) != 0 {
			t.Error("after the state was read no version can end")
		}
	}
	for _, at := range []*Opened{first, second} {
		must(t, at.Close(ctx))
	}
}
