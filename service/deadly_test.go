package service_test

import (
	"context"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/work"
)

// A plan of which the service died was begun again after each restart, and ended the service each time.
func TestAPlanOfWhichTheServiceDiesTwiceEndsAsErrored(t *testing.T) {
	h := servicetest.New(t)
	began := make(chan struct{}, 10)
	h.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		began <- struct{}{}
		<-j.Stopping.Done()
		return nil, work.ErrStopped
	}
	r := h.NewRun(h.NewWorkspace("a"), nil)
	<-began
	for range 3 { // the service ends in order, as often as it likes
		h.End()
		h.Start()
		<-began
	}
	h.Die()
	h.Start()
	<-began
	h.Die()
	h.Start()
	ended := h.Await(r.ID, record.Errored)
	if len(began) != 0 {
		t.Error("the plan began once more")
	}
	text, err := h.Logs.Read(t.Context(), h.Logs.Address(&ended.Run.Plan), 0, 10_000)
	if err != nil || !strings.Contains(string(text), "Error: The process that carried out this phase has died 2 times") {
		t.Errorf("the log is %q, %v", text, err)
	}
}
