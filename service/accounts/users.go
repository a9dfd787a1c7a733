package accounts

import (
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Users are the accounts of people.
type Users struct {
	*shared
	memberships   *Memberships
	organizations *Organizations
}

// Me returns the user of the actor; for the token of a team or an organization, a user that stands for it.
func (s *Users) Me(a *rights.Actor) record.User {
	if a.User != nil {
		return *a.User
	}
	return record.User{ID: "user-" + a.Token.Owner, Name: a.Name(), CreatedAt: a.Token.CreatedAt}
}

// ChangeMe changes the name and the email address of the actor's own user; nil leaves one unchanged. Only
// administrators of the service may do this: teams and invitations refer to people by both, and the service
// does not verify that an address belongs to the user.
func (s *Users) ChangeMe(a *rights.Actor, name, email *string) (u *record.User, err error) {
	if !a.Admin() {
		return nil, tables.Forbidden("only administrators of the service may change users")
	}
	err = s.audit.Change(a, "user.change", a.User.ID, func(tx *store.Tx) error {
		if u, err = tables.Users.Get(tx, a.User.ID); err != nil {
			return err
		}
		record.Set(&u.Name, name)
		record.Set(&u.Email, email)
		if email != nil && !strings.Contains(*email, "@") {
			return tables.Invalid("Email must be an email address")
		}
		if !record.ValidName(u.Name) {
			return tables.Invalid("Username must be letters, digits, - and _, and begin with a letter or a digit")
		}
		return tables.Users.Put(tx, u)
	})
	return u, err
}

// Find returns a user who is in an organization of the actor.
func (s *Users) Find(a *rights.Actor, id string) (u *record.User, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if u, err = tables.Users.Get(tx, id); err != nil {
			return tables.NotFound("there is no user %q, or you have no access to it", id)
		}
		if a.Admin() || a.User != nil && a.User.ID == id {
			return nil
		}
		theirs, err := tables.Teams.Select(tx, "user", id)
		for _, t := range theirs {
			if _, err := a.Organization(tx, t.Organization); err == nil {
				return nil
			}
		}
		if err != nil {
			return err
		}
		return tables.NotFound("there is no user %q, or you have no access to it", id)
	})
	return u, tables.Translated(err)
}

// Create creates a user.
func (s *Users) Create(a *rights.Actor, name, email string, admin bool) (u *record.User, err error) {
	if !a.Admin() {
		return nil, tables.Forbidden("only administrators of the service may create users")
	}
	if !record.ValidName(name) {
		return nil, tables.Invalid("Username must be letters, digits, - and _, and begin with a letter or a digit")
	}
	err = s.audit.Change(a, "user.create", name, func(tx *store.Tx) error {
		u = &record.User{ID: tables.NewID("user"), Name: name, Email: email, Admin: admin, CreatedAt: s.now().UTC()}
		if err := tables.Users.Put(tx, u); err != nil {
			return err
		}
		return s.memberships.accept(tx, u)
	})
	return u, err
}

// List returns all users.
func (s *Users) List(a *rights.Actor) (out []*record.User, err error) {
	if !a.Admin() {
		return nil, tables.Forbidden("only administrators of the service may list all users")
	}
	err = s.store.View(func(tx *store.Tx) error {
		for u, err := range tables.Users.All(tx) {
			if err != nil {
				return err
			}
			out = append(out, u)
		}
		return nil
	})
	return out, tables.Translated(err)
}

// Delete removes a user with all tokens and memberships. The service keeps its last administrator, and an
// organization its last owner. What the user has done keeps the ID.
func (s *Users) Delete(a *rights.Actor, id string) error {
	return s.audit.Change(a, "user.delete", id, func(tx *store.Tx) error {
		if !a.Admin() {
			return tables.Forbidden("only administrators of the service may delete users")
		}
		u, err := tables.Users.Get(tx, id)
		if err != nil {
			return tables.NotFound("there is no user %q", id)
		}
		if err := remainsAdministered(tx, u); err != nil {
			return err
		}
		theirs, err := tables.Teams.Select(tx, "user", id)
		if err != nil {
			return err
		}
		for _, t := range theirs {
			o, err := tables.Organizations.Get(tx, strings.ToLower(t.Organization))
			if err != nil {
				return err
			}
			t.Users = slices.DeleteFunc(t.Users, func(other string) bool { return other == id })
			if t.ID == o.Owners && len(t.Users) == 0 {
				return tables.Invalid("The organization %s needs an owner", o.Name)
			}
			if err := tables.Teams.Put(tx, t); err != nil {
				return err
			}
		}
		for _, membership := range tables.Memberships.List(tx, "user", id) {
			if err := tables.Memberships.Delete(tx, membership); err != nil {
				return err
			}
		}
		for _, token := range tables.Tokens.List(tx, "owner", record.TokenUser, id) {
			if err := tables.Tokens.Delete(tx, token); err != nil {
				return err
			}
		}
		return tables.Users.Delete(tx, id)
	})
}

// remainsAdministered returns an error if a user is the last administrator of the service who is not disabled.
func remainsAdministered(tx *store.Tx, u *record.User) error {
	if !u.Admin || u.Disabled {
		return nil
	}
	for other, err := range tables.Users.All(tx) {
		if err != nil {
			return err
		}
		if other.Admin && !other.Disabled && other.ID != u.ID {
			return nil
		}
	}
	return tables.Invalid("The service needs an administrator")
}

// UserChange has the properties of a user that administrators of the service change; nil leaves one unchanged.
type UserChange struct {
	Email           *string
	Admin, Disabled *bool
}

// Change changes a user. A disabled user cannot log in, and their tokens are refused, until the user is enabled
// again; what the user has begun continues. The service keeps its last administrator.
func (s *Users) Change(a *rights.Actor, id string, c UserChange) (u *record.User, err error) {
	if !a.Admin() {
		return nil, tables.Forbidden("only administrators of the service may change users")
	}
	action := "user.change"
	switch {
	case c.Disabled != nil && *c.Disabled:
		action = "user.disable"
	case c.Disabled != nil:
		action = "user.enable"
	}
	err = s.audit.Change(a, action, id, func(tx *store.Tx) error {
		if u, err = tables.Users.Get(tx, id); err != nil {
			return tables.NotFound("there is no user %q", id)
		}
		if c.Admin != nil && !*c.Admin || c.Disabled != nil && *c.Disabled {
			if err := remainsAdministered(tx, u); err != nil {
				return err
			}
		}
		record.Set(&u.Email, c.Email)
		record.Set(&u.Admin, c.Admin)
		record.Set(&u.Disabled, c.Disabled)
		if c.Email != nil && *c.Email != "" && !strings.Contains(*c.Email, "@") {
			return tables.Invalid("Email must be an email address")
		}
		if err := tables.Users.Put(tx, u); err != nil || c.Email == nil {
			return err
		}
		return s.memberships.accept(tx, u)
	})
	return u, err
}

// Reset revokes all tokens and sessions of a user, removes the password, and returns a new token, which is also a
// password and cannot be retrieved later.
func (s *Users) Reset(a *rights.Actor, id string) (token string, err error) {
	if !a.Admin() {
		return "", tables.Forbidden("only administrators of the service may reset users")
	}
	token = tables.NewToken()
	err = s.audit.Change(a, "user.reset", id, func(tx *store.Tx) error {
		u, err := tables.Users.Get(tx, id)
		if err != nil {
			return tables.NotFound("there is no user %q", id)
		}
		for _, old := range tables.Tokens.List(tx, "owner", record.TokenUser, id) {
			if err := tables.Tokens.Delete(tx, old); err != nil {
				return err
			}
		}
		u.Password = nil
		if err := tables.Users.Put(tx, u); err != nil {
			return err
		}
		return tables.Tokens.Put(tx, &record.Token{ID: tables.NewID("at"), Hash: tables.Hash(token), Kind: record.TokenUser,
			Owner: id, Description: "after a reset", CreatedAt: s.now().UTC(), CreatedBy: a.ID()})
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// Bootstrap creates the first user, an administrator, the first organization, and a token of the user, if there
// is no user yet. The token cannot be retrieved later. It is empty if there was a user already.
func (s *Users) Bootstrap(name, organization string) (token string, err error) {
	none := true
	err = s.store.View(func(tx *store.Tx) error {
		for range tables.Users.All(tx) { //nolint:errcheck // one that cannot be read is one
			none = false
			break
		}
		return nil
	})
	if err != nil || !none {
		return "", err
	}
	now := s.now().UTC()
	u := &record.User{ID: tables.NewID("user"), Name: name, Admin: true, CreatedAt: now}
	token = tables.NewToken()
	kept := &record.Token{ID: tables.NewID("at"), Hash: tables.Hash(token), Kind: record.TokenUser, Owner: u.ID,
		Description: "first start", CreatedAt: now}
	err = s.store.Update(func(tx *store.Tx) error {
		if err := tables.Users.Put(tx, u); err != nil {
			return err
		}
		return tables.Tokens.Put(tx, kept)
	})
	if err != nil {
		return "", tables.Translated(err)
	}
	_, err = s.organizations.Create(&rights.Actor{Token: kept, User: u, From: "first start"}, organization, "")
	return token, err
}

// NameOf returns the name of a user if the actor and the user are in the same organization, and the ID
// otherwise.
func (s *Users) NameOf(a *rights.Actor, id string) string {
	if id == "" {
		return "the service"
	}
	if u, err := s.Find(a, id); err == nil {
		return u.Name
	}
	return id
}
