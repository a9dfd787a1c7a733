package service

import (
	"time"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/notifications"
	"github.com/millipede-iac/millipede/service/queue"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/turn"
)

// transitions changes the status of runs. In the same transaction it changes what depends on the status: the
// workspace, the history, notifications, and the runs that are triggered.
type transitions struct {
	*shared
	notifications *notifications.Notifications
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
	if err := s.notifications.RunChanged(tx, r, actor); err != nil {
		return err
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
	return s.notifications.RunInDoubt(tx, r)
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
func dropRun(tx *store.Tx, r *record.Run) error {
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

// makeRun records a new run.
func (s *transitions) makeRun(tx *store.Tx, w *record.Workspace, r *record.Run) (*record.Run, error) {
	number, err := tx.Next("run")
	if err != nil {
		return nil, err
	}
	run := *r
	run.ID, run.Workspace, run.Organization, run.Number = tables.NewID("run"), w.ID, w.Organization, number
	run.Status, run.CreatedAt, run.EngineVersion = record.Pending, s.now().UTC(), s.version
	run.Plan = record.Phase{ID: tables.NewID("plan"), Status: record.PhasePending, LogSecret: tables.NewSecret()}
	run.Apply = record.Phase{ID: tables.NewID("apply"), Status: record.PhasePending, LogSecret: tables.NewSecret()}
	run.Times = map[record.RunStatus]time.Time{record.Pending: run.CreatedAt}
	run.Structured = run.Structured && w.Structured
	if err := tables.Runs.Put(tx, &run); err != nil {
		return nil, err
	}
	if err := s.Remark(tx, &run, "created", "", run.CreatedBy); err != nil {
		return nil, err
	}
	if !run.PlanOnly && !run.SavePlan && w.CurrentRun == "" {
		w.CurrentRun = run.ID
		if err := tables.Workspaces.Put(tx, w); err != nil {
			return nil, err
		}
	}
	if err := s.notifications.RunCreated(tx, &run); err != nil {
		return nil, err
	}
	tx.After(func() {
		s.became(run.Status)
		s.queue.Changed(run.ID)
	})
	return &run, nil
}

// Remark adds an entry to the history of a run.
func (s *transitions) Remark(tx *store.Tx, r *record.Run, action, description, actor string) error {
	return tables.RunNotes.Put(tx, &record.RunNote{
		ID: tables.NewID("re"), Run: r.ID, Action: action, Description: description, Actor: actor, CreatedAt: s.now().UTC(),
	})
}
