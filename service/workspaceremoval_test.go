package service_test

import (
	"context"
	"errors"
	"testing"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// planUntilStopped plans until the run is canceled, and closes begun when it has begun.
func planUntilStopped(begun chan<- string) func(context.Context, *work.Job) (*work.PlanResult, error) {
	return func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		begun <- j.Run.ID
		<-j.Stopping.Done()
		return nil, work.ErrStopped
	}
}

// A forced deletion was refused during a plan, although a plan changes nothing: a client that had just queued a run
// could not delete its workspace.
func TestADeletionByForceEndsPlansFirst(t *testing.T) {
	h := servicetest.New(t)
	begun := make(chan string, 2)
	h.Engine.PlanFunc = planUntilStopped(begun)
	w := h.NewWorkspace("one")
	first, second := h.NewRun(w, nil), h.NewRun(w, nil) // the second plans as soon as the first is canceled
	<-begun
	planner := h.Member("planner", "plan", w.ID)
	if err := h.Workspaces.Remove(t.Context(), planner, w.ID); !errors.Is(err, tables.ErrForbidden) {
		t.Errorf("deletion by somebody who may only plan: %v", err)
	}
	if v, err := h.Runs.Find(h.Admin, first.ID); err != nil || !v.CancelAsked.IsZero() {
		t.Errorf("a refused deletion has canceled the run: %+v, %v", v, err)
	}
	if err := h.Workspaces.Remove(t.Context(), h.Admin, w.ID); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{first.ID, second.ID} {
		if _, err := h.Runs.Find(h.Admin, id); !errors.Is(err, tables.ErrNotFound) {
			t.Errorf("a run of the deleted workspace: %v", err)
		}
	}
}

// The objects that an apply creates would be forgotten if its workspace were deleted meanwhile.
func TestADeletionByForceLeavesAnApplyAndThePlansBesideIt(t *testing.T) {
	h := servicetest.New(t)
	applying, goOn := make(chan struct{}), make(chan struct{})
	h.Engine.ApplyFunc = func(context.Context, *work.Job) (*work.ApplyResult, error) {
		close(applying)
		<-goOn
		return &work.ApplyResult{}, nil
	}
	w := h.NewWorkspace("one")
	apply := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	<-applying
	begun := make(chan string, 1)
	h.Engine.Mu.Lock()
	h.Engine.PlanFunc = planUntilStopped(begun)
	h.Engine.Mu.Unlock()
	speculative := h.NewRun(w, func(r *record.Run) { r.PlanOnly = true })
	<-begun
	if err := h.Workspaces.Remove(t.Context(), h.Admin, w.ID); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("deletion during an apply: %v", err)
	}
	if v, err := h.Runs.Find(h.Admin, speculative.ID); err != nil || !v.CancelAsked.IsZero() {
		t.Errorf("a refused deletion has canceled the run: %+v, %v", v, err)
	}
	close(goOn)
	h.Await(apply.ID, record.Applied)
	if err := h.Workspaces.Remove(t.Context(), h.Admin, w.ID); err != nil {
		t.Error(err)
	}
}

// If the client that requested a deletion disconnects, the service does not wait for it.
func TestADeletionByForceEndsWithItsRequest(t *testing.T) {
	h := servicetest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	begun, goOn := make(chan struct{}), make(chan struct{})
	h.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		close(begun)
		<-j.Stopping.Done()
		cancel() // the client goes away while the plan is slow to end
		<-goOn
		return nil, work.ErrStopped
	}
	w := h.NewWorkspace("one")
	r := h.NewRun(w, nil)
	<-begun
	if err := h.Workspaces.Remove(ctx, h.Admin, w.ID); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("deletion during a plan: %v", err)
	}
	close(goOn)
	h.Await(r.ID, record.Canceled)
}
