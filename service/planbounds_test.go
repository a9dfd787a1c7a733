package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// planLog returns the log of a plan.
func planLog(t *testing.T, h *servicetest.Harness, r *service.RunView) string {
	t.Helper()
	text, err := h.Logs.Read(t.Context(), h.Logs.Address(&r.Run.Plan), 0, 10_000)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// A plan could last for ever, and take one of the places of all plans.
func TestAPlanThatTakesTooLongEndsAsErrored(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	if err := h.Workspaces.Bound(h.Admin, w.ID, record.Bounds{PlanTime: time.Second}); err != nil {
		t.Fatal(err)
	}
	h.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		<-j.Stopping.Done()
		return nil, work.ErrStopped
	}
	r := h.NewRun(w, nil)
	if log := planLog(t, h, h.Await(r.ID, record.Errored)); !strings.Contains(log, "The plan has not ended within 1s") {
		t.Errorf("the log is\n%s", log)
	}
}

// The result of a plan had no bound but that of the machine.
func TestAPlanThatIsTooLargeEndsAsErrored(t *testing.T) {
	h := servicetest.New(t, func(o *service.Options) { o.Bounds.PlanSize = 4 })
	w := h.NewWorkspace("one")
	if err := h.Workspaces.Bound(h.Admin, w.ID, record.Bounds{PlanSize: 2}); err != nil {
		t.Fatal(err)
	}
	h.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		return &work.PlanResult{HasChanges: true, Plan: make([]byte, 3<<20), Redacted: []byte("{}")}, nil
	}
	r := h.NewRun(w, nil)
	log := planLog(t, h, h.Await(r.ID, record.Errored))
	if !strings.Contains(log, "has 3.0 MiB") || !strings.Contains(log, "At most 2 MiB") {
		t.Errorf("the log is\n%s", log)
	}
	other := h.NewRun(h.NewWorkspace("two"), nil)
	h.Await(other.ID, record.Planned)
}

// Administrators of a workspace must not raise what the operator has set.
func TestTheBoundsOfAWorkspaceAreNotAboveThoseOfTheService(t *testing.T) {
	most := record.Bounds{PlanTime: time.Hour, PlanMemory: 512, PlanSize: 64}
	h := servicetest.New(t, func(o *service.Options) { o.Bounds, o.Apart = most, true })
	w := h.NewWorkspace("one")
	for _, b := range []record.Bounds{{PlanTime: 2 * time.Hour}, {PlanMemory: 513}, {PlanSize: 65}, {PlanTime: -1},
		{PlanTime: time.Millisecond}, {PlanMemory: 16}, {PlanSize: -1}} {
		if err := h.Workspaces.Bound(h.Admin, w.ID, b); !errors.Is(err, tables.ErrInvalid) {
			t.Errorf("%+v: %v", b, err)
		}
	}
	if err := h.Workspaces.Bound(h.Admin, w.ID, record.Bounds{PlanTime: time.Minute, PlanMemory: 256}); err != nil {
		t.Fatal(err)
	}
	var seen record.Bounds
	h.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		seen = j.Workspace.Bounds
		return &work.PlanResult{HasChanges: true, Plan: []byte("p"), Redacted: []byte("{}")}, nil
	}
	h.Await(h.NewRun(w, nil).ID, record.Planned)
	if want := (record.Bounds{PlanTime: time.Minute, PlanMemory: 256, PlanSize: 64}); seen != want {
		t.Errorf("the engine gets %+v, and not %+v", seen, want)
	}
	yes := true
	locked := h.NewWorkspace("two")
	if _, err := h.Workspaces.Change(h.Admin, locked.ID, service.WorkspaceSettings{ObjectLocks: &yes}); err != nil {
		t.Fatal(err)
	}
	if err := h.Workspaces.Bound(h.Admin, locked.ID, record.Bounds{PlanMemory: 256}); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("where runs share a process: %v", err)
	}
}
