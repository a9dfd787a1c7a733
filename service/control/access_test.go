package control_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/control"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
)

// routes returns the patterns of all routes, as the package registers them, so that a new one is tested, too.
func routes(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("control.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile(`"(GET|POST|PUT|DELETE) "\+Prefix\+(?:"([^"]+)"|at)`).FindAllStringSubmatch(
		string(text), -1) {
		if m[2] != "" {
			out = append(out, m[1]+" "+m[2])
			continue
		}
		out = append(out, m[1]+" halt", m[1]+" workspaces/{workspace}/halt")
	}
	if len(out) < 20 {
		t.Fatalf("only %d routes are found", len(out))
	}
	return out
}

// The routes of the API were tested without a token and with that of another workspace; those for operators were not.
func TestOperatorsRoutesAreOnlyForThoseWhoMay(t *testing.T) {
	h := servicetest.New(t)
	handler := control.Handler(h.Service, slog.New(slog.DiscardHandler))
	theirs, mine := h.NewWorkspace("theirs"), h.NewWorkspace("mine")
	r := h.NewRun(theirs, nil)
	h.Await(r.ID, record.Planned)
	team, err := h.Teams.Create(h.Admin, record.Team{Organization: "acme", Name: "devs"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.TeamAccess.Create(h.Admin, record.Access{Team: team.ID, On: mine.ID, Role: "admin"}); err != nil {
		t.Fatal(err)
	}
	token, _, err := h.Tokens.Create(h.Admin, record.TokenTeam, team.ID, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("{workspace}", theirs.ID, "{run}", r.ID, "{pool}", "default", "{user}", h.Admin.ID())
	for _, route := range routes(t) {
		method, path, _ := strings.Cut(names.Replace(route), " ")
		ask := func(token string) (int, string) {
			q := httptest.NewRequestWithContext(t.Context(), method, control.Prefix+path,
				strings.NewReader(`{"reason":"x","password":"correct horse battery"}`))
			if token != "" {
				q.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, q)
			return w.Code, w.Body.String()
		}
		for _, none := range []string{"", "guessed", h.Token + "x"} {
			if status, text := ask(none); status != http.StatusUnauthorized {
				t.Errorf("%s with the token %q: %d %s", route, none, status, text)
			}
		}
		// Everybody may read who they are, and whether the service or a pool is halted, because runs wait for that.
		told := route == "GET halt" || route == "GET pools/{pool}/halt" || route == "GET me"
		if status, text := ask(token); status < 400 && !told || strings.Contains(text, "theirs") {
			t.Errorf("%s for somebody with another workspace: %d %s", route, status, text)
		}
	}
	if w, err := h.Workspaces.Find(h.Admin, theirs.ID); err != nil || w.Lock.ID != r.ID {
		t.Errorf("the workspace of another team was changed: %+v, %v", w, err)
	}
}
