package service

import (
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// runTokenTerm is how long the token of a phase is good at most; it ends with the phase.
const runTokenTerm = 24 * time.Hour

// lendToken makes the token of a phase: with it the programs of a run read the states that its workspace may read. What
// has the run carried out at the same time (objects are read with a run that has ended, and doubts of it resolved)
// keeps the token that it has; those that a service of before has left end. The caller takes the token back.
func (s *Service) lendToken(r *record.Run) (token, id string, err error) {
	token, id = newToken(), newID("at")
	kept := &record.Token{
		ID: id, Hash: Hash(token), Kind: record.TokenRun, Owner: r.ID, Description: "run",
		CreatedAt: s.now().UTC(), CreatedBy: r.CreatedBy, Expires: s.now().Add(runTokenTerm).UTC(),
		Ended: r.Status.Final(),
	}
	s.lent.Store(id, true)
	err = s.store.Update(func(tx *store.Tx) error {
		used := func(id string) bool { _, is := s.lent.Load(id); return is }
		if err := dropRunTokens(tx, r.ID, used); err != nil {
			return err
		}
		return tokens.Put(tx, kept)
	})
	if err != nil {
		s.lent.Delete(id) // if it is there all the same, the next phase of the run ends it
	}
	return token, id, err
}

// takeTokenBack ends the token of a phase.
func (s *Service) takeTokenBack(id string) error {
	s.lent.Delete(id)
	return s.store.Update(func(tx *store.Tx) error { return tokens.Delete(tx, id) })
}

// dropRunTokens ends the tokens of a run, but those that are to be kept.
func dropRunTokens(tx *store.Tx, run string, keep func(id string) bool) error {
	for _, id := range tokens.List(tx, "owner", record.TokenRun, run) {
		if keep(id) {
			continue
		}
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
