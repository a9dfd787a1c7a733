package service_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/work"
)

// The old service continues after a backup. It applied a run that still waits in the backup, and a service that was
// restored from the backup applied the run again.
func TestAServiceThatWasRestoredGoesOnWithNoRun(t *testing.T) {
	h := servicetest.New(t)
	names := []string{"applies", "plans", "waits", "behind", "saved"}
	spaces := map[string]*service.WorkspaceView{}
	for _, n := range names {
		spaces[n] = h.NewWorkspace(n)
	}
	began := make(chan string, 8)
	settled := make(chan bool, 8)
	h.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		if j.Resumed {
			settled <- j.Stopping.Err() != nil
			return nil, work.ErrStopped
		}
		began <- j.Workspace.Name
		<-j.Stopping.Done()
		return nil, work.ErrStopped
	}
	h.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		if j.Workspace.Name == "plans" {
			began <- j.Workspace.Name
			<-j.Stopping.Done()
			return nil, work.ErrStopped
		}
		return &work.PlanResult{HasChanges: true, Add: 1, Plan: []byte("plan of " + j.Run.ID),
			Redacted: []byte("{}")}, nil
	}
	run := func(workspace string, change func(*record.Run)) string { return h.NewRun(spaces[workspace], change).ID }
	want := map[string]record.RunStatus{
		run("applies", func(r *record.Run) { r.AutoApply = true }): record.Canceled,
		run("plans", func(r *record.Run) { r.AutoApply = true }):   record.Canceled,
	}
	<-began
	<-began
	waits := run("waits", func(*record.Run) {})
	h.Await(waits, record.Planned)
	saved := run("saved", func(r *record.Run) { r.SavePlan = true })
	h.Await(saved, record.PlannedAndSaved)
	want[waits], want[saved] = record.Discarded, record.Discarded
	want[run("waits", func(r *record.Run) { r.AutoApply = true })] = record.Canceled // behind the other one

	var backup bytes.Buffer
	if err := h.Backup(t.Context(), h.Admin, &backup); err != nil {
		t.Fatal(err)
	}
	h.Restore(&backup)
	for id, status := range want {
		h.Await(id, status)
	}
	if !<-settled {
		t.Error("the apply that was in progress continued")
	}
	halt, err := h.Halts.Find(h.Admin, "")
	if err != nil || halt == nil || halt.By != service.ByRestore ||
		!strings.Contains(halt.Reason, "restored from the backup") {
		t.Fatalf("the halt is %+v, %v", halt, err)
	}
	next := run("behind", func(r *record.Run) { r.PlanOnly = true })
	if w, err := h.Runs.Waits(t.Context(), h.Admin, next); err != nil || w.Kind != "stopped" || w.On != service.ByRestore {
		t.Errorf("a new run waits for %+v, %v", w, err)
	}
	h.End()
	h.Start()
	if err := h.Halts.Lift(h.Admin, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(next, record.PlannedAndFinished)
	h.End()
	h.Start() // once is enough: nothing is ended, and nothing drained, again
	if halt, err := h.Halts.Find(h.Admin, ""); err != nil || halt != nil {
		t.Errorf("the service is drained again: %+v, %v", halt, err)
	}
}
