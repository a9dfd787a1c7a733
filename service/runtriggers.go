package service

import (
	"errors"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// maxSources is the maximum number of workspaces whose runs trigger runs of one workspace.
const maxSources = 20

// RunTriggerView is a run trigger with its workspaces.
type RunTriggerView struct {
	record.RunTrigger
	Target, Origin *WorkspaceView
}

// viewTrigger returns a trigger if the actor may see both workspaces.
func viewTrigger(tx *store.Tx, a *rights.Actor, t *record.RunTrigger) (*RunTriggerView, error) {
	v := &RunTriggerView{RunTrigger: *t}
	for id, to := range map[string]**WorkspaceView{t.Workspace: &v.Target, t.Source: &v.Origin} {
		w, p, err := a.Workspace(tx, id)
		if err != nil {
			return nil, err
		}
		*to = &WorkspaceView{*w, p}
	}
	return v, nil
}

// RunTriggers make applied runs of one workspace create runs of others.
type RunTriggers struct {
	*shared
}

// List returns the triggers of a workspace: those that create runs in it or, with outbound, those by which its
// runs create runs in others.
func (s *RunTriggers) List(a *rights.Actor, workspace string, outbound bool) (out []*RunTriggerView, err error) {
	index := "workspace"
	if outbound {
		index = "source"
	}
	err = s.store.View(func(tx *store.Tx) error {
		w, err := a.Allowed(tx, workspace, rights.ReadRuns)
		if err != nil {
			return err
		}
		all, err := tables.RunTriggers.Select(tx, index, w.ID)
		for _, t := range all {
			v, err := viewTrigger(tx, a, t)
			if errors.Is(err, tables.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		return err
	})
	return out, tables.Translated(err)
}

// Find returns a run trigger.
func (s *RunTriggers) Find(a *rights.Actor, id string) (v *RunTriggerView, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		t, err := tables.RunTriggers.Get(tx, id)
		if err == nil {
			v, err = viewTrigger(tx, a, t)
		}
		if err != nil {
			return tables.NotFound("there is no run trigger %q, or you have no access to it", id)
		}
		return nil
	})
	return v, tables.Translated(err)
}

// Create makes each run that is applied in the workspace source create a run in another workspace, which uses
// the current configuration there. Chains of triggers must not lead back: they would create runs for ever.
func (s *RunTriggers) Create(a *rights.Actor, workspace, source string) (v *RunTriggerView, err error) {
	err = s.audit.Change(a, "run-trigger.create", workspace, func(tx *store.Tx) error {
		w, err := a.Allowed(tx, workspace, rights.Administer)
		if err != nil {
			return err
		}
		from, err := a.Allowed(tx, source, rights.ReadRuns)
		if errors.Is(err, tables.ErrNotFound) || err == nil && from.Organization != w.Organization {
			return tables.Invalid("Sourceable must be a workspace of the organization whose runs you may read")
		}
		if err != nil {
			return err
		}
		there, err := tables.RunTriggers.Select(tx, "workspace", w.ID)
		if err != nil {
			return err
		}
		for _, t := range there {
			if t.Source == from.ID {
				v, err = viewTrigger(tx, a, t) // a repeated request
				return err
			}
		}
		if len(there) >= maxSources {
			return tables.Invalid("A workspace has at most %d run triggers", maxSources)
		}
		back, err := triggersLeadTo(tx, w.ID, from.ID, map[string]bool{})
		if err != nil {
			return err
		}
		if back {
			return tables.Invalid("Sourceable must not be triggered by the workspace itself: its runs would create " +
				"runs for ever")
		}
		t := &record.RunTrigger{ID: tables.NewID("rt"), Workspace: w.ID, Source: from.ID, CreatedAt: s.now().UTC(),
			CreatedBy: a.ID()}
		if err := tables.RunTriggers.Put(tx, t); err != nil {
			return err
		}
		v, err = viewTrigger(tx, a, t)
		return err
	})
	return v, err
}

// triggersLeadTo reports whether a run of a workspace creates runs in another one, perhaps by way of others. seen has
// the workspaces that were followed already.
func triggersLeadTo(tx *store.Tx, from, to string, seen map[string]bool) (bool, error) {
	if from == to {
		return true, nil
	}
	if seen[from] {
		return false, nil
	}
	seen[from] = true
	all, err := tables.RunTriggers.Select(tx, "source", from)
	if err != nil {
		return false, err
	}
	for _, t := range all {
		if leads, err := triggersLeadTo(tx, t.Workspace, to, seen); leads || err != nil {
			return leads, err
		}
	}
	return false, nil
}

// Delete removes a run trigger.
func (s *RunTriggers) Delete(a *rights.Actor, id string) error {
	return s.audit.Change(a, "run-trigger.delete", id, func(tx *store.Tx) error {
		t, err := tables.RunTriggers.Get(tx, id)
		if err == nil {
			_, err = viewTrigger(tx, a, t)
		}
		if err != nil {
			return tables.NotFound("there is no run trigger %q, or you have no access to it", id)
		}
		if _, err := a.Allowed(tx, t.Workspace, rights.Administer); err != nil {
			return err
		}
		return tables.RunTriggers.Delete(tx, id)
	})
}

// dropTriggers removes the triggers of a deleted workspace, in both directions.
func dropTriggers(tx *store.Tx, workspace string) error {
	for _, index := range []string{"workspace", "source"} {
		for _, id := range tables.RunTriggers.List(tx, index, workspace) {
			if err := tables.RunTriggers.Delete(tx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// trigger creates the runs that an applied run triggers, in the transaction that records that it is applied. Workspaces
// without a configuration, and those whose runs the clients carry out, are omitted.
func (s *transitions) trigger(tx *store.Tx, applied *record.Run) error {
	all, err := tables.RunTriggers.Select(tx, "source", applied.Workspace)
	if err != nil || len(all) == 0 {
		return err
	}
	from, err := tables.Workspaces.Get(tx, applied.Workspace)
	if err != nil {
		return err
	}
	for _, t := range all {
		w, err := tables.Workspaces.Get(tx, t.Workspace)
		if err != nil {
			return err
		}
		if w.ExecutionMode == record.ModeLocal || w.CurrentConfiguration == "" {
			continue
		}
		if _, err := s.makeRun(tx, w, &record.Run{Configuration: w.CurrentConfiguration, Refresh: true,
			CreatedBy: t.CreatedBy, Source: record.SourceAPI, AutoApply: w.Triggers.AutoApply,
			Message: "Triggered by the run " + applied.ID + " of the workspace " + from.Name}); err != nil {
			return err
		}
	}
	return nil
}
