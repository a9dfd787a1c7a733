package accounts

import (
	"errors"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Tokens are the tokens with which requests are authenticated.
type Tokens struct {
	*shared
	lastUsed sync.Map // token ID -> the time of its last use that is recorded
	lent     sync.Map // the tokens of running jobs, *record.Token by hash
}

// usedEvery is the precision with which the time of a token's last use is recorded.
const usedEvery = time.Minute

// Authenticate returns the actor that a token belongs to. The error is ErrUnauthorized if the token is unknown
// or expired.
func (s *Tokens) Authenticate(token, from string) (*rights.Actor, error) {
	unauthorized := tables.Unauthorized("the token is missing, unknown or expired")
	if token == "" {
		return nil, unauthorized
	}
	a := &rights.Actor{From: from}
	err := s.store.View(func(tx *store.Tx) (err error) {
		if a.Token, err = s.findToken(tx, token); err != nil {
			return err
		}
		if !a.Token.Expires.IsZero() && !s.now().Before(a.Token.Expires) {
			return unauthorized
		}
		return a.Identify(tx)
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, unauthorized
	}
	if err != nil {
		return nil, err
	}
	if a.Token.Kind != record.TokenRun { // it is not stored
		s.used(a.Token)
	}
	return a, nil
}

// used records that a token was used, at most once per usedEvery.
func (s *Tokens) used(t *record.Token) {
	now := s.now()
	if last, ok := s.lastUsed.Load(t.ID); ok && now.Sub(last.(time.Time)) < usedEvery ||
		now.Sub(t.LastUsed) < usedEvery {
		return
	}
	s.lastUsed.Store(t.ID, now)
	err := s.store.Update(func(tx *store.Tx) error {
		kept, err := tables.Tokens.Get(tx, t.ID)
		if err != nil {
			return err
		}
		kept.LastUsed = now
		return tables.Tokens.Put(tx, kept)
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		s.log.Warn("cannot record the last use of a token", "token", t.ID, "error", err)
	}
}

// List returns the tokens of a user, a team or an organization. Only their hashes are stored.
func (s *Tokens) List(a *rights.Actor, kind, owner string) (out []*record.Token, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if owner, err = a.MayTokens(tx, kind, owner); err != nil {
			return err
		}
		out, err = tables.Tokens.Select(tx, "owner", kind, owner)
		return err
	})
	return out, tables.Translated(err)
}

// Find returns the record of a token by its ID.
func (s *Tokens) Find(a *rights.Actor, id string) (t *record.Token, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if t, err = tables.Tokens.Get(tx, id); err == nil {
			_, err = a.MayTokens(tx, t.Kind, t.Owner)
		}
		if err != nil {
			return tables.NotFound("there is no token %q that you manage", id)
		}
		return nil
	})
	return t, tables.Translated(err)
}

// Create makes a token, which cannot be retrieved later. A team and an organization have only one token: a
// new one replaces it.
func (s *Tokens) Create(a *rights.Actor, kind, owner, description string, expires time.Time) (token string,
	kept *record.Token, err error) {
	if !expires.IsZero() && !expires.After(s.now()) {
		return "", nil, tables.Invalid("The token would have expired already")
	}
	token = tables.NewToken()
	err = s.audit.Change(a, "token.create", kind+" "+owner, func(tx *store.Tx) error {
		name, err := a.MayTokens(tx, kind, owner)
		if err != nil {
			return err
		}
		if kind != record.TokenUser {
			for _, id := range tables.Tokens.List(tx, "owner", kind, name) {
				if err := tables.Tokens.Delete(tx, id); err != nil {
					return err
				}
			}
		}
		kept = &record.Token{
			ID: tables.NewID("at"), Hash: tables.Hash(token), Kind: kind, Owner: name, Description: description,
			CreatedAt: s.now().UTC(),
			CreatedBy: a.ID(), Expires: expires,
		}
		return tables.Tokens.Put(tx, kept)
	})
	if err != nil {
		return "", nil, err
	}
	return token, kept, nil
}

// Delete revokes a token.
func (s *Tokens) Delete(a *rights.Actor, id string) error {
	return s.audit.Change(a, "token.delete", id, func(tx *store.Tx) error {
		t, err := tables.Tokens.Get(tx, id)
		if err == nil {
			_, err = a.MayTokens(tx, t.Kind, t.Owner)
		}
		if err != nil {
			return tables.NotFound("there is no token %q that you manage", id)
		}
		return tables.Tokens.Delete(tx, id)
	})
}
