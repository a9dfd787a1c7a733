// Package identity makes the tokens with which a run proves its identity to others, in the form of OpenID
// Connect, and the keys that sign them in turn.
//
// It stores and serves nothing: service stores the keys, service/issuer publishes them.
package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Term is how long a token is valid.
const Term = 2 * time.Hour

// turn is how long a key signs. It is published for the same time before, so that clients that cache the
// published keys know each key in time.
const turn = 30 * 24 * time.Hour

// Algorithm is the signature algorithm, which every cloud supports.
const Algorithm = jose.RS256

// Key is a key that signs tokens from a given time on.
type Key struct {
	ID   string
	From time.Time
	pair *rsa.PrivateKey
}

// NewKey makes a key that signs from a given time on.
func NewKey(from time.Time) (*Key, error) {
	pair, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return &Key{ID: rand.Text(), From: from, pair: pair}, nil
}

// ParseKey parses a key from the output of Key.Bytes.
func ParseKey(id string, from time.Time, text []byte) (*Key, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("reading the signing key %s: %w", id, err)
	}
	pair, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the signing key %s is of another kind", id)
	}
	return &Key{ID: id, From: from, pair: pair}, nil
}

// Bytes returns the key in PKCS #8. It is secret.
func (k *Key) Bytes() ([]byte, error) { return x509.MarshalPKCS8PrivateKey(k.pair) }

// Current returns the key that signs now; nil if there is none.
func Current(keys []*Key, now time.Time) (current *Key) {
	for _, k := range keys {
		if !k.From.After(now) && (current == nil || k.From.After(current.From)) {
			current = k
		}
	}
	return current
}

// Wanted returns the time from which the next missing key must sign. There must be a current key and a next
// one.
func Wanted(keys []*Key, now time.Time) (from time.Time, wanted bool) {
	current := Current(keys, now)
	if current == nil || now.Sub(current.From) >= turn {
		return now, true
	}
	next := slices.ContainsFunc(keys, func(k *Key) bool { return k.From.After(now) })
	return current.From.Add(turn), !next
}

// Spent reports whether all tokens that a key has signed have expired, with an hour of tolerance for wrong
// clocks.
func Spent(k *Key, keys []*Key, now time.Time) bool {
	return slices.ContainsFunc(keys, func(o *Key) bool {
		return o.From.After(k.From) && now.Sub(o.From) > Term+time.Hour
	})
}

// Sign makes a token with these claims.
func (k *Key) Sign(claims any) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: Algorithm, Key: k.pair},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader(jose.HeaderKey("kid"), k.ID))
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}

// Set returns the public keys with which others verify tokens.
func Set(keys []*Key) (set jose.JSONWebKeySet) {
	set.Keys = []jose.JSONWebKey{}
	for _, k := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.pair.Public(), KeyID: k.ID, Algorithm: string(Algorithm),
			Use: "sig"})
	}
	return set
}

// Claims are the claims of a token, with the names that clouds' trust policies use for runs.
type Claims struct {
	ID        string           `json:"jti"`
	Issuer    string           `json:"iss"`
	Subject   string           `json:"sub"`
	Audience  string           `json:"aud"`
	IssuedAt  *jwt.NumericDate `json:"iat"`
	NotBefore *jwt.NumericDate `json:"nbf"`
	Expires   *jwt.NumericDate `json:"exp"`

	OrganizationID   string `json:"terraform_organization_id"`
	OrganizationName string `json:"terraform_organization_name"`
	ProjectID        string `json:"terraform_project_id"`
	ProjectName      string `json:"terraform_project_name"`
	WorkspaceID      string `json:"terraform_workspace_id"`
	WorkspaceName    string `json:"terraform_workspace_name"`
	FullWorkspace    string `json:"terraform_full_workspace"`
	RunID            string `json:"terraform_run_id"`
	RunPhase         string `json:"terraform_run_phase"`
}

// ErrAudience means that no audience was given for a token.
var ErrAudience = errors.New("a token needs an audience")

// Complete sets the claims that follow from the others, for a token that is made now.
func (c *Claims) Complete(now time.Time) error {
	if c.Audience == "" {
		return ErrAudience
	}
	c.ID = rand.Text()
	c.FullWorkspace = fmt.Sprintf("organization:%s:project:%s:workspace:%s", c.OrganizationName, c.ProjectName,
		c.WorkspaceName)
	c.Subject = c.FullWorkspace + ":run_phase:" + c.RunPhase
	c.IssuedAt, c.NotBefore, c.Expires = jwt.NewNumericDate(now), jwt.NewNumericDate(now.Add(-5*time.Second)),
		jwt.NewNumericDate(now.Add(Term))
	return nil
}
