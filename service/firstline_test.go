package service_test

import (
	"context"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
)

// A client that followed a waiting run was woken by its status, which changes before the log is begun, found no log,
// and waited for the next status: the plan's end. Other waiting clients were woken as well, by each change of every
// run.
func TestTheLogOfAPlanIsReadWhileItGoesOn(t *testing.T) {
	h := servicetest.New(t)
	read := make(chan struct{})
	h.Engine.PlanFunc = func(ctx context.Context, j *service.Job) (*service.PlanResult, error) {
		select {
		case <-read:
		case <-j.Stopping.Done():
			return nil, service.ErrStopped
		}
		return &service.PlanResult{}, nil
	}
	if err := h.Halt(h.Admin, "", record.Halt{Reason: "so that it waits"}); err != nil {
		t.Fatal(err)
	}
	r := h.NewRun(h.NewWorkspace("one"), nil)
	got := make(chan string, 1)
	go func() {
		text, err := h.Log(t.Context(), h.LogAddress(&r.Plan), 0, 1000)
		if err != nil {
			t.Error(err)
		}
		got <- string(text)
	}()
	if err := h.Lift(h.Admin, ""); err != nil {
		t.Fatal(err)
	}
	if text := <-got; !strings.Contains(text, "Preparing the run") {
		t.Errorf("%q", text)
	}
	close(read)
	h.Await(r.ID, record.PlannedAndFinished)
	if text, err := h.Log(t.Context(), h.LogAddress(&r.Apply), 0, 1000); len(text) > 0 || err != nil {
		t.Errorf("of an apply that never comes there is %q, %v", text, err)
	}
}
