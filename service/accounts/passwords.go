package accounts

import (
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// How long the token of a login is valid: for the command line, and for a browser.
const (
	loginTerm   = 30 * 24 * time.Hour
	sessionTerm = 12 * time.Hour
)

// SetPassword sets the password of a user. Users may set their own; administrators may set that of anybody.
func (s *Users) SetPassword(a *rights.Actor, user, password string) error {
	if len(password) < 12 || len(password) > 72 {
		return tables.Invalid("A password must have between 12 and 72 bytes")
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return err
	}
	return s.audit.Change(a, "user.password", user, func(tx *store.Tx) error {
		if !a.Admin() && (a.User == nil || a.User.ID != user) {
			return tables.NotFound("there is no user %q whose password you may set", user)
		}
		u, err := tables.Users.Get(tx, user)
		if err != nil {
			return err
		}
		u.Password = hash
		return tables.Users.Put(tx, u)
	})
}

// nobody is the hash with which a password is compared if the user does not exist, so that the response takes
// the same time.
var nobody = []byte("$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy")

// LogIn returns the ID of the user whose name and password, or whose name and token, these are. The error is
// ErrUnauthorized if they are wrong.
func (s *Logins) LogIn(name, password, from string) (id string, err error) {
	no := tables.Unauthorized("wrong user name or password")
	var u *record.User
	err = s.store.View(func(tx *store.Tx) error { u, err = tables.Users.Find(tx, "name", name); return err })
	if err != nil {
		_ = bcrypt.CompareHashAndPassword(nobody, []byte(password)) // to take the same time as for an existing user
		return "", no
	}
	if u.Password != nil && !u.Disabled && bcrypt.CompareHashAndPassword(u.Password, []byte(password)) == nil {
		return u.ID, nil
	}
	if a, err := s.tokens.Authenticate(password, from); err == nil && a.User != nil && a.User.ID == u.ID {
		return u.ID, nil
	}
	return "", no
}

// IssueLogin makes a token for a user who has logged in with the command line, from an address.
func (s *Logins) IssueLogin(user, from string) (string, error) {
	return s.issue(user, from, "login", loginTerm)
}

// issue makes a token for a user who has logged in. The description is shown with the token; term is how long
// it is valid.
func (s *Logins) issue(user, from, description string, term time.Duration) (string, error) {
	token, now := tables.NewToken(), s.now().UTC()
	kept := &record.Token{
		ID: tables.NewID("at"), Hash: tables.Hash(token), Kind: record.TokenUser, Owner: user, Description: description,
		CreatedAt: now, CreatedBy: user, Expires: now.Add(term),
	}
	return token, tables.Translated(s.store.Update(func(tx *store.Tx) error {
		u, err := tables.Users.Get(tx, user)
		if err != nil {
			return err
		}
		if err := s.audit.Note(tx, &rights.Actor{Token: kept, User: u, From: from}, "login", u.Name, "done"); err != nil {
			return err
		}
		return tables.Tokens.Put(tx, kept)
	}))
}

// IssueSession makes a token for a user who has logged in to the web pages. It expires after some hours.
func (s *Logins) IssueSession(user, from string) (string, error) {
	return s.issue(user, from, "pages", sessionTerm)
}
