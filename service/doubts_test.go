package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/variables"
	"github.com/millipede-iac/millipede/service/work"
)

// doubting returns a workspace whose last run has left a creation in doubt.
func doubting(t *testing.T, h *servicetest.Harness) (*service.WorkspaceView, *record.Run) {
	t.Helper()
	w := h.NewWorkspace("one")
	h.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		j.Doubtful([]record.Doubt{{Address: "fleet_vm.a", Operation: "create", Worker: "w1"}})
		return nil, errors.New("an operation is in doubt")
	}
	r := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	h.Await(r.ID, record.Errored)
	h.Engine.Mu.Lock()
	h.Engine.ApplyFunc = nil
	h.Engine.Mu.Unlock()
	return w, r
}

// Doubts were shown only if they were those of a workspace's last run and somebody had canceled that run by force.
// Those of a run that had ended by itself, and those that had made a plan fail, were not shown anywhere.
func TestDoubtsStayUntilTheyAreResolved(t *testing.T) {
	h := servicetest.New(t)
	w, r := doubting(t, h)
	h.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		j.Doubtful([]record.Doubt{{Address: "fleet_vm.a", Operation: "create", Worker: "w1"}})
		return nil, errors.New("still in doubt")
	}
	h.Await(h.NewRun(w, nil).ID, record.Errored)
	h.End() // they outlive the service
	h.Start()
	all, err := h.Doubts.OfOrganization(h.Admin, "acme")
	if err != nil || len(all) != 1 || all[0].By.ID != r.ID || len(all[0].Operations) != 1 ||
		all[0].Operations[0].Address != "fleet_vm.a" {
		t.Errorf("%+v, %v", all, err)
	}
	if err := h.Doubts.Resolve(t.Context(), h.Admin, w.ID, work.Resolution{Address: "fleet_vm.a"}); err != nil {
		t.Error(err)
	}
	if all, err := h.Doubts.OfOrganization(h.Admin, "acme"); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := h.Doubts.Resolve(t.Context(), h.Admin, w.ID, work.Resolution{Address: "fleet_vm.a"}); !errors.Is(err,
		tables.ErrConflict) {
		t.Errorf("resolving the doubt a second time: %v", err)
	}
}

func TestOnlyWhoMayApplyResolvesADoubt(t *testing.T) {
	h := servicetest.New(t)
	w, _ := doubting(t, h)
	res := work.Resolution{Address: "fleet_vm.a", ID: "vm-1"}
	for role, allowed := range map[string]bool{"read": false, "plan": false, "write": true} {
		err := h.Doubts.Resolve(t.Context(), h.Member("the-"+role, role, w.ID), w.ID, res)
		if allowed != (err == nil) || !allowed && !errors.Is(err, tables.ErrForbidden) {
			t.Errorf("%s: %v", role, err)
		}
	}
	audit, err := h.Audit.Latest(h.Admin, 100)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range audit {
		if strings.HasPrefix(line.Action, "doubt.") {
			lines = append(lines, line.Actor+" "+line.Action+" "+line.Outcome)
		}
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{"the-write doubt.resolve done", "the-write doubt.resolved done",
		"the-plan doubt.resolve refused: "} {
		if !strings.Contains(text, want) {
			t.Errorf("the audit log does not contain %q:\n%s", want, text)
		}
	}
}

// Resolving a doubt changes the state: a run that started meanwhile planned with an intermediate state. If the service
// ended meanwhile, the workspace stayed locked by a run that had ended, which nobody can unlock.
func TestAWorkspaceIsLockedWhileADoubtIsResolvedAndNoLonger(t *testing.T) {
	h := servicetest.New(t)
	w, r := doubting(t, h)
	begun := make(chan struct{})
	h.Engine.ResolveFunc = func(_ context.Context, j *work.Job, _ work.Resolution, _ string) error {
		close(begun)
		<-j.Stopping.Done()
		return work.ErrStopped
	}
	ended := make(chan error, 1)
	go func() {
		ended <- h.Doubts.Resolve(context.Background(), h.Admin, w.ID, work.Resolution{Address: "fleet_vm.a"})
	}()
	select {
	case <-begun:
	case err := <-ended:
		t.Fatal(err)
	}
	next := h.NewRun(w, nil)
	wait, err := h.Runs.Waits(t.Context(), h.Admin, next.ID)
	for err == nil && wait.Kind == "" {
		wait, err = h.Runs.Waits(t.Context(), h.Admin, next.ID)
	}
	if err != nil || wait.Kind != "lock" || wait.On != r.ID || !strings.Contains(wait.Text, "doubt") {
		t.Errorf("%+v, %v", wait, err)
	}
	if _, err := h.Workspaces.ForceUnlock(h.Admin, w.ID); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("the workspace could be unlocked: %v", err)
	}
	if err := h.Doubts.Resolve(t.Context(), h.Admin, w.ID, work.Resolution{Address: "fleet_vm.a"}); !errors.Is(err,
		tables.ErrConflict) {
		t.Errorf("another resolution at the same time: %v", err)
	}
	h.End()
	if err := <-ended; !errors.Is(err, tables.ErrConflict) {
		t.Errorf("the resolution ended with %v", err)
	}
	h.Start()
	h.Await(next.ID, record.Planned)
	if all, err := h.Doubts.OfWorkspace(h.Admin, w.ID); err != nil || len(all.Operations) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestReceiversHearOnceThatOperationsAreInDoubt(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	if _, err := h.Notifications.Create(h.Admin, record.Notification{Workspace: w.ID, Name: "n", Destination: "generic",
		Enabled: true, URL: "https://example.com", Triggers: []string{"run:in_doubt"}}); err != nil {
		t.Fatal(err)
	}
	h.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		j.Doubtful([]record.Doubt{{Address: "fleet_vm.a", Operation: "create", Worker: "w1"}})
		return nil, errors.New("an operation is in doubt")
	}
	for range 2 {
		h.Await(h.NewRun(w, func(r *record.Run) { r.AutoApply = true }).ID, record.Errored)
	}
	due, _, err := h.Notifications.Due(func(string) bool { return false })
	if err != nil || len(due) != 1 || due[0].Delivery.Trigger != "run:in_doubt" ||
		due[0].Delivery.Message != "Operations In Doubt" {
		t.Fatalf("%+v, %v", due, err)
	}
	if err := h.Notifications.Delivered(due[0], record.Response{}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if due, _, err := h.Notifications.Due(func(string) bool { return false }); err != nil || len(due) != 0 {
		t.Errorf("the same notification is due again: %+v, %v", due, err)
	}
}

// The errors of operations were masked in the log of a run, but not in its timeline, which the pages draw.
func TestASecretInAFailureIsInNoTimeline(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	key, value, sensitive := "key", "canary-of-the-cloud", true
	if _, err := h.Variables.Put(h.Admin, w.ID, "", variables.Settings{Key: &key, Value: &value,
		Sensitive: &sensitive}); err != nil {
		t.Fatal(err)
	}
	h.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		recorder := timeline.NewRecorder(timeline.Head{Ended: timeline.None})
		j.Watched(recorder, "engine-run")
		recorder.Add(timeline.Vertex{Number: 1, Address: "fleet_vm.a", Status: timeline.Running})
		recorder.Update(1, func(v *timeline.Vertex) {
			v.Status, v.Failure = timeline.Failed, "the key canary-of-the-cloud is not good"
		})
		recorder.Note(func(h *timeline.Head, _ *int64, _ *[]timeline.Shortage) {
			h.Errors = append(h.Errors, "canary-of-the-cloud")
		})
		return nil, errors.New("an operation has failed")
	}
	r := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	h.Await(r.ID, record.Errored)
	v, err := h.Runs.Find(h.Admin, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	write, _, err := h.Timelines.Read(h.Admin, v.Apply.ID, timeline.Shape)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := write(&text); err != nil || strings.Contains(text.String(), "canary") ||
		strings.Count(text.String(), "(sensitive value)") != 2 {
		t.Errorf("%s, %v", text.String(), err)
	}
}
