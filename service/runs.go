package service

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// CreateRun queues a run of a workspace. It takes the fields of r that a client may set, and sets the others.
// If the same actor repeats the request within seconds, it returns the same run, as long as that has not ended.
func (s *Service) CreateRun(a *Actor, workspace string, r record.Run) (out *record.Run, err error) {
	err = s.audited(a, "run.create", workspace, func(tx *store.Tx) error {
		w, err := a.allowed(tx, workspace, needPlan)
		if err != nil {
			return err
		}
		if err := s.checkRun(tx, a, w, &r); err != nil {
			return err
		}
		if out = s.sameRun(tx, a, w, &r); out != nil {
			return nil
		}
		r.CreatedBy = a.ID()
		out, err = s.makeRun(tx, w, &r)
		return err
	})
	return out, err
}

// checkRun completes and validates a client's request for a run.
func (s *Service) checkRun(tx *store.Tx, a *Actor, w *record.Workspace, r *record.Run) error {
	if r.Configuration == "" {
		if r.Configuration = w.CurrentConfiguration; r.Configuration == "" {
			return invalid("Configuration version is missing: upload a configuration to the workspace first")
		}
	}
	c, err := configurations.Get(tx, r.Configuration)
	if err != nil || c.Workspace != w.ID {
		return invalid("Configuration version %q is missing in this workspace", r.Configuration)
	}
	if c.Status != record.Uploaded {
		return invalid("Configuration version %s is %s: a run needs one that is uploaded", c.ID, c.Status)
	}
	r.PlanOnly = r.PlanOnly || c.Speculative
	switch {
	case w.ExecutionMode == record.ModeLocal:
		return invalid("The workspace's execution mode is local: runs are carried out by the client")
	case r.Destroy && r.RefreshOnly:
		return invalid("A run cannot destroy and only refresh")
	case r.RefreshOnly && !r.Refresh:
		return invalid("A run that only refreshes cannot leave refreshing out")
	case r.Destroy && !r.PlanOnly && !w.AllowDestroy:
		return invalid("The workspace does not allow destroy plans")
	case r.GenerateConfig && (r.Destroy || r.RefreshOnly):
		return invalid("A run that destroys or only refreshes imports nothing that it could generate configuration for")
	}
	if r.AutoApply || w.AutoApply && !r.PlanOnly {
		p, err := a.permissions(tx, w)
		if err != nil {
			return err
		}
		if r.AutoApply && !needApply.has(p) {
			return forbidden("you are not allowed to %s", needApply.what)
		}
		r.AutoApply = r.AutoApply || w.AutoApply && !r.SavePlan && needApply.has(p)
	}
	return nil
}

// maxRepeated is how many of a workspace's newest runs are searched for the run of a repeated request.
const maxRepeated = 100

// sameRun returns the run that the same request created moments ago, or nil. Other runs may have been created
// since.
func (s *Service) sameRun(tx *store.Tx, a *Actor, w *record.Workspace, r *record.Run) *record.Run {
	for _, id := range runs.Newest(tx, "workspace", maxRepeated, w.ID) {
		last, err := runs.Get(tx, id)
		if err != nil || s.now().Sub(last.CreatedAt) >= repeated {
			return nil
		}
		if last.Status.Final() || last.CreatedBy != a.ID() {
			continue
		}
		if last.Configuration == r.Configuration && last.Message == r.Message && last.Destroy == r.Destroy &&
			last.Refresh == r.Refresh && last.RefreshOnly == r.RefreshOnly && last.PlanOnly == r.PlanOnly &&
			last.SavePlan == r.SavePlan && last.AutoApply == r.AutoApply && last.AllowEmpty == r.AllowEmpty &&
			last.GenerateConfig == r.GenerateConfig && slices.Equal(last.Targets, r.Targets) &&
			slices.Equal(last.Replace, r.Replace) &&
			slices.Equal(last.Variables, r.Variables) {
			return last
		}
	}
	return nil
}

// makeRun records a new run.
func (s *Service) makeRun(tx *store.Tx, w *record.Workspace, r *record.Run) (*record.Run, error) {
	number, err := tx.Next("run")
	if err != nil {
		return nil, err
	}
	run := *r
	run.ID, run.Workspace, run.Organization, run.Number = newID("run"), w.ID, w.Organization, number
	run.Status, run.CreatedAt, run.EngineVersion = record.Pending, s.now().UTC(), s.opts.Version
	run.Plan = record.Phase{ID: newID("plan"), Status: record.PhasePending, LogSecret: newSecret()}
	run.Apply = record.Phase{ID: newID("apply"), Status: record.PhasePending, LogSecret: newSecret()}
	run.Times = map[record.RunStatus]time.Time{record.Pending: run.CreatedAt}
	run.Structured = run.Structured && w.Structured
	if err := runs.Put(tx, &run); err != nil {
		return nil, err
	}
	if err := s.remark(tx, &run, "created", "", run.CreatedBy); err != nil {
		return nil, err
	}
	if !run.PlanOnly && !run.SavePlan && w.CurrentRun == "" {
		w.CurrentRun = run.ID
		if err := workspaces.Put(tx, w); err != nil {
			return nil, err
		}
	}
	if err := s.notify(tx, &run, "run:created", "Run Created", run.CreatedBy); err != nil {
		return nil, err
	}
	tx.After(func() {
		s.opts.Became(run.Status)
		s.queue.changed(run.ID)
	})
	return &run, nil
}

// remark adds an entry to the history of a run.
func (s *Service) remark(tx *store.Tx, r *record.Run, action, description, actor string) error {
	return runNotes.Put(tx, &record.RunNote{
		ID: newID("re"), Run: r.ID, Action: action, Description: description, Actor: actor, CreatedAt: s.now().UTC(),
	})
}

// RunView is a run with its workspace, and the actor's rights there.
type RunView struct {
	record.Run
	On          *WorkspaceView
	Permissions record.Permissions
}

// FindRun returns a run.
func (s *Service) FindRun(a *Actor, id string) (v *RunView, err error) {
	err = s.store.View(func(tx *store.Tx) error { v, err = a.runView(tx, id); return err })
	return v, told(err)
}

func (a *Actor) runView(tx *store.Tx, id string) (*RunView, error) {
	r, err := runs.Look(tx, id)
	if err == nil {
		w, p, err := a.workspace(tx, r.Workspace)
		if err == nil && needReadRuns.has(p) {
			return &RunView{*r, &WorkspaceView{*w, p}, p}, nil
		}
	}
	return nil, notFound("there is no run %q, or you have no access to it", id)
}

// RunOfPhase returns the run of a plan or an apply.
func (s *Service) RunOfPhase(a *Actor, phase string) (v *RunView, err error) {
	index := "plan"
	if strings.HasPrefix(phase, "apply-") {
		index = "apply"
	}
	err = s.store.View(func(tx *store.Tx) error {
		r, err := runs.LookUp(tx, index, phase)
		if err == nil {
			v, err = a.runView(tx, r.ID)
		}
		if err != nil {
			return notFound("there is no %s %q, or you have no access to it", index, phase)
		}
		return nil
	})
	return v, told(err)
}

// Runs returns the runs of a workspace, newest first.
func (s *Service) Runs(a *Actor, workspace string, limit int) (out []*RunView, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		w, p, err := a.workspace(tx, workspace)
		if err != nil {
			return err
		}
		if !needReadRuns.has(p) {
			return forbidden("you are not allowed to %s", needReadRuns.what)
		}
		for _, id := range runs.Newest(tx, "workspace", limit, workspace) {
			r, err := runs.Get(tx, id)
			if err != nil {
				return err
			}
			out = append(out, &RunView{*r, &WorkspaceView{*w, p}, p})
		}
		return nil
	})
	return out, told(err)
}

// OrganizationRuns returns up to limit runs of an organization that the actor may see, newest first.
func (s *Service) OrganizationRuns(a *Actor, organization string, limit int) (out []*RunView, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.organization(tx, organization)
		if err != nil {
			return err
		}
		for _, id := range workspaces.List(tx, "organization", strings.ToLower(o.Name)) {
			w, p, err := a.workspace(tx, id)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if !needReadRuns.has(p) {
				continue
			}
			for _, id := range runs.Newest(tx, "workspace", limit, w.ID) {
				r, err := runs.Look(tx, id)
				if err != nil {
					return err
				}
				at, _ := slices.BinarySearchFunc(out, r.Number, func(o *RunView, number uint64) int {
					return cmp.Compare(number, o.Number)
				})
				if at == limit {
					break // the other runs of the workspace are older
				}
				out = slices.Insert(out[:min(len(out), limit-1)], at, &RunView{*r, &WorkspaceView{*w, p}, p})
			}
		}
		return nil
	})
	return out, told(err)
}

// RunHistory returns the history of a run, oldest entry first.
func (s *Service) RunHistory(a *Actor, id string) (out []*record.RunNote, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if _, err := a.runView(tx, id); err != nil {
			return err
		}
		out, err = runNotes.Select(tx, "run", id)
		return err
	})
	return out, told(err)
}

// Comments returns the comments on a run, oldest first.
func (s *Service) Comments(a *Actor, id string) (out []*record.Comment, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if _, err := a.runView(tx, id); err != nil {
			return err
		}
		out, err = comments.Select(tx, "run", id)
		return err
	})
	return out, told(err)
}

// FindComment returns a comment.
func (s *Service) FindComment(a *Actor, id string) (c *record.Comment, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if c, err = comments.Get(tx, id); err == nil {
			_, err = a.runView(tx, c.Run)
		}
		if err != nil {
			return notFound("there is no comment %q, or you have no access to it", id)
		}
		return nil
	})
	return c, told(err)
}

// FindRunNote returns an entry of a run's history.
func (s *Service) FindRunNote(a *Actor, id string) (n *record.RunNote, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if n, err = runNotes.Get(tx, id); err == nil {
			_, err = a.runView(tx, n.Run)
		}
		if err != nil {
			return notFound("there is no event %q, or you have no access to it", id)
		}
		return nil
	})
	return n, told(err)
}

// Comment adds a comment to a run.
func (s *Service) Comment(a *Actor, id, body string) (c *record.Comment, err error) {
	if strings.TrimSpace(body) == "" || len(body) > 64<<10 {
		return nil, invalid("Body must have between 1 byte and 64 KiB")
	}
	err = s.audited(a, "run.comment", id, func(tx *store.Tx) error {
		if _, err := a.runView(tx, id); err != nil {
			return err
		}
		c, err = s.say(tx, a, id, body)
		return err
	})
	return c, err
}

func (s *Service) say(tx *store.Tx, a *Actor, run, body string) (*record.Comment, error) {
	c := &record.Comment{ID: newID("wsc"), Run: run, Body: body, Actor: a.ID(), CreatedAt: s.now().UTC()}
	n := &record.RunNote{ID: newID("re"), Run: run, Action: "commented", Actor: a.ID(), Comment: c.ID,
		CreatedAt: c.CreatedAt}
	if err := runNotes.Put(tx, n); err != nil {
		return nil, err
	}
	c.Note = n.ID
	if r, err := runs.Get(tx, run); err == nil {
		tx.After(func() { s.tell(r) })
	}
	return c, comments.Put(tx, c)
}

// Confirm approves the plan of a run; it is applied when the workspace's queue allows.
func (s *Service) Confirm(a *Actor, id, comment string) error {
	return s.act(a, "run.apply", id, comment, needApply, func(tx *store.Tx, r *record.Run) error {
		r.ConfirmedBy = a.ID()
		return s.enter(tx, r, record.EventConfirmed, 0, a.ID())
	})
}

// Discard discards the plan of a run: it will not be applied.
func (s *Service) Discard(a *Actor, id, comment string) error {
	return s.act(a, "run.discard", id, comment, needApply, func(tx *store.Tx, r *record.Run) error {
		return s.enter(tx, r, record.EventDiscarded, 0, a.ID())
	})
}

// Cancel cancels a run: at once if no phase of it is in progress; otherwise the phase is stopped as by an
// interrupt.
func (s *Service) Cancel(a *Actor, id, comment string) error {
	return s.act(a, "run.cancel", id, comment, needPlan, func(tx *store.Tx, r *record.Run) error {
		if !r.Status.Cancelable() {
			return conflict("the run is %s and cannot be canceled", r.Status)
		}
		first := r.CancelAsked.IsZero()
		if first {
			r.CancelAsked = s.now().UTC()
		}
		if !r.Status.Computes() {
			return s.enter(tx, r, record.EventCanceled, 0, a.ID())
		}
		if first {
			if err := s.remark(tx, r, "cancel_requested", "", a.ID()); err != nil {
				return err
			}
		}
		tx.After(func() {
			s.queue.stop(r.ID)
			s.queue.changed(r.ID) // this ends a suspended apply
		})
		return runs.Put(tx, r)
	})
}

// ForceCancel abandons a run that has not ended since it was canceled: its running operations become in doubt.
func (s *Service) ForceCancel(a *Actor, id, comment string) error {
	return s.act(a, "run.force-cancel", id, comment, needAdmin, func(tx *store.Tx, r *record.Run) error {
		if !s.ForceCancelable(r) {
			return conflict("the run cannot be force-canceled: cancel it first, and wait %s", s.opts.ForceCancelAfter)
		}
		tx.After(func() { s.queue.leave(r.ID) })
		return s.remark(tx, r, "force_cancel_requested", "", a.ID())
	})
}

// ForceCancelable reports whether a run may be force-canceled.
func (s *Service) ForceCancelable(r *record.Run) bool {
	return r.Status.Computes() && !r.CancelAsked.IsZero() && s.now().Sub(r.CancelAsked) >= s.opts.ForceCancelAfter
}

// ForceCancelAt returns the time from which a canceled run may be force-canceled.
func (s *Service) ForceCancelAt(r *record.Run) time.Time {
	return r.CancelAsked.Add(s.opts.ForceCancelAfter)
}

// act changes a run on behalf of an actor who needs a right.
func (s *Service) act(a *Actor, action, id, comment string, n need, change func(*store.Tx, *record.Run) error) error {
	return s.audited(a, action, id, func(tx *store.Tx) error {
		v, err := a.runView(tx, id)
		if err != nil {
			return err
		}
		if !n.has(v.Permissions) {
			return forbidden("you are not allowed to %s", n.what)
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

// enter applies an event to a run and to its workspace, in one transaction.
func (s *Service) enter(tx *store.Tx, r *record.Run, k record.RunEventKind, o record.Outcome, actor string) error {
	if err := r.Enter(k, o, s.now().UTC()); err != nil {
		return conflict("the run %s is %s", r.ID, r.Status)
	}
	if err := runs.Put(tx, r); err != nil {
		return err
	}
	if err := s.remark(tx, r, string(k), "", actor); err != nil {
		return err
	}
	w, err := workspaces.Get(tx, r.Workspace)
	if err != nil {
		return err
	}
	if err := s.follow(tx, w, r, k); err != nil {
		return err
	}
	if trigger, message := triggerOf(r); trigger != "" {
		if err := s.notify(tx, r, trigger, message, actor); err != nil {
			return err
		}
	}
	id, status := r.ID, r.Status
	tx.After(func() {
		s.opts.Became(status)
		s.queue.changed(id)
	})
	return workspaces.Put(tx, w)
}

// follow updates the workspace after an event of its run: the lock, and the current run that it shows.
func (s *Service) follow(tx *store.Tx, w *record.Workspace, r *record.Run, k record.RunEventKind) error {
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
		if c, err := configurations.Get(tx, r.Configuration); err == nil && c.Provisional {
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
func (s *Service) lockOfOthers(tx *store.Tx, w *record.Workspace, ended *record.Run) (record.Lock, error) {
	if !w.ObjectLocks {
		return record.Lock{}, nil
	}
	for _, id := range runs.List(tx, "active", w.ID) {
		o, err := runs.Get(tx, id)
		if err != nil {
			return record.Lock{}, err
		}
		if o.ID != ended.ID && !o.PlanOnly && o.Status.Holds() && holds(o) {
			return record.Lock{Kind: "run", ID: o.ID, At: s.now().UTC()}, nil
		}
	}
	if s.queue.changesObjects(w.ID) {
		return record.Lock{Kind: "run", ID: ended.ID, At: s.now().UTC()}, nil
	}
	return record.Lock{}, nil
}

// supersede discards the saved plans of a workspace when another run applies: they are based on an outdated
// state.
func (s *Service) supersede(tx *store.Tx, w *record.Workspace, by *record.Run) error {
	if w.ObjectLocks {
		return nil // a plan stays valid as long as the objects that it depends on do
	}
	for _, id := range runs.List(tx, "active", w.ID) {
		r, err := runs.Get(tx, id)
		if err != nil {
			return err
		}
		if r.ID == by.ID || r.Status != record.PlannedAndSaved {
			continue
		}
		if err := r.Enter(record.EventDiscarded, 0, s.now().UTC()); err != nil {
			return err
		}
		if err := s.remark(tx, r, "discarded", "another run was applied first: "+by.ID, ""); err != nil {
			return err
		}
		if err := runs.Put(tx, r); err != nil {
			return err
		}
		tx.After(func() { s.queue.changed(r.ID) })
	}
	return nil
}

// nextRun returns the run that gets the workspace next; empty if there is none.
func (s *Service) nextRun(tx *store.Tx, w *record.Workspace) string {
	for _, id := range runs.List(tx, "active", w.ID) {
		if r, err := runs.Get(tx, id); err == nil && !r.PlanOnly && !r.SavePlan {
			return r.ID
		}
	}
	return ""
}

// dropRun removes the records of a run.
func (s *Service) dropRun(tx *store.Tx, r *record.Run) error {
	for _, id := range runNotes.List(tx, "run", r.ID) {
		if err := runNotes.Delete(tx, id); err != nil {
			return err
		}
	}
	for _, id := range comments.List(tx, "run", r.ID) {
		if err := comments.Delete(tx, id); err != nil {
			return err
		}
	}
	if err := dropRunTokens(tx, r.ID, func(string) bool { return false }); err != nil {
		return err
	}
	return runs.Delete(tx, r.ID)
}
