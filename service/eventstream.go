package service

import (
	"encoding/json"
	"strings"

	"github.com/millipede-iac/millipede/service/events"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
)

// Stream returns the stream of events. Before an event is passed on to a person, MaySee must confirm that the
// person may see its workspace.
func (s *Service) Stream() *events.Stream { return s.stream }

// MaySee reports whether the actor may receive events about the runs of a workspace.
func (s *Runs) MaySee(a *rights.Actor, workspace string) bool {
	err := s.store.View(func(tx *store.Tx) error {
		_, err := a.Allowed(tx, workspace, rights.ReadRuns)
		return err
	})
	return err == nil
}

// tell publishes the change of a run.
func (s *shared) tell(r *record.Run) {
	data, err := json.Marshal(events.RunStatus{Status: r.Status})
	if err != nil {
		panic(err) // a string can always be marshalled
	}
	s.stream.Publish(events.Event{Kind: events.RunChanged, Workspace: r.Workspace, Run: r.ID, Data: data})
	s.log.Info("a run is "+strings.ReplaceAll(string(r.Status), "_", " "), "run", r.ID, "workspace", r.Workspace)
}

// tellAfter publishes the change of a workspace once it is committed.
func (s *shared) tellAfter(tx *store.Tx, w *record.Workspace) {
	id := w.ID
	tx.After(func() { s.stream.Publish(events.Event{Kind: events.WorkspaceChanged, Workspace: id}) })
}
