package service

import (
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// recover loads the runs that were in progress when the service ended. An interrupted plan is started again; an
// interrupted apply is resumed.
func (s *Service) recover() error {
	if err := s.releaseEnded(); err != nil {
		return err
	}
	if err := s.endRestored(); err != nil {
		return err
	}
	all, err := s.queue.activeRuns()
	if err != nil {
		return err
	}
	if err := s.queue.takeTurns(all); err != nil {
		return err
	}
	for _, r := range all {
		s.queue.changed(r.ID)
		if r.Status != record.Planning {
			continue
		}
		err := s.store.Update(func(tx *store.Tx) error {
			r, err := tables.Runs.Get(tx, r.ID)
			if err != nil {
				return err
			}
			r.Resumed++
			if !r.Suspended {
				r.Deaths++ // durable before the plan begins again: it may be what the service dies of
			}
			r.Suspended = false
			return s.transitions.Enter(tx, r, record.EventPlanAgain, 0, "")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lastTurns is how many runs of a workspace are read to determine its last turn.
const lastTurns = 10

// takeTurns determines the time of the last turn of each workspace with active runs.
func (s *queue) takeTurns(active []*record.Run) error {
	return s.store.View(func(tx *store.Tx) error {
		for _, a := range active {
			if _, known := s.served[a.Workspace]; known {
				continue
			}
			var last time.Time
			for _, id := range append(tables.Runs.Newest(tx, "workspace", lastTurns, a.Workspace), a.ID) {
				r, err := tables.Runs.Get(tx, id)
				if err != nil {
					return err
				}
				if began := r.Times[record.Planning]; began.After(last) {
					last = began
				}
			}
			s.served[a.Workspace] = last
		}
		return nil
	})
}

// activeRuns reads the runs that have not ended.
func (s *queue) activeRuns() (all []*record.Run, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		for _, id := range tables.Runs.List(tx, "active", tables.Everywhere) {
			r, err := tables.Runs.Get(tx, id)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return nil
	})
	return all, err
}
