package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// The stream of an organization's changes had the address /app/ORGANIZATION/events: the page of a workspace called
// "events" was that stream. One called "workspaces" had no pages of its own but the first.
func TestAWorkspaceMayHaveAnyName(t *testing.T) {
	b := newBrowser(t)
	b.login("root", b.Token)
	for _, name := range []string{"events", "workspaces", "settings", "login", "state", "runs"} {
		b.NewWorkspace(name)
		for _, page := range []string{"", "/runs", "/state", "/variables", "/settings", "/versions"} {
			status, at, text := b.get("/app/acme/" + name + page)
			if status != http.StatusOK || at != "/app/acme/"+name+page || !strings.Contains(text, "<h1>"+name+"</h1>") {
				t.Errorf("%s%s: %d at %s", name, page, status, at)
			}
		}
	}
	if _, at, _ := b.get("/app/acme/workspaces/login"); at != "/app/acme/login" {
		t.Errorf("the address of the API leads to %s", at)
	}
}

// An organization called "login", "logout" or "settings" was accepted, and had no page. After a login, the pages of one
// called "logistics" were not shown either.
func TestAnOrganizationIsReachableByItsName(t *testing.T) {
	b := newBrowser(t)
	for _, name := range []string{"login", "Logout", "settings"} {
		if _, err := b.Organizations.Create(b.Admin, name, ""); !errors.Is(err, tables.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.Organizations.Create(b.Admin, "logistics", ""); err != nil {
		t.Fatal(err)
	}
	_, at, text := b.get("/app/logistics")
	form := formField.FindStringSubmatch(text)
	if form == nil {
		t.Fatalf("there is no form at %s", at)
	}
	_, at, _ = b.post("/app/login", url.Values{"form": {form[1]}, "username": {"root"}, "password": {b.Token},
		"to": {"/app/logistics"}})
	if at != "/app/logistics" {
		t.Errorf("the login leads to %s", at)
	}
}

// A form with a mistake was answered with an error page: everything that was entered was lost.
func TestAFormThatIsRefusedIsShownAgainWithWhatWasEntered(t *testing.T) {
	b := newBrowser(t)
	b.login("root", b.Token)
	b.NewWorkspace("network")
	const page = "/app/acme/network/variables"
	status, at, text := b.post(page, url.Values{"action": {"put"}, "key": {"no key!"}, "value": {"a <b>\nlong value"},
		"category": {"env"}, "sensitive": {"on"}})
	if status != http.StatusUnprocessableEntity || at != page || !strings.Contains(text, `class="problem"`) {
		t.Fatalf("%d at %s:\n%s", status, at, text)
	}
	for _, want := range []string{`value="no key!"`, "a &lt;b&gt;\nlong value", `value="env" selected`} {
		if !strings.Contains(text, want) {
			t.Errorf("the form does not have %s:\n%s", want, text)
		}
	}
	b.Capacity.All = []service.Worker{{Name: "w1", Pool: "eu", Slots: 4}, {Name: "w2", Pool: "us", Slots: 4}}
	status, _, text = b.post("/app/settings/workers", url.Values{"action": {"drain-pool"}, "pool": {"us"},
		"why": {strings.Repeat("why ", 300)}})
	if status != http.StatusUnprocessableEntity || strings.Count(text, `value="why why`) != 1 {
		t.Errorf("%d, and the reason is shown %d times", status, strings.Count(text, `value="why why`))
	}
	us := text[strings.Index(text, `aria-label="Pool us"`):]
	if !strings.Contains(us, `<details open`) || !strings.Contains(us, `value="why why`) {
		t.Errorf("the form of the pool is folded, or empty:\n%s", us)
	}
}

func TestAnAddressWithoutAPageHasAPageThatSaysSo(t *testing.T) {
	b := newBrowser(t)
	status, _, text := b.get("/app/acme/nowhere/at/all")
	if status != http.StatusOK || !strings.Contains(text, "Log in") { // what exists is not told to strangers
		t.Errorf("without a login: %d, %s", status, text)
	}
	b.login("root", b.Token)
	status, _, text = b.get("/app/acme/nowhere/at/all")
	if status != http.StatusNotFound || !strings.Contains(text, "There is nothing at this address") {
		t.Errorf("%d, %s", status, text)
	}
}

// Each operation in doubt had a form of its own, of which one at a time could be sent, and the page of the run that had
// left them said "Failed" without a way to resolve them.
func TestSeveralDoubtsAreResolvedWithOneForm(t *testing.T) {
	b := newBrowser(t)
	w := b.NewWorkspace("one")
	left := []record.Doubt{{Address: "fleet_vm.a", Operation: "create", Worker: "w1"},
		{Address: "fleet_vm.b", Operation: "create"}, {Address: "fleet_vm.c", Operation: "update"},
		{Address: "fleet_vm.d", Operation: "delete"}}
	b.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		j.Doubtful(left)
		return nil, errors.New("operations are in doubt")
	}
	r := b.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	b.Await(r.ID, record.Errored)
	var told []work.Resolution
	b.Engine.ResolveFunc = func(_ context.Context, j *work.Job, r work.Resolution, _ string) error {
		if r.Address == "fleet_vm.c" {
			_, _ = j.Log.Write([]byte("Error: the cloud does not answer\n"))
			return work.ErrReported
		}
		told = append(told, r)
		left = slices.DeleteFunc(slices.Clone(left), func(d record.Doubt) bool { return d.Address == r.Address })
		j.Doubtful(left)
		return nil
	}
	b.login("root", b.Token)
	run := "/app/acme/one/runs/" + r.ID
	_, _, text := b.get(run)
	for _, want := range []string{"4 operations in doubt", `name="address-3" value="fleet_vm.d"`, "Nothing was changed"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page of the run does not have %s:\n%s", want, text)
		}
	}
	const page = "/app/settings/doubts"
	word := url.Values{"workspace": {w.ID}, "address-0": {"fleet_vm.a"}, "outcome-0": {"created"}, "id-0": {" vm-1 "},
		"address-1": {"fleet_vm.b"}, "outcome-1": {"not-created"}, "address-2": {"fleet_vm.c"}, "outcome-2": {""},
		"address-3": {"fleet_vm.d"}, "outcome-3": {"not-created"}}
	code, _, text := b.post(page, word)
	want := []work.Resolution{{Address: "fleet_vm.a", ID: "vm-1"}, {Address: "fleet_vm.b"}, {Address: "fleet_vm.d"}}
	if code != http.StatusOK || !strings.Contains(text, "3 operations are resolved.") || !slices.Equal(told, want) ||
		!strings.Contains(text, "fleet_vm.c") || strings.Contains(text, "fleet_vm.d") {
		t.Errorf("%d, %+v: %s", code, told, text)
	}
	code, _, text = b.post(page, url.Values{"workspace": {w.ID}, "address-0": {"fleet_vm.c"}, "outcome-0": {"created"},
		"id-0": {"vm-3"}})
	if code != http.StatusConflict || !strings.Contains(text, "the cloud does not answer") ||
		!strings.Contains(text, `value="vm-3"`) {
		t.Errorf("a refused outcome: %d: %s", code, text)
	}
	code, _, text = b.post(page, url.Values{"workspace": {w.ID}, "address-0": {"fleet_vm.c"}, "outcome-0": {""}})
	if code != http.StatusUnprocessableEntity || !strings.Contains(text, "at least one") {
		t.Errorf("no outcome: %d: %s", code, text)
	}
}
