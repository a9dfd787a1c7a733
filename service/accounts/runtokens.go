package accounts

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// runTokenTerm is the maximum validity of the token of a phase.
const runTokenTerm = 24 * time.Hour

// IssueForRun makes the token of a phase, with which the programs of a run read the states that its workspace may
// read. The token is not stored: it contains, sealed, which phase it belongs to. So it survives the process of the
// service, whose operations other machines may carry on, and is valid for as long as the phase is in progress. For a
// run that has ended, whose configuration is used again, it is valid until the caller revokes it with RevokeForRun.
func (s *Tokens) IssueForRun(r *record.Run) string {
	t := &record.Token{
		ID: tables.NewID("at"), Kind: record.TokenRun, Owner: r.ID, Description: "run",
		CreatedAt: s.now().UTC(), CreatedBy: r.CreatedBy, Expires: s.now().Add(runTokenTerm).UTC().Truncate(time.Second),
		Ended: r.Status.Final(),
	}
	token := tables.NewToken()
	if r.Status.Computes() {
		phase := strings.Join([]string{r.ID, phaseOf(r), strconv.FormatInt(t.Expires.Unix(), 10), t.ID}, " ")
		sealed := s.store.Seal(runTokenPlace, []byte(phase))
		token = tables.Random(14) + runTokenMark + base64.RawURLEncoding.EncodeToString(sealed)
	}
	t.Hash = tables.Hash(token)
	s.lent.Store(t.Hash, t)
	return token
}

// RevokeForRun revokes the token of a phase, unless the phase is still in progress.
func (s *Tokens) RevokeForRun(token string) { s.lent.Delete(tables.Hash(token)) }

// runTokenMark is in the tokens of phases. runTokenPlace is the additional data of what is sealed in them.
const runTokenMark = ".atlasv1.run-"

var runTokenPlace = []byte("token of a phase")

// phaseOf returns the ID of the phase of a run that is in progress.
func phaseOf(r *record.Run) string {
	if r.Status == record.Applying {
		return r.Apply.ID
	}
	return r.Plan.ID
}

// findToken returns a token: that of a phase in progress, or a stored one. The error wraps store.ErrNotFound if there
// is none.
func (s *Tokens) findToken(tx *store.Tx, token string) (*record.Token, error) {
	hash := tables.Hash(token)
	if t, is := s.lent.Load(hash); is {
		return t.(*record.Token), nil
	}
	if _, sealed, is := strings.Cut(token, runTokenMark); is {
		return s.openRunToken(tx, hash, sealed)
	}
	return tables.Tokens.LookUp(tx, "hash", hash)
}

// openRunToken returns the token of a phase that another process of the service has issued, or a call that has ended.
func (s *Tokens) openRunToken(tx *store.Tx, hash, sealed string) (*record.Token, error) {
	data, err := base64.RawURLEncoding.DecodeString(sealed)
	if err == nil {
		data, err = s.store.Unseal(runTokenPlace, data)
	}
	fields := strings.Split(string(data), " ")
	if err != nil || len(fields) != 4 {
		return nil, store.ErrNotFound
	}
	r, err := tables.Runs.Get(tx, fields[0])
	if err != nil {
		return nil, err
	}
	until, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || !r.Status.Computes() || phaseOf(r) != fields[1] {
		return nil, store.ErrNotFound
	}
	return &record.Token{ID: fields[3], Hash: hash, Kind: record.TokenRun, Owner: r.ID, Description: "run",
		CreatedBy: r.CreatedBy, Expires: time.Unix(until, 0).UTC()}, nil
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
