package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
)

// Only the settings of a workspace showed who has drained it; the service and pools could be drained only with the API.
func TestHaltsAreShownWhereTheyMatterAndMadeAndLiftedByWhoMay(t *testing.T) {
	b := newBrowser(t)
	b.login("root", b.Token)
	w := b.NewWorkspace("network")
	b.Capacity.All = []service.Worker{{Name: "w1", Pool: "eu", Slots: 4}}
	const workers, overview, space = "/app/settings/workers", "/app/acme", "/app/acme/network"
	shows := func(path, what string, want bool) {
		t.Helper()
		_, _, text := b.get(path)
		if strings.Contains(text, what) != want {
			t.Errorf("%s shows %q: %t", path, what, !want)
		}
	}
	act := func(path string, values url.Values) {
		t.Helper()
		if status, _, text := b.post(path, values); status != http.StatusOK {
			t.Fatalf("%v: %d, %s", values, status, text)
		}
	}
	act(workers, url.Values{"action": {"drain-pool"}, "pool": {"eu"}, "why": {"a <new> network"}})
	for _, path := range []string{workers, overview} {
		shows(path, "The pool", true)
		shows(path, "is drained by root", true)
		shows(path, "a &lt;new&gt; network", true)
	}
	shows(workers, `value="lift-pool"`, true)
	act(workers, url.Values{"action": {"lift-pool"}, "pool": {"eu"}})
	shows(overview, "is drained by", false)

	act(workers, url.Values{"action": {"stop"}, "why": {"wrong keys"}})
	for _, path := range []string{workers, overview, space} {
		shows(path, "The service was stopped by root", true)
		shows(path, "wrong keys", true)
	}
	act(workers, url.Values{"action": {"lift"}})
	shows(space, "was stopped by", false)

	act(space+"/settings", url.Values{"action": {"drain"}, "why": {"it moves"}})
	shows(space, "The workspace is drained by root", true)
	shows(space, "it moves", true)
	shows(space, space+"/settings#halt", true)
	shows(overview, "drained by root", true)
	if h, err := b.Halts.Find(b.Admin, w.ID); err != nil || h == nil || h.Emergency {
		t.Errorf("%+v, %v", h, err)
	}

	u, err := b.Users.Create(b.Admin, "eve", "", false)
	if err != nil {
		t.Fatal(err)
	}
	token, err := b.Logins.IssueSession(u.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	b.client = b.person()
	b.login("eve", token)
	shows(workers, "w1", true)
	for _, button := range []string{`value="drain"`, `value="stop"`, `value="drain-pool"`} {
		shows(workers, button, false)
	}
	if status, _, _ := b.post(workers, url.Values{"action": {"drain-pool"}, "pool": {"eu"}, "why": {"no"}}); status !=
		http.StatusForbidden {
		t.Errorf("somebody without permission drains a pool: %d", status)
	}
}

// The pages had no form for the retention of a workspace.
func TestTheRetentionOfAWorkspaceIsSetOnItsPage(t *testing.T) {
	b := newBrowser(t)
	b.login("root", b.Token)
	w := b.NewWorkspace("network")
	const page = "/app/acme/network/settings"
	save := func(values url.Values) (int, string) {
		for name, value := range map[string]string{"action": "save", "mode": "remote", "period": "0"} {
			values.Set(name, value)
		}
		status, _, text := b.post(page, values)
		return status, text
	}
	status, text := save(url.Values{"retention": {"own"}, "keep-runs": {"7"}, "keep-states": {""}, "keep-for": {"48h"}})
	if status != http.StatusOK || !strings.Contains(text, `name="keep-runs" type="number" min="0" value="7"`) ||
		!strings.Contains(text, `name="keep-for" value="48h"`) {
		t.Errorf("%d, %s", status, text)
	}
	v, err := b.Workspaces.OverviewOf(b.Admin, w.ID)
	if err != nil || v.Retention == nil || v.Retention.Runs != 7 || v.Retention.States != 0 {
		t.Errorf("%+v, %v", v.Retention, err)
	}
	if status, _ := save(url.Values{"retention": {"own"}, "keep-runs": {"-7"}}); status != http.StatusUnprocessableEntity {
		t.Errorf("a negative number: %d", status)
	}
	if status, text := save(url.Values{"retention": {""}, "keep-runs": {"7"}}); status != http.StatusOK ||
		!strings.Contains(text, `name="keep-runs" type="number" min="0" value="0"`) {
		t.Errorf("%d, %s", status, text)
	}
}

// A bound could only be set by the API.
func TestTheBoundsOfAWorkspaceAreSetOnItsPage(t *testing.T) {
	b := newBrowser(t)
	b.login("root", b.Token)
	w := b.NewWorkspace("network")
	const page = "/app/acme/network/settings"
	status, _, text := b.post(page, url.Values{"action": {"bound"}, "plan-time": {"45m"}, "plan-size": {"32"},
		"plan-memory": {""}})
	if status != http.StatusOK || !strings.Contains(text, `name="plan-time" value="45m"`) ||
		!strings.Contains(text, `name="plan-size" type="number" min="0" value="32"`) {
		t.Errorf("%d, %s", status, text)
	}
	own, _, err := b.Workspaces.Bounds(b.Admin, w.ID)
	if err != nil || own.PlanTime != 45*time.Minute || own.PlanSize != 32 {
		t.Errorf("%+v, %v", own, err)
	}
	if status, _, _ := b.post(page, url.Values{"action": {"bound"}, "plan-size": {"much"}}); status !=
		http.StatusUnprocessableEntity {
		t.Errorf("what is no number: %d", status)
	}
}

// A worker that was killed stayed "active" on the page for ever, and its slots were counted as those of the pool.
func TestAWorkerThatWasKilledIsShownAsSilentForAnHour(t *testing.T) {
	b := newBrowser(t)
	b.login("root", b.Token)
	show := func(all ...service.Worker) string {
		b.Capacity.Mu.Lock()
		b.Capacity.All = all
		b.Capacity.Mu.Unlock()
		_, _, text := b.get("/app/settings/workers")
		return text
	}
	live := service.Worker{Name: "w1", Pool: "eu", Slots: 4, Running: 1}
	killed := service.Worker{Name: "killed-one", Pool: "eu", Slots: 8, Running: 8, Quiet: 3 * time.Minute, Silent: true}
	text := show(live, killed)
	for _, want := range []string{"1 of 4 slots in use", "last heard of 3 min ago", ">silent<"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not show %q", want)
		}
	}
	if strings.Count(text, ">active<") != 1 || strings.Contains(text, "no live worker") {
		t.Errorf("it shows the killed worker as active, or the pool as empty:\n%s", text)
	}
	if text := show(killed); !strings.Contains(text, "It has no live worker. Operations wait for one.") {
		t.Error("it does not say that no worker of the pool is left")
	}
	killed.Quiet = 2 * time.Hour
	if text := show(live, killed); strings.Contains(text, "killed-one") {
		t.Error("it still shows a worker of two hours ago")
	}
}
