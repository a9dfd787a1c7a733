package service

import (
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// runTokenTerm is how long the token of a phase is good at most; it ends with the phase.
const runTokenTerm = 24 * time.Hour

// lendToken makes the token of a phase: with it the programs of a run read the states that its workspace may read. A
// phase that is carried out again gets another one in its place.
func (s *Service) lendToken(r *record.Run) (string, error) {
	token := newToken()
	kept := &record.Token{
		ID: newID("at"), Hash: Hash(token), Kind: record.TokenRun, Owner: r.ID, Description: "run",
		CreatedAt: s.now().UTC(), CreatedBy: r.CreatedBy, Expires: s.now().Add(runTokenTerm).UTC(),
		Ended: r.Status.Final(),
	}
	err := s.store.Update(func(tx *store.Tx) error {
		if err := dropRunTokens(tx, r.ID); err != nil {
			return err
		}
		return tokens.Put(tx, kept)
	})
	return token, err
}

// takeTokenBack ends the token of a phase.
func (s *Service) takeTokenBack(r *record.Run) error {
	return s.store.Update(func(tx *store.Tx) error { return dropRunTokens(tx, r.ID) })
}

func dropRunTokens(tx *store.Tx, run string) error {
	for _, id := range tokens.List(tx, "owner", record.TokenRun, run) {
		if err := tokens.Delete(tx, id); err != nil {
			return err
		}
	}
	return nil
}

// TokenVariable is the variable of the environment in which command lines look for the token of a host.
func TokenVariable(host string) string {
	return "TF_TOKEN_" + strings.NewReplacer(".", "_", "-", "__").Replace(host)
}
