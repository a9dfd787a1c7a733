package services

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opentofu/svchost"

	"github.com/millipede-iac/millipede/install/cliconfig"
)

// issuer is a host that gives tokens to those who can prove that they have asked.
func issuer(t *testing.T) (*httptest.Server, *Services) {
	t.Helper()
	challenge := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/authz":
			q := r.URL.Query()
			challenge = q.Get("code_challenge")
			if q.Get("client_id") != "me" || q.Get("code_challenge_method") != "S256" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			back := q.Get("redirect_uri") + "?" + url.Values{"code": {"the code"}, "state": {q.Get("state")}}.Encode()
			http.Redirect(w, r, strings.Replace(back, "localhost", "127.0.0.1", 1), http.StatusFound)
		case "/token":
			sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
			if r.FormValue("code") != "the code" || base64.RawURLEncoding.EncodeToString(sum[:]) != challenge {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(map[string]string{"access_token": "secret",
				"token_type": "bearer"}); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(s.Close)
	c := &cliconfig.Config{
		Hosts: map[svchost.Hostname]map[string]any{"example.com": {"login.v1": map[string]any{
			"client": "me", "authz": s.URL + "/authz", "token": s.URL + "/token", "ports": []any{20000, 40000},
		}}},
		CredentialsFile: filepath.Join(t.TempDir(), "dir", "credentials.tfrc.json"),
	}
	return s, New(Options{Config: c})
}

func TestALoginGetsATokenByABrowser(t *testing.T) {
	_, s := issuer(t)
	login, err := s.Login(t.Context(), "example.com", "state")
	ok(t, err)
	at, err := url.Parse(login.URL)
	ok(t, err)
	back := strings.Replace(at.Query().Get("redirect_uri"), "localhost", "127.0.0.1", 1)
	for _, wrong := range []string{"?code=x&state=wrong", "?state=state", ""} {
		resp, err := http.Get(back + wrong)
		ok(t, err)
		ok(t, resp.Body.Close())
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %s", wrong, resp.Status)
		}
	}
	resp, err := http.Get(login.URL)
	ok(t, err)
	ok(t, resp.Body.Close())
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the browser saw %s", resp.Status)
	}
	token, err := login.Token(t.Context())
	ok(t, err)
	if token != "secret" {
		t.Errorf("got %q", token)
	}
	ok(t, login.Close())
}

func TestTheHostDecidesAboutAToken(t *testing.T) {
	host, s := issuer(t)
	login, err := s.Login(t.Context(), "example.com", "state")
	ok(t, err)
	resp, err := http.Get(login.URL)
	ok(t, err)
	ok(t, resp.Body.Close())
	host.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	})
	if token, err := login.Token(t.Context()); err == nil {
		t.Errorf("got %q", token)
	}
	ok(t, login.Close())
	var missing *NoServiceError
	s = New(Options{Config: &cliconfig.Config{Hosts: map[svchost.Hostname]map[string]any{"example.com": {}}}})
	if _, err := s.Login(t.Context(), "example.com", "state"); !errors.As(err, &missing) {
		t.Errorf("got %v", err)
	}
}

func TestTokensAreKeptAndForgottenWithoutTouchingOthers(t *testing.T) {
	_, s := issuer(t)
	c := s.options.Config
	ok(t, os.MkdirAll(filepath.Dir(c.CredentialsFile), 0o700))
	ok(t, os.WriteFile(c.CredentialsFile,
		[]byte(`{"credentials":{"other.example.com":{"token":"x","n":12345678901234567890}},"more":[1]}`), 0o600))
	ok(t, s.Store(t.Context(), "Example.com", "secret"))
	if storage, err := s.Stored("example.com"); err != nil || storage != InFile {
		t.Errorf("kept in %v, %v", storage, err)
	}
	text, err := os.ReadFile(c.CredentialsFile)
	ok(t, err)
	for _, want := range []string{`"example.com": {`, `"token": "secret"`, "12345678901234567890", `"more"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the file lacks %s:\n%s", want, text)
		}
	}
	ok(t, s.Forget(t.Context(), "example.com"))
	if storage, err := s.Stored("example.com"); err != nil || storage != Nowhere {
		t.Errorf("kept in %v, %v", storage, err)
	}
	if storage, err := s.Stored("other.example.com"); err != nil || storage != InFile {
		t.Errorf("kept in %v, %v", storage, err)
	}
	ok(t, os.WriteFile(c.CredentialsFile, []byte(`{"credentials":[]}`), 0o600))
	if err := s.Store(t.Context(), "example.com", "secret"); err == nil {
		t.Error("a file of another form was written over")
	}
	c.Credentials = map[svchost.Hostname]cliconfig.Credentials{"example.com": {Token: "x", File: "rc"}}
	ok(t, os.Remove(c.CredentialsFile))
	if err := s.Store(t.Context(), "example.com", "secret"); err == nil || !strings.Contains(err.Error(), "rc") {
		t.Errorf("got %v", err)
	}
}

func TestAHelperKeepsTokens(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "helper")
	ok(t, os.WriteFile(program, []byte("#!/bin/sh\n{ echo \"$@\"; cat; echo; } >> "+dir+"/calls\n"), 0o755))
	s := New(Options{Config: &cliconfig.Config{Helper: &cliconfig.Helper{Name: "test", Program: program}}})
	ok(t, s.Store(t.Context(), "example.com", "secret"))
	ok(t, s.Forget(t.Context(), "example.com"))
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if want := "store example.com\n{\"token\":\"secret\"}\nforget example.com\n\n"; err != nil ||
		string(calls) != want {
		t.Errorf("called with %q, %v", calls, err)
	}
}
