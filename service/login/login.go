// Package login issues tokens to command lines by way of a browser: OAuth 2.0's authorization code grant with
// PKCE (RFC 7636), for the service's own users, or for those of an OpenID Connect provider, who also log in to
// the web pages with it.
//
// It keeps only pending codes in memory; a login in progress at the provider is in a cookie of its browser. It makes no
// decisions about users: the service does.
package login

import (
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/tables"
)

// Client is the only permitted client: the command line.
const Client = "millipede-cli"

// The ports on which a command line listens for its code.
const (
	FirstPort = 10000
	LastPort  = 10010
)

// Discovery returns this service's entry in the discovery document.
func Discovery() map[string]any {
	return map[string]any{
		"client": Client, "grant_types": []string{"authz_code"}, "authz": "/oauth/authorize", "token": "/oauth/token",
		"ports": []int{FirstPort, LastPort},
	}
}

// codeTerm is how long a code is valid.
const codeTerm = time.Minute

// maxCodes bounds the number of pending codes.
const maxCodes = 1000

//go:embed login.html
var files embed.FS

var page = sync.OnceValue(func() *template.Template { return template.Must(template.ParseFS(files, "login.html")) })

// server issues tokens.
type server struct {
	o      Options
	visits cipher.AEAD // seals visits

	mu    sync.Mutex // guards the fields below
	codes map[string]*code
	tries map[string]*rate.Limiter // by address
}

// Options configure the login.
type Options struct {
	Logins *accounts.Logins
	Now    func() time.Time
	Logger *slog.Logger
	// Provider is the identity provider; nil if there are only the service's own users.
	Provider *Provider
	// Session begins a session of a user in the web pages, and redirects the browser to one of them; required
	// with a Provider.
	Session func(w http.ResponseWriter, r *http.Request, user, to string) error
}

// code is a pending code.
type code struct {
	challenge, redirect, user string
	expires                   time.Time
}

// Handler serves the addresses of Discovery, and those for the provider.
func Handler(o Options) http.Handler {
	h := &server{o: o, visits: newVisits(), codes: map[string]*code{}, tries: map[string]*rate.Limiter{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /oauth/authorize", h.form)
	mux.Handle("POST /oauth/authorize", http.NewCrossOriginProtection().Handler(http.HandlerFunc(h.authorize)))
	mux.HandleFunc("POST /oauth/token", h.token)
	if o.Provider != nil {
		mux.HandleFunc("GET "+Begin, h.begin)
		mux.HandleFunc("GET "+Callback, h.callback)
	}
	return mux
}

// ask is the authorization request of a command line.
type ask struct {
	State, Challenge, Redirect string
	Problem                    string
	Elsewhere                  string // the address for logging in with the provider; empty for none
}

// read validates the request of a command line. It permits redirects only to the same machine.
func read(q url.Values) (ask, error) {
	a := ask{State: q.Get("state"), Challenge: q.Get("code_challenge"), Redirect: q.Get("redirect_uri")}
	to, err := url.Parse(a.Redirect)
	if err != nil {
		return a, errors.New("invalid redirect address")
	}
	port, err := strconv.Atoi(to.Port())
	local := to.Hostname() == "localhost" || to.Hostname() == "127.0.0.1"
	switch {
	case q.Get("response_type") != "code" || q.Get("client_id") != Client:
		return a, errors.New("this is not the request of a command line")
	case err != nil || to.Scheme != "http" || !local || to.Path != "/login" || to.RawQuery != "" || port < FirstPort ||
		port > LastPort:
		return a, fmt.Errorf("a command line listens at http://localhost:PORT/login, with a port from %d to %d",
			FirstPort, LastPort)
	case q.Get("code_challenge_method") != "S256" || len(a.Challenge) != 43:
		return a, errors.New("the request has no proof key")
	}
	return a, nil
}

func (s *server) show(w http.ResponseWriter, status int, a ask) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	if err := page().Execute(w, a); err != nil {
		s.o.Logger.Warn("the page to log in could not be sent", "error", err)
	}
}

func (s *server) form(w http.ResponseWriter, r *http.Request) {
	a, err := read(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s.o.Provider != nil {
		a.Elsewhere = Begin + "?" + r.URL.Query().Encode()
	}
	s.show(w, http.StatusOK, a)
}

// authorize authenticates a user, and redirects the browser with a code.
func (s *server) authorize(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read", http.StatusBadRequest)
		return
	}
	a, err := read(r.Form)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	from := address(r)
	if !s.mayTry(from) {
		a.Problem = "Too many attempts from your address. Wait a minute."
		s.show(w, http.StatusTooManyRequests, a)
		return
	}
	user, err := s.o.Logins.LogIn(r.PostForm.Get("username"), r.PostForm.Get("password"), from)
	if err != nil {
		if !errors.Is(err, tables.ErrUnauthorized) {
			s.o.Logger.Error("a login has failed", "error", err)
		}
		a.Problem = "Wrong user name or password."
		s.show(w, http.StatusUnauthorized, a)
		return
	}
	s.giveCode(w, r, a, user)
}

// address returns the address that a request comes from.
func address(r *http.Request) string {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return from
}

// giveCode redirects the browser to the command line, with a code.
func (s *server) giveCode(w http.ResponseWriter, r *http.Request, a ask, user string) {
	secret := rand.Text()
	s.mu.Lock()
	for old, c := range s.codes {
		if len(s.codes) >= maxCodes || !s.o.Now().Before(c.expires) {
			delete(s.codes, old)
		}
	}
	s.codes[secret] = &code{challenge: a.Challenge, redirect: a.Redirect, user: user, expires: s.o.Now().Add(codeTerm)}
	s.mu.Unlock()
	http.Redirect(w, r, a.Redirect+"?"+url.Values{"code": {secret}, "state": {a.State}}.Encode(), http.StatusSeeOther)
}

// mayTry reports whether another login attempt from an address is permitted.
func (s *server) mayTry(from string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.tries[from]
	if l == nil {
		if len(s.tries) > maxCodes {
			clear(s.tries)
		}
		l = rate.NewLimiter(rate.Every(6*time.Second), 10)
		s.tries[from] = l
	}
	return l.AllowN(s.o.Now(), 1)
}

// token exchanges a code, once, for a token.
func (s *server) token(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	refuse := func(status int, kind, detail string) {
		answer(w, status, map[string]any{"error": kind, "error_description": detail})
	}
	if err := r.ParseForm(); err != nil {
		refuse(http.StatusBadRequest, "invalid_request", "the form cannot be read")
		return
	}
	f := r.PostForm
	s.mu.Lock()
	c := s.codes[f.Get("code")]
	delete(s.codes, f.Get("code"))
	s.mu.Unlock()
	sum := sha256.Sum256([]byte(f.Get("code_verifier")))
	proof := base64.RawURLEncoding.EncodeToString(sum[:])
	switch {
	case f.Get("grant_type") != "authorization_code":
		refuse(http.StatusBadRequest, "unsupported_grant_type", "only codes are exchanged")
		return
	case c == nil || !s.o.Now().Before(c.expires) || f.Get("client_id") != Client ||
		f.Get("redirect_uri") != c.redirect ||
		subtle.ConstantTimeCompare([]byte(proof), []byte(c.challenge)) != 1:
		refuse(http.StatusBadRequest, "invalid_grant", "the code is unknown, was used, has expired, or is not yours")
		return
	}
	token, err := s.o.Logins.IssueLogin(c.user, address(r))
	if err != nil {
		s.o.Logger.Error("a token could not be made", "error", err)
		refuse(http.StatusInternalServerError, "server_error", "the token could not be made")
		return
	}
	answer(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "bearer"})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has disconnected
}
