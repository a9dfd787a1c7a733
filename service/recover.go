package service

import (
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
	all, err := s.queue.ActiveRuns()
	if err != nil {
		return err
	}
	if err := s.queue.TakeTurns(all); err != nil {
		return err
	}
	for _, r := range all {
		s.queue.Changed(r.ID)
		if r.Status != record.Planning {
			continue
		}
		err := s.store.Update(func(tx *store.Tx) error {
			r, err := tables.Runs.Get(tx, r.ID)
			if err != nil {
				return err
			}
			r.Resumed++
			if !r.Suspended && !s.opts.Apart {
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
