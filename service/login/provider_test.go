package login_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/identity"
	"github.com/millipede-iac/millipede/service/login"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
)

// identities is a provider of OpenID Connect that describes people as the test says.
type identities struct {
	t      *testing.T
	server *httptest.Server
	key    *identity.Key

	mu    sync.Mutex // guards codes
	codes map[string]granted
}

// granted is the data for which a code is exchanged.
type granted struct {
	claims    map[string]any
	challenge string
	key       *identity.Key
}

func newIdentities(t *testing.T) *identities {
	t.Helper()
	p := &identities{t: t, key: newKey(t), codes: map[string]granted{}}
	mux := http.NewServeMux()
	tell := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // who asked has gone away otherwise
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		tell(w, map[string]any{"issuer": p.server.URL, "jwks_uri": p.server.URL + "/keys",
			"authorization_endpoint": p.server.URL + "/authorize", "token_endpoint": p.server.URL + "/token",
			"id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		tell(w, identity.Set([]*identity.Key{p.key}))
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		client, secret, _ := r.BasicAuth()
		p.mu.Lock()
		g, ok := p.codes[r.PostFormValue("code")]
		delete(p.codes, r.PostFormValue("code"))
		p.mu.Unlock()
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if !ok || client != "millipede" || secret != "of-the-service" ||
			base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		token, err := g.key.Sign(g.claims)
		if err != nil {
			t.Error(err)
		}
		tell(w, map[string]any{"access_token": "x", "token_type": "bearer", "id_token": token})
	})
	p.server = httptest.NewServer(mux)
	t.Cleanup(p.server.Close)
	return p
}

func newKey(t *testing.T) *identity.Key {
	t.Helper()
	k, err := identity.NewKey(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// harness is a service whose users log in with a provider.
type harness struct {
	*loginTest
	provider *identities
	sessions []string // of users, with where they wanted to go
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{loginTest: &loginTest{t: t, harness: servicetest.New(t), now: time.Now()}, provider: newIdentities(t)}
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	h.server = httptest.NewServer(login.Handler(login.Options{
		Logins: h.harness.Logins, Now: func() time.Time { return h.now }, Logger: slog.New(slog.DiscardHandler),
		Provider: &login.Provider{Issuer: h.provider.server.URL, Client: "millipede", Secret: "of-the-service",
			Organization: "acme", Address: "https://millipede.example", HTTP: client},
		Session: func(w http.ResponseWriter, r *http.Request, user, to string) error {
			h.sessions = append(h.sessions, user+" "+to)
			http.Redirect(w, r, to, http.StatusSeeOther)
			return nil
		},
	}))
	h.server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(h.server.Close)
	return h
}

func (h *harness) get(address string, cookies ...*http.Cookie) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	reply, err := h.server.Client().Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = reply.Body.Close() })
	return reply
}

// visit is a browser at the provider.
type visit struct {
	query   url.Values // of the address at the provider
	cookies []*http.Cookie
}

func (h *harness) begin(query string) visit {
	h.t.Helper()
	reply := h.get(h.server.URL + login.Begin + query)
	to, err := reply.Location()
	if err != nil {
		h.t.Fatalf("%d, %v", reply.StatusCode, err)
	}
	q := to.Query()
	if reply.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to.String(), h.provider.server.URL+"/authorize?") ||
		q.Get("code_challenge_method") != "S256" || q.Get("redirect_uri") != "https://millipede.example/oauth/callback" {
		h.t.Fatalf("the response redirects to %s", to)
	}
	return visit{q, reply.Cookies()}
}

// grant makes the provider identify a person, and returns the address to which it redirects the browser.
func (h *harness) grant(v visit, change func(*granted)) string {
	g := granted{challenge: v.query.Get("code_challenge"), key: h.provider.key, claims: map[string]any{
		"iss": h.provider.server.URL, "aud": "millipede", "sub": "1", "nonce": v.query.Get("nonce"),
		"iat": h.now.Unix(), "exp": h.now.Add(time.Minute).Unix(), "preferred_username": "alice@example.com",
		"email": "alice@example.com", "email_verified": true, "groups": []string{"engineers", "others"},
	}}
	if change != nil {
		change(&g)
	}
	h.provider.mu.Lock()
	h.provider.codes["code"] = g
	h.provider.mu.Unlock()
	return h.server.URL + login.Callback + "?" + url.Values{"code": {"code"}, "state": {v.query.Get("state")}}.Encode()
}

func (h *harness) team(name, group string) *record.Team {
	h.t.Helper()
	t, err := h.harness.Teams.Create(h.harness.Admin, record.Team{Organization: "acme", Name: name, SSO: group})
	if err != nil {
		h.t.Fatal(err)
	}
	return t
}

// members returns the names of the members of a team.
func (h *harness) members(t *record.Team) (out []string) {
	h.t.Helper()
	now, err := h.harness.Teams.Find(h.harness.Admin, t.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, id := range now.Users {
		u, err := h.harness.Users.Find(h.harness.Admin, id)
		if err != nil {
			h.t.Fatal(err)
		}
		out = append(out, u.Name)
	}
	return out
}

func TestSomebodyWhomTheProviderKnowsIsInTheTeamsOfTheirGroups(t *testing.T) {
	h := newHarness(t)
	engineers, managers, ours := h.team("devs", "engineers"), h.team("bosses", "managers"), h.team("ours", "")
	for _, try := range []struct {
		groups           any
		devs, bosses, to string
	}{
		{[]string{"engineers", "others"}, "alice", "", "/app/acme"},
		{[]string{"managers"}, "", "alice", "/app"},
		{"engineers", "alice", "", "/app"},
		{nil, "", "", "/app"},
	} {
		v := h.begin("?to=" + url.QueryEscape(try.to))
		reply := h.get(h.grant(v, func(g *granted) { g.claims["groups"] = try.groups }), v.cookies...)
		if to, err := reply.Location(); err != nil || to.Path != try.to {
			t.Fatalf("%d: the response redirects to %v, %v", reply.StatusCode, to, err)
		}
		if d, b := strings.Join(h.members(engineers), " "), strings.Join(h.members(managers), " "); d != try.devs ||
			b != try.bosses || len(h.members(ours)) != 0 {
			t.Errorf("with the groups %v, the engineers are %q and the managers %q", try.groups, d, b)
		}
	}
	if len(h.sessions) != 4 || len(slices.Compact(slices.Sorted(slices.Values(h.sessions)))) != 2 {
		t.Errorf("one person has several users: %v", h.sessions)
	}
}

func TestACommandLineLogsInWithTheProvider(t *testing.T) {
	h := newHarness(t)
	h.team("devs", "engineers")
	form := h.get(h.server.URL + "/oauth/authorize?" + request().Encode())
	if page, err := io.ReadAll(form.Body); err != nil || !strings.Contains(string(page), login.Begin+"?client_id=") {
		t.Errorf("the form does not lead to the provider: %s", page)
	}
	v := h.begin("?" + request().Encode())
	to, err := h.get(h.grant(v, nil), v.cookies...).Location()
	if err != nil || to.Host != "localhost:10003" || to.Query().Get("state") != "s" {
		t.Fatalf("the response redirects to %v, %v", to, err)
	}
	status, token := h.exchange(to.Query().Get("code"), nil)
	if status != http.StatusOK || h.harness.Actor(token).User.Name != "alice" {
		t.Errorf("%d", status)
	}
	bad := request()
	bad.Set("redirect_uri", "https://evil.example/login")
	if reply := h.get(h.server.URL + login.Begin + "?" + bad.Encode()); reply.StatusCode != http.StatusBadRequest {
		t.Errorf("a login that would redirect to another site: %d", reply.StatusCode)
	}
}

// After any invalid response of the provider, nobody is logged in, and nothing of the response is stored.
func TestNobodyGetsInWhomTheProviderHasNotConfirmed(t *testing.T) {
	h := newHarness(t)
	h.team("devs", "engineers")
	other := newKey(t)
	claim := func(name string, value any) func(*granted) { return func(g *granted) { g.claims[name] = value } }
	for what, change := range map[string]func(*granted){
		"another issuer": claim("iss", "https://evil.example"), "another audience": claim("aud", "other"),
		"another nonce": claim("nonce", "other"), "no nonce": func(g *granted) { delete(g.claims, "nonce") },
		"a token that has ended": claim("exp", h.now.Add(-time.Minute).Unix()), "no subject": claim("sub", ""),
		"another key":        func(g *granted) { g.key = other },
		"another challenge":  func(g *granted) { g.challenge = challenge() },
		"no group of a team": claim("groups", []string{"others"}),
	} {
		v := h.begin("?to=/app")
		if reply := h.get(h.grant(v, change), v.cookies...); reply.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", what, reply.StatusCode)
		}
	}
	for what, back := range map[string]func(visit) *http.Response{
		"another browser": func(v visit) *http.Response { return h.get(h.grant(v, nil)) },
		"the cookie of another visit": func(v visit) *http.Response {
			return h.get(h.grant(v, nil), h.begin("?to=/app").cookies...)
		},
		"another state": func(v visit) *http.Response {
			return h.get(strings.Replace(h.grant(v, nil), "state=", "state=x", 1), v.cookies...)
		},
		"later": func(v visit) *http.Response {
			h.now = h.now.Add(time.Hour)
			return h.get(h.grant(v, nil), v.cookies...)
		},
	} {
		if reply := back(h.begin("?to=/app")); reply.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", what, reply.StatusCode)
		}
	}
	if len(h.sessions) != 0 {
		t.Errorf("sessions: %v", h.sessions)
	}
	v := h.begin("?to=/app")
	back := h.grant(v, nil)
	if reply := h.get(back, v.cookies...); reply.StatusCode != http.StatusSeeOther {
		t.Errorf("a valid response: %d", reply.StatusCode)
	}
	if reply := h.get(back, v.cookies...); reply.StatusCode != http.StatusForbidden { // the provider's codes are used up
		t.Errorf("the same response again: %d", reply.StatusCode)
	}
	if len(h.sessions) != 1 {
		t.Errorf("sessions: %v", h.sessions)
	}
}

// The service stored at most a thousand logins in progress. Somebody who began thousands of logins, which needs no
// token, prevented all others from logging in.
func TestAFloodOfLoginsDoesNotEndThoseInProgress(t *testing.T) {
	h := newHarness(t)
	h.team("devs", "engineers")
	v := h.begin("?to=/app")
	back := h.grant(v, nil)
	for range 1500 {
		h.begin("?to=/app")
	}
	if reply := h.get(back, v.cookies...); reply.StatusCode != http.StatusSeeOther {
		t.Errorf("after the flood: %d", reply.StatusCode)
	}
	if reply := h.get(h.server.URL + login.Begin + "?to=" + strings.Repeat("/x", 4000)); reply.StatusCode !=
		http.StatusBadRequest {
		t.Errorf("a target that is too long for a cookie: %d", reply.StatusCode)
	}
}

// The user name in a provider's response does not identify a person: somebody with the name of a user of the service
// would have become that user.
func TestNobodyBecomesAUserWhoWasHere(t *testing.T) {
	h := newHarness(t)
	team := h.team("devs", "engineers")
	if _, err := h.harness.Memberships.Invite(h.harness.Admin, "acme", "bob@example.com", []string{team.ID}); err != nil {
		t.Fatal(err)
	}
	v := h.begin("?to=/app")
	h.get(h.grant(v, func(g *granted) { g.claims["preferred_username"] = "root" }), v.cookies...)
	if got := strings.Join(h.members(team), " "); got != "root-2" {
		t.Errorf("the team has %q", got)
	}
	// An invitation is for an address, which the provider must have verified. The order of the cases matters, because the
	// person who has accepted it is known from then on.
	for _, sure := range []bool{false, true} {
		want := http.StatusForbidden
		if sure {
			want = http.StatusSeeOther
		}
		v := h.begin("?to=/app")
		reply := h.get(h.grant(v, func(g *granted) {
			maps.Copy(g.claims, map[string]any{"sub": "2", "email": "bob@example.com", "email_verified": sure,
				"groups": []string{}})
		}), v.cookies...)
		if reply.StatusCode != want {
			t.Errorf("with an address that is verified (%t): %d", sure, reply.StatusCode)
		}
	}
	if _, err := h.harness.Logins.SignIn(accounts.Person{Issuer: "x"}, "acme", ""); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("somebody without an identity: %v", err)
	}
}

func TestSomebodyWhoIsDisabledDoesNotGetIn(t *testing.T) {
	h := newHarness(t)
	team := h.team("devs", "engineers")
	v := h.begin("?to=/app")
	if reply := h.get(h.grant(v, nil), v.cookies...); reply.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d", reply.StatusCode)
	}
	got, err := h.harness.Teams.Find(h.harness.Admin, team.ID)
	if err != nil || len(got.Users) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	disabled := true
	_, err = h.harness.Users.Change(h.harness.Admin, got.Users[0], accounts.UserChange{Disabled: &disabled})
	if err != nil {
		t.Fatal(err)
	}
	v = h.begin("?to=/app")
	if reply := h.get(h.grant(v, nil), v.cookies...); reply.StatusCode != http.StatusForbidden {
		t.Errorf("%d", reply.StatusCode)
	}
}
