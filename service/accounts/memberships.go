package accounts

import (
	"errors"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// MembershipView is a membership with its user (nil for an invitation) and the user's teams in the
// organization.
type MembershipView struct {
	record.Membership
	Person *record.User
	Teams  []string
}

// Memberships are the members of organizations, and the invitations.
type Memberships struct {
	*shared
}

// List returns the members of an organization, and the invitations.
func (s *Memberships) List(a *rights.Actor, organization string) (out []*MembershipView, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.Organization(tx, organization)
		if err != nil {
			return err
		}
		all, err := tables.Memberships.Select(tx, "organization", strings.ToLower(o.Name))
		for _, m := range all {
			v, err := viewMembership(tx, m)
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		return err
	})
	return out, tables.Translated(err)
}

func viewMembership(tx *store.Tx, m *record.Membership) (*MembershipView, error) {
	v := &MembershipView{Membership: *m, Teams: m.Teams}
	if m.User == "" {
		return v, nil
	}
	var err error
	if v.Person, err = tables.Users.Get(tx, m.User); err != nil {
		return nil, err
	}
	theirs, err := tables.Teams.Select(tx, "user", m.User)
	for _, t := range theirs {
		if strings.EqualFold(t.Organization, m.Organization) {
			v.Teams = append(v.Teams, t.ID)
		}
	}
	return v, err
}

// Find returns a membership.
func (s *Memberships) Find(a *rights.Actor, id string) (v *MembershipView, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		m, _, err := a.Membership(tx, id)
		if err == nil {
			v, err = viewMembership(tx, m)
		}
		return err
	})
	return v, tables.Translated(err)
}

// InvitedUser returns the ID that stands for the user of an invitation until there is one.
func InvitedUser(membership string) string { return "user-" + strings.TrimPrefix(membership, "ou-") }

// Invitation returns the membership whose user InvitedUser has named, before or after it was accepted.
func Invitation(tx *store.Tx, user string) (*record.Membership, error) {
	return tables.Memberships.Get(tx, "ou-"+strings.TrimPrefix(user, "user-"))
}

// Invite makes the user with an email address a member of an organization and of the given teams. If no user
// has the address, the invitation waits until an administrator of the service creates that user.
func (s *Memberships) Invite(a *rights.Actor, organization, email string, teamIDs []string) (v *MembershipView,
	err error) {
	err = s.audit.Change(a, "membership.create", organization, func(tx *store.Tx) error {
		o, err := a.Organization(tx, organization)
		if err != nil {
			return err
		}
		if !a.Manages(o, rights.ManageMembers) {
			return tables.Forbidden("you are not allowed to change the members of %s", o.Name)
		}
		if email = strings.TrimSpace(email); !strings.Contains(email, "@") || len(email) > 320 {
			return tables.Invalid("Email must be an email address")
		}
		m := &record.Membership{Organization: o.Name, Email: email, Teams: teamIDs}
		if err := s.mayJoin(tx, a, o, teamIDs); err != nil {
			return err
		}
		for u, err := range tables.Users.All(tx) {
			if err != nil {
				return err
			}
			if strings.EqualFold(u.Email, email) {
				m.User = u.ID
				break
			}
		}
		if _, err := tables.Memberships.Find(tx, "person", strings.ToLower(o.Name), tables.PersonKey(m)); err == nil {
			return tables.Invalid("User is already a member of the organization %s, or invited", o.Name)
		}
		if err := s.join(tx, m); err != nil {
			return err
		}
		v, err = viewMembership(tx, m)
		return err
	})
	return v, err
}

// mayJoin checks that the actor may add somebody to teams of an organization.
func (s *Memberships) mayJoin(tx *store.Tx, a *rights.Actor, o *record.Organization, teamIDs []string) error {
	for _, id := range teamIDs {
		t, err := tables.Teams.Get(tx, id)
		if err != nil || !strings.EqualFold(t.Organization, o.Name) {
			return tables.Invalid("there is no team %q in %s", id, o.Name)
		}
		if t.ID == o.Owners && !a.Owns(o) {
			return tables.Forbidden("only owners may make others owners of %s", o.Name)
		}
	}
	return nil
}

// join records a membership, and adds its user to the teams of the invitation.
func (s *Memberships) join(tx *store.Tx, m *record.Membership) error {
	if m.ID == "" {
		m.ID, m.CreatedAt = tables.NewID("ou"), s.now().UTC()
	}
	if m.User == "" {
		return tables.Memberships.Put(tx, m)
	}
	for _, id := range m.Teams {
		t, err := tables.Teams.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue // the team was deleted after the invitation
		}
		if err != nil {
			return err
		}
		if !t.Has(m.User) {
			t.Users = append(t.Users, m.User)
		}
		if err := tables.Teams.Put(tx, t); err != nil {
			return err
		}
	}
	m.Teams = nil
	return tables.Memberships.Put(tx, m)
}

// accept turns the invitations for a new user's address into memberships.
func (s *Memberships) accept(tx *store.Tx, u *record.User) error {
	if u.Email == "" {
		return nil
	}
	invited, err := tables.Memberships.Select(tx, "email", tables.Hash(strings.ToLower(u.Email)))
	if err != nil {
		return err
	}
	for _, m := range invited {
		if m.User != "" {
			continue
		}
		m.User = u.ID
		if err := s.join(tx, m); err != nil {
			return err
		}
	}
	return nil
}

// belong makes a user a member of an organization, unless it is one already.
func (s *Memberships) belong(tx *store.Tx, organization string, u *record.User) error {
	_, err := tables.Memberships.Find(tx, "person", strings.ToLower(organization), u.ID)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return s.join(tx, &record.Membership{Organization: organization, User: u.ID, Email: u.Email})
}

// Expel ends a membership, and removes the user from the teams of the organization.
func (s *Memberships) Expel(a *rights.Actor, id string) error {
	return s.audit.Change(a, "membership.delete", id, func(tx *store.Tx) error {
		m, o, err := a.Membership(tx, id)
		if err != nil {
			return err
		}
		mine := a.User != nil && a.User.ID == m.User
		if !mine && !a.Manages(o, rights.ManageMembers) {
			return tables.Forbidden("you are not allowed to change the members of %s", o.Name)
		}
		if m.User == "" {
			return tables.Memberships.Delete(tx, id)
		}
		theirs, err := tables.Teams.Select(tx, "user", m.User)
		if err != nil {
			return err
		}
		for _, t := range theirs {
			if !strings.EqualFold(t.Organization, o.Name) {
				continue
			}
			if t.ID == o.Owners && !mine && !a.Owns(o) {
				return tables.Forbidden("only owners may remove an owner of %s", o.Name)
			}
			t.Users = slices.DeleteFunc(t.Users, func(u string) bool { return u == m.User })
			if t.ID == o.Owners && len(t.Users) == 0 {
				return tables.Invalid("An organization needs an owner")
			}
			if err := tables.Teams.Put(tx, t); err != nil {
				return err
			}
		}
		return tables.Memberships.Delete(tx, id)
	})
}
