package accounts

import (
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// runTokenTerm is the maximum validity of the token of a phase; the token is revoked when the phase ends.
const runTokenTerm = 24 * time.Hour

// IssueForRun makes the token of a phase, with which the programs of a run read the states that its workspace may
// read. It is only in memory: it ends with the process of the service, after which the phase is started again, or
// resumed, with another one. The caller revokes it with RevokeForRun.
func (s *Tokens) IssueForRun(r *record.Run) string {
	token := tables.NewToken()
	s.lent.Store(tables.Hash(token), &record.Token{
		ID: tables.NewID("at"), Hash: tables.Hash(token), Kind: record.TokenRun, Owner: r.ID, Description: "run",
		CreatedAt: s.now().UTC(), CreatedBy: r.CreatedBy, Expires: s.now().Add(runTokenTerm).UTC(),
		Ended: r.Status.Final(),
	})
	return token
}

// RevokeForRun revokes the token of a phase.
func (s *Tokens) RevokeForRun(token string) { s.lent.Delete(tables.Hash(token)) }

// findToken returns a token: that of a phase in progress, or a stored one. The error wraps store.ErrNotFound if there
// is none.
func (s *Tokens) findToken(tx *store.Tx, token string) (*record.Token, error) {
	hash := tables.Hash(token)
	if t, is := s.lent.Load(hash); is {
		return t.(*record.Token), nil
	}
	return tables.Tokens.LookUp(tx, "hash", hash)
}

// DropRunTokens revokes the tokens of a run that earlier versions of the service stored.
func DropRunTokens(tx *store.Tx, run string) error {
	for _, id := range tables.Tokens.List(tx, "owner", record.TokenRun, run) {
		if err := tables.Tokens.Delete(tx, id); err != nil {
			return err
		}
	}
	return nil
}

// TokenVariable returns the environment variable from which command lines read the token of a host.
func TokenVariable(host string) string {
	return "TF_TOKEN_" + strings.NewReplacer(".", "_", "-", "__").Replace(host)
}
