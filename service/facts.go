package service

import (
	"errors"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// Facts are what is known of a workspace beside its record. What the actor may not know is left out.
type Facts struct {
	// Resources is how many objects its current state manages.
	Resources int
	// Current is the run that has the workspace, or has it next; where there is none, the last one that was to apply.
	// Empty for none.
	Current string
	// Latest is the newest run, of any kind, and Runs is how many there are.
	Latest string
	Runs   int
}

// maxLatest is among how many of the newest runs the last one is looked for that was to apply.
const maxLatest = 100

// Facts returns what is known of a workspace beside its record.
func (s *Service) Facts(w *WorkspaceView) (f Facts, err error) {
	f.Current = w.CurrentRun
	err = s.store.View(func(tx *store.Tx) error {
		if w.CurrentState != "" && needOutputs.has(w.Permissions) {
			v, err := stateVersions.Get(tx, w.CurrentState)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if err == nil {
				f.Resources = v.Resources
			}
		}
		if !needReadRuns.has(w.Permissions) {
			return nil
		}
		f.Runs = len(runs.List(tx, "workspace", w.ID))
		for _, id := range runs.Newest(tx, "workspace", maxLatest, w.ID) {
			if f.Latest == "" {
				f.Latest = id
			}
			if f.Current != "" {
				return nil
			}
			r, err := runs.Get(tx, id)
			if err != nil {
				return err
			}
			if waitsInLine(r) || r.Status == record.Applied {
				f.Current = id
			}
		}
		return nil
	})
	return f, told(err)
}
