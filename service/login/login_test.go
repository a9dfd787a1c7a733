package login_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millipede-iac/millipede/service/login"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const verifier = "a-verifier-that-is-long-enough-for-everybody-involved"

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// request is the request of a command line to the browser.
func request() url.Values {
	return url.Values{
		"response_type": {"code"}, "client_id": {login.Client}, "redirect_uri": {"http://localhost:10003/login"},
		"state":          {"s"},
		"code_challenge": {challenge()}, "code_challenge_method": {"S256"},
	}
}

// loginTest is a service with a login page, and a client of it.
type loginTest struct {
	t       *testing.T
	server  *httptest.Server
	harness *servicetest.Harness
	now     time.Time
}

func newLoginTest(t *testing.T) *loginTest {
	t.Helper()
	d := &loginTest{t: t, harness: servicetest.New(t), now: time.Now()}
	d.server = httptest.NewServer(login.Handler(login.Options{Logins: d.harness.Logins,
		Now: func() time.Time { return d.now }, Logger: slog.New(slog.DiscardHandler)}))
	d.server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(d.server.Close)
	return d
}

func (d *loginTest) post(path string, form url.Values) *http.Response {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.server.URL+path,
		strings.NewReader(form.Encode()))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	reply, err := d.server.Client().Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = reply.Body.Close() })
	return reply
}

// code logs in, and returns the code that the browser brings back.
func (d *loginTest) code(username, password string) string {
	d.t.Helper()
	form := request()
	form.Set("username", username)
	form.Set("password", password)
	reply := d.post("/oauth/authorize", form)
	if reply.StatusCode != http.StatusSeeOther {
		return ""
	}
	to, err := reply.Location()
	if err != nil || to.Host != "localhost:10003" || to.Query().Get("state") != "s" {
		d.t.Errorf("the response redirects to %s, %v", to, err)
	}
	return to.Query().Get("code")
}

func (d *loginTest) exchange(code string, change func(url.Values)) (status int, token string) {
	d.t.Helper()
	form := url.Values{
		"grant_type": {"authorization_code"}, "client_id": {login.Client}, "code": {code},
		"redirect_uri":  {"http://localhost:10003/login"},
		"code_verifier": {verifier},
	}
	if change != nil {
		change(form)
	}
	reply := d.post("/oauth/token", form)
	var v struct {
		Token string `json:"access_token"`
		Type  string `json:"token_type"`
	}
	if err := json.NewDecoder(reply.Body).Decode(&v); err != nil {
		d.t.Fatal(err)
	}
	return reply.StatusCode, v.Token
}

func TestSomebodyWhoLogsInGetsAToken(t *testing.T) {
	d := newLoginTest(t)
	me := d.harness.Admin.User.ID
	if err := d.harness.Users.SetPassword(d.harness.Admin, me, "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"correct horse battery", d.harness.Token} {
		code := d.code("root", password)
		status, token := d.exchange(code, nil)
		if status != 200 {
			t.Fatalf("%d", status)
		}
		if a := d.harness.Actor(token); a.User.ID != me || a.Token.Expires.IsZero() {
			t.Errorf("%+v", a.Token)
		}
		if status, _ := d.exchange(code, nil); status != 400 {
			t.Errorf("using a code twice: %d", status)
		}
	}
}

// The audit log had the logins of command lines without the address that they came from.
func TestTheAuditLogSaysFromWhereACommandLineLoggedIn(t *testing.T) {
	d := newLoginTest(t)
	if status, _ := d.exchange(d.code("root", d.harness.Token), nil); status != http.StatusOK {
		t.Fatal(status)
	}
	all, err := d.harness.Audit.Latest(d.harness.Admin, 10)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(all, func(e record.Audit) bool { return e.Action == "login" }); i < 0 ||
		all[i].From != "127.0.0.1" {
		t.Errorf("%+v", all)
	}
}

func TestNobodyElseGetsOne(t *testing.T) {
	d := newLoginTest(t)
	for what, try := range map[string][2]string{
		"a wrong password": {"root", "nosuch"}, "nobody": {"nobody", "x"}, "nothing": {"", ""},
	} {
		if code := d.code(try[0], try[1]); code != "" {
			t.Errorf("%s got a code", what)
		}
	}
	for what, change := range map[string]func(url.Values){
		"another proof":   func(f url.Values) { f.Set("code_verifier", "other") },
		"another client":  func(f url.Values) { f.Set("client_id", "other") },
		"another address": func(f url.Values) { f.Set("redirect_uri", "http://localhost:10004/login") },
		"another code":    func(f url.Values) { f.Set("code", "other") },
		"later":           func(url.Values) { d.now = d.now.Add(2 * time.Minute) },
	} {
		code := d.code("root", d.harness.Token)
		if status, token := d.exchange(code, change); status != 400 || token != "" {
			t.Errorf("%s: %d", what, status)
		}
	}
}

// A browser may only be redirected to the command line on its own machine.
func TestABrowserIsSentNowhereElse(t *testing.T) {
	d := newLoginTest(t)
	for _, to := range []string{
		"https://evil.example/login", "http://evil.example:10003/login", "http://localhost:80/login",
		"http://localhost:10003/other",
		"http://localhost:10003/login?x=y", "http://localhost@evil.example:10003/login", "javascript:alert(1)", "",
	} {
		form := request()
		form.Set("redirect_uri", to)
		form.Set("username", "root")
		form.Set("password", d.harness.Token)
		if reply := d.post("/oauth/authorize", form); reply.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %d", to, reply.StatusCode)
		}
	}
}

func TestGuessingIsSlow(t *testing.T) {
	d := newLoginTest(t)
	form := request()
	form.Set("username", "nobody")
	for i := range 30 {
		reply := d.post("/oauth/authorize", form)
		if reply.StatusCode == http.StatusTooManyRequests {
			return
		}
		if i > 15 {
			t.Fatalf("attempt %d: %d", i, reply.StatusCode)
		}
	}
}

// The proof key (PKCE) protects against somebody who has seen the code. A request without it, or with a weaker one,
// must not succeed.
func TestAProofKeyCannotBeLeftOut(t *testing.T) {
	d := newLoginTest(t)
	for what, change := range map[string]func(url.Values){
		"no method": func(f url.Values) { f.Del("code_challenge_method") },
		"the plain method": func(f url.Values) {
			f.Set("code_challenge_method", "plain")
			f.Set("code_challenge", verifier)
		},
		"no challenge":      func(f url.Values) { f.Del("code_challenge") },
		"a short challenge": func(f url.Values) { f.Set("code_challenge", "x") },
		"another response":  func(f url.Values) { f.Set("response_type", "token") },
	} {
		form := request()
		form.Set("username", "root")
		form.Set("password", d.harness.Token)
		change(form)
		if reply := d.post("/oauth/authorize", form); reply.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", what, reply.StatusCode)
		}
	}
	for what, change := range map[string]func(url.Values){
		"no proof":           func(f url.Values) { f.Del("code_verifier") },
		"the challenge":      func(f url.Values) { f.Set("code_verifier", challenge()) },
		"a proof in advance": func(f url.Values) { f["code_verifier"] = []string{"other", verifier} },
		"another grant":      func(f url.Values) { f.Set("grant_type", "password") },
	} {
		if status, token := d.exchange(d.code("root", d.harness.Token), change); status != 400 || token != "" {
			t.Errorf("%s: %d", what, status)
		}
	}
}

func TestACodeIsGoodOnceHoweverManyAskAtOnce(t *testing.T) {
	d := newLoginTest(t)
	code := d.code("root", d.harness.Token)
	tokens := make(chan string, 20)
	var all sync.WaitGroup
	for range cap(tokens) {
		all.Go(func() {
			form := url.Values{"grant_type": {"authorization_code"}, "client_id": {login.Client}, "code": {code},
				"redirect_uri": {"http://localhost:10003/login"}, "code_verifier": {verifier}}
			reply, err := d.server.Client().PostForm(d.server.URL+"/oauth/token", form)
			if err != nil {
				t.Error(err)
				return
			}
			defer reply.Body.Close()
			var v struct {
				Token string `json:"access_token"`
			}
			if err := json.NewDecoder(reply.Body).Decode(&v); err != nil {
				t.Error(err)
			}
			if v.Token != "" {
				tokens <- v.Token
			}
		})
	}
	all.Wait()
	if len(tokens) != 1 {
		t.Errorf("%d tokens for one code", len(tokens))
	}
}

// A page of another site could make the browser send the form, and inject headers into the response.
func TestTheFormIsSentFromItsOwnPageAlone(t *testing.T) {
	d := newLoginTest(t)
	form := request()
	form.Set("username", "root")
	form.Set("password", d.harness.Token)
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.server.URL+"/oauth/authorize",
			strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set(header, value)
		reply, err := d.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if reply.Body.Close() != nil || reply.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", header, reply.StatusCode)
		}
	}
	form.Set("state", "s\r\nSet-Cookie: a=b")
	reply := d.post("/oauth/authorize", form)
	if to, err := reply.Location(); err != nil || to.Query().Get("state") != "s\r\nSet-Cookie: a=b" ||
		reply.Header.Get("Set-Cookie") != "" {
		t.Errorf("%v, %v, %v", reply.Header, to, err)
	}
}
