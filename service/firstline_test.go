package service_test

import (
	"context"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/work"
)

// A client that followed the log of a waiting run was woken by the change of the run's status, which precedes the
// creation of the log. It found no log, and waited for the next change of the status, at the end of the plan. Besides,
// each change of any run woke all waiting clients.
func TestTheLogOfAPlanIsReadWhileItGoesOn(t *testing.T) {
	h := servicetest.New(t)
	read := make(chan struct{})
	h.Engine.PlanFunc = func(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
		select {
		case <-read:
		case <-j.Stopping.Done():
			return nil, work.ErrStopped
		}
		return &work.PlanResult{}, nil
	}
	if err := h.Halts.Halt(h.Admin, "", record.Halt{Reason: "so that it waits"}); err != nil {
		t.Fatal(err)
	}
	r := h.NewRun(h.NewWorkspace("one"), nil)
	got := make(chan string, 1)
	go func() {
		text, err := h.Logs.Read(t.Context(), h.Logs.Address(&r.Plan), 0, 1000)
		if err != nil {
			t.Error(err)
		}
		got <- string(text)
	}()
	if err := h.Halts.Lift(h.Admin, ""); err != nil {
		t.Fatal(err)
	}
	if text := <-got; !strings.Contains(text, "Preparing the run") {
		t.Errorf("%q", text)
	}
	close(read)
	h.Await(r.ID, record.PlannedAndFinished)
	if text, err := h.Logs.Read(t.Context(), h.Logs.Address(&r.Apply), 0, 1000); len(text) > 0 || err != nil {
		t.Errorf("the log of an apply that never began is %q, %v", text, err)
	}
}

// The log of a plan was created when the plan began. A client that followed a run that waited for its turn saw nothing
// until other plans had ended, and after a restart of the service it took the log of a waiting plan for complete.
func TestTheLogOfAPlanThatWaitsForItsTurnIsThereAtOnce(t *testing.T) {
	h := servicetest.New(t) // two plans compute at a time
	h.Engine.PlanFunc = func(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
		<-j.Stopping.Done()
		return nil, work.ErrStopped
	}
	for _, name := range []string{"a", "b"} {
		h.Await(h.NewRun(h.NewWorkspace(name), nil).ID, record.Planning)
	}
	read := func(r *record.Run, offset int) string {
		t.Helper()
		text, err := h.Logs.Read(t.Context(), h.Logs.Address(&r.Plan), int64(offset), 1000)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	canceled, waiting := h.NewRun(h.NewWorkspace("c"), nil), h.NewRun(h.NewWorkspace("d"), nil)
	for _, r := range []*record.Run{canceled, waiting} {
		if first := read(r, 0); !strings.Contains(first, "Preparing the run "+r.ID) {
			t.Errorf("the log begins with %q", first)
		}
		if now := h.Await(r.ID, record.PlanQueued).Run; now.Status != record.PlanQueued {
			t.Fatalf("the run is %s", now.Status)
		}
	}
	first := read(canceled, 0)
	if err := h.Runs.Cancel(h.Admin, canceled.ID, ""); err != nil {
		t.Fatal(err)
	}
	if rest := read(canceled, len(first)); rest != "\x03" {
		t.Errorf("the log of a canceled run continues with %q", rest)
	}
	first = read(waiting, 0)
	h.End()
	h.Start()
	if rest := read(waiting, len(first)); strings.Contains(rest, "restarted") || strings.HasPrefix(rest, "\x03") {
		t.Errorf("after a restart, the log of a plan that had not begun continues with %q", rest)
	}
}
