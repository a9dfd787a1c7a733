package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/record"
)

// There was an API for users, but no page: an administrator without a command line could not add users.
func TestAdministratorsManageUsersOnAPage(t *testing.T) {
	b := newBrowser(t)
	team, err := b.Teams.Create(b.Admin, record.Team{Organization: "acme", Name: "devs"})
	if err != nil {
		t.Fatal(err)
	}
	b.login("root", b.Token)
	const page = "/app/settings/users"
	act := func(values url.Values) string {
		t.Helper()
		status, _, text := b.post(page, values)
		if status != http.StatusOK {
			t.Fatalf("%v: %d %s", values, status, text)
		}
		return text
	}
	if _, _, text := b.get("/app/acme"); !strings.Contains(text, page) {
		t.Error("no page has a link to the page of users")
	}
	text := act(url.Values{"action": {"create"}, "name": {"ann"}, "email": {"ann@example.org"}})
	made := regexp.MustCompile(`value="(\w+\.atlasv1\.\w+)"`).FindStringSubmatch(text)
	if made == nil {
		t.Fatalf("no token is shown: %s", text)
	}
	id, err := b.Logins.LogIn("ann", made[1], "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, text = b.get(page); strings.Contains(text, made[1]) || !strings.Contains(text, "ann@example.org") {
		t.Error("the token is shown again, or the user is not")
	}
	about := func(action string) url.Values {
		return url.Values{"action": {action}, "id": {id}, "name": {"ann"}, "team": {team.ID}}
	}
	if text = act(about("join")); !strings.Contains(text, "ann has joined the team") {
		t.Errorf("%s", text)
	}
	if got, err := b.Teams.Find(b.Admin, team.ID); err != nil || !got.Has(id) {
		t.Errorf("the team has %v, %v", got.Users, err)
	}
	act(about("leave"))
	act(about("disable"))
	if _, err := b.Tokens.Authenticate(made[1], ""); err == nil {
		t.Error("the token of a disabled user is valid")
	}
	if _, err := b.Logins.LogIn("ann", made[1], ""); err == nil {
		t.Error("a disabled user can log in")
	}
	act(about("enable"))
	if _, err := b.Tokens.Authenticate(made[1], ""); err != nil {
		t.Error(err)
	}
	act(about("promote"))
	act(about("demote"))
	if text = act(about("reset")); !strings.Contains(text, ".atlasv1.") {
		t.Error("after a reset no token is shown")
	}
	if _, err := b.Tokens.Authenticate(made[1], ""); err == nil {
		t.Error("the token from before the reset is valid")
	}
	for _, action := range []string{"disable", "demote", "delete"} {
		if status, _, text := b.post(page, url.Values{"action": {action}, "id": {b.Admin.ID()}, "name": {"root"}}); status !=
			http.StatusUnprocessableEntity || !strings.Contains(text, "needs an administrator") {
			t.Errorf("%s of the last administrator: %d", action, status)
		}
	}
	act(about("delete"))
	if status, _, _ := b.post(page, url.Values{"action": {"sing"}}); status != http.StatusBadRequest {
		t.Errorf("an action that does not exist: %d", status)
	}
}

func TestTheUsersAreNotForEverybody(t *testing.T) {
	b := newBrowser(t)
	u, err := b.Users.Create(b.Admin, "eve", "", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Users.SetPassword(b.Admin, u.ID, "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	b.login("eve", "correct horse battery")
	if status, _, text := b.get("/app/settings/users"); status != http.StatusForbidden || strings.Contains(text, "root") {
		t.Errorf("%d %s", status, text)
	}
	_, _, text := b.get("/app/settings/tokens")
	form := formField.FindStringSubmatch(text)
	promote := url.Values{"form": {form[1]}, "action": {"promote"}, "id": {u.ID}}
	if status, _, _ := b.post("/app/settings/users", promote); status != http.StatusForbidden {
		t.Errorf("somebody makes themselves an administrator: %d", status)
	}
	if strings.Contains(text, "/app/settings/users") {
		t.Error("a user who is not an administrator sees the link to the page")
	}
}
