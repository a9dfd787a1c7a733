package login

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/tables"
)

// Provider is the OpenID Connect provider of an organization.
type Provider struct {
	Issuer, Client, Secret string
	// Groups is the claim with the groups of a person; default groups.
	Groups string
	// Organization is the organization whose teams are linked to groups.
	Organization string
	// Address is the address of the service for browsers, https://HOST: the provider redirects to Callback
	// there.
	Address string
	// HTTP is the client for requests to the provider; default a client with a timeout of 15 s.
	HTTP *http.Client

	mu    sync.Mutex // guards known
	known *oidc.Provider
}

// Begin is the path for logging in with the provider: with the query of a command line, or with to, the page to
// go to afterwards. Callback is the path to which the provider redirects.
const (
	Begin    = "/oauth/provider"
	Callback = "/oauth/callback"
)

// visitTerm is the time limit of a login in progress at the provider.
const visitTerm = 10 * time.Minute

// visitCookie has the login in progress, sealed by this process: no other browser can complete it, and however many
// people, or programs, begin one, none takes the place of another.
const visitCookie = "__Host-millipede-visit"

// maxCookie is the maximum length of the cookie; browsers discard longer ones.
const maxCookie = 4000

// visit is a login in progress at the provider.
type visit struct {
	State, Nonce, Verifier string
	Ask                    *ask   // of a command line; nil for the pages
	To                     string // the page to go to
	Expires                time.Time
}

// newVisits returns the cipher with which visits are sealed. Its key is only in memory.
func newVisits() cipher.AEAD {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the right length
	}
	c, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // as above
	}
	return c
}

// sealed returns the text of a visit for the cookie.
func (s *server) sealed(v *visit) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and a time can always be marshalled
	}
	return base64.RawURLEncoding.EncodeToString(s.visits.Seal(nil, nil, text, []byte(visitCookie)))
}

// visit returns the visit of a browser with the state with which the provider has sent it back; nil if there is none.
func (s *server) visit(r *http.Request, state string) *visit {
	cookie, err := r.Cookie(visitCookie)
	if err != nil {
		return nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return nil
	}
	text, err := s.visits.Open(nil, nil, sealed, []byte(visitCookie))
	v := new(visit)
	if err != nil || json.Unmarshal(text, v) != nil || !s.o.Now().Before(v.Expires) ||
		subtle.ConstantTimeCompare([]byte(state), []byte(v.State)) != 1 {
		return nil
	}
	return v
}

// discover returns the provider after reading its discovery document. If the provider cannot be reached, the
// next call retries.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	// The provider keeps the context for fetching keys later.
	known, err := oidc.NewProvider(context.WithoutCancel(p.context(ctx)), p.Issuer)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = known
	return known, nil
}

// context returns a context with the HTTP client for the provider.
func (p *Provider) context(ctx context.Context) context.Context {
	c := p.HTTP
	if c == nil {
		c = &http.Client{Timeout: 15 * time.Second}
	}
	return oidc.ClientContext(ctx, c)
}

// config returns the configuration for requesting and exchanging codes.
func (p *Provider) config(known *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{ClientID: p.Client, ClientSecret: p.Secret, Endpoint: known.Endpoint(),
		RedirectURL: strings.TrimSuffix(p.Address, "/") + Callback,
		Scopes:      []string{oidc.ScopeOpenID, "profile", "email"}}
}

// begin redirects a browser to the provider.
func (s *server) begin(w http.ResponseWriter, r *http.Request) {
	v := &visit{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		To: r.URL.Query().Get("to"), Expires: s.o.Now().Add(visitTerm)}
	if r.URL.Query().Has("redirect_uri") {
		a, err := read(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		v.Ask = &a
	}
	cookie := s.sealed(v)
	if len(cookie) > maxCookie {
		http.Error(w, "the request is too long", http.StatusBadRequest)
		return
	}
	known, err := s.o.Provider.discover(r.Context())
	if err != nil {
		s.o.Logger.Error("the identity provider cannot be reached", "issuer", s.o.Provider.Issuer, "error", err)
		http.Error(w, "the identity provider cannot be reached; try again later", http.StatusBadGateway)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: visitCookie, Value: cookie, Path: "/", Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode, MaxAge: int(visitTerm / time.Second)})
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, s.o.Provider.config(known).AuthCodeURL(v.State, oidc.Nonce(v.Nonce),
		oauth2.S256ChallengeOption(v.Verifier)), http.StatusSeeOther)
}

// callback completes a login when the provider redirects the browser.
func (s *server) callback(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v := s.visit(r, q.Get("state"))
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if v == nil {
		http.Error(w, "this login was started elsewhere, has ended, or took too long: start again", http.StatusBadRequest)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: visitCookie, Path: "/", Secure: true, HttpOnly: true, MaxAge: -1})
	user, err := s.identify(r.Context(), v, q, address(r))
	switch {
	case errors.Is(err, tables.ErrForbidden), errors.Is(err, tables.ErrInvalid):
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	case err != nil:
		s.o.Logger.Error("a login with the identity provider has failed", "error", err)
		http.Error(w, "the identity provider has not confirmed your identity", http.StatusForbidden)
		return
	}
	if v.Ask != nil {
		s.giveCode(w, r, *v.Ask, user)
		return
	}
	if err := s.o.Session(w, r, user, v.To); err != nil {
		s.o.Logger.Error("a session could not be begun", "error", err)
		http.Error(w, "the session could not be begun", http.StatusInternalServerError)
	}
}

// identify returns the user for the identity that the provider has confirmed.
func (s *server) identify(ctx context.Context, v *visit, q url.Values, from string) (string, error) {
	p := s.o.Provider
	if problem := q.Get("error"); problem != "" {
		return "", fmt.Errorf("the provider has answered %q: %q", problem, q.Get("error_description"))
	}
	known, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	answer, err := p.config(known).Exchange(p.context(ctx), q.Get("code"), oauth2.VerifierOption(v.Verifier))
	if err != nil {
		return "", fmt.Errorf("exchanging the code: %w", err)
	}
	text, ok := answer.Extra("id_token").(string)
	if !ok {
		return "", errors.New("the provider has sent no ID token")
	}
	token, err := known.Verifier(&oidc.Config{ClientID: p.Client, Now: s.o.Now}).Verify(p.context(ctx), text)
	if err != nil {
		return "", fmt.Errorf("checking the token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(v.Nonce)) != 1 {
		return "", errors.New("the token belongs to another login")
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	who := accounts.Person{Issuer: token.Issuer, Subject: token.Subject, Groups: texts(claims[p.groups()])}
	if sure, _ := claims["email_verified"].(bool); sure {
		who.Email, _ = claims["email"].(string)
	}
	for _, name := range []string{"preferred_username", "email", "name"} {
		if who.Name, _ = claims[name].(string); who.Name != "" {
			who.Name, _, _ = strings.Cut(who.Name, "@")
			break
		}
	}
	return s.o.Logins.SignIn(who, p.Organization, from)
}

func (p *Provider) groups() string {
	if p.Groups == "" {
		return "groups"
	}
	return p.Groups
}

// texts returns the values of a claim that is a text or a list of texts.
func texts(claim any) (out []string) {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			if text, ok := e.(string); ok {
				out = append(out, text)
			}
		}
	}
	return out
}
