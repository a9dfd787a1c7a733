package service

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/drift"
	"github.com/millipede-iac/millipede/service/queue"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/variables"
)

// WorkspaceView is a workspace with the rights of the actor.
type WorkspaceView struct {
	record.Workspace
	Permissions record.Permissions
}

// Workspaces are the workspaces of organizations, with their settings, tags and locks.
type Workspaces struct {
	*shared
	drift       *drift.Findings
	runs        *Runs
	queue       *queue.Queue
	transitions *transitions
	watcher     *drift.Watcher
	homes       *homes
	bounds      record.Bounds // on the plans of all workspaces
	apart       bool          // engines are other processes
}

// Find returns a workspace by its ID.
func (s *Workspaces) Find(a *rights.Actor, id string) (v *WorkspaceView, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		w, p, err := a.Workspace(tx, id)
		if err == nil {
			v = &WorkspaceView{*w, p}
		}
		return err
	})
	return v, tables.Translated(err)
}

// Named returns a workspace by its organization and name.
func (s *Workspaces) Named(a *rights.Actor, organization, name string) (v *WorkspaceView, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.Organization(tx, organization)
		if err != nil {
			return err
		}
		w, err := tables.Workspaces.Find(tx, "name", strings.ToLower(o.Name), name)
		if err == nil {
			var p record.Permissions
			if w, p, err = a.Workspace(tx, w.ID); err == nil {
				v = &WorkspaceView{*w, p}
				return nil
			}
		}
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, tables.ErrNotFound) {
			return tables.NotFound("there is no workspace %q in %s, or you have no access to it", name, o.Name)
		}
		return err
	})
	return v, tables.Translated(err)
}

// WorkspaceFilter selects workspaces. Zero fields do not restrict the selection.
type WorkspaceFilter struct {
	Project  string
	Part     string   // of the name
	Wildcard string   // of the name, with * for any characters
	Tags     []string // all of them
	Without  []string // none of these tags
	Pairs    []record.Tag
}

func (f *WorkspaceFilter) matches(w *record.Workspace) bool {
	switch {
	case f.Project != "" && f.Project != w.Project:
		return false
	case !strings.Contains(strings.ToLower(w.Name), strings.ToLower(f.Part)):
		return false
	}
	if f.Wildcard != "" {
		if ok, err := path.Match(strings.ToLower(f.Wildcard), strings.ToLower(w.Name)); err != nil || !ok {
			return false
		}
	}
	has := func(tag string) bool {
		return slices.ContainsFunc(w.Tags, func(t record.Tag) bool { return strings.EqualFold(t.Key, tag) })
	}
	for _, tag := range f.Tags {
		if !has(tag) {
			return false
		}
	}
	for _, pair := range f.Pairs {
		if !slices.ContainsFunc(w.Tags, func(t record.Tag) bool {
			return strings.EqualFold(t.Key, pair.Key) && (pair.Value == "" || t.Value == pair.Value)
		}) {
			return false
		}
	}
	return !slices.ContainsFunc(f.Without, has)
}

// List returns the workspaces of an organization that the actor may see and that match the filter, sorted
// by name.
func (s *Workspaces) List(a *rights.Actor, organization string, f WorkspaceFilter) (out []*WorkspaceView, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.Organization(tx, organization)
		if err != nil {
			return err
		}
		all, err := tables.Workspaces.Select(tx, "organization", strings.ToLower(o.Name))
		if err != nil {
			return err
		}
		for _, w := range all {
			if !f.matches(w) {
				continue
			}
			p, err := a.Permissions(tx, w)
			if err != nil {
				return err
			}
			if p.Any() {
				out = append(out, &WorkspaceView{*w, p})
			}
		}
		return nil
	})
	return out, tables.Translated(err)
}

// Create creates a workspace.
func (s *Workspaces) Create(a *rights.Actor, organization string, o WorkspaceSettings) (v *WorkspaceView, err error) {
	name := ""
	record.Set(&name, o.Name)
	err = s.audit.Change(a, "workspace.create", organization+"/"+name, func(tx *store.Tx) error {
		org, err := a.Organization(tx, organization)
		if err != nil {
			return err
		}
		now := s.now().UTC()
		w := &record.Workspace{
			ID: tables.NewID("ws"), Organization: org.Name, Project: org.DefaultProject, ExecutionMode: org.Mode(),
			InheritsMode:     true,
			TerraformVersion: "latest", Structured: true, AllowDestroy: true, CreatedAt: now, UpdatedAt: now,
		}
		if err := s.settle(tx, a, org, w, o); err != nil {
			return err
		}
		v = &WorkspaceView{Workspace: *w}
		if err := tables.Workspaces.Put(tx, w); err != nil {
			if errors.Is(err, store.ErrTaken) {
				return tables.Invalid("Name has already been taken")
			}
			return err
		}
		v.Permissions, err = a.Permissions(tx, w)
		return err
	})
	return v, err
}

// settle applies settings, and checks that the actor may have the workspace in its project.
func (s *Workspaces) settle(tx *store.Tx, a *rights.Actor, org *record.Organization, w *record.Workspace,
	o WorkspaceSettings) error {
	if err := o.apply(w); err != nil {
		return err
	}
	if o.Project != nil && *o.Project != "" {
		p, err := tables.Projects.Get(tx, *o.Project)
		if err != nil || !strings.EqualFold(p.Organization, org.Name) {
			return tables.Invalid("there is no project %q in %s", *o.Project, org.Name)
		}
		w.Project = p.ID
	}
	if may, err := a.CreatesIn(tx, org, w.Project); may || err != nil {
		return err
	}
	return tables.Forbidden("you are not allowed to create workspaces in this project")
}

// Change changes settings of a workspace.
func (s *Workspaces) Change(a *rights.Actor, id string, o WorkspaceSettings) (v *WorkspaceView, err error) {
	err = s.audit.Change(a, "workspace.change", id, func(tx *store.Tx) error {
		w, err := a.Allowed(tx, id, rights.Administer)
		if err != nil {
			return err
		}
		if o.ObjectLocks != nil && *o.ObjectLocks != w.ObjectLocks {
			if err := noneInProgress(tx, w); err != nil {
				return err
			}
		}
		if o.Project != nil && *o.Project != w.Project {
			org, err := a.Organization(tx, w.Organization)
			if err != nil {
				return err
			}
			if err := s.settle(tx, a, org, w, o); err != nil {
				return err
			}
		} else if err := o.apply(w); err != nil {
			return err
		}
		if w.InheritsMode {
			org, err := a.Organization(tx, w.Organization)
			if err != nil {
				return err
			}
			w.ExecutionMode = org.Mode()
		}
		w.UpdatedAt = s.now().UTC()
		tx.After(s.queue.Wake)
		tx.After(s.watcher.Wake)
		if w.DriftPeriod == 0 { // discard the findings: the workspace is no longer watched
			if err := s.drift.Drop(tx, w.ID); err != nil {
				return err
			}
		}
		if err := tables.Workspaces.Put(tx, w); err != nil {
			if errors.Is(err, store.ErrTaken) {
				return tables.Invalid("Name has already been taken")
			}
			return err
		}
		p, err := a.Permissions(tx, w)
		v = &WorkspaceView{*w, p}
		return err
	})
	return v, err
}

// noneInProgress returns ErrConflict while a run of a workspace, or one of its phases, is in progress: the engine has
// the state open then, either for all runs or for that run alone.
func noneInProgress(tx *store.Tx, w *record.Workspace) error {
	at := ""
	if w.Lock.Kind == "run" {
		at = w.Lock.ID
	}
	for _, id := range tables.Runs.List(tx, "active", w.ID) {
		r, err := tables.Runs.Get(tx, id)
		if err != nil {
			return err
		}
		if at == "" && r.Status.Computes() { // a plan without an apply has no lock
			at = r.ID
		}
	}
	if at != "" {
		return tables.Conflict("the run %s is in progress: change the locking of the state when it has ended", at)
	}
	return nil
}

// SetTags adds tags to a workspace, and removes others.
func (s *Workspaces) SetTags(a *rights.Actor, id string, add []record.Tag, remove []string) error {
	return s.audit.Change(a, "workspace.tags", id, func(tx *store.Tx) error {
		w, err := a.Allowed(tx, id, rights.Administer)
		if err != nil {
			return err
		}
		if err := addTags(w, add); err != nil {
			return err
		}
		w.Tags = slices.DeleteFunc(w.Tags, func(t record.Tag) bool { return slices.Contains(remove, t.Key) })
		return tables.Workspaces.Put(tx, w)
	})
}

// Tag adds a tag to workspaces: to all of them, or to none.
func (s *Workspaces) Tag(a *rights.Actor, tag string, ids []string) error {
	return s.audit.Change(a, "workspace.tags", tag, func(tx *store.Tx) error {
		for _, id := range ids {
			w, err := a.Allowed(tx, id, rights.Administer)
			if err == nil {
				err = addTags(w, []record.Tag{{Key: tag}})
			}
			if err == nil {
				err = tables.Workspaces.Put(tx, w)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// DeleteTags removes tags without a value from all workspaces of an organization.
func (s *Workspaces) DeleteTags(a *rights.Actor, organization string, tags []string) error {
	return s.audit.Change(a, "organization.tags", organization, func(tx *store.Tx) error {
		o, err := a.Organization(tx, organization)
		if err != nil {
			return err
		}
		if !a.Manages(o, rights.ManageWorkspaces) {
			return tables.Forbidden("you are not allowed to change all workspaces of %s", o.Name)
		}
		gone := func(t record.Tag) bool { return t.Value == "" && slices.Contains(tags, t.Key) }
		for _, id := range tables.Workspaces.List(tx, "organization", strings.ToLower(o.Name)) {
			w, err := tables.Workspaces.Get(tx, id)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(w.Tags, gone) {
				continue
			}
			w.Tags = slices.DeleteFunc(w.Tags, gone)
			if err := tables.Workspaces.Put(tx, w); err != nil {
				return err
			}
		}
		return nil
	})
}

// Delete removes a workspace and all of its records. With safe, it refuses a workspace that manages
// objects or is locked.
func (s *Workspaces) Delete(a *rights.Actor, id string, safe bool) error {
	return s.audit.Change(a, "workspace.delete", id, func(tx *store.Tx) error {
		w, err := a.Allowed(tx, id, rights.Delete)
		if err != nil {
			return err
		}
		if safe && w.Lock.Held() {
			return tables.Conflict("The workspace is locked: %s", tables.LockedBy(tx, w))
		}
		for _, id := range tables.Runs.List(tx, "workspace", w.ID) {
			r, err := tables.Runs.Get(tx, id)
			if err != nil {
				return err
			}
			if r.Status.Computes() {
				return tables.Conflict("The workspace is locked by Run %s, which is %s: cancel it first", r.ID, r.Status)
			}
		}
		if w.CurrentState != "" {
			v, err := tables.StateVersions.Get(tx, w.CurrentState)
			if err != nil {
				return err
			}
			o, err := a.Organization(tx, w.Organization)
			if err != nil {
				return err
			}
			manages := v.Resources > 0 || v.Encrypted
			switch {
			case manages && safe:
				return tables.Conflict("The workspace still manages %d resources: destroy them, or delete the workspace "+
					"with force", v.Resources)
			case manages && o.NoForceDelete && !a.Owns(o):
				return tables.Forbidden("only owners of %s may delete a workspace that still manages resources", o.Name)
			}
		}
		return s.drop(tx, w)
	})
}

// drop removes a workspace and its records, and removes its files after the commit.
func (s *Workspaces) drop(tx *store.Tx, w *record.Workspace) error {
	var files []string
	for _, id := range tables.Runs.List(tx, "workspace", w.ID) {
		r, err := tables.Runs.Get(tx, id)
		if err != nil {
			return err
		}
		files = append(files, tables.RunFiles(r)...)
		if err := dropRun(tx, r); err != nil {
			return err
		}
	}
	for _, id := range tables.Configurations.List(tx, "workspace", w.ID) {
		files = append(files, tables.ConfigurationFile(id))
		if err := tables.Configurations.Delete(tx, id); err != nil {
			return err
		}
	}
	for _, id := range tables.StateVersions.List(tx, "workspace", w.ID) {
		files = append(files, tables.StateFiles(id)...)
		if err := tables.StateVersions.Delete(tx, id); err != nil {
			return err
		}
	}
	for _, id := range tables.Accesses.List(tx, "on", w.ID) {
		if err := tables.Accesses.Delete(tx, id); err != nil {
			return err
		}
	}
	for _, id := range tables.Notifications.List(tx, "workspace", w.ID) {
		if err := tables.Notifications.Delete(tx, id); err != nil {
			return err
		}
	}
	if err := dropTriggers(tx, w.ID); err != nil {
		return err
	}
	if err := s.drift.Drop(tx, w.ID); err != nil {
		return err
	}
	if err := variables.DropOfWorkspace(tx, w); err != nil {
		return err
	}
	tx.After(func() {
		for _, f := range files {
			if err := s.store.Remove(f); err != nil {
				s.log.Warn("cannot remove a file of a deleted workspace", "file", f, "error", err)
			}
		}
		s.queue.Forget(w.ID)
		s.homes.remove(w.ID)
	})
	return tables.Workspaces.Delete(tx, w.ID)
}

// EffectiveTags returns the tags of a workspace and of its project; those of the workspace take precedence.
func (s *Workspaces) EffectiveTags(a *rights.Actor, id string) (out []record.Tag, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		w, _, err := a.Workspace(tx, id)
		if err != nil {
			return err
		}
		p, err := tables.Projects.Get(tx, w.Project)
		if err != nil {
			return err
		}
		out, err = tables.TidyTags(append(slices.Clone(p.Tags), w.Tags...))
		return err
	})
	return out, tables.Translated(err)
}

// Consumers returns the workspaces whose runs may read the state of a workspace.
func (s *Workspaces) Consumers(a *rights.Actor, id string) (out []*WorkspaceView, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		w, _, err := a.Workspace(tx, id)
		if err != nil {
			return err
		}
		for _, id := range w.Consumers {
			other, p, err := a.Workspace(tx, id)
			if errors.Is(err, tables.ErrNotFound) {
				continue // it was deleted, or the actor may not know of it
			}
			if err != nil {
				return err
			}
			out = append(out, &WorkspaceView{*other, p})
		}
		return nil
	})
	return out, tables.Translated(err)
}

// ChangeConsumers changes which workspaces may read the state of a workspace.
func (s *Workspaces) ChangeConsumers(a *rights.Actor, id string, change func([]string) []string) error {
	return s.audit.Change(a, "workspace.consumers", id, func(tx *store.Tx) error {
		w, err := a.Allowed(tx, id, rights.Administer)
		if err != nil {
			return err
		}
		w.Consumers = change(slices.Clone(w.Consumers))
		for _, id := range w.Consumers {
			other, _, err := a.Workspace(tx, id)
			if err != nil || other.Organization != w.Organization {
				return tables.NotFound("there is no workspace %q, or you have no access to it", id)
			}
		}
		return tables.Workspaces.Put(tx, w)
	})
}
