package service

import (
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/turn"
)

// Confirm approves the plan of a run; it is applied when the workspace's queue allows.
func (s *Runs) Confirm(a *rights.Actor, id, comment string) error {
	return s.act(a, "run.apply", id, comment, rights.Apply, func(tx *store.Tx, r *record.Run) error {
		r.ConfirmedBy = a.ID()
		return s.transitions.Enter(tx, r, record.EventConfirmed, 0, a.ID())
	})
}

// Discard discards the plan of a run: it will not be applied.
func (s *Runs) Discard(a *rights.Actor, id, comment string) error {
	return s.act(a, "run.discard", id, comment, rights.Apply, func(tx *store.Tx, r *record.Run) error {
		return s.transitions.Enter(tx, r, record.EventDiscarded, 0, a.ID())
	})
}

// Cancel cancels a run: at once if no phase of it is in progress; otherwise the phase is stopped as by an
// interrupt.
func (s *Runs) Cancel(a *rights.Actor, id, comment string) error {
	return s.act(a, "run.cancel", id, comment, rights.Plan, func(tx *store.Tx, r *record.Run) error {
		if !r.Status.Cancelable() {
			return tables.Conflict("the run is %s and cannot be canceled", r.Status)
		}
		first := r.CancelAsked.IsZero()
		if first {
			r.CancelAsked = s.now().UTC()
		}
		if !r.Status.Computes() {
			return s.transitions.Enter(tx, r, record.EventCanceled, 0, a.ID())
		}
		if first {
			if err := s.transitions.Remark(tx, r, "cancel_requested", "", a.ID()); err != nil {
				return err
			}
		}
		tx.After(func() {
			s.queue.Stop(r.ID)
			s.queue.Changed(r.ID) // this ends a suspended apply
		})
		return tables.Runs.Put(tx, r)
	})
}

// ForceCancel abandons a run that has not ended since it was canceled: its running operations become in doubt.
func (s *Runs) ForceCancel(a *rights.Actor, id, comment string) error {
	return s.act(a, "run.force-cancel", id, comment, rights.Administer, func(tx *store.Tx, r *record.Run) error {
		if !s.ForceCancelable(r) {
			return tables.Conflict("the run cannot be force-canceled: cancel it first, and wait %s", s.forceCancelAfter)
		}
		tx.After(func() { s.queue.Abandon(r.ID) })
		return s.transitions.Remark(tx, r, "force_cancel_requested", "", a.ID())
	})
}

// ForceCancelable reports whether a run may be force-canceled.
func (s *Runs) ForceCancelable(r *record.Run) bool {
	return r.Status.Computes() && !r.CancelAsked.IsZero() && s.now().Sub(r.CancelAsked) >= s.forceCancelAfter
}

// ForceCancelAt returns the time from which a canceled run may be force-canceled.
func (s *Runs) ForceCancelAt(r *record.Run) time.Time {
	return r.CancelAsked.Add(s.forceCancelAfter)
}

// ForceExecute discards the earlier runs of the workspace that a pending run waits for, so that it is planned next.
// The error is ErrConflict if the run does not wait for another one, or if one before it is in progress: that one
// must be canceled.
func (s *Runs) ForceExecute(a *rights.Actor, id string) error {
	return s.act(a, "run.force-execute", id, "", rights.Apply, func(tx *store.Tx, r *record.Run) error {
		if r.Status != record.Pending {
			return tables.Conflict("the run is %s, and only a pending one can be executed by force", r.Status)
		}
		w, err := tables.Workspaces.Get(tx, r.Workspace)
		if err != nil {
			return err
		}
		if w.Lock.Kind != "run" || w.ObjectLocks || !turn.WaitsInLine(r) {
			return tables.Conflict("the run does not wait for another run")
		}
		var earlier []*record.Run
		for _, id := range tables.Runs.List(tx, "active", w.ID) { // from the oldest to the newest
			o, err := tables.Runs.Get(tx, id)
			if err != nil {
				return err
			}
			if o.Number >= r.Number {
				break
			}
			if !turn.WaitsInLine(o) && o.ID != w.Lock.ID {
				continue
			}
			if !o.Status.Discardable() {
				return tables.Conflict("the run %s is %s: cancel it first", o.ID, o.Status)
			}
			earlier = append(earlier, o)
		}
		for _, o := range earlier {
			if err := s.transitions.Remark(tx, o, "discarded", "the run "+r.ID+" was executed instead", a.ID()); err != nil {
				return err
			}
			if err := s.transitions.Enter(tx, o, record.EventDiscarded, 0, a.ID()); err != nil {
				return err
			}
		}
		return nil
	})
}

// act changes a run on behalf of an actor who needs a right.
func (s *Runs) act(a *rights.Actor, action, id, comment string, n rights.Right, change func(*store.Tx,
	*record.Run) error) error {
	return s.audit.Change(a, action, id, func(tx *store.Tx) error {
		v, err := runView(tx, a, id)
		if err != nil {
			return err
		}
		if !n.Has(v.Permissions) {
			return tables.Forbidden("you are not allowed to %s", n.What)
		}
		r := v.Run
		if err := change(tx, &r); err != nil {
			return err
		}
		if comment != "" {
			_, err = s.say(tx, a, id, comment)
		}
		return err
	})
}
