package service

import (
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// ByRestore is the name under which a service drains itself after it was restored from a backup.
const ByRestore = "restore"

// endRestored ends the runs that were in progress in the backup, once after a restore, and drains the service.
// Those runs may have continued after the backup was made; resuming them here could create objects twice.
func (s *Service) endRestored() error {
	return s.store.Update(func(tx *store.Tx) error {
		at, err := tx.Restored()
		if err != nil || at.IsZero() {
			return err
		}
		why := fmt.Sprintf("the service was restored from the backup of %s, and what was done after it is not known here",
			at.UTC().Format(time.RFC3339))
		h, err := tables.HaltOf(tx, "")
		switch {
		case err != nil:
			return err
		case h == nil:
			err = tables.Halts.Put(tx, &record.Halt{On: record.HaltOn(""), By: ByRestore, At: s.now().UTC(), Reason: why})
		}
		for _, id := range tables.Runs.List(tx, "active", tables.Everywhere) {
			err = errors.Join(err, s.endRestoredRun(tx, id, why))
		}
		return errors.Join(err, tx.SettledRestore())
	})
}

// endRestoredRun ends a run, at once if it is not applying. An apply in progress ends when the outcome of its
// operations is settled.
func (s *Service) endRestoredRun(tx *store.Tx, id, why string) error {
	r, err := tables.Runs.Get(tx, id)
	if err != nil {
		return err
	}
	if r.CancelAsked.IsZero() {
		r.CancelAsked = s.now().UTC()
	}
	if err := s.transitions.Remark(tx, r, "cancel_requested", why, ""); err != nil {
		return err
	}
	switch {
	case r.Status == record.Applying:
		return tables.Runs.Put(tx, r)
	case r.Status.Cancelable():
		return s.transitions.Enter(tx, r, record.EventCanceled, 0, "")
	}
	return s.transitions.Enter(tx, r, record.EventDiscarded, 0, "")
}
