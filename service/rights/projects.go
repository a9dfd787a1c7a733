package rights

import (
	"errors"
	"slices"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Project returns a project that the actor may see.
func (a *Actor) Project(tx *store.Tx, id string) (*record.Project, *record.Organization, error) {
	p, err := tables.Projects.Get(tx, id)
	if err == nil {
		if o, err := a.Organization(tx, p.Organization); err == nil {
			if sees, err := a.SeesProject(tx, o, p); sees || err != nil {
				return p, o, err
			}
		}
	}
	return nil, nil, tables.NotFound("there is no project %q, or you have no access to it", id)
}

// SeesProject reports whether the actor may see a project: because it has a right in the project or in one of its
// workspaces.
func (a *Actor) SeesProject(tx *store.Tx, o *record.Organization, p *record.Project) (bool, error) {
	if a.Manages(o, readProjects) {
		return true, nil
	}
	for _, t := range a.teams {
		if _, err := tables.Accesses.Find(tx, "pair", t.ID, p.ID); err == nil {
			return true, nil
		}
	}
	for _, id := range tables.Workspaces.List(tx, "project", p.ID) {
		w, err := tables.Workspaces.Get(tx, id)
		if err != nil {
			return false, err
		}
		if granted, err := a.Permissions(tx, w); err != nil || granted.Any() {
			return err == nil, err
		}
	}
	return false, nil
}

// ProjectRights returns the union of the rights that the teams of the actor have in a project itself.
func (a *Actor) ProjectRights(tx *store.Tx, p *record.Project) (most record.ProjectRights, err error) {
	higher := func(have *string, more string, order ...string) {
		if slices.Index(order, more) > slices.Index(order, *have) {
			*have = more
		}
	}
	for _, t := range a.teams {
		x, err := tables.Accesses.Find(tx, "pair", t.ID, p.ID)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return most, err
		}
		own := x.ProjectRights()
		higher(&most.Settings, own.Settings, "read", "update", "delete")
		higher(&most.Teams, own.Teams, "none", "read", "manage")
		higher(&most.Sets, own.Sets, "none", "read", "write")
	}
	return most, nil
}

// CreatesIn reports whether the actor may create workspaces in a project.
func (a *Actor) CreatesIn(tx *store.Tx, org *record.Organization, project string) (bool, error) {
	if a.Manages(org, ManageWorkspaces) {
		return true, nil
	}
	for _, t := range a.teams {
		access, err := tables.Accesses.Find(tx, "pair", t.ID, project)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		if p := access.Permissions(); p.Admin || p.Create {
			return true, nil
		}
	}
	return false, nil
}
