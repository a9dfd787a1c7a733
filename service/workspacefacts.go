package service

import (
	"errors"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/turn"
)

// Facts are properties of a workspace that are not part of its record. Those that the actor may not see are
// omitted.
type Facts struct {
	// Resources is the number of objects that the current state manages.
	Resources int
	// Current is the run that holds the workspace or is the next to hold it; if there is none, the last run
	// that was to apply. Empty if there is no such run.
	Current string
	// Latest is the newest run of any kind; Runs is the number of runs.
	Latest string
	Runs   int
}

// maxLatest is how many of the newest runs are searched for the last one that was to apply.
const maxLatest = 100

// Facts returns the properties of a workspace that are not part of its record.
func (s *Workspaces) Facts(w *WorkspaceView) (f Facts, err error) {
	f.Current = w.CurrentRun
	err = s.store.View(func(tx *store.Tx) error {
		if w.CurrentState != "" && rights.ReadOutputs.Has(w.Permissions) {
			v, err := tables.StateVersions.Get(tx, w.CurrentState)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if err == nil {
				f.Resources = v.Resources
			}
		}
		if !rights.ReadRuns.Has(w.Permissions) {
			return nil
		}
		f.Runs = len(tables.Runs.List(tx, "workspace", w.ID))
		for _, id := range tables.Runs.Newest(tx, "workspace", maxLatest, w.ID) {
			if f.Latest == "" {
				f.Latest = id
			}
			if f.Current != "" {
				return nil
			}
			r, err := tables.Runs.Get(tx, id)
			if err != nil {
				return err
			}
			if turn.WaitsInLine(r) || r.Status == record.Applied {
				f.Current = id
			}
		}
		return nil
	})
	return f, tables.Translated(err)
}
