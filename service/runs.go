package service

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/queue"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Runs are the runs of workspaces, with what people can do about them.
type Runs struct {
	*shared
	pools            *Pools
	forceCancelAfter time.Duration
	queue            *queue.Queue
	transitions      *transitions
}

// Create queues a run of a workspace. It takes the fields of r that a client may set, and sets the others.
// If the same actor repeats the request within seconds, it returns the same run, as long as that has not ended.
func (s *Runs) Create(a *rights.Actor, workspace string, r record.Run) (out *record.Run, err error) {
	err = s.audit.Change(a, "run.create", workspace, func(tx *store.Tx) error {
		w, err := a.Allowed(tx, workspace, rights.Plan)
		if err != nil {
			return err
		}
		if err := s.check(tx, a, w, &r); err != nil {
			return err
		}
		if out = s.same(tx, a, w, &r); out != nil {
			return nil
		}
		r.CreatedBy = a.ID()
		out, err = s.transitions.makeRun(tx, w, &r)
		return err
	})
	return out, err
}

// check completes and validates a client's request for a run.
func (s *Runs) check(tx *store.Tx, a *rights.Actor, w *record.Workspace, r *record.Run) error {
	if r.Configuration == "" {
		if r.Configuration = w.CurrentConfiguration; r.Configuration == "" {
			return tables.Invalid("Configuration version is missing: upload a configuration to the workspace first")
		}
	}
	c, err := tables.Configurations.Get(tx, r.Configuration)
	if err != nil || c.Workspace != w.ID {
		return tables.Invalid("Configuration version %q is missing in this workspace", r.Configuration)
	}
	if c.Status != record.Uploaded {
		return tables.Invalid("Configuration version %s is %s: a run needs one that is uploaded", c.ID, c.Status)
	}
	r.PlanOnly = r.PlanOnly || c.Speculative
	switch {
	case w.ExecutionMode == record.ModeLocal:
		return tables.Invalid("The workspace's execution mode is local: runs are carried out by the client")
	case r.Destroy && r.RefreshOnly:
		return tables.Invalid("A run cannot destroy and only refresh")
	case r.RefreshOnly && !r.Refresh:
		return tables.Invalid("A run that only refreshes cannot leave refreshing out")
	case r.Destroy && !r.PlanOnly && !w.AllowDestroy:
		return tables.Invalid("The workspace does not allow destroy plans")
	case r.GenerateConfig && (r.Destroy || r.RefreshOnly):
		return tables.Invalid("A run that destroys or only refreshes imports nothing that it could generate " +
			"configuration for")
	}
	if r.AutoApply || w.AutoApply && !r.PlanOnly {
		p, err := a.Permissions(tx, w)
		if err != nil {
			return err
		}
		if r.AutoApply && !rights.Apply.Has(p) {
			return tables.Forbidden("you are not allowed to %s", rights.Apply.What)
		}
		r.AutoApply = r.AutoApply || w.AutoApply && !r.SavePlan && rights.Apply.Has(p)
	}
	return nil
}

// maxRepeated is how many of a workspace's newest runs are searched for the run of a repeated request.
const maxRepeated = 100

// same returns the run that the same request created moments ago, or nil. Other runs may have been created
// since.
func (s *Runs) same(tx *store.Tx, a *rights.Actor, w *record.Workspace, r *record.Run) *record.Run {
	for _, id := range tables.Runs.Newest(tx, "workspace", maxRepeated, w.ID) {
		last, err := tables.Runs.Get(tx, id)
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

// RunView is a run with its workspace, and the actor's rights there.
type RunView struct {
	record.Run
	On          *WorkspaceView
	Permissions record.Permissions
}

// Find returns a run.
func (s *Runs) Find(a *rights.Actor, id string) (v *RunView, err error) {
	err = s.store.View(func(tx *store.Tx) error { v, err = runView(tx, a, id); return err })
	return v, tables.Translated(err)
}

func runView(tx *store.Tx, a *rights.Actor, id string) (*RunView, error) {
	r, err := tables.Runs.Look(tx, id)
	if err == nil {
		w, p, err := a.Workspace(tx, r.Workspace)
		if err == nil && rights.ReadRuns.Has(p) {
			return &RunView{*r, &WorkspaceView{*w, p}, p}, nil
		}
	}
	return nil, tables.NotFound("there is no run %q, or you have no access to it", id)
}

// OfPhase returns the run of a plan or an apply.
func (s *Runs) OfPhase(a *rights.Actor, phase string) (v *RunView, err error) {
	index := "plan"
	if strings.HasPrefix(phase, "apply-") {
		index = "apply"
	}
	err = s.store.View(func(tx *store.Tx) error {
		r, err := tables.Runs.LookUp(tx, index, phase)
		if err == nil {
			v, err = runView(tx, a, r.ID)
		}
		if err != nil {
			return tables.NotFound("there is no %s %q, or you have no access to it", index, phase)
		}
		return nil
	})
	return v, tables.Translated(err)
}

// List returns the runs of a workspace, newest first.
func (s *Runs) List(a *rights.Actor, workspace string, limit int) (out []*RunView, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		w, p, err := a.Workspace(tx, workspace)
		if err != nil {
			return err
		}
		if !rights.ReadRuns.Has(p) {
			return tables.Forbidden("you are not allowed to %s", rights.ReadRuns.What)
		}
		for _, id := range tables.Runs.Newest(tx, "workspace", limit, workspace) {
			r, err := tables.Runs.Get(tx, id)
			if err != nil {
				return err
			}
			out = append(out, &RunView{*r, &WorkspaceView{*w, p}, p})
		}
		return nil
	})
	return out, tables.Translated(err)
}

// OfOrganization returns up to limit runs of an organization that the actor may see, newest first.
func (s *Runs) OfOrganization(a *rights.Actor, organization string, limit int) (out []*RunView, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.Organization(tx, organization)
		if err != nil {
			return err
		}
		for _, id := range tables.Workspaces.List(tx, "organization", strings.ToLower(o.Name)) {
			w, p, err := a.Workspace(tx, id)
			if errors.Is(err, tables.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if !rights.ReadRuns.Has(p) {
				continue
			}
			for _, id := range tables.Runs.Newest(tx, "workspace", limit, w.ID) {
				r, err := tables.Runs.Look(tx, id)
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
	return out, tables.Translated(err)
}

// History returns the history of a run, oldest entry first.
func (s *Runs) History(a *rights.Actor, id string) (out []*record.RunNote, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if _, err := runView(tx, a, id); err != nil {
			return err
		}
		out, err = tables.RunNotes.Select(tx, "run", id)
		return err
	})
	return out, tables.Translated(err)
}

// Comments returns the comments on a run, oldest first.
func (s *Runs) Comments(a *rights.Actor, id string) (out []*record.Comment, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if _, err := runView(tx, a, id); err != nil {
			return err
		}
		out, err = tables.Comments.Select(tx, "run", id)
		return err
	})
	return out, tables.Translated(err)
}

// FindComment returns a comment.
func (s *Runs) FindComment(a *rights.Actor, id string) (c *record.Comment, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if c, err = tables.Comments.Get(tx, id); err == nil {
			_, err = runView(tx, a, c.Run)
		}
		if err != nil {
			return tables.NotFound("there is no comment %q, or you have no access to it", id)
		}
		return nil
	})
	return c, tables.Translated(err)
}

// FindNote returns an entry of a run's history.
func (s *Runs) FindNote(a *rights.Actor, id string) (n *record.RunNote, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if n, err = tables.RunNotes.Get(tx, id); err == nil {
			_, err = runView(tx, a, n.Run)
		}
		if err != nil {
			return tables.NotFound("there is no event %q, or you have no access to it", id)
		}
		return nil
	})
	return n, tables.Translated(err)
}

// Comment adds a comment to a run.
func (s *Runs) Comment(a *rights.Actor, id, body string) (c *record.Comment, err error) {
	if strings.TrimSpace(body) == "" || len(body) > 64<<10 {
		return nil, tables.Invalid("Body must have between 1 byte and 64 KiB")
	}
	err = s.audit.Change(a, "run.comment", id, func(tx *store.Tx) error {
		if _, err := runView(tx, a, id); err != nil {
			return err
		}
		c, err = s.say(tx, a, id, body)
		return err
	})
	return c, err
}

func (s *Runs) say(tx *store.Tx, a *rights.Actor, run, body string) (*record.Comment, error) {
	c := &record.Comment{ID: tables.NewID("wsc"), Run: run, Body: body, Actor: a.ID(), CreatedAt: s.now().UTC()}
	n := &record.RunNote{ID: tables.NewID("re"), Run: run, Action: "commented", Actor: a.ID(), Comment: c.ID,
		CreatedAt: c.CreatedAt}
	if err := tables.RunNotes.Put(tx, n); err != nil {
		return nil, err
	}
	c.Note = n.ID
	if r, err := tables.Runs.Get(tx, run); err == nil {
		tx.After(func() { s.tell(r) })
	}
	return c, tables.Comments.Put(tx, c)
}
