package services

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opentofu/svchost"

	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/test/stage/registry"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T) *registry.Registry {
	t.Helper()
	r, err := registry.New()
	ok(t, err)
	t.Cleanup(r.Close)
	return r
}

func reach(r *registry.Registry, c *cliconfig.Config) *Services {
	return New(Options{Config: c, Version: "1.12.6", Transport: r.Transport(), Wait: time.Millisecond})
}

func TestAHostSaysOnceWhereItsServicesAre(t *testing.T) {
	r := start(t)
	s := reach(r, &cliconfig.Config{})
	for range 2 {
		u, err := s.Find(t.Context(), r.Host(), Providers)
		ok(t, err)
		if u.String() != r.URL("/v1/providers/") {
			t.Errorf("found %s", u)
		}
	}
	if asked := r.Requests(); len(asked) != 1 {
		t.Errorf("asked for %q", asked)
	}
	var missing *NoServiceError
	if _, err := s.Find(t.Context(), r.Host(), "login.v1"); !errors.As(err, &missing) || missing.OtherVersion {
		t.Errorf("got %v", err)
	}
	if _, err := s.Find(t.Context(), r.Host(), "providers.v2"); !errors.As(err, &missing) || !missing.OtherVersion {
		t.Errorf("got %v", err)
	}
	if _, err := s.Find(t.Context(), "no host!", Providers); err == nil {
		t.Error("it is no host")
	}
}

// Each command made a transport, for requests that few commands send, and parsed the certificate authorities of
// SSL_CERT_FILE for it: with those of a distribution this was a sixth of the time of "version".
func TestCertificateAuthoritiesAreReadForTheFirstRequest(t *testing.T) {
	r := start(t)
	file := filepath.Join(t.TempDir(), "authorities.pem")
	ok(t, r.WriteCertificate(file))
	read := 0
	s := New(Options{Config: &cliconfig.Config{}, Environment: cloud.Environment{Env: func(name string) string {
		if name != "SSL_CERT_FILE" {
			return ""
		}
		read++
		return file
	}}})
	if read != 0 {
		t.Errorf("SSL_CERT_FILE was read %d times before any request", read)
	}
	u, err := s.Find(t.Context(), r.Host(), Providers)
	ok(t, err)
	if _, err := s.Get(t.Context(), u, ""); err != nil { //nolint:bodyclose // there is no answer
		t.Log(err) // nothing is there, but a second request was sent
	}
	if asked := r.Requests(); read != 1 || len(asked) < 2 {
		t.Errorf("SSL_CERT_FILE was read %d times for the requests %q", read, asked)
	}
}

func TestTheCLIConfigurationTakesThePlaceOfDiscovery(t *testing.T) {
	r := start(t)
	s := reach(r, &cliconfig.Config{Hosts: map[svchost.Hostname]map[string]any{
		"example.com": {Modules: "https://example.org/m"}}})
	u, err := s.Find(t.Context(), "example.com", Modules)
	ok(t, err)
	if u.String() != "https://example.org/m/" || len(r.Requests()) != 0 {
		t.Errorf("found %s", u)
	}
}

// authorization returns the credentials that a request to a registry has for a host.
func authorization(t *testing.T, c *cliconfig.Config, host string) string {
	t.Helper()
	r := start(t)
	got := ""
	r.Misbehave("/x", -1, func(_ http.ResponseWriter, req *http.Request) { got = req.Header.Get("Authorization") })
	u, err := url.Parse(r.URL("/x"))
	ok(t, err)
	s := reach(r, c)
	resp, err := s.Get(t.Context(), u, host)
	ok(t, err)
	ok(t, resp.Body.Close())
	if has := s.HasCredentials(t.Context(), host); has != (got != "") {
		t.Errorf("it is said to have credentials: %v", has)
	}
	return got
}

func TestVariablesComeBeforeFilesAndFilesBeforeTheHelper(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "terraform-credentials-test")
	script := "#!/bin/sh\necho \"$@\" >> " + dir + "/calls\n[ \"$3\" = none.example.com ] && { echo '{}'; exit; " +
		"}\necho '{\"token\":\"from the helper\"}'\n"
	ok(t, os.WriteFile(program, []byte(script), 0o755))
	c := &cliconfig.Config{
		EnvironmentTokens: map[svchost.Hostname]string{"a.example.com": "from the environment"},
		Credentials: map[svchost.Hostname]cliconfig.Credentials{"a.example.com": {Token: "from a file"},
			"b.example.com": {Token: "from a file"}},
		Helper: &cliconfig.Helper{Name: "test", Args: []string{"--flag"}, Program: program},
	}
	for host, want := range map[string]string{
		"a.example.com": "Bearer from the environment", "b.example.com": "Bearer from a file",
		"c.example.com": "Bearer from the helper", "none.example.com": "", "": "",
	} {
		if got := authorization(t, c, host); got != want {
			t.Errorf("%s: %q", host, got)
		}
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil || !strings.Contains(string(calls), "--flag get c.example.com\n") ||
		strings.Contains(string(calls), "b.example.com") {
		t.Errorf("the helper was called: %q, %v", calls, err)
	}
}

func TestAHelperThatFailsSaysWhy(t *testing.T) {
	program := filepath.Join(t.TempDir(), "helper")
	ok(t, os.WriteFile(program, []byte("#!/bin/sh\necho no wallet >&2\nexit 1\n"), 0o755))
	r := start(t)
	s := reach(r, &cliconfig.Config{Helper: &cliconfig.Helper{Name: "test", Program: program}})
	u, err := url.Parse(r.URL("/x"))
	ok(t, err)
	if _, err := s.Get(t.Context(), u, "example.com"); err == nil || !strings.Contains(err.Error(), "no wallet") { //nolint:bodyclose // there is no answer
		t.Errorf("got %v", err)
	}
}

// A registry that sends its clients elsewhere does not send the token along.
func TestARedirectToAnotherHostGetsNoToken(t *testing.T) {
	r, other := start(t), start(t)
	got := "nothing was asked for"
	other.Misbehave("/there", -1,
		func(_ http.ResponseWriter, req *http.Request) { got = req.Header.Get("Authorization") })
	elsewhere := strings.Replace(other.URL("/there"), "127.0.0.1", "localhost", 1)
	r.Misbehave("/here", -1, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, elsewhere,
			http.StatusFound)
	})
	transport := r.Transport().(*http.Transport).Clone()
	transport.TLSClientConfig.InsecureSkipVerify = true // the certificate is not for this name
	s := New(Options{Config: &cliconfig.Config{EnvironmentTokens: map[svchost.Hostname]string{"example.com": "secret"}},
		Transport: transport})
	u, err := url.Parse(r.URL("/here"))
	ok(t, err)
	resp, err := s.Get(t.Context(), u, "example.com")
	ok(t, err)
	ok(t, resp.Body.Close())
	if got != "" {
		t.Errorf("the other host saw %q", got)
	}
}

func TestARequestEndsAtItsTime(t *testing.T) {
	r := start(t)
	r.Misbehave("/slow", -1, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	u, err := url.Parse(r.URL("/slow"))
	ok(t, err)
	s := reach(r, &cliconfig.Config{Timeout: 50 * time.Millisecond, Retries: 1})
	if _, err := s.Get(t.Context(), u, ""); err == nil { //nolint:bodyclose // there is no answer
		t.Error("it answered")
	}
}
