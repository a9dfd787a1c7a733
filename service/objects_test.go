package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// sharedWorkspace returns a workspace whose runs lock objects.
func sharedWorkspace(t *testing.T, h *servicetest.Harness) *service.WorkspaceView {
	t.Helper()
	yes, w := true, h.NewWorkspace("one")
	if _, err := h.Workspaces.Change(h.Admin, w.ID, service.WorkspaceSettings{ObjectLocks: &yes}); err != nil {
		t.Fatal(err)
	}
	return w
}

// While somebody changed objects of a state, its last run ended and the workspace was unlocked: another program could
// then lock it, and push a state in which the change is missing.
func TestAWorkspaceCannotBeLockedWhileObjectsOfItsStateAreChanged(t *testing.T) {
	h := servicetest.New(t)
	w := sharedWorkspace(t, h)
	applying, apply := make(chan struct{}), make(chan struct{})
	h.Engine.ApplyFunc = func(context.Context, *work.Job) (*work.ApplyResult, error) {
		close(applying)
		<-apply
		return &work.ApplyResult{}, nil
	}
	r := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	<-applying
	changing, change := make(chan struct{}), make(chan struct{})
	h.Engine.Mu.Lock()
	h.Engine.ChangeFunc = func(_ context.Context, j *work.Job, c work.ObjectChange) error {
		close(changing)
		<-change
		if j.Run.ID != r.ID || !strings.HasPrefix(c.Who, "root (state-rm)") {
			t.Errorf("the change is by %s in the run %s", c.Who, j.Run.ID)
		}
		return j.State.Write(t.Context(), []byte(`{"version":4,"serial":7,"lineage":"l","outputs":{},"resources":[]}`))
	}
	h.Engine.Mu.Unlock()
	ended := make(chan error, 1)
	go func() {
		ended <- h.Objects.Change(context.Background(), h.Admin, w.ID, work.ObjectChange{Operation: "state-rm"})
	}()
	<-changing
	close(apply)
	h.Await(r.ID, record.Applied)
	if _, err := h.Workspaces.Lock(h.Admin, w.ID, ""); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("locking the workspace meanwhile: %v", err)
	}
	close(change)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	v, err := h.States.Current(h.Admin, w.ID)
	if err != nil || v.Serial != 7 || v.Run != "" || v.CreatedBy != h.Admin.ID() {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := h.Workspaces.Lock(h.Admin, w.ID, "maintenance"); err != nil {
		t.Errorf("locking the workspace afterwards: %v", err)
	}
	err = h.Objects.Change(t.Context(), h.Admin, w.ID, work.ObjectChange{})
	if !errors.Is(err, tables.ErrConflict) || !strings.Contains(err.Error(), "maintenance") {
		t.Errorf("a change of a locked workspace: %v", err)
	}
}

func TestObjectsAreChangedOnlyWhereRunsLockThemAndByThoseWhoMay(t *testing.T) {
	h := servicetest.New(t)
	alone := h.NewWorkspace("alone")
	w := sharedWorkspace(t, h)
	refused := func(of string, text string, c work.ObjectChange) {
		t.Helper()
		err := h.Objects.Change(t.Context(), h.Admin, of, c)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, not %q", err, text)
		}
	}
	refused(alone.ID, "lock its whole state", work.ObjectChange{})
	refused(w.ID, "had no runs yet", work.ObjectChange{})
	refused(w.ID, "between 0 and 60", work.ObjectChange{Wait: 61})
	h.Await(h.NewRun(w, func(r *record.Run) { r.AutoApply = true }).ID, record.Applied)
	for role, allowed := range map[string]bool{"read": false, "plan": false, "write": true} {
		err := h.Objects.Change(t.Context(), h.Member("the-"+role, role, w.ID), w.ID, work.ObjectChange{})
		if allowed != (err == nil) || !allowed && !errors.Is(err, tables.ErrForbidden) {
			t.Errorf("%s: %v", role, err)
		}
	}
	h.Engine.ChangeFunc = func(context.Context, *work.Job, work.ObjectChange) error {
		return &work.Refused{Reason: "a has it"}
	}
	refused(w.ID, "a has it", work.ObjectChange{})
	h.Engine.ChangeFunc = func(_ context.Context, j *work.Job, _ work.ObjectChange) error {
		_, _ = j.Log.Write([]byte("Note.\n\nError: Broken\n\nIt is.\n"))
		return work.ErrReported
	}
	refused(w.ID, "Error: Broken", work.ObjectChange{})
	// No lock remains.
	if _, err := h.Workspaces.Lock(h.Admin, w.ID, ""); err != nil {
		t.Error(err)
	}
}
