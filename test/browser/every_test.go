//go:build unix

package browser

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/notifications"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/variables"
	"github.com/millipede-iac/millipede/service/work"
)

// script must never be executed, wherever it comes from.
const script = `"><img src=x onerror="window.ran=1"><script>window.ran=1</script>{{7*7}}`

// full is a service with content on every page. All texts try to be scripts, and some values are sensitive. It returns
// the addresses of the pages.
func full(s *Site) (paths []string, run *record.Run) {
	s.t.Helper()
	e := newEstate(s)
	e.objects = network()
	e.log = "a line of the log " + script
	e.worker = "worker " + script
	e.objects[2].name = script
	e.objects[2].attributes["text"] = script
	e.objects[3].fails = "it failed: " + script
	close(e.steps)
	w := s.NewWorkspace("network")
	s.Capacity.All = []service.Worker{{Name: e.worker, Pool: "default", Slots: 4, Running: 1, Trouble: script}}
	s.Capacity.Has = []service.Limit{
		{Name: "default", Slots: 10, Held: []service.Permit{{Run: script, Since: time.Now()}}},
		{Name: "quota", Slots: 2}, {Name: "pool/default", Slots: 4, Sized: true}}
	description, value, secret, sensitive := script, script, "canary-of-variable", true
	key, hidden := "shown", "hidden"
	if _, err := s.Workspaces.Change(s.Admin, w.ID, service.WorkspaceSettings{Description: &description}); err != nil {
		s.t.Fatal(err)
	}
	for _, v := range []variables.Settings{{Key: &key, Value: &value, Description: &description},
		{Key: &hidden, Value: &secret, Sensitive: &sensitive}} {
		if _, err := s.Variables.Put(s.Admin, w.ID, "", v); err != nil {
			s.t.Fatal(err)
		}
	}
	var runs []*record.Run
	for _, then := range []record.RunStatus{record.Errored, record.Errored} {
		run = s.NewRun(w, func(r *record.Run) { r.Message, r.AutoApply = "change "+script, true })
		for v := (*service.RunView)(nil); v == nil || v.Status != then; {
			var err error
			if v, err = s.Runs.Find(s.Admin, run.ID); err != nil {
				s.t.Fatal(err)
			}
			if v.Status.Final() && v.Status != then {
				s.t.Fatalf("the run is %s", v.Status)
			}
			if v.Status != then {
				changed, err := s.Stream().Read(s.t.Context(), s.Stream().Now(), nil)
				if err != nil || changed.Closed {
					s.t.Fatal(err)
				}
			}
		}
		runs = append(runs, run)
	}
	if _, err := s.Runs.Comment(s.Admin, run.ID, script); err != nil {
		s.t.Fatal(err)
	}
	versions, err := s.States.List(s.Admin, w.ID)
	if err != nil || len(versions) != 2 {
		s.t.Fatal(versions, err)
	}
	s.drifts(w.ID, errors.New("away: "+script), work.Found{Address: "fleet_network.main",
		Attributes: []string{"cidr", script}})
	s.named(w)
	space := "/app/acme/network"
	return []string{"/app/acme", space, space + "/state", space + "/state/" + versions[0].ID + "/2", space + "/versions",
		space + "/difference?from=" + versions[1].ID + "&to=" + versions[0].ID, space + "/variables", space + "/settings",
		space + "/runs/" + runs[1].ID, space + "/runs/" + runs[1].ID + "/changes/2",
		space + "/runs/" + runs[1].ID + "/timeline/apply", space + "/runs/" + runs[1].ID + "/log/apply?from=0",
		"/app/settings/workers", "/app/settings/doubts", "/app/settings/tokens", "/app/settings/users",
		"/app/settings/audit"}, runs[1]
}

// named adds to a workspace what has a name that tries to be a script: a set of variables, a receiver of notifications
// that has refused one, a token, and a team, which locks the workspace and appears in the audit log.
func (s *Site) named(w *service.WorkspaceView) {
	s.t.Helper()
	key, value := "shared", script
	set, err := s.VariableSets.Create(s.Admin, record.VariableSet{Organization: "acme", Name: script,
		Workspaces: []string{w.ID}})
	if err == nil {
		_, err = s.Variables.Put(s.Admin, set.ID, "", variables.Settings{Key: &key, Value: &value})
	}
	var n *record.Notification
	if err == nil {
		n, err = s.Notifications.Create(s.Admin, record.Notification{Workspace: w.ID, Name: script, Destination: "generic",
			URL: "https://example.com/canary?q=" + url.QueryEscape(script), Token: "canary-token", Enabled: true,
			Triggers: []string{"run:created"}})
	}
	if err == nil {
		o := notifications.Outgoing{}
		o.Configuration.ID = n.ID
		err = s.Notifications.Delivered(o, record.Response{SentAt: time.Now(), Code: 500, Body: script}, time.Time{})
	}
	if err == nil {
		_, _, err = s.Tokens.Create(s.Admin, record.TokenUser, s.Admin.User.ID, script, time.Time{})
	}
	var team *record.Team
	if err == nil {
		if _, err := s.Teams.Create(s.Admin, record.Team{Organization: "acme", Name: script}); !errors.Is(err,
			tables.ErrInvalid) {
			s.t.Fatalf("a team has a script as its name: %v", err)
		}
		team, err = s.Teams.Create(s.Admin, record.Team{Organization: "acme", Name: "devs"})
	}
	if err == nil {
		_, err = s.TeamAccess.Create(s.Admin, record.Access{Team: team.ID, On: w.ID, Role: "admin"})
	}
	var token string
	if err == nil {
		token, _, err = s.Tokens.Create(s.Admin, record.TokenTeam, team.ID, script, time.Time{})
	}
	var member *rights.Actor
	if err == nil {
		member, err = s.Tokens.Authenticate(token, script)
	}
	if err == nil {
		_, err = s.Workspaces.Lock(member, w.ID, script)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// drifts starts watching a workspace, and returns when drift of its objects was found. failure is the error of other
// reads; nil for none.
func (s *Site) drifts(workspace string, failure error, found ...work.Found) {
	s.t.Helper()
	s.Engine.Mu.Lock()
	s.Engine.WatchFunc = func(context.Context, *work.Job, []string, int) ([]work.Found, error) {
		return found, failure
	}
	s.Engine.Mu.Unlock()
	period := time.Hour
	if _, err := s.Workspaces.Change(s.Admin, workspace, service.WorkspaceSettings{DriftPeriod: &period}); err != nil {
		s.t.Fatal(err)
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for until := time.Now().Add(30 * time.Second); ; <-again.C {
		v, err := s.Drift.Watched(s.Admin, workspace)
		if err != nil || time.Now().After(until) {
			s.t.Fatalf("nothing has drifted: %+v, %v", v, err)
		}
		if len(v.Drifted) == len(found) {
			return
		}
	}
}

func TestDriftIsSeenAndPlannedWithOneClick(t *testing.T) {
	s := Open(t)
	e := newEstate(s)
	e.objects = network()
	close(e.steps)
	w := s.NewWorkspace("network")
	run := s.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	s.Await(run.ID, record.Applied)
	s.drifts(w.ID, nil, work.Found{Address: "fleet_network.main", Attributes: []string{"cidr"}},
		work.Found{Address: "module.zone[0].fleet_subnet.a", Gone: true})
	s.login()
	s.open("/app/acme")
	s.shows("2 drifted")
	s.open("/app/acme/network")
	s.do(chromedp.Click(`a.drift`, chromedp.ByQuery))
	s.shows("differs from the state: cidr")
	s.shows("no longer exists")
	s.screenshot("drift", 1100, 900)
	s.do(chromedp.Click(`#drift button`, chromedp.ByQuery))
	s.shows("The plan was created. Applying it changes only the state.")
	all, err := s.Runs.List(s.Admin, w.ID, 1)
	if err != nil || len(all) != 1 || !all[0].RefreshOnly {
		t.Errorf("the newest run is %+v, %v", all, err)
	}
}

// page reports whether an address is a page, and not data for one.
func page(path string) bool {
	return !strings.Contains(path, "/timeline/") && !strings.Contains(path, "/log/")
}

func TestNoTextIsTakenForAScriptAndNoSecretIsShown(t *testing.T) {
	s := Open(t)
	paths, _ := full(s)
	s.login()
	for _, path := range paths {
		if page(path) {
			s.open(path)
			s.do(chromedp.Evaluate(`for (const d of document.querySelectorAll("details")) d.open = true`, nil))
			if strings.Contains(path, "/runs/") && !strings.Contains(path, "/changes/") {
				s.until("the picture is not drawn", `document.querySelector(".picture-summary")?.innerText.includes("failed")`)
				s.do(chromedp.Focus(`.picture input[type=search]`, chromedp.ByQuery), chromedp.KeyEvent("onerror\r"))
			}
			s.until("what is closed was not fetched", `!document.querySelector("details[data-fetch]")`)
			if value[bool](s, `"ran" in window || document.querySelector("main img") !== null`) {
				t.Errorf("%s: a text became a script or an element", path)
			}
			if html := value[string](s, `document.documentElement.outerHTML`); strings.Contains(html, "canary") {
				t.Errorf("%s: a secret is shown", path)
			}
		}
		text := value[string](s, `fetch(`+quoted(path)+`).then((answer) => answer.text())`)
		if strings.Contains(text, "canary") {
			t.Errorf("%s: a secret is sent", path)
		}
	}
}

func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// axe returns the checker of accessibility.
func axe(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("node_modules", "axe-core", "axe.min.js"))
	if errors.Is(err, os.ErrNotExist) && os.Getenv("MILLIPEDE_REQUIRE_AXE") == "" {
		t.Skip("axe-core is not installed (npm ci --prefix test/browser)")
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPagesCanBeUsedByEverybody(t *testing.T) {
	checker := axe(t)
	s := Open(t)
	paths, _ := full(s)
	check := func(where string) {
		t.Helper()
		s.do(chromedp.Evaluate(checker+";0", nil))
		problems := value[[]string](s, `axe.run(document, {resultTypes: ["violations"]}).then((found) =>
			found.violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) =>
				v.id + ": " + v.help + " " + v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary).join(" ")))`)
		for _, p := range problems {
			t.Errorf("%s: %s", where, p)
		}
	}
	s.open("/app/login")
	check("log in")
	s.screenshot("login", 700, 420)
	s.login()
	for _, scheme := range []string{"light", "dark"} {
		s.scheme(scheme)
		for _, path := range paths {
			if !page(path) {
				continue
			}
			s.open(path)
			if strings.Contains(path, "/runs/") && !strings.Contains(path, "/changes/") {
				s.until("the picture is not drawn", `document.querySelector(".picture-summary")?.innerText.includes("failed")`)
			}
			check(scheme + " " + path)
		}
	}
}

func TestEveryPageFitsAPhone(t *testing.T) {
	s := Open(t)
	paths, _ := full(s)
	s.login()
	s.do(chromedp.EmulateViewport(390, 800))
	for _, path := range paths {
		if !page(path) {
			continue
		}
		s.open(path)
		if wide := value[int](s, `document.documentElement.scrollWidth`); wide > 392 {
			t.Errorf("%s is %d pixels wide on a screen of 390", path, wide)
		}
	}
}

func TestTheRestIsShownAndChanged(t *testing.T) {
	s := Open(t)
	e := newEstate(s)
	e.objects = network()
	s.Capacity.All = []service.Worker{
		{Name: "worker-1", Pool: "default", Host: "build-7", Slots: 8, Running: 3, Version: "0.1.0"},
		{Name: "worker-2", Pool: "eu", Host: "eu-1", Slots: 4, Running: 4, Version: "0.1.0"},
		{Name: "worker-3", Pool: "eu", Host: "eu-2", Slots: 4, Running: 2, Version: "0.1.0", Quiet: 4 * time.Minute,
			Silent: true}}
	w := s.NewWorkspace("network")
	run := s.NewRun(w, func(r *record.Run) { r.Message, r.AutoApply = "four zones", true })
	s.Capacity.Has = []service.Limit{{Name: "aws-quota", Slots: 2, Held: []service.Permit{
		{Run: "engine-" + run.ID, Since: time.Now()}, {Run: "other", Since: time.Now().Add(-time.Hour)}},
		Waiting: []service.Permit{{Run: "engine-" + run.ID, Since: time.Now()}}}}
	s.Await(run.ID, record.Applying)
	s.login()
	s.open("/app/settings/workers")
	s.shows("network: four zones")
	s.screenshot("workers", 1100, 700)
	s.do(chromedp.SetValue(`input[name=slots]`, "5", chromedp.ByQuery), chromedp.Click(`.limit button`, chromedp.ByQuery))
	s.shows("The limit aws-quota now has 5 permits.")
	s.open("/app/acme/network/settings")
	close(e.steps)
	s.Await(run.ID, record.Applied)
	s.shows("Not locked.")
	s.do(chromedp.SendKeys(`#reason`, "moving house\r", chromedp.ByQuery))
	s.shows("You have locked the workspace.")
	s.screenshot("settings", 1100, 800)
	s.do(chromedp.Click(`#lock button`, chromedp.ByQuery))
	s.shows("You have unlocked the workspace.")
	s.open("/app/acme/network/variables")
	s.do(chromedp.SendKeys(`#key`, "size", chromedp.ByQuery), chromedp.SendKeys(`#value`, "3", chromedp.ByQuery),
		chromedp.Click(`//button[text()="Add"]`, chromedp.BySearch))
	s.shows("The variable was saved.")
	s.screenshot("variables", 1100, 700)
	s.open("/app/settings/tokens")
	s.do(chromedp.SendKeys(`#description`, "pipeline\r", chromedp.ByQuery))
	s.shows("It is shown only once")
	made := value[string](s, `document.getElementById("made").value`)
	if _, err := s.Tokens.Authenticate(made, ""); err != nil {
		t.Errorf("the token %q is not good: %v", made, err)
	}
	s.open("/app/settings/tokens")
	if html := value[string](s, `document.documentElement.outerHTML`); strings.Contains(html, made) {
		t.Error("the token is shown twice")
	}
	s.screenshot("tokens", 1100, 420)
	s.open("/app/settings/users")
	s.do(chromedp.SendKeys("#name", "ann", chromedp.ByQuery),
		chromedp.SendKeys("#email", "ann@example.org\r", chromedp.ByQuery))
	s.shows("A token for ann")
	s.open("/app/settings/users") // without the token
	s.shows("ann@example.org")
	s.screenshot("users", 1100, 460)
	s.open("/app/settings/audit")
	s.shows("token.create")
	s.screenshot("audit", 1100, 600)
	s.open("/app/settings/doubts")
	s.shows("No operation is in doubt.")
}

// The stream of a page breaks when the service ends. The page says so, and continues when the service is available
// again.
func TestAPageGoesOnAfterTheConnectionWasLost(t *testing.T) {
	s := Open(t)
	e := newEstate(s)
	e.objects = network()
	w := s.NewWorkspace("network")
	run := s.NewRun(w, nil)
	s.Await(run.ID, record.Planned)
	s.login()
	s.open("/app/acme/network/runs/" + run.ID)
	s.until("the picture is not asked for", `performance.getEntriesByType("resource").some((r) =>
		r.name.includes("/timeline/"))`)
	s.cut.Store(true)
	s.server.CloseClientConnections()
	s.shows("The connection to the service is lost.")
	if _, err := s.Runs.Comment(s.Admin, run.ID, "said meanwhile"); err != nil {
		t.Fatal(err)
	}
	s.cut.Store(false)
	s.shows("said meanwhile")
	s.until("the page still says that the connection is lost", `document.getElementById("trouble").hidden`)
	s.forgive("Failed to load resource")
}
