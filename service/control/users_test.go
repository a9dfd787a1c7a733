package control_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/control"
	"github.com/millipede-iac/millipede/service/servicetest"
)

// No route created users: in a service without an identity provider, the administrator was the only user, and nobody
// could accept an invitation.
func TestAnAdministratorMakesUsersWhoLogInUntilTheyAreRemoved(t *testing.T) {
	h := servicetest.New(t)
	handler := control.Handler(h.Service, slog.New(slog.DiscardHandler))
	ask := func(token, method, path, body string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, control.Prefix+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	m, err := h.Memberships.Invite(h.Admin, "acme", "ann@example.org", nil)
	if err != nil {
		t.Fatal(err)
	}
	status, text := ask(h.Token, http.MethodPost, "users", `{"name":"ann","email":"ann@example.org"}`)
	var ann struct{ ID, Name, Token string }
	if err := json.Unmarshal([]byte(text), &ann); err != nil || status != http.StatusOK || ann.Token == "" {
		t.Fatalf("%d %s", status, text)
	}
	if m, err = h.Memberships.Find(h.Admin, m.ID); err != nil || m.Person == nil || m.Person.ID != ann.ID {
		t.Errorf("the invitation was not accepted: %+v, %v", m, err)
	}
	if id, err := h.Logins.LogIn("ann", ann.Token, ""); err != nil || id != ann.ID {
		t.Errorf("login with the first token: %v", err)
	}
	const secret = "correct horse battery"
	if status, text := ask(ann.Token, http.MethodPut, "users/"+ann.ID+"/password",
		`{"password":"`+secret+`"}`); status != http.StatusNoContent {
		t.Errorf("%d %s", status, text)
	}
	if _, err := h.Logins.LogIn("ann", secret, ""); err != nil {
		t.Errorf("login with the password: %v", err)
	}
	for _, try := range [][3]string{
		{http.MethodGet, "users", ""}, {http.MethodPost, "users", `{"name":"bob","admin":true}`},
		{http.MethodDelete, "users/" + h.Admin.ID(), ""},
		{http.MethodPut, "users/" + h.Admin.ID() + "/password", `{"password":"` + secret + `"}`},
	} {
		if status, text := ask(ann.Token, try[0], try[1], try[2]); status != http.StatusForbidden &&
			status != http.StatusNotFound {
			t.Errorf("%s %s by somebody who is not an administrator: %d %s", try[0], try[1], status, text)
		}
	}
	if status, text := ask(h.Token, http.MethodGet, "users", ""); status != http.StatusOK ||
		!strings.Contains(text, `"name":"ann"`) || strings.Contains(text, ann.Token) || strings.Contains(text, "$2a$") {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := ask(h.Token, http.MethodDelete, "users/"+h.Admin.ID(), ""); status != http.StatusUnprocessableEntity &&
		status != http.StatusBadRequest {
		t.Errorf("removing the last administrator: %d", status)
	}
	if status, text := ask(h.Token, http.MethodDelete, "users/"+ann.ID, ""); status != http.StatusNoContent {
		t.Errorf("%d %s", status, text)
	}
	if _, err := h.Logins.LogIn("ann", secret, ""); err == nil {
		t.Error("a removed user can log in")
	}
	if status, _ := ask(ann.Token, http.MethodGet, "halt", ""); status != http.StatusUnauthorized {
		t.Errorf("a request with the token of a removed user: %d", status)
	}
	if _, err := h.Memberships.Find(h.Admin, m.ID); err == nil {
		t.Error("a removed user is still a member")
	}
}
