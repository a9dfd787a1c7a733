package drift_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/drift"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// driftHarness is a harness whose engine records the objects that it has to read.
type driftHarness struct {
	*servicetest.Harness
	t       *testing.T
	w       *service.WorkspaceView
	batches chan []string
	found   chan []work.Found // what the next batch finds; nothing while it is empty
}

// things returns a state with n objects, thing.a[0] and so on; changed ones have another value.
func things(serial, n int, changed ...int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"index_key":%d,"schema_version":0,"attributes":{"id":"%d","v":%t}}`, i, i,
			slices.Contains(changed, i)))
	}
	return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"l","outputs":{},"resources":[{"mode":"managed",`+
		`"type":"thing","name":"a","provider":"provider[\"registry.opentofu.org/acme/thing\"]","instances":[%s]}]}`,
		serial, strings.Join(list, ","))
}

func thing(i int) string { return fmt.Sprintf("thing.a[%d]", i) }

// watch returns a harness with a workspace with n objects that is not watched yet.
func watch(t *testing.T, n int, change ...func(*service.Options)) *driftHarness {
	x := &driftHarness{t: t, batches: make(chan []string, 100), found: make(chan []work.Found, 1)}
	x.Harness = servicetest.New(t, append(change, func(o *service.Options) { o.WatchReads = max(o.WatchReads, 8) })...)
	x.Engine.WatchFunc = func(_ context.Context, _ *work.Job, addresses []string, _ int) ([]work.Found, error) {
		x.batches <- addresses
		select {
		case f := <-x.found:
			return f, nil
		default:
			return nil, nil
		}
	}
	x.w = x.NewWorkspace("one")
	x.apply(things(1, n))
	return x
}

// apply makes a run write a state. The plan's changes are the given addresses.
func (x *driftHarness) apply(state string, addresses ...string) {
	x.t.Helper()
	r := x.NewRun(x.w, x.applies(state, addresses...))
	x.Await(r.ID, record.Applied)
}

func (x *driftHarness) applies(state string, addresses ...string) func(*record.Run) {
	var changes []string
	for _, a := range addresses {
		changes = append(changes, fmt.Sprintf(`{"address":%q,"mode":"managed","type":"thing","change":`+
			`{"actions":["update"]}}`, a))
	}
	x.Engine.Mu.Lock()
	defer x.Engine.Mu.Unlock()
	x.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		return &work.PlanResult{HasChanges: true, Plan: []byte("plan of " + j.Run.ID),
			Redacted: []byte(`{"resource_changes":[` + strings.Join(changes, ",") + `]}`)}, nil
	}
	x.Engine.ApplyFunc = func(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
		return &work.ApplyResult{Change: 1}, j.State.Write(ctx, []byte(state))
	}
	return func(r *record.Run) { r.AutoApply = true }
}

// every watches the workspace, and starts a batch now.
func (x *driftHarness) every(period time.Duration) {
	x.t.Helper()
	if _, err := x.Workspaces.Change(x.Admin, x.w.ID, service.WorkspaceSettings{DriftPeriod: &period}); err != nil {
		x.t.Fatal(err)
	}
}

// next returns the objects that the next batch reads.
func (x *driftHarness) next() []string {
	x.t.Helper()
	select {
	case b := <-x.batches:
		return b
	case <-x.t.Context().Done():
	case <-time.After(30 * time.Second):
	}
	x.t.Fatal("no batch has begun")
	return nil
}

// until waits for the expected findings.
func (x *driftHarness) until(what string, is func(*drift.Watched) bool) *drift.Watched {
	x.t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for until := time.Now().Add(30 * time.Second); ; <-again.C {
		v, err := x.Drift.Watched(x.Admin, x.w.ID)
		if err != nil {
			x.t.Fatal(err)
		}
		if is(v) {
			return v
		}
		if time.Now().After(until) {
			x.t.Fatalf("%s: after waiting, the state of watching is %+v", what, v.Watch)
		}
	}
}

func addresses(all []record.Drift) (out []string) {
	for _, d := range all {
		out = append(out, d.Address)
	}
	return out
}

func TestObjectsAreReadInBatchesThatAreSpreadOverThePeriod(t *testing.T) {
	x := watch(t, 120)
	x.every(10 * time.Minute)
	var all []string
	var began []time.Time
	for len(all) < 240 { // two rounds
		b := x.next()
		if len(b) > 50 {
			t.Errorf("a batch reads %d objects", len(b))
		}
		all = append(all, b...)
		known := x.until("the batch is noted", func(v *drift.Watched) bool {
			return !v.Batch.IsZero() && (len(began) == 0 || v.Batch.After(began[len(began)-1]))
		})
		began = append(began, known.Batch)
		x.Later(3 * time.Minute)
		x.every(10 * time.Minute)
	}
	for i := 1; i < len(began); i++ {
		if gap := began[i].Sub(began[i-1]); gap < 3*time.Minute {
			t.Errorf("batch %d began %s after the one before", i, gap)
		}
	}
	first, second := slices.Clone(all[:120]), slices.Clone(all[120:240])
	if !slices.Equal(first, second) || len(slices.Compact(slices.Sorted(slices.Values(first)))) != 120 {
		t.Errorf("the rounds read %d objects: %v; %v", len(all), first, second)
	}
	if v, err := x.Drift.Watched(x.Admin, x.w.ID); err != nil || v.Ended.IsZero() || v.Oldest.IsZero() ||
		v.Objects != 120 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A service that restarted each round after its own restart would never reach the last objects of a workspace if it is
// restarted often.
func TestAfterARestartReadingGoesOnWhereItWas(t *testing.T) {
	x := watch(t, 120)
	x.every(10 * time.Minute)
	first := x.next()
	x.until("the first batch is noted", func(v *drift.Watched) bool { return v.Cursor == first[len(first)-1] })
	x.End()
	x.Start()
	x.Later(3 * time.Minute)
	x.every(10 * time.Minute)
	if second := x.next(); len(second) != 50 || slices.Contains(first, second[0]) {
		t.Errorf("after the restart the batch reads %v", second)
	}
}

func TestWhatWasReadWhileTheServiceEndedIsReadAgain(t *testing.T) {
	x := watch(t, 3)
	reading := make(chan struct{})
	x.Engine.Mu.Lock()
	tell := x.Engine.WatchFunc
	x.Engine.WatchFunc = func(ctx context.Context, _ *work.Job, _ []string, _ int) ([]work.Found, error) {
		close(reading)
		<-ctx.Done()
		return []work.Found{{Address: thing(0)}}, nil
	}
	x.Engine.Mu.Unlock()
	x.every(time.Hour)
	<-reading
	x.End()
	x.Engine.WatchFunc = tell
	x.Start()
	if b := x.next(); len(b) != 3 {
		t.Errorf("the batch reads %v", b)
	}
	x.until("the batch is noted", func(v *drift.Watched) bool { return !v.Ended.IsZero() && len(v.Drifted) == 0 })
}

func TestADriftedObjectIsKnownUntilItMatchesAgain(t *testing.T) {
	x := watch(t, 3)
	x.found <- []work.Found{{Address: thing(1), Attributes: []string{"v"}}, {Address: thing(2), Gone: true}}
	x.every(time.Hour)
	x.next()
	both := []string{thing(1), thing(2)}
	first := x.until("both are known", func(v *drift.Watched) bool { return slices.Equal(addresses(v.Drifted), both) })
	if d := first.Drifted; d[0].Gone || !slices.Equal(d[0].Attributes, []string{"v"}) || !d[1].Gone {
		t.Errorf("%+v", d)
	}
	if o, err := x.Workspaces.OverviewOf(x.Admin, x.w.ID); err != nil || o.Drifted != 2 ||
		o.Attention != service.HasDrifted {
		t.Errorf("the overview: %+v, %v", o, err)
	}
	x.found <- []work.Found{{Address: thing(1), Attributes: []string{"id"}}}
	x.Later(time.Hour)
	x.every(time.Hour)
	x.next()
	second := x.until("one is left", func(v *drift.Watched) bool { return len(v.Drifted) == 1 })
	if d := second.Drifted[0]; !d.Since.Equal(first.Drifted[0].Since) || !d.Seen.After(d.Since) {
		t.Errorf("it has drifted since %s, and was seen %s", d.Since, d.Seen)
	}
	x.every(0)
	if v, err := x.Drift.Watched(x.Admin, x.w.ID); err != nil || len(v.Drifted) > 0 || v.Period != 0 {
		t.Errorf("after watching was disabled: %+v, %v", v, err)
	}
}

func TestWhatARunHasChangedHasNotDrifted(t *testing.T) {
	x := watch(t, 3)
	x.found <- []work.Found{{Address: thing(0)}, {Address: thing(1)}, {Address: thing(2)}}
	x.every(time.Hour)
	x.next()
	x.until("all are known", func(v *drift.Watched) bool { return len(v.Drifted) == 3 })
	x.apply(things(2, 2, 1), thing(1), thing(2)) // the second is changed, the third removed
	v := x.until("one is left", func(v *drift.Watched) bool { return len(v.Drifted) == 1 })
	if v.Drifted[0].Address != thing(0) {
		t.Errorf("%+v", v.Drifted)
	}
}

// During an apply, an object is already changed in the cloud and not yet in the state: this looks like drift.
func TestWhatAnApplyHasInHandWhileItIsReadIsNotTakenForDrift(t *testing.T) {
	x := watch(t, 3)
	applying, reading, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	change := x.applies(things(2, 3, 1), thing(1))
	x.Engine.Mu.Lock()
	apply := x.Engine.ApplyFunc
	x.Engine.ApplyFunc = func(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
		close(applying)
		<-done
		return apply(ctx, j)
	}
	x.Engine.WatchFunc = func(_ context.Context, _ *work.Job, _ []string, _ int) ([]work.Found, error) {
		close(reading)
		<-done
		return []work.Found{{Address: thing(0)}, {Address: thing(1)}}, nil
	}
	x.Engine.Mu.Unlock()
	r := x.NewRun(x.w, change)
	<-applying
	x.every(time.Hour) // neither waits for the other
	<-reading
	close(done)
	x.Await(r.ID, record.Applied)
	v := x.until("the batch is noted", func(v *drift.Watched) bool { return !v.Batch.IsZero() })
	if !slices.Equal(addresses(v.Drifted), []string{thing(0)}) {
		t.Errorf("%+v", v.Drifted)
	}
}

func TestWhatCouldNotBeReadStaysAsItWasKnown(t *testing.T) {
	x := watch(t, 3)
	x.found <- []work.Found{{Address: thing(1)}}
	x.every(time.Hour)
	x.next()
	x.until("it is known", func(v *drift.Watched) bool { return len(v.Drifted) == 1 })
	x.Engine.Mu.Lock()
	x.Engine.WatchFunc = func(_ context.Context, j *work.Job, _ []string, _ int) ([]work.Found, error) {
		fmt.Fprint(j.Log, "Error: the cloud does not answer")
		return []work.Found{{Address: thing(2)}}, work.ErrReported
	}
	x.Engine.Mu.Unlock()
	x.Later(time.Hour)
	x.every(time.Hour)
	v := x.until("both are known", func(v *drift.Watched) bool { return len(v.Drifted) == 2 })
	if v.Failure != "Error: the cloud does not answer" || v.Failed.IsZero() {
		t.Errorf("%+v", v.Watch)
	}
}

func TestNothingIsReadOfAWorkspaceThatAPersonHasLocked(t *testing.T) {
	x := watch(t, 3)
	if _, err := x.Workspaces.Lock(x.Admin, x.w.ID, "mine"); err != nil {
		t.Fatal(err)
	}
	x.every(time.Hour)
	other := x.NewWorkspace("other") // which is looked at later, so that the first one was
	x.w, other = other, x.w
	x.apply(things(1, 1))
	x.every(time.Hour)
	if b := x.next(); len(b) != 1 {
		t.Errorf("the batch reads %v", b)
	}
	if v, err := x.Drift.Watched(x.Admin, other.ID); err != nil || v.Unwatched == "" || !v.Batch.IsZero() {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := x.Workspaces.Unlock(x.Admin, other.ID); err != nil {
		t.Fatal(err)
	}
	if b := x.next(); len(b) != 3 {
		t.Errorf("the batch reads %v", b)
	}
}

func TestTheReadsOfTheServiceAreSharedByTwoBatchesAtATime(t *testing.T) {
	x := watch(t, 1)
	begun, end := make(chan int, 10), make(chan struct{})
	x.Engine.Mu.Lock()
	x.Engine.WatchFunc = func(ctx context.Context, _ *work.Job, _ []string, reads int) ([]work.Found, error) {
		begun <- reads
		select {
		case <-end:
		case <-ctx.Done():
		}
		return nil, nil
	}
	x.Engine.Mu.Unlock()
	first := x.w
	for _, name := range []string{"two", "three"} {
		x.w = x.NewWorkspace(name)
		x.apply(things(1, 1))
		x.every(time.Hour)
	}
	x.w = first
	x.every(time.Hour)
	if a, b := <-begun, <-begun; a+b != 8 {
		t.Errorf("two concurrent batches read %d and %d objects", a, b)
	}
	x.every(time.Hour) // it looks once more, and begins nothing
	select {
	case <-begun:
		t.Error("a third batch runs at the same time")
	case end <- struct{}{}:
	}
	<-begun
	close(end)
}

func TestWhoMaySeeDriftAndWhoMayWatch(t *testing.T) {
	x := watch(t, 1)
	x.found <- []work.Found{{Address: thing(0)}}
	x.every(time.Hour)
	x.next()
	x.until("it is known", func(v *drift.Watched) bool { return len(v.Drifted) == 1 })
	period := time.Hour
	for role, may := range map[string]struct{ see, plan, change bool }{
		"read": {see: true}, "plan": {see: true, plan: true}, "write": {see: true, plan: true},
		"admin": {true, true, true},
	} {
		a := x.Member(role, role, x.w.ID)
		_, err := x.Drift.Watched(a, x.w.ID)
		if (err == nil) != may.see {
			t.Errorf("%s sees drift: %v", role, err)
		}
		_, err = x.Workspaces.Change(a, x.w.ID, service.WorkspaceSettings{DriftPeriod: &period})
		if (err == nil) != may.change || err != nil && !errors.Is(err, tables.ErrForbidden) {
			t.Errorf("%s enables watching: %v", role, err)
		}
		r, err := x.Drift.TakeOver(a, x.w.ID)
		if (err == nil) != may.plan || err != nil && !errors.Is(err, tables.ErrForbidden) {
			t.Errorf("%s plans to take over what has drifted: %v", role, err)
		}
		if err == nil && (!r.RefreshOnly || r.AutoApply) {
			t.Errorf("the run of %s: %+v", role, r)
		}
	}
}

func TestPeriodsAndWhatPlansReadAreChecked(t *testing.T) {
	x := watch(t, 1)
	for text, want := range map[string]time.Duration{"0": 0, "": 0, "1m": time.Minute, " 36h ": 36 * time.Hour} {
		if got, err := service.ParsePeriod(text); err != nil || got != want {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
	for period, want := range map[time.Duration]string{0: "0", time.Minute: "1m", 90 * time.Second: "1m30s",
		24 * time.Hour: "24h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s"} {
		if got := service.PeriodText(period); got != want {
			t.Errorf("%s is %q", period, got)
		}
	}
	if _, err := service.ParsePeriod("often"); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("often: %v", err)
	}
	for _, o := range []service.WorkspaceSettings{
		{DriftPeriod: servicetest.Ptr(30 * time.Second)}, {DriftPeriod: servicetest.Ptr(-time.Hour)},
		{DriftPeriod: servicetest.Ptr(100 * 24 * time.Hour)}, {Refresh: servicetest.Ptr("some")},
	} {
		if _, err := x.Workspaces.Change(x.Admin, x.w.ID, o); !errors.Is(err, tables.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// The token of a run is valid until the run ends. Watching reads objects with a run that has ended, so the states of
// other workspaces that its configuration reads could not be read.
func TestProgramsThatReadObjectsHaveATokenThatIsGoodMeanwhile(t *testing.T) {
	x := watch(t, 1)
	tokens, during := make(chan string, 1), make(chan error, 1)
	x.Engine.Mu.Lock()
	x.Engine.WatchFunc = func(_ context.Context, j *work.Job, _ []string, _ int) ([]work.Found, error) {
		for _, v := range j.Environment {
			if token, is := strings.CutPrefix(v, "ATLAS_TOKEN="); is {
				a, err := x.Tokens.Authenticate(token, "")
				if err == nil {
					_, err = x.States.Current(a, x.w.ID)
				}
				tokens <- token
				during <- err
			}
		}
		return nil, nil
	}
	x.Engine.Mu.Unlock()
	x.every(time.Hour)
	token := <-tokens
	if err := <-during; err != nil {
		t.Errorf("while objects are read: %v", err)
	}
	x.until("the batch is noted", func(v *drift.Watched) bool { return !v.Batch.IsZero() })
	if _, err := x.Tokens.Authenticate(token, ""); !errors.Is(err, tables.ErrUnauthorized) {
		t.Errorf("afterwards: %v", err)
	}
}

// Objects are read with a run that has ended, which may have operations in doubt. The end of the batch revoked all
// tokens of that run, including that of a resolution in progress.
func TestABatchLeavesTheTokenOfAResolutionAlone(t *testing.T) {
	x := watch(t, 1)
	x.Engine.Mu.Lock()
	x.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		j.Doubtful([]record.Doubt{{Address: thing(0), Operation: "update", Worker: "w1"}})
		return nil, errors.New("an operation is in doubt")
	}
	x.Engine.Mu.Unlock()
	r := x.NewRun(x.w, func(r *record.Run) { r.AutoApply = true })
	x.Await(r.ID, record.Errored)
	begun, end := make(chan string, 1), make(chan struct{})
	var during error
	x.Engine.Mu.Lock()
	x.Engine.WatchFunc = func(_ context.Context, j *work.Job, _ []string, _ int) ([]work.Found, error) {
		begun <- j.Run.ID
		<-end
		return nil, nil
	}
	x.Engine.ResolveFunc = func(_ context.Context, j *work.Job, _ work.Resolution, _ string) error {
		close(end)
		x.until("the batch is noted", func(v *drift.Watched) bool { return !v.Batch.IsZero() })
		for _, v := range j.Environment {
			if token, is := strings.CutPrefix(v, "ATLAS_TOKEN="); is {
				_, during = x.Tokens.Authenticate(token, "")
			}
		}
		return nil
	}
	x.Engine.Mu.Unlock()
	x.every(time.Hour)
	if with := <-begun; with != r.ID {
		t.Fatalf("objects are read with %s, not with %s", with, r.ID)
	}
	if err := x.Doubts.Resolve(t.Context(), x.Admin, x.w.ID, work.Resolution{Address: thing(0), ID: "0"}); err != nil {
		t.Error(err)
	}
	if during != nil {
		t.Errorf("after the batch: %v", during)
	}
}
