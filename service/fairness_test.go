package service_test

import (
	"context"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/work"
)

// The service did not store which workspace had its turn last. After each restart it began with the oldest runs, even
// of workspaces that had had their turn already while others were waiting.
func TestWorkspacesGoOnTakingTurnsWhenTheServiceIsStartedAgain(t *testing.T) {
	h := servicetest.New(t) // two plans compute at a time
	stops := func(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
		<-j.Stopping.Done()
		return nil, work.ErrStopped
	}
	h.Engine.PlanFunc = stops
	queue := func(workspace string) string { return h.NewRun(h.NewWorkspace(workspace), nil).ID }
	busy := []string{queue("a"), queue("b")}
	for _, id := range busy {
		h.Await(id, record.Planning)
	}
	waiting := []string{queue("c"), queue("d")}
	for _, id := range waiting {
		h.Await(id, record.PlanQueued)
	}
	h.End()
	h.Engine.Planned = nil
	h.Start()
	for _, id := range waiting {
		h.Await(id, record.Planning)
	}
	h.Engine.Mu.Lock()
	defer h.Engine.Mu.Unlock()
	for _, id := range busy {
		if slices.Contains(h.Engine.Planned, id) {
			t.Errorf("the run %s had its turn a second time before others had one", id)
		}
	}
}
