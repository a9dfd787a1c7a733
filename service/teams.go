package service

import (
	"errors"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// Teams are the teams of organizations.
type Teams struct {
	*shared
	memberships *Memberships
}

// List returns the teams of an organization.
func (s *Teams) List(a *Actor, organization string) (out []*record.Team, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.organization(tx, organization)
		if err != nil {
			return err
		}
		all, err := teams.Select(tx, "organization", strings.ToLower(o.Name))
		for _, t := range all {
			if a.knows(t, o) {
				out = append(out, t)
			}
		}
		return err
	})
	return out, told(err)
}

// knows reports whether the actor may see a team: as a member, with the right to manage teams, or, for teams
// that are not secret, as a member of the organization.
func (a *Actor) knows(t *record.Team, o *record.Organization) bool {
	if t.Visibility == "organization" || a.manages(o, manageTeams) || a.manages(o, secretTeams) {
		return true
	}
	return slices.ContainsFunc(a.teams, func(mine *record.Team) bool { return mine.ID == t.ID })
}

// Find returns a team.
func (s *Teams) Find(a *Actor, id string) (t *record.Team, err error) {
	err = s.store.View(func(tx *store.Tx) error { t, _, err = a.team(tx, id); return err })
	return t, told(err)
}

// Named returns the team of an organization with a name.
func (s *Teams) Named(a *Actor, organization, name string) (*record.Team, error) {
	all, err := s.List(a, organization)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, notFound("there is no team %q in %s, or you have no access to it", name, organization)
}

// OfUser returns the teams of a user, in all organizations.
func (s *Teams) OfUser(a *Actor, user string) (out []*record.Team, err error) {
	if !a.admin() {
		return nil, forbidden("only administrators of the service may list the teams of users")
	}
	err = s.store.View(func(tx *store.Tx) error { out, err = teams.Select(tx, "user", user); return err })
	return out, told(err)
}

func (a *Actor) team(tx *store.Tx, id string) (*record.Team, *record.Organization, error) {
	t, err := teams.Get(tx, id)
	if err == nil {
		if o, err := a.organization(tx, t.Organization); err == nil && a.knows(t, o) {
			return t, o, nil
		}
	}
	return nil, nil, notFound("there is no team %q, or you have no access to it", id)
}

// Create creates a team.
func (s *Teams) Create(a *Actor, t record.Team) (*record.Team, error) {
	return s.put(a, t.Name, func(tx *store.Tx) (*record.Team, *record.Organization, error) {
		o, err := a.organization(tx, t.Organization)
		if err != nil {
			return nil, nil, err
		}
		t.ID, t.Organization, t.Users = newID("team"), o.Name, nil
		return &t, o, nil
	})
}

// Change changes the name of a team, its group and its rights in the organization. change gets the stored team,
// within the transaction, so that two changes at the same time do not undo each other.
func (s *Teams) Change(a *Actor, id string, change func(*record.Team) error) (*record.Team, error) {
	return s.put(a, id, func(tx *store.Tx) (*record.Team, *record.Organization, error) {
		t, o, err := a.team(tx, id)
		if err != nil {
			return nil, nil, err
		}
		if t.ID == o.Owners && !a.owns(o) { // its group decides who the owners are
			return nil, nil, forbidden("only owners may change the owners' team of %s", o.Name)
		}
		return t, o, change(t)
	})
}

// put stores the team that make returns, with its organization, if the actor may change it.
func (s *Teams) put(a *Actor, object string,
	make func(*store.Tx) (*record.Team, *record.Organization, error)) (t *record.Team, err error) {
	err = s.audited(a, "team.put", object, func(tx *store.Tx) error {
		var o *record.Organization
		if t, o, err = make(tx); err != nil {
			return err
		}
		t.Name = strings.TrimSpace(t.Name)
		switch {
		case !record.ValidName(strings.ReplaceAll(t.Name, " ", "-")):
			return invalid("Name must be letters, digits, spaces, - and _, and begin with a letter or a digit")
		case !a.manages(o, manageTeams):
			return forbidden("you are not allowed to change teams of %s", o.Name)
		case !a.manages(o, manageAccess) && (t.ManageWorkspaces || t.ManageProjects || t.ManageMembership ||
			t.ManageTeams || t.ManageAccess || t.AccessSecretTeams || t.ReadWorkspaces || t.ReadProjects):
			return forbidden("only owners may allow teams to manage the organization %s", o.Name)
		case t.ID == o.Owners && t.Name != "owners":
			return invalid("The owners' team cannot be renamed")
		}
		return teams.Put(tx, t)
	})
	return t, err
}

// ChangeMembers adds users to a team or removes them. names has user names, IDs of users, or IDs of
// memberships.
func (s *Teams) ChangeMembers(a *Actor, id string, names []string, remove bool) error {
	return s.audited(a, "team.members", id, func(tx *store.Tx) error {
		t, o, err := a.team(tx, id)
		if err != nil {
			return err
		}
		if !a.owns(o) && (t.ID == o.Owners || !a.manages(o, manageTeams)) {
			return forbidden("you are not allowed to change the members of this team")
		}
		for _, name := range names {
			if m, err := memberships.Get(tx, name); err == nil && strings.EqualFold(m.Organization, o.Name) {
				if name = m.User; name == "" { // an invitation records its teams
					m.Teams = slices.DeleteFunc(m.Teams, func(id string) bool { return id == t.ID })
					if !remove {
						m.Teams = append(m.Teams, t.ID)
					}
					if err := memberships.Put(tx, m); err != nil {
						return err
					}
					continue
				}
			}
			u, err := users.Find(tx, "name", name)
			if err != nil {
				if u, err = users.Get(tx, name); err != nil {
					return notFound("there is no user %q", name)
				}
			}
			t.Users = slices.DeleteFunc(t.Users, func(id string) bool { return id == u.ID })
			if remove {
				continue
			}
			t.Users = append(t.Users, u.ID)
			if err := s.memberships.belong(tx, o.Name, u); err != nil {
				return err
			}
		}
		if t.ID == o.Owners && len(t.Users) == 0 {
			return invalid("An organization needs an owner")
		}
		return teams.Put(tx, t)
	})
}

// Delete removes a team with its rights and tokens.
func (s *Teams) Delete(a *Actor, id string) error {
	return s.audited(a, "team.delete", id, func(tx *store.Tx) error {
		t, o, err := a.team(tx, id)
		switch {
		case err != nil:
			return err
		case t.ID == o.Owners:
			return invalid("The owners' team cannot be deleted")
		case !a.manages(o, manageTeams):
			return forbidden("you are not allowed to change teams of %s", o.Name)
		}
		return s.drop(tx, id)
	})
}

func (s *Teams) drop(tx *store.Tx, id string) error {
	for _, access := range accesses.List(tx, "team", id) {
		if err := accesses.Delete(tx, access); err != nil {
			return err
		}
	}
	for _, token := range tokens.List(tx, "owner", record.TokenTeam, id) {
		if err := tokens.Delete(tx, token); err != nil {
			return err
		}
	}
	return teams.Delete(tx, id)
}

// TeamAccess has the roles of teams in workspaces and projects.
type TeamAccess struct {
	*shared
}

// List returns the rights of teams in a workspace or a project.
func (s *TeamAccess) List(a *Actor, on string) (out []*record.Access, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if err := a.mayGrant(tx, on, false); err != nil {
			return err
		}
		out, err = accesses.Select(tx, "on", on)
		return err
	})
	return out, told(err)
}

// Find returns a right of a team in a workspace or a project.
func (s *TeamAccess) Find(a *Actor, id string) (x *record.Access, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if x, err = accesses.Get(tx, id); err != nil {
			return notFound("there is no access %q", id)
		}
		return a.mayGrant(tx, x.On, false)
	})
	return x, told(err)
}

// mayGrant checks that the actor may see, or change, the rights of teams in a workspace or a project.
func (a *Actor) mayGrant(tx *store.Tx, on string, change bool) error {
	if !strings.HasPrefix(on, "prj-") {
		n := needSee
		if change {
			n = needAdmin
		}
		_, err := a.allowed(tx, on, n)
		return err
	}
	p, o, err := a.project(tx, on)
	if err != nil {
		return err
	}
	granted, err := a.projectRights(tx, p)
	if err != nil {
		return err
	}
	if change && !a.manages(o, manageProjects) && granted.Teams != "manage" {
		return forbidden("you are not allowed to change the access to the project %s", p.Name)
	}
	return nil
}

// projectRights returns the union of the rights that the teams of the actor have in a project itself.
func (a *Actor) projectRights(tx *store.Tx, p *record.Project) (most record.ProjectRights, err error) {
	higher := func(have *string, more string, order ...string) {
		if slices.Index(order, more) > slices.Index(order, *have) {
			*have = more
		}
	}
	for _, t := range a.teams {
		x, err := accesses.Find(tx, "pair", t.ID, p.ID)
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

// Create grants a team a role in a workspace or a project.
func (s *TeamAccess) Create(a *Actor, x record.Access) (*record.Access, error) {
	return s.put(a, x.Team+" on "+x.On, func(*store.Tx) (*record.Access, error) {
		x.ID = newID("tws")
		return &x, nil
	})
}

// Change changes a granted role. change gets the stored one, within the transaction, so that two changes at the
// same time do not undo each other.
func (s *TeamAccess) Change(a *Actor, id string, change func(*record.Access) error) (*record.Access, error) {
	return s.put(a, id, func(tx *store.Tx) (*record.Access, error) {
		x, err := accesses.Get(tx, id)
		if err != nil {
			return nil, notFound("there is no access %q", id)
		}
		team, on := x.Team, x.On
		err = change(x)
		x.Team, x.On = team, on
		return x, err
	})
}

// put stores the access that make returns, if the actor may grant it.
func (s *TeamAccess) put(a *Actor, object string, make func(*store.Tx) (*record.Access, error)) (
	x *record.Access, err error) {
	err = s.audited(a, "access.put", object, func(tx *store.Tx) error {
		if x, err = make(tx); err != nil {
			return err
		}
		if !x.Project.Valid() {
			return invalid("Project access must be read, update or delete for settings; none, read " +
				"or manage for teams; and none, read or write for variable sets")
		}
		if !record.ValidRole(x.Role, strings.HasPrefix(x.On, "prj-")) {
			return invalid("Access must be read, plan, write, admin or custom")
		}
		if err := a.mayGrant(tx, x.On, true); err != nil {
			return err
		}
		t, _, err := a.team(tx, x.Team)
		if err != nil {
			return err
		}
		if org, err := organizationOf(tx, x.On); err != nil || org != t.Organization {
			return invalid("The team %s belongs to another organization", t.Name)
		}
		return accesses.Put(tx, x)
	})
	return x, err
}

func organizationOf(tx *store.Tx, on string) (string, error) {
	if strings.HasPrefix(on, "prj-") {
		p, err := projects.Get(tx, on)
		if err != nil {
			return "", err
		}
		return p.Organization, nil
	}
	w, err := workspaces.Get(tx, on)
	if err != nil {
		return "", err
	}
	return w.Organization, nil
}

// Delete revokes a role of a team.
func (s *TeamAccess) Delete(a *Actor, id string) error {
	return s.audited(a, "access.delete", id, func(tx *store.Tx) error {
		x, err := accesses.Get(tx, id)
		if err != nil {
			return notFound("there is no access %q", id)
		}
		if err := a.mayGrant(tx, x.On, true); err != nil {
			return err
		}
		return accesses.Delete(tx, id)
	})
}
