package service

import (
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// ByRestore is who has drained a service that was restored from a backup.
const ByRestore = "restore"

// endRestored ends the runs that a backup had under way, once after a restore, and drains the service. What another
// process did after the backup, with these runs among others, is not known here: to go on with them would make objects
// twice.
func (s *Service) endRestored() error {
	return s.store.Update(func(tx *store.Tx) error {
		at, err := tx.Restored()
		if err != nil || at.IsZero() {
			return err
		}
		why := fmt.Sprintf("the service was restored from the backup of %s, and what was done after it is not known here",
			at.UTC().Format(time.RFC3339))
		h, err := haltOf(tx, "")
		switch {
		case err != nil:
			return err
		case h == nil:
			err = halts.Put(tx, &record.Halt{On: place(""), By: ByRestore, At: s.now().UTC(), Reason: why})
		}
		for _, id := range runs.List(tx, "active", everywhere) {
			err = errors.Join(err, s.endRestoredRun(tx, id, why))
		}
		return errors.Join(err, tx.SettledRestore())
	})
}

// endRestoredRun ends a run where nothing is under way; an apply under way ends when what it had begun is settled.
func (s *Service) endRestoredRun(tx *store.Tx, id, why string) error {
	r, err := runs.Get(tx, id)
	if err != nil {
		return err
	}
	if r.CancelAsked.IsZero() {
		r.CancelAsked = s.now().UTC()
	}
	if err := s.remark(tx, r, "cancel_requested", why, ""); err != nil {
		return err
	}
	switch {
	case r.Status == record.Applying:
		return runs.Put(tx, r)
	case r.Status.Cancelable():
		return s.enter(tx, r, record.EventCanceled, 0, "")
	}
	return s.enter(tx, r, record.EventDiscarded, 0, "")
}
