package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
)

// doubting is a workspace whose last run has left a creation in doubt.
func doubting(t *testing.T, h *servicetest.House) (*service.WorkspaceView, *record.Run) {
	t.Helper()
	w := h.NewWorkspace("one")
	h.Engine.ApplyFunc = func(_ context.Context, j *service.Job) (*service.ApplyResult, error) {
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

// Doubts were those of the last run of a workspace, if somebody had left it: those that a run had come to by itself, and
// those behind which a plan had failed, were shown nowhere.
func TestDoubtsStayUntilTheyAreResolved(t *testing.T) {
	h := servicetest.New(t)
	w, r := doubting(t, h)
	h.Engine.PlanFunc = func(_ context.Context, j *service.Job) (*service.PlanResult, error) {
		j.Doubtful([]record.Doubt{{Address: "fleet_vm.a", Operation: "create", Worker: "w1"}})
		return nil, errors.New("still in doubt")
	}
	h.Await(h.NewRun(w, nil).ID, record.Errored)
	h.End() // they outlive the service
	h.Start()
	all, err := h.DoubtsOf(h.Admin, "acme")
	if err != nil || len(all) != 1 || all[0].By.ID != r.ID || len(all[0].Operations) != 1 ||
		all[0].Operations[0].Address != "fleet_vm.a" {
		t.Errorf("%+v, %v", all, err)
	}
	if err := h.Resolve(t.Context(), h.Admin, w.ID, service.Resolution{Address: "fleet_vm.a"}); err != nil {
		t.Error(err)
	}
	if all, err := h.DoubtsOf(h.Admin, "acme"); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := h.Resolve(t.Context(), h.Admin, w.ID, service.Resolution{Address: "fleet_vm.a"}); !errors.Is(err,
		service.ErrConflict) {
		t.Errorf("a second time: %v", err)
	}
}

func TestOnlyWhoMayApplyResolvesADoubt(t *testing.T) {
	h := servicetest.New(t)
	w, _ := doubting(t, h)
	res := service.Resolution{Address: "fleet_vm.a", ID: "vm-1"}
	for role, allowed := range map[string]bool{"read": false, "plan": false, "write": true} {
		err := h.Resolve(t.Context(), member(t, h, "the-"+role, role, w.ID), w.ID, res)
		if allowed != (err == nil) || !allowed && !errors.Is(err, service.ErrForbidden) {
			t.Errorf("%s: %v", role, err)
		}
	}
	audit, err := h.Audit(h.Admin, 100)
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
			t.Errorf("the audit log does not have %q:\n%s", want, text)
		}
	}
}

// While a doubt is resolved the state is changed: a run that starts then plans with what is half done. A service that
// ended meanwhile kept the workspace locked by a run that had ended, which nobody can unlock.
func TestAWorkspaceIsLockedWhileADoubtIsResolvedAndNoLonger(t *testing.T) {
	h := servicetest.New(t)
	w, r := doubting(t, h)
	begun := make(chan struct{})
	h.Engine.ResolveFunc = func(_ context.Context, j *service.Job, _ service.Resolution, _ string) error {
		close(begun)
		<-j.Stopping.Done()
		return service.ErrStopped
	}
	ended := make(chan error, 1)
	go func() {
		ended <- h.Resolve(context.Background(), h.Admin, w.ID, service.Resolution{Address: "fleet_vm.a"})
	}()
	select {
	case <-begun:
	case err := <-ended:
		t.Fatal(err)
	}
	next := h.NewRun(w, nil)
	wait, err := h.Waits(h.Admin, next.ID)
	for err == nil && wait.Kind == "" {
		wait, err = h.Waits(h.Admin, next.ID)
	}
	if err != nil || wait.Kind != "lock" || wait.On != r.ID || !strings.Contains(wait.Text, "doubt") {
		t.Errorf("%+v, %v", wait, err)
	}
	if _, err := h.ForceUnlock(h.Admin, w.ID); !errors.Is(err, service.ErrConflict) {
		t.Errorf("it was unlocked: %v", err)
	}
	if err := h.Resolve(t.Context(), h.Admin, w.ID, service.Resolution{Address: "fleet_vm.a"}); !errors.Is(err,
		service.ErrConflict) {
		t.Errorf("another one at the same time: %v", err)
	}
	h.End()
	if err := <-ended; !errors.Is(err, service.ErrConflict) {
		t.Errorf("it ended with %v", err)
	}
	h.Start()
	h.Await(next.ID, record.Planned)
	if all, err := h.DoubtsIn(h.Admin, w.ID); err != nil || len(all.Operations) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}
