package service

import (
	"time"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/queue"
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

// transitions changes the status of runs. In the same transaction it changes what depends on the status: the
// workspace, the history, notifications, and the runs that are triggered.
type transitions struct {
	*shared
	notifications *Notifications
	became        func(record.RunStatus)
	version       string
	queue         *queue.Queue
}

// Enter applies an event to a run and to its workspace, in one transaction.
func (s *transitions) Enter(tx *store.Tx, r *record.Run, k record.RunEventKind, o record.Outcome, actor string) error {
	if err := r.Enter(k, o, s.now().UTC()); err != nil {
		return tables.Conflict("the run %s is %s", r.ID, r.Status)
	}
	if err := tables.Runs.Put(tx, r); err != nil {
		return err
	}
	if err := s.Remark(tx, r, string(k), "", actor); err != nil {
		return err
	}
	w, err := tables.Workspaces.Get(tx, r.Workspace)
	if err != nil {
		return err
	}
	if err := s.follow(tx, w, r, k); err != nil {
		return err
	}
	if r.Status == record.Applied {
		if err := s.trigger(tx, r); err != nil {
			return err
		}
	}
	if trigger, message := triggerOf(r); trigger != "" {
		if err := s.notifications.notify(tx, r, trigger, message, actor); err != nil {
			return err
		}
	}
	id, status := r.ID, r.Status
	tx.After(func() {
		s.became(status)
		s.queue.Changed(id)
	})
	return tables.Workspaces.Put(tx, w)
}

// NotifyDoubt records the notifications that a run has left operations in doubt.
func (s *transitions) NotifyDoubt(tx *store.Tx, r *record.Run) error {
	return s.notifications.notify(tx, r, triggerDoubt, "Operations In Doubt", "")
}

// follow updates the workspace after an event of its run: the lock, and the current run that it shows.
func (s *transitions) follow(tx *store.Tx, w *record.Workspace, r *record.Run, k record.RunEventKind) error {
	mine := w.Lock.Kind == "run" && w.Lock.ID == r.ID
	locks := !r.PlanOnly && r.Status.Holds() && (!r.SavePlan || k == record.EventApplyQueued ||
		r.Status == record.Applying)
	switch {
	case locks && !w.Lock.Held():
		w.Lock = record.Lock{Kind: "run", ID: r.ID, At: s.now().UTC()}
	case mine && (r.Status.Final() || r.Status == record.PlannedAndSaved):
		var err error
		if w.Lock, err = s.lockOfOthers(tx, w, r); err != nil {
			return err
		}
	}
	if k == record.EventApplyQueued {
		if err := s.supersede(tx, w, r); err != nil {
			return err
		}
		w.CurrentRun = r.ID
		if c, err := tables.Configurations.Get(tx, r.Configuration); err == nil && c.Provisional {
			w.CurrentConfiguration = c.ID
		}
	}
	if r.Status.Final() && w.CurrentRun == r.ID {
		w.CurrentRun = s.nextRun(tx, w)
	}
	return nil
}

// lockOfOthers returns the lock of a workspace after one of its runs has ended: that of another run in
// progress, or none. While somebody changes objects of the state, the lock of the ended run remains.
func (s *transitions) lockOfOthers(tx *store.Tx, w *record.Workspace, ended *record.Run) (record.Lock, error) {
	if !w.ObjectLocks {
		return record.Lock{}, nil
	}
	for _, id := range tables.Runs.List(tx, "active", w.ID) {
		o, err := tables.Runs.Get(tx, id)
		if err != nil {
			return record.Lock{}, err
		}
		if o.ID != ended.ID && !o.PlanOnly && o.Status.Holds() && turn.Holds(o) {
			return record.Lock{Kind: "run", ID: o.ID, At: s.now().UTC()}, nil
		}
	}
	if s.queue.ChangesObjects(w.ID) {
		return record.Lock{Kind: "run", ID: ended.ID, At: s.now().UTC()}, nil
	}
	return record.Lock{}, nil
}

// supersede discards the saved plans of a workspace when another run applies: they are based on an outdated
// state.
func (s *transitions) supersede(tx *store.Tx, w *record.Workspace, by *record.Run) error {
	if w.ObjectLocks {
		return nil // a plan stays valid as long as the objects that it depends on do
	}
	for _, id := range tables.Runs.List(tx, "active", w.ID) {
		r, err := tables.Runs.Get(tx, id)
		if err != nil {
			return err
		}
		if r.ID == by.ID || r.Status != record.PlannedAndSaved {
			continue
		}
		if err := r.Enter(record.EventDiscarded, 0, s.now().UTC()); err != nil {
			return err
		}
		if err := s.Remark(tx, r, "discarded", "another run was applied first: "+by.ID, ""); err != nil {
			return err
		}
		if err := tables.Runs.Put(tx, r); err != nil {
			return err
		}
		tx.After(func() { s.queue.Changed(r.ID) })
	}
	return nil
}

// nextRun returns the run that gets the workspace next; empty if there is none.
func (s *transitions) nextRun(tx *store.Tx, w *record.Workspace) string {
	for _, id := range tables.Runs.List(tx, "active", w.ID) {
		if r, err := tables.Runs.Get(tx, id); err == nil && !r.PlanOnly && !r.SavePlan {
			return r.ID
		}
	}
	return ""
}

// dropRun removes the records of a run.
func (s *transitions) dropRun(tx *store.Tx, r *record.Run) error {
	for _, id := range tables.RunNotes.List(tx, "run", r.ID) {
		if err := tables.RunNotes.Delete(tx, id); err != nil {
			return err
		}
	}
	for _, id := range tables.Comments.List(tx, "run", r.ID) {
		if err := tables.Comments.Delete(tx, id); err != nil {
			return err
		}
	}
	if err := accounts.DropRunTokens(tx, r.ID); err != nil {
		return err
	}
	return tables.Runs.Delete(tx, r.ID)
}
