package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/web"
	"github.com/millipede-iac/millipede/service/work"
)

// browser is a client with cookies, and a service with pages.
type browser struct {
	t *testing.T
	*servicetest.Harness
	server  *httptest.Server
	client  *http.Client
	engines web.Engines // set before the request that shows them
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	h := servicetest.New(t)
	mux := http.NewServeMux()
	b := &browser{t: t, Harness: h}
	handler := web.Handler(web.Options{Service: h.Service, Poll: 50 * time.Millisecond,
		Engines: func() web.Engines { return b.engines }})
	for _, path := range web.Paths {
		mux.Handle(path, handler)
	}
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	b.server = server
	b.client = b.person()
	return b
}

// person returns a browser without a session.
func (b *browser) person() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return &http.Client{Transport: b.server.Client().Transport, Jar: jar}
}

// get returns the status, the final address and the text of a page.
func (b *browser) get(path string) (int, string, string) {
	b.t.Helper()
	answer, err := b.client.Get(b.server.URL + path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, answer.Request.URL.RequestURI(), string(text)
}

var formField = regexp.MustCompile(`name="form" value="([^"]+)"`)

// post sends the form of a page.
func (b *browser) post(path string, values url.Values) (int, string, string) {
	b.t.Helper()
	if !values.Has("form") {
		_, _, text := b.get(path)
		if m := formField.FindStringSubmatch(text); m != nil {
			values.Set("form", m[1])
		}
	}
	answer, err := b.client.PostForm(b.server.URL+path, values)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, answer.Request.URL.RequestURI(), string(text)
}

// login logs in with a token as a password.
func (b *browser) login(name, password string) (int, string, string) {
	b.t.Helper()
	return b.post("/app/login", url.Values{"username": {name}, "password": {password}, "to": {"/app"}})
}

// plannedRun returns a run whose plan waits for approval.
func (b *browser) plannedRun(workspace string) (*record.Run, string) {
	b.t.Helper()
	w := b.NewWorkspace(workspace)
	r := b.NewRun(w, func(r *record.Run) { r.Message = "change the network" })
	b.Await(r.ID, record.Planned)
	return r, "/app/acme/" + workspace + "/runs/" + r.ID
}

func TestNoPageIsShownWithoutLoggingIn(t *testing.T) {
	b := newBrowser(t)
	_, run := b.plannedRun("network")
	for _, path := range []string{"/", "/app", "/app/acme", "/app/acme/network", run, "/app/acme/nosuch", "/app/x/y/z/a",
		"/app/settings/tokens"} {
		status, at, text := b.get(path)
		if status != http.StatusOK || !strings.HasPrefix(at, "/app/login") || strings.Contains(text, "network</h1>") {
			t.Errorf("%s: %d at %s", path, status, at)
		}
	}
	for _, path := range []string{"/app/settings/events/acme", run + "/events", run + "/log/plan?from=0",
		run + "/timeline/plan"} {
		request, err := http.NewRequest(http.MethodGet, b.server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Sec-Fetch-Mode", "cors")
		answer, err := b.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, answer.StatusCode)
		}
	}
}

func TestLoggingInAndOut(t *testing.T) {
	b := newBrowser(t)
	if status, _, text := b.login("root", "wrong"); status != http.StatusUnauthorized ||
		!strings.Contains(text, "Wrong user name or password") {
		t.Errorf("a wrong password: %d", status)
	}
	status, at, text := b.login("root", b.Token)
	if status != http.StatusOK || at != "/app/acme" || !strings.Contains(text, "Workspaces of acme") {
		t.Fatalf("%d at %s", status, at)
	}
	u, err := url.Parse(b.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	session := ""
	for _, c := range b.client.Jar.Cookies(u) {
		if c.Name == "__Host-millipede" {
			session = c.Value
		}
	}
	if session == "" || session == b.Token {
		t.Errorf("the session is %q, not a new token", session)
	}
	status, at, _ = b.post("/app/logout", url.Values{"form": {formField.FindStringSubmatch(text)[1]}})
	if status != http.StatusOK || at != "/app/login" {
		t.Errorf("logging out: %d at %s", status, at)
	}
	if _, err := b.Tokens.Authenticate(session, ""); err == nil {
		t.Error("the token of the session is valid after logging out")
	}
}

func TestNobodyIsLedElsewhereByLoggingIn(t *testing.T) {
	for _, to := range []string{"https://evil.example/", "//evil.example/app", "/app/../..//evil.example",
		`/app\evil.example`, "javascript:alert(1)", "/api/v2/ping", "/app/logout", "/apps@evil.example:x"} {
		b := newBrowser(t)
		_, at, _ := b.post("/app/login", url.Values{"username": {"root"}, "password": {b.Token}, "to": {to}})
		if !strings.HasPrefix(at, "/app") {
			t.Errorf("%s redirects to %s", to, at)
		}
	}
}

func TestCookiesAreForThisSiteAlone(t *testing.T) {
	b := newBrowser(t)
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, _, text := b.get("/app/login")
	answer, err := b.client.PostForm(b.server.URL+"/app/login", url.Values{
		"username": {"root"}, "password": {b.Token}, "form": {formField.FindStringSubmatch(text)[1]}})
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if len(answer.Cookies()) == 0 {
		t.Fatal("no cookies")
	}
	for _, c := range answer.Cookies() {
		if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" ||
			!strings.HasPrefix(c.Name, "__Host-") {
			t.Errorf("%+v", c)
		}
	}
	policy := answer.Header.Get("Content-Security-Policy")
	for _, bad := range []string{"unsafe", "http:", "https:", "*"} {
		if policy == "" || strings.Contains(policy, bad) {
			t.Errorf("the policy is %q", policy)
		}
	}
}

func TestAFormOfAnotherSiteIsRefused(t *testing.T) {
	b := newBrowser(t)
	r, run := b.plannedRun("network")
	b.login("root", b.Token)
	for fault, send := range map[string]func() int{
		"no token": func() int {
			status, _, _ := b.post(run, url.Values{"action": {"apply"}, "form": {""}})
			return status
		},
		"a token of another session": func() int {
			other := newBrowser(t)
			_, _, text := other.login("root", other.Token)
			status, _, _ := b.post(run, url.Values{"action": {"apply"},
				"form": {formField.FindStringSubmatch(text)[1]}})
			return status
		},
		"another origin": func() int {
			_, _, text := b.get(run)
			request, err := http.NewRequest(http.MethodPost, b.server.URL+run, strings.NewReader(url.Values{
				"action": {"apply"}, "form": {formField.FindStringSubmatch(text)[1]}}.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			request.Header.Set("Sec-Fetch-Site", "cross-site")
			answer, err := b.client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			return answer.StatusCode
		},
	} {
		if status := send(); status != http.StatusForbidden {
			t.Errorf("%s: %d", fault, status)
		}
	}
	if v, err := b.Runs.Find(b.Admin, r.ID); err != nil || v.Status != record.Planned {
		t.Errorf("the run is %v, %v", v, err)
	}
}

func TestARunIsConfirmedWithAComment(t *testing.T) {
	b := newBrowser(t)
	r, run := b.plannedRun("network")
	b.login("root", b.Token)
	if _, _, text := b.get("/app/acme"); !strings.Contains(text, "A plan waits for approval.") {
		t.Error("the overview does not say that the plan waits")
	}
	status, at, text := b.post(run, url.Values{"action": {"apply"}, "comment": {"good to go"}})
	if status != http.StatusOK || at != run || !strings.Contains(text, "You have confirmed the plan.") {
		t.Errorf("%d at %s", status, at)
	}
	b.Await(r.ID, record.Applied)
	_, _, text = b.get(run)
	for _, want := range []string{"good to go", "confirmed the plan", "Applied", "planning", "applying"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if strings.Contains(text, "You have confirmed") {
		t.Error("the page shows twice what was done")
	}
	if status, _, text := b.post(run, url.Values{"action": {"apply"}}); status != http.StatusConflict ||
		!strings.Contains(text, "is applied") {
		t.Errorf("again: %d", status)
	}
}

// A page must not bypass the permissions of its user.
func TestPagesShowAndDoWhatTheRightsAllow(t *testing.T) {
	b := newBrowser(t)
	_, run := b.plannedRun("network")
	u, err := b.Users.Create(b.Admin, "eve", "", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Users.SetPassword(b.Admin, u.ID, "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	team, err := b.Teams.Create(b.Admin, record.Team{Organization: "acme", Name: "others"})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Teams.ChangeMembers(b.Admin, team.ID, []string{"eve"}, false); err != nil {
		t.Fatal(err)
	}
	b.login("eve", "correct horse battery")
	for _, path := range []string{"/app/acme/network", run, run + "/log/plan?from=0", run + "/events",
		run + "/timeline/plan", "/app/other"} {
		if status, _, text := b.get(path); status != http.StatusNotFound || strings.Contains(text, "change the") {
			t.Errorf("%s: %d", path, status)
		}
	}
	if _, _, text := b.get("/app/acme"); strings.Contains(text, "network") {
		t.Error("the overview shows a workspace without permission")
	}
	w, err := b.Workspaces.Named(b.Admin, "acme", "network")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.TeamAccess.Create(b.Admin, record.Access{Team: team.ID, On: w.ID, Role: "read"}); err != nil {
		t.Fatal(err)
	}
	if _, _, text := b.get(run); !strings.Contains(text, "change the network") || strings.Contains(text, "Confirm") {
		t.Error("a reader does not see the run, or sees the button to confirm it")
	}
	if status, _, _ := b.post(run, url.Values{"action": {"apply"}}); status != http.StatusForbidden {
		t.Errorf("a reader confirms: %d", status)
	}
}

func TestAPageHearsOfWhatHappens(t *testing.T) {
	b := newBrowser(t)
	r, run := b.plannedRun("network")
	b.login("root", b.Token)
	_, _, text := b.get(run)
	address := regexp.MustCompile(`data-events="([^"]+)"`).FindStringSubmatch(text)[1]
	heard := func(address, last string) (kind, id string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.server.URL+address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if last != "" {
			request.Header.Set("Last-Event-ID", last)
		}
		answer, err := b.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if rest, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				kind = rest
			}
			if rest, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				return kind, rest
			}
		}
		return "", ""
	}
	if err := b.Runs.Confirm(b.Admin, r.ID, ""); err != nil {
		t.Fatal(err)
	}
	b.Await(r.ID, record.Applied)
	kind, id := heard(address, "")
	if kind != "changed" {
		t.Errorf("%s, %s", kind, id)
	}
	if _, err := b.Runs.Comment(b.Admin, r.ID, "so?"); err != nil {
		t.Fatal(err)
	}
	if kind, next := heard(address, id); kind != "changed" || next == id {
		t.Errorf("after a reconnect: %s, %s", kind, next)
	}
	if kind, _ := heard(address, "OTHERPROCESS.5"); kind != "reset" {
		t.Errorf("a cursor of another process: %s", kind)
	}
}

func TestALogIsReadInParts(t *testing.T) {
	b := newBrowser(t)
	var want strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&want, "line %d of a log that is longer than what is sent at once\n", i)
	}
	b.Engine.PlanFunc = servicetest.PlanThen(func(j *work.Job) { fmt.Fprint(j.Log, want.String()) })
	_, run := b.plannedRun("network")
	b.login("root", b.Token)
	_, _, text := b.get(run)
	from := regexp.MustCompile(`data-from="(\d+)" data-next="\d+" data-ended="true"`).FindStringSubmatch(text)[1]
	if len(text) > 200<<10 || !strings.Contains(text, "line 4999 of") {
		t.Errorf("the page has %d bytes of the log", len(text))
	}
	got := text[strings.Index(text, "line 4"):]
	for from != "0" {
		answer, err := b.client.Get(b.server.URL + run + "/log/plan?before=" + from)
		if err != nil {
			t.Fatal(err)
		}
		part, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.Header.Get("X-Next") != from {
			t.Fatalf("before %s: up to %s, %v", from, answer.Header.Get("X-Next"), err)
		}
		got, from = string(part)+got, answer.Header.Get("X-From")
	}
	if i := strings.Index(got, "line 0 of"); i < 0 || !strings.HasPrefix(got[i:], want.String()[:len(want.String())/2]) {
		t.Error("the parts of the log overlap or have gaps")
	}
	forward, next := "", "0"
	for range 100 {
		answer, err := b.client.Get(b.server.URL + run + "/log/plan?from=" + next)
		if err != nil {
			t.Fatal(err)
		}
		part, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		forward += string(part)
		if next = answer.Header.Get("X-Next"); answer.Header.Get("X-Ended") == "true" {
			break
		}
	}
	if !strings.Contains(forward, want.String()) || strings.ContainsAny(forward, "\x02\x03") {
		t.Error("the log that was read differs from the one that was written")
	}
}
