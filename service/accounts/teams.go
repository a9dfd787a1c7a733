package accounts

import (
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Teams are the teams of organizations.
type Teams struct {
	*shared
	memberships *Memberships
}

// List returns the teams of an organization.
func (s *Teams) List(a *rights.Actor, organization string) (out []*record.Team, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.Organization(tx, organization)
		if err != nil {
			return err
		}
		all, err := tables.Teams.Select(tx, "organization", strings.ToLower(o.Name))
		for _, t := range all {
			if a.KnowsTeam(t, o) {
				out = append(out, t)
			}
		}
		return err
	})
	return out, tables.Translated(err)
}

// Find returns a team.
func (s *Teams) Find(a *rights.Actor, id string) (t *record.Team, err error) {
	err = s.store.View(func(tx *store.Tx) error { t, _, err = a.Team(tx, id); return err })
	return t, tables.Translated(err)
}

// Named returns the team of an organization with a name.
func (s *Teams) Named(a *rights.Actor, organization, name string) (*record.Team, error) {
	all, err := s.List(a, organization)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, tables.NotFound("there is no team %q in %s, or you have no access to it", name, organization)
}

// OfUser returns the teams of a user, in all organizations.
func (s *Teams) OfUser(a *rights.Actor, user string) (out []*record.Team, err error) {
	if !a.Admin() {
		return nil, tables.Forbidden("only administrators of the service may list the teams of users")
	}
	err = s.store.View(func(tx *store.Tx) error { out, err = tables.Teams.Select(tx, "user", user); return err })
	return out, tables.Translated(err)
}

// Create creates a team.
func (s *Teams) Create(a *rights.Actor, t record.Team) (*record.Team, error) {
	return s.put(a, t.Name, func(tx *store.Tx) (*record.Team, *record.Organization, error) {
		o, err := a.Organization(tx, t.Organization)
		if err != nil {
			return nil, nil, err
		}
		t.ID, t.Organization, t.Users = tables.NewID("team"), o.Name, nil
		return &t, o, nil
	})
}

// Change changes the name of a team, its group and its rights in the organization. change gets the stored team,
// within the transaction, so that two changes at the same time do not undo each other.
func (s *Teams) Change(a *rights.Actor, id string, change func(*record.Team) error) (*record.Team, error) {
	return s.put(a, id, func(tx *store.Tx) (*record.Team, *record.Organization, error) {
		t, o, err := a.Team(tx, id)
		if err != nil {
			return nil, nil, err
		}
		if t.ID == o.Owners && !a.Owns(o) { // its group decides who the owners are
			return nil, nil, tables.Forbidden("only owners may change the owners' team of %s", o.Name)
		}
		return t, o, change(t)
	})
}

// put stores the team that make returns, with its organization, if the actor may change it.
func (s *Teams) put(a *rights.Actor, object string,
	make func(*store.Tx) (*record.Team, *record.Organization, error)) (t *record.Team, err error) {
	err = s.audit.Change(a, "team.put", object, func(tx *store.Tx) error {
		var o *record.Organization
		if t, o, err = make(tx); err != nil {
			return err
		}
		t.Name = strings.TrimSpace(t.Name)
		switch {
		case !record.ValidName(strings.ReplaceAll(t.Name, " ", "-")):
			return tables.Invalid("Name must be letters, digits, spaces, - and _, and begin with a letter or a digit")
		case !a.Manages(o, rights.ManageTeams):
			return tables.Forbidden("you are not allowed to change teams of %s", o.Name)
		case !a.Manages(o, rights.ManageAccess) && (t.ManageWorkspaces || t.ManageProjects || t.ManageMembership ||
			t.ManageTeams || t.ManageAccess || t.AccessSecretTeams || t.ReadWorkspaces || t.ReadProjects):
			return tables.Forbidden("only owners may allow teams to manage the organization %s", o.Name)
		case t.ID == o.Owners && t.Name != "owners":
			return tables.Invalid("The owners' team cannot be renamed")
		}
		return tables.Teams.Put(tx, t)
	})
	return t, err
}

// ChangeMembers adds users to a team or removes them. names has user names, IDs of users, or IDs of
// memberships.
func (s *Teams) ChangeMembers(a *rights.Actor, id string, names []string, remove bool) error {
	return s.audit.Change(a, "team.members", id, func(tx *store.Tx) error {
		t, o, err := a.Team(tx, id)
		if err != nil {
			return err
		}
		if !a.Owns(o) && (t.ID == o.Owners || !a.Manages(o, rights.ManageTeams)) {
			return tables.Forbidden("you are not allowed to change the members of this team")
		}
		for _, name := range names {
			if m, err := tables.Memberships.Get(tx, name); err == nil && strings.EqualFold(m.Organization, o.Name) {
				if name = m.User; name == "" { // an invitation records its teams
					m.Teams = slices.DeleteFunc(m.Teams, func(id string) bool { return id == t.ID })
					if !remove {
						m.Teams = append(m.Teams, t.ID)
					}
					if err := tables.Memberships.Put(tx, m); err != nil {
						return err
					}
					continue
				}
			}
			u, err := tables.Users.Find(tx, "name", name)
			if err != nil {
				if u, err = tables.Users.Get(tx, name); err != nil {
					return tables.NotFound("there is no user %q", name)
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
			return tables.Invalid("An organization needs an owner")
		}
		return tables.Teams.Put(tx, t)
	})
}

// Delete removes a team with its rights and tokens.
func (s *Teams) Delete(a *rights.Actor, id string) error {
	return s.audit.Change(a, "team.delete", id, func(tx *store.Tx) error {
		t, o, err := a.Team(tx, id)
		switch {
		case err != nil:
			return err
		case t.ID == o.Owners:
			return tables.Invalid("The owners' team cannot be deleted")
		case !a.Manages(o, rights.ManageTeams):
			return tables.Forbidden("you are not allowed to change teams of %s", o.Name)
		}
		return s.drop(tx, id)
	})
}

func (s *Teams) drop(tx *store.Tx, id string) error {
	for _, access := range tables.Accesses.List(tx, "team", id) {
		if err := tables.Accesses.Delete(tx, access); err != nil {
			return err
		}
	}
	for _, token := range tables.Tokens.List(tx, "owner", record.TokenTeam, id) {
		if err := tables.Tokens.Delete(tx, token); err != nil {
			return err
		}
	}
	return tables.Teams.Delete(tx, id)
}
