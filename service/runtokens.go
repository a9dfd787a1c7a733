package service

import (
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// runTokenTerm is the maximum validity of the token of a phase; the token is revoked when the phase ends.
const runTokenTerm = 24 * time.Hour

// makeRunToken makes the token of a phase, with which the programs of a run read the states that its workspace may
// read. Jobs that use the same run at the same time (reading objects for drift, resolving doubts) keep their
// tokens; tokens that an earlier process of the service has left are revoked. The caller revokes the token with
// revokeRunToken.
func (s *Service) makeRunToken(r *record.Run) (token, id string, err error) {
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
		s.lent.Delete(id) // if it was stored all the same, the next phase of the run revokes it
	}
	return token, id, err
}

// revokeRunToken revokes the token of a phase.
func (s *Service) revokeRunToken(id string) error {
	s.lent.Delete(id)
	return s.store.Update(func(tx *store.Tx) error { return tokens.Delete(tx, id) })
}

// dropRunTokens revokes the tokens of a run, except those for which keep returns true.
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

// TokenVariable returns the environment variable from which command lines read the token of a host.
func TokenVariable(host string) string {
	return "TF_TOKEN_" + strings.NewReplacer(".", "_", "-", "__").Replace(host)
}
