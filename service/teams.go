package service

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// Me returns the user of the actor; for the token of a team or an organization, a user that stands for it.
func (s *Service) Me(a *Actor) record.User {
	if a.User != nil {
		return *a.User
	}
	return record.User{ID: "user-" + a.Token.Owner, Name: a.Name(), CreatedAt: a.Token.CreatedAt}
}

// ChangeMe changes the name and the email address of the actor's own user; nil leaves one unchanged. Only
// administrators of the service may do this: teams and invitations refer to people by both, and the service
// does not verify that an address belongs to the user.
func (s *Service) ChangeMe(a *Actor, name, email *string) (u *record.User, err error) {
	if !a.admin() {
		return nil, forbidden("only administrators of the service may change users")
	}
	err = s.audited(a, "user.change", a.User.ID, func(tx *store.Tx) error {
		if u, err = users.Get(tx, a.User.ID); err != nil {
			return err
		}
		set(&u.Name, name)
		set(&u.Email, email)
		if email != nil && !strings.Contains(*email, "@") {
			return invalid("Email must be an email address")
		}
		if !record.ValidName(u.Name) {
			return invalid("Username must be letters, digits, - and _, and begin with a letter or a digit")
		}
		return users.Put(tx, u)
	})
	return u, err
}

// User returns a user who is in an organization of the actor.
func (s *Service) User(a *Actor, id string) (u *record.User, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if u, err = users.Get(tx, id); err != nil {
			return notFound("there is no user %q, or you have no access to it", id)
		}
		if a.admin() || a.User != nil && a.User.ID == id {
			return nil
		}
		theirs, err := teams.Select(tx, "user", id)
		for _, t := range theirs {
			if _, err := a.organization(tx, t.Organization); err == nil {
				return nil
			}
		}
		if err != nil {
			return err
		}
		return notFound("there is no user %q, or you have no access to it", id)
	})
	return u, told(err)
}

// CreateUser creates a user.
func (s *Service) CreateUser(a *Actor, name, email string, admin bool) (u *record.User, err error) {
	if !a.admin() {
		return nil, forbidden("only administrators of the service may create users")
	}
	if !record.ValidName(name) {
		return nil, invalid("Username must be letters, digits, - and _, and begin with a letter or a digit")
	}
	err = s.audited(a, "user.create", name, func(tx *store.Tx) error {
		u = &record.User{ID: newID("user"), Name: name, Email: email, Admin: admin, CreatedAt: s.now().UTC()}
		if err := users.Put(tx, u); err != nil {
			return err
		}
		return s.accept(tx, u)
	})
	return u, err
}

// Bootstrap creates the first user, an administrator, the first organization, and a token of the user, if there
// is no user yet. The token cannot be retrieved later. It is empty if there was a user already.
func (s *Service) Bootstrap(name, organization string) (token string, err error) {
	none := true
	err = s.store.View(func(tx *store.Tx) error {
		for range users.All(tx) {
			none = false
			break
		}
		return nil
	})
	if err != nil || !none {
		return "", err
	}
	now := s.now().UTC()
	u := &record.User{ID: newID("user"), Name: name, Admin: true, CreatedAt: now}
	token = newToken()
	kept := &record.Token{ID: newID("at"), Hash: Hash(token), Kind: record.TokenUser, Owner: u.ID,
		Description: "first start", CreatedAt: now}
	err = s.store.Update(func(tx *store.Tx) error {
		if err := users.Put(tx, u); err != nil {
			return err
		}
		return tokens.Put(tx, kept)
	})
	if err != nil {
		return "", told(err)
	}
	_, err = s.CreateOrganization(&Actor{Token: kept, User: u, From: "first start"}, organization, "")
	return token, err
}

// newToken makes a token with more than 256 bits of randomness, in the form that clients expect.
func newToken() string { return random(14) + ".atlasv1." + random(44) }

// Teams returns the teams of an organization.
func (s *Service) Teams(a *Actor, organization string) (out []*record.Team, err error) {
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

// Team returns a team.
func (s *Service) Team(a *Actor, id string) (t *record.Team, err error) {
	err = s.store.View(func(tx *store.Tx) error { t, _, err = a.team(tx, id); return err })
	return t, told(err)
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

// PutTeam creates a team (if its ID is empty), or changes its name and its rights in the organization.
func (s *Service) PutTeam(a *Actor, t record.Team) (*record.Team, error) {
	if t.Name = strings.TrimSpace(t.Name); !record.ValidName(strings.ReplaceAll(t.Name, " ", "-")) {
		return nil, invalid("Name must be letters, digits, spaces, - and _, and begin with a letter or a digit")
	}
	err := s.audited(a, "team.put", t.Name, func(tx *store.Tx) error {
		if t.ID != "" {
			kept, _, err := a.team(tx, t.ID)
			if err != nil {
				return err
			}
			t.Organization, t.Users = kept.Organization, kept.Users
		}
		o, err := a.organization(tx, t.Organization)
		if err != nil {
			return err
		}
		if !a.manages(o, manageTeams) {
			return forbidden("you are not allowed to change teams of %s", o.Name)
		}
		if !a.manages(o, manageAccess) && (t.ManageWorkspaces || t.ManageProjects || t.ManageMembership ||
			t.ManageTeams || t.ManageAccess || t.AccessSecretTeams || t.ReadWorkspaces || t.ReadProjects) {
			return forbidden("only owners may allow teams to manage the organization %s", o.Name)
		}
		if t.ID == o.Owners && t.Name != "owners" {
			return invalid("The owners' team cannot be renamed")
		}
		if t.ID == "" {
			t.ID, t.Organization = newID("team"), o.Name
		}
		return teams.Put(tx, &t)
	})
	return &t, err
}

// ChangeMembers adds users to a team or removes them. names has user names, IDs of users, or IDs of
// memberships.
func (s *Service) ChangeMembers(a *Actor, id string, names []string, remove bool) error {
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
			if err := s.belong(tx, o.Name, u); err != nil {
				return err
			}
		}
		if t.ID == o.Owners && len(t.Users) == 0 {
			return invalid("An organization needs an owner")
		}
		return teams.Put(tx, t)
	})
}

// DeleteTeam removes a team with its rights and tokens.
func (s *Service) DeleteTeam(a *Actor, id string) error {
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
		return s.dropTeam(tx, id)
	})
}

func (s *Service) dropTeam(tx *store.Tx, id string) error {
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

// Accesses returns the rights of teams in a workspace or a project.
func (s *Service) Accesses(a *Actor, on string) (out []*record.Access, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if err := a.mayGrant(tx, on, false); err != nil {
			return err
		}
		out, err = accesses.Select(tx, "on", on)
		return err
	})
	return out, told(err)
}

// Access returns a right of a team in a workspace or a project.
func (s *Service) Access(a *Actor, id string) (x *record.Access, err error) {
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
	rights, err := a.projectRights(tx, p)
	if err != nil {
		return err
	}
	if change && !a.manages(o, manageProjects) && rights.Teams != "manage" {
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

// PutAccess grants a team a role in a workspace or a project (if its ID is empty), or changes a granted one.
func (s *Service) PutAccess(a *Actor, x record.Access) (*record.Access, error) {
	err := s.audited(a, "access.put", x.Team+" on "+x.On, func(tx *store.Tx) error {
		if x.ID != "" {
			kept, err := accesses.Get(tx, x.ID)
			if err != nil {
				return notFound("there is no access %q", x.ID)
			}
			x.Team, x.On = kept.Team, kept.On
			if x.Role == "" {
				x.Role = kept.Role
			}
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
		if x.ID == "" {
			x.ID = newID("tws")
		}
		return accesses.Put(tx, &x)
	})
	return &x, err
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

// DeleteAccess revokes a role of a team.
func (s *Service) DeleteAccess(a *Actor, id string) error {
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

// Tokens returns the tokens of a user, a team or an organization. Only their hashes are stored.
func (s *Service) Tokens(a *Actor, kind, owner string) (out []*record.Token, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if owner, err = a.mayTokens(tx, kind, owner); err != nil {
			return err
		}
		out, err = tokens.Select(tx, "owner", kind, owner)
		return err
	})
	return out, told(err)
}

// Token returns the record of a token by its ID.
func (s *Service) Token(a *Actor, id string) (t *record.Token, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if t, err = tokens.Get(tx, id); err == nil {
			_, err = a.mayTokens(tx, t.Kind, t.Owner)
		}
		if err != nil {
			return notFound("there is no token %q that you manage", id)
		}
		return nil
	})
	return t, told(err)
}

// mayTokens checks that the actor manages the tokens of an owner, and returns the owner's ID.
func (a *Actor) mayTokens(tx *store.Tx, kind, owner string) (string, error) {
	switch kind {
	case record.TokenUser:
		if a.User != nil && (a.User.ID == owner || a.admin()) {
			if _, err := users.Get(tx, owner); err == nil {
				return owner, nil
			}
		}
	case record.TokenTeam:
		if t, o, err := a.team(tx, owner); err == nil && (a.owns(o) || t.ID != o.Owners && a.manages(o, manageTeams)) {
			return t.ID, nil
		}
	case record.TokenOrganization:
		if o, err := a.organization(tx, owner); err == nil && a.owns(o) {
			return strings.ToLower(o.Name), nil
		}
	}
	return "", notFound("there is no %s %q whose tokens you manage", kind, owner)
}

// CreateToken makes a token, which cannot be retrieved later. A team and an organization have only one token: a
// new one replaces it.
func (s *Service) CreateToken(a *Actor, kind, owner, description string, expires time.Time) (token string,
	kept *record.Token, err error) {
	if !expires.IsZero() && !expires.After(s.now()) {
		return "", nil, invalid("The token would have expired already")
	}
	token = newToken()
	err = s.audited(a, "token.create", kind+" "+owner, func(tx *store.Tx) error {
		name, err := a.mayTokens(tx, kind, owner)
		if err != nil {
			return err
		}
		if kind != record.TokenUser {
			for _, id := range tokens.List(tx, "owner", kind, name) {
				if err := tokens.Delete(tx, id); err != nil {
					return err
				}
			}
		}
		kept = &record.Token{
			ID: newID("at"), Hash: Hash(token), Kind: kind, Owner: name, Description: description,
			CreatedAt: s.now().UTC(),
			CreatedBy: a.ID(), Expires: expires,
		}
		return tokens.Put(tx, kept)
	})
	if err != nil {
		return "", nil, err
	}
	return token, kept, nil
}

// DeleteToken revokes a token.
func (s *Service) DeleteToken(a *Actor, id string) error {
	return s.audited(a, "token.delete", id, func(tx *store.Tx) error {
		t, err := tokens.Get(tx, id)
		if err == nil {
			_, err = a.mayTokens(tx, t.Kind, t.Owner)
		}
		if err != nil {
			return notFound("there is no token %q that you manage", id)
		}
		return tokens.Delete(tx, id)
	})
}
