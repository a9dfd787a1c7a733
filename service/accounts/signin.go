package accounts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Person is a person as identified by an identity provider.
type Person struct {
	Issuer, Subject string // together identify the person; neither changes
	Name            string // the preferred user name, used if it is free
	Email           string // empty unless the provider has verified it
	Groups          []string
}

// Logins check who people are, and issue tokens to them.
type Logins struct {
	*shared
	memberships *Memberships
	tokens      *Tokens
}

// SignIn returns the user for a person whose identity a provider has proved, and creates the user at the first
// sign-in. Groups correspond to the teams of the organization that have the group as their SSO identity
// (`sso-team-id`): the user joins those teams, and leaves other teams that have an SSO identity. The error is
// ErrForbidden, and nothing is stored, if the person belongs to no team and has no invitation.
func (s *Logins) SignIn(p Person, organization, from string) (user string, err error) {
	if p.Issuer == "" || p.Subject == "" {
		return "", tables.Invalid("The identity provider has not identified the person")
	}
	err = tables.Translated(s.store.Update(func(tx *store.Tx) error {
		u, err := s.person(tx, &p)
		if err != nil {
			return err
		}
		if u.Disabled {
			return tables.Forbidden("your account is disabled; ask an administrator of the service")
		}
		if err := s.joinGroups(tx, u, organization, p.Groups); err != nil {
			return err
		}
		if len(tables.Memberships.List(tx, "user", u.ID)) == 0 {
			return tables.Forbidden("you are in no group that has a team here, and nobody has invited you")
		}
		user = u.ID
		return s.audit.Note(tx, &rights.Actor{Token: &record.Token{Kind: record.TokenUser, Owner: u.ID}, User: u, From: from},
			"sign-in", u.Name, "done")
	}))
	return user, err
}

// person returns the user of a person, and creates one if necessary. It never returns a user that was created
// in the service itself: a matching name at the provider does not prove the identity.
func (s *Logins) person(tx *store.Tx, p *Person) (*record.User, error) {
	known, err := tables.Users.Select(tx, "identity", tables.Hash(store.Join(p.Issuer, p.Subject)))
	if err != nil {
		return nil, err
	}
	if len(known) > 0 {
		u := known[0]
		if u.Email != p.Email {
			u.Email = p.Email
			if err := tables.Users.Put(tx, u); err != nil {
				return nil, err
			}
			return u, s.memberships.accept(tx, u)
		}
		return u, nil
	}
	u := &record.User{ID: tables.NewID("user"), Name: freeName(tx, p.Name), Email: p.Email, Issuer: p.Issuer,
		Subject: p.Subject, CreatedAt: s.now().UTC()}
	if err := tables.Users.Put(tx, u); err != nil {
		return nil, err
	}
	return u, s.memberships.accept(tx, u)
}

// freeName returns an unused user name: the wanted one, reduced to valid characters, with a number if
// necessary.
func freeName(tx *store.Tx, wanted string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, wanted)
	name = strings.TrimLeft(name, "-_")
	name = cmp.Or(name[:min(len(name), 60)], "user")
	for i, free := 2, name; ; i++ {
		if _, err := tables.Users.Find(tx, "name", free); err != nil {
			return free
		}
		free = fmt.Sprintf("%s-%d", name, i)
	}
}

// joinGroups makes a user a member of exactly those teams with an SSO identity whose groups are given.
func (s *Logins) joinGroups(tx *store.Tx, u *record.User, organization string, groups []string) error {
	o, err := tables.Organizations.Get(tx, strings.ToLower(organization))
	if err != nil {
		return err
	}
	all, err := tables.Teams.Select(tx, "organization", strings.ToLower(o.Name))
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.SSO == "" {
			continue
		}
		is, was := slices.Contains(groups, t.SSO), t.Has(u.ID)
		switch {
		case is && !was:
			t.Users = append(t.Users, u.ID)
			if err := s.memberships.belong(tx, o.Name, u); err != nil {
				return err
			}
		case !is && was && (t.ID != o.Owners || len(t.Users) > 1): // an organization must keep its last owner
			t.Users = slices.DeleteFunc(t.Users, func(id string) bool { return id == u.ID })
		default:
			continue
		}
		if err := tables.Teams.Put(tx, t); err != nil {
			return err
		}
	}
	return nil
}
