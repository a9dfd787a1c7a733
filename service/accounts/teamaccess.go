package accounts

import (
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// TeamAccess has the roles of teams in workspaces and projects.
type TeamAccess struct {
	*shared
}

func organizationOf(tx *store.Tx, on string) (string, error) {
	if strings.HasPrefix(on, "prj-") {
		p, err := tables.Projects.Get(tx, on)
		if err != nil {
			return "", err
		}
		return p.Organization, nil
	}
	w, err := tables.Workspaces.Get(tx, on)
	if err != nil {
		return "", err
	}
	return w.Organization, nil
}

// List returns the rights of teams in a workspace or a project.
func (s *TeamAccess) List(a *rights.Actor, on string) (out []*record.Access, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if err := a.MayGrant(tx, on, false); err != nil {
			return err
		}
		out, err = tables.Accesses.Select(tx, "on", on)
		return err
	})
	return out, tables.Translated(err)
}

// Find returns a right of a team in a workspace or a project.
func (s *TeamAccess) Find(a *rights.Actor, id string) (x *record.Access, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if x, err = tables.Accesses.Get(tx, id); err != nil {
			return tables.NotFound("there is no access %q", id)
		}
		return a.MayGrant(tx, x.On, false)
	})
	return x, tables.Translated(err)
}

// Create grants a team a role in a workspace or a project.
func (s *TeamAccess) Create(a *rights.Actor, x record.Access) (*record.Access, error) {
	return s.put(a, x.Team+" on "+x.On, func(*store.Tx) (*record.Access, error) {
		x.ID = tables.NewID("tws")
		return &x, nil
	})
}

// Change changes a granted role. change gets the stored one, within the transaction, so that two changes at the
// same time do not undo each other.
func (s *TeamAccess) Change(a *rights.Actor, id string, change func(*record.Access) error) (*record.Access, error) {
	return s.put(a, id, func(tx *store.Tx) (*record.Access, error) {
		x, err := tables.Accesses.Get(tx, id)
		if err != nil {
			return nil, tables.NotFound("there is no access %q", id)
		}
		team, on := x.Team, x.On
		err = change(x)
		x.Team, x.On = team, on
		return x, err
	})
}

// put stores the access that make returns, if the actor may grant it.
func (s *TeamAccess) put(a *rights.Actor, object string, make func(*store.Tx) (*record.Access, error)) (
	x *record.Access, err error) {
	err = s.audit.Change(a, "access.put", object, func(tx *store.Tx) error {
		if x, err = make(tx); err != nil {
			return err
		}
		if !x.Project.Valid() {
			return tables.Invalid("Project access must be read, update or delete for settings; none, read " +
				"or manage for teams; and none, read or write for variable sets")
		}
		if !record.ValidRole(x.Role, strings.HasPrefix(x.On, "prj-")) {
			return tables.Invalid("Access must be read, plan, write, admin or custom")
		}
		if err := a.MayGrant(tx, x.On, true); err != nil {
			return err
		}
		t, _, err := a.Team(tx, x.Team)
		if err != nil {
			return err
		}
		if org, err := organizationOf(tx, x.On); err != nil || org != t.Organization {
			return tables.Invalid("The team %s belongs to another organization", t.Name)
		}
		return tables.Accesses.Put(tx, x)
	})
	return x, err
}

// Delete revokes a role of a team.
func (s *TeamAccess) Delete(a *rights.Actor, id string) error {
	return s.audit.Change(a, "access.delete", id, func(tx *store.Tx) error {
		x, err := tables.Accesses.Get(tx, id)
		if err != nil {
			return tables.NotFound("there is no access %q", id)
		}
		if err := a.MayGrant(tx, x.On, true); err != nil {
			return err
		}
		return tables.Accesses.Delete(tx, id)
	})
}
