package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestARunIsPlannedConfirmedAndApplied(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	r := h.NewRun(w, nil)
	v := h.Await(r.ID, record.Planned)
	if !v.HasChanges || v.Plan.Status != record.PhaseFinished || v.On.Lock.ID != r.ID || v.On.CurrentRun != r.ID {
		t.Errorf("after the plan: %+v", v)
	}
	if err := h.Runs.Confirm(h.Admin, r.ID, "fine"); err != nil {
		t.Fatal(err)
	}
	if err := h.Runs.Confirm(h.Admin, r.ID, ""); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("a second confirmation: %v", err)
	}
	v = h.Await(r.ID, record.Applied)
	if v.On.Lock.Held() || v.On.CurrentRun != "" || v.Apply.Status != record.PhaseFinished {
		t.Errorf("after the apply: %+v", v.On)
	}
	sv, err := h.States.Current(h.Admin, w.ID)
	if err != nil || sv.Run != r.ID || len(sv.Outputs) != 1 || sv.Outputs[0].Name != "o" {
		t.Errorf("its state: %+v, %v", sv, err)
	}
	for secret, word := range map[string]string{
		h.Logs.Address(&v.Plan): "planning", h.Logs.Address(&v.Apply): "applying",
	} {
		log := wholeLog(t, h, secret)
		begin := "\x02Preparing the run " + r.ID + "...\nMillipede "
		if !strings.HasPrefix(log, begin) || !strings.HasSuffix(log, word+"\n\x03") {
			t.Errorf("%q", log)
		}
	}
	if c, err := h.Runs.Comments(h.Admin, r.ID); err != nil || len(c) != 1 || c[0].Body != "fine" {
		t.Errorf("%v, %v", c, err)
	}
}

// wholeLog reads a log up to the mark of its end, which is written after the end of the run.
func wholeLog(t *testing.T, h *servicetest.Harness, address string) string {
	t.Helper()
	var all []byte
	for !strings.HasSuffix(string(all), "\x03") {
		part, err := h.Logs.Read(t.Context(), address, int64(len(all)), 10_000)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, part...)
	}
	return string(all)
}

func TestPlansWaitForNobodyAndAppliesForEachOther(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	first := h.NewRun(w, nil)
	h.Await(first.ID, record.Planned)
	second := h.NewRun(w, nil)
	speculative := h.NewRun(w, func(r *record.Run) { r.Configuration = h.NewConfiguration(w, true) })
	h.Await(speculative.ID, record.PlannedAndFinished)
	wait, err := h.Runs.Waits(t.Context(), h.Admin, second.ID)
	if err != nil || wait.Kind != "run" || wait.On != first.ID || wait.Place != 2 {
		t.Errorf("the second run waits for %+v, %v", wait, err)
	}
	if v, _ := h.Runs.Find(h.Admin, second.ID); v.Status != record.Pending {
		t.Errorf("the second run is %s", v.Status)
	}
	if err := h.Runs.Discard(h.Admin, first.ID, ""); err != nil {
		t.Fatal(err)
	}
	v := h.Await(second.ID, record.Planned)
	if v.On.CurrentRun != second.ID {
		t.Errorf("the current run is %s", v.On.CurrentRun)
	}
}

func TestALockedWorkspaceKeepsItsRunsWaiting(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	if _, err := h.Workspaces.Lock(h.Admin, w.ID, "holidays"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Workspaces.Lock(h.Admin, w.ID, "again"); !errors.Is(err, tables.ErrConflict) ||
		!strings.Contains(err.Error(), "locked by User root") {
		t.Errorf("a user locks the workspace twice: %v", err)
	}
	r := h.NewRun(w, nil)
	wait, err := h.Runs.Waits(t.Context(), h.Admin, r.ID)
	if err != nil || wait.Kind != "lock" || !strings.Contains(wait.Text, "holidays") {
		t.Errorf("%+v, %v", wait, err)
	}
	if _, err := h.Workspaces.Unlock(h.Admin, w.ID); err != nil {
		t.Fatal(err)
	}
	h.Await(r.ID, record.Planned)
	if _, err := h.Workspaces.ForceUnlock(h.Admin, w.ID); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("unlocking a workspace that a run has locked: %v", err)
	}
}

func TestACanceledRunIsStoppedAndALeftOneNotWaitedFor(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	began := make(chan struct{}, 2)
	h.Engine.ApplyFunc = func(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
		began <- struct{}{}
		if j.Run.Message == "deaf" {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		<-j.Stopping.Done()
		return nil, work.ErrStopped
	}
	r := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	<-began
	if err := h.Runs.ForceCancel(h.Admin, r.ID, ""); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("canceling a run by force that was not canceled before: %v", err)
	}
	if err := h.Runs.Cancel(h.Admin, r.ID, ""); err != nil {
		t.Fatal(err)
	}
	if v := h.Await(r.ID, record.Canceled); v.On.Lock.Held() || v.Apply.Status != record.PhaseCanceled {
		t.Errorf("%+v", v)
	}
	r = h.NewRun(w, func(r *record.Run) { r.AutoApply, r.Message = true, "deaf" })
	<-began
	if err := errors.Join(h.Runs.Cancel(h.Admin, r.ID, ""), h.Runs.ForceCancel(h.Admin, r.ID, "")); err != nil {
		t.Fatal(err)
	}
	h.Await(r.ID, record.ForceCanceled)
	if err := h.Runs.Cancel(h.Admin, r.ID, ""); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("canceling a run twice: %v", err)
	}
}

// Only the newest run was compared with a repeated request, so that it created a second run if another one had been
// queued in between.
func TestARequestThatComesTwiceMakesOneRunWhateverComesBetween(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	c := h.NewConfiguration(w, false)
	order := func(message string) *record.Run {
		return h.NewRun(w, func(r *record.Run) { r.Message, r.Configuration = message, c })
	}
	first, between := order("mine"), order("another")
	if again := order("mine"); again.ID != first.ID || between.ID == first.ID {
		t.Errorf("the runs are %s, %s and %s", first.ID, between.ID, again.ID)
	}
}

// A plan that was complete before it was cancelled was stored, and applied if auto-apply was on.
func TestARunThatIsCanceledWhileItIsPlannedIsNotApplied(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	began, proceed := make(chan struct{}), make(chan struct{})
	h.Engine.PlanFunc = func(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
		began <- struct{}{}
		<-proceed
		return servicetest.PlanThen(func(*work.Job) {})(ctx, j)
	}
	r := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	<-began
	if err := h.Runs.Cancel(h.Admin, r.ID, ""); err != nil {
		t.Fatal(err)
	}
	close(proceed)
	if v := h.Await(r.ID, record.Canceled); v.On.Lock.Held() || len(h.Engine.Applied) > 0 {
		t.Errorf("the lock is %+v, and %v was applied", v.On.Lock, h.Engine.Applied)
	}
}

// If the service ends during a plan and an apply, the plan is repeated and the apply is resumed.
func TestAServiceThatStartsAgainGoesOn(t *testing.T) {
	h := servicetest.New(t)
	one, two := h.NewWorkspace("one"), h.NewWorkspace("two")
	began := make(chan string, 4)
	hold := func(j *work.Job) error {
		began <- j.Workspace.Name
		<-j.Stopping.Done()
		return work.ErrStopped
	}
	h.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) { return nil, hold(j) }
	applying := h.NewRun(one, func(r *record.Run) { r.AutoApply = true })
	<-began
	h.Engine.Mu.Lock()
	h.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) { return nil, hold(j) }
	h.Engine.Mu.Unlock()
	planning := h.NewRun(two, nil)
	<-began
	h.End()
	var resumed bool
	h.Engine.PlanFunc = nil
	h.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		resumed = j.Resumed
		return &work.ApplyResult{}, nil
	}
	h.Start()
	h.Admin = h.Actor(h.Token)
	h.Await(applying.ID, record.Applied)
	if !resumed {
		t.Error("the engine does not know that the apply had begun")
	}
	if v := h.Await(planning.ID, record.Planned); v.Resumed != 1 {
		t.Errorf("%+v", v.Run)
	}
	log := wholeLog(t, h, h.Logs.Address(&applying.Apply))
	if !strings.Contains(log, "continues the run") || strings.Count(log, "\x02") != 1 {
		t.Errorf("%q", log)
	}
}

func TestAMistakeOfOursEndsOneRun(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	h.Engine.PlanFunc = func(context.Context, *work.Job) (*work.PlanResult, error) { panic("planted") }
	r := h.NewRun(w, nil)
	v := h.Await(r.ID, record.Errored)
	log, _ := h.Logs.Read(t.Context(), h.Logs.Address(&v.Plan), 0, 10_000)
	if !strings.Contains(string(log), "bug in Millipede: planted") || v.On.Lock.Held() {
		t.Errorf("%q, %+v", log, v.On.Lock)
	}
	h.Engine.Mu.Lock()
	h.Engine.PlanFunc = nil
	h.Engine.Mu.Unlock()
	h.Await(h.NewRun(w, nil).ID, record.Planned)
}

// A client that requests generated configuration would wait for ever for the file.
func TestWhatCannotBeDoneIsRefused(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	for what, r := range map[string]record.Run{
		"destroying": {Destroy: true, Refresh: true}, "refreshing": {RefreshOnly: true, Refresh: true},
	} {
		r.Configuration, r.GenerateConfig = h.NewConfiguration(w, false), true
		if _, err := h.Runs.Create(h.Admin, w.ID, r); !errors.Is(err, tables.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The generated configuration is not part of the configuration with which the plan was made, so the next plan would not
// have it.
func TestAPlanThatHasGeneratedConfigurationIsNotApplied(t *testing.T) {
	h := servicetest.New(t)
	h.Engine.Mu.Lock()
	h.Engine.PlanFunc = func(context.Context, *work.Job) (*work.PlanResult, error) {
		return &work.PlanResult{HasChanges: true, Generated: true, Import: 1}, nil
	}
	h.Engine.Mu.Unlock()
	r := h.NewRun(h.NewWorkspace("one"), func(r *record.Run) { r.GenerateConfig, r.AutoApply = true, true })
	if v := h.Await(r.ID, record.PlannedAndFinished); !v.HasChanges || !v.Generated {
		t.Errorf("%+v", v.Run)
	}
}
