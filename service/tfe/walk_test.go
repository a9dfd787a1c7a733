package tfe_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tfe"
	"github.com/millipede-iac/millipede/service/variables"
)

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// The test uses the table of routes, so that it covers new routes automatically.
func TestNoRouteAnswersWithoutAToken(t *testing.T) {
	s := newSite(t)
	if len(tfe.Routes()) < 100 {
		t.Fatalf("only %d routes are tested", len(tfe.Routes()))
	}
	for _, pattern := range tfe.Routes() {
		method, path, _ := strings.Cut(parameter.ReplaceAllString(pattern, "x"), " ")
		for _, token := range []string{"", "guessed", s.Token + "x"} {
			if status, body := s.do(method, path, token); status != http.StatusUnauthorized ||
				!strings.Contains(body, `"status":"401"`) {
				t.Errorf("%s with the token %q: %d %s", pattern, token, status, body)
			}
		}
	}
}

// A user with all permissions on one workspace calls every route for the objects of another.
func TestATokenForOneWorkspaceReadsNothingOfAnother(t *testing.T) {
	s := newSite(t)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	project := must(t, of(s.Projects.Create(s.Admin, record.Project{Organization: "acme", Name: "canary project"})))
	w := must(t, of(s.Workspaces.Create(s.Admin, "acme", service.WorkspaceSettings{
		Name: servicetest.Ptr("canary"), Description: servicetest.Ptr("canary"), Project: &project.ID,
	})))
	set := must(t, of(s.VariableSets.Create(s.Admin, record.VariableSet{
		Organization: "acme", Name: "canary set", Workspaces: []string{w.ID},
	})))
	v := must(t, of(s.Variables.Put(s.Admin, w.ID, "",
		variables.Settings{Key: servicetest.Ptr("canary"), Value: servicetest.Ptr("canary")})))
	inSet := must(t, of(s.Variables.Put(s.Admin, set.ID, "",
		variables.Settings{Key: servicetest.Ptr("canary"), Value: servicetest.Ptr("canary")})))
	r := s.NewRun(w, func(r *record.Run) { r.Message = "canary" })
	s.Await(r.ID, record.Planned)
	ok(s.Runs.Confirm(s.Admin, r.ID, "canary"))
	s.Await(r.ID, record.Applied)
	sv := must(t, of(s.States.Current(s.Admin, w.ID)))
	n := must(t, of(s.Notifications.Create(s.Admin, record.Notification{
		Workspace: w.ID, Name: "canary", Destination: "generic", URL: "https://canary.example", Token: "canary",
	})))
	secret := must(t, of(s.Teams.Create(s.Admin, record.Team{Organization: "acme", Name: "canary"})))
	access := must(t, of(s.TeamAccess.Create(s.Admin, record.Access{Team: secret.ID, On: w.ID, Role: "admin"})))
	_, kept, err := s.Tokens.Create(s.Admin, record.TokenTeam, secret.ID, "canary", time.Time{})
	ok(err)
	notes := must(t, of(s.Runs.History(s.Admin, r.ID)))
	said := must(t, of(s.Runs.Comments(s.Admin, r.ID)))

	other := must(t, of(s.Workspaces.Create(s.Admin, "acme", service.WorkspaceSettings{
		Name: servicetest.Ptr("canary-source"), Project: &project.ID})))
	trigger := must(t, of(s.RunTriggers.Create(s.Admin, w.ID, other.ID)))

	mine := s.NewWorkspace("mine")
	token := s.teamToken(mine.ID, "admin")

	theirs := map[string][]string{
		"org": {"acme"}, "ws": {w.ID}, "name": {w.Name}, "parent": {w.ID, set.ID}, "var": {v.ID, inSet.ID},
		"run": {r.ID}, "phase": {r.Plan.ID, r.Apply.ID}, "cv": {r.Configuration}, "sv": {sv.ID},
		"output": {sv.Outputs[0].ID}, "project": {project.ID}, "team": {secret.ID}, "owner": {secret.ID, "acme"},
		"access": {access.ID}, "nc": {n.ID}, "token": {kept.ID}, "event": {notes[0].ID}, "comment": {said[0].ID},
		"user": {s.Admin.ID()}, "membership": {"ou-1"}, "tag": {"tag-x"}, "trigger": {trigger.ID},
	}
	for _, pattern := range tfe.Routes() {
		method, path, _ := strings.Cut(pattern, " ")
		for _, path := range fill(t, path, theirs) {
			query := ""
			if method == http.MethodGet {
				query = "?filter[workspace][id]=" + w.ID + "&filter[project][id]=" + project.ID +
					"&filter[organization][name]=acme&filter[workspace][name]=canary"
			}
			status, body := s.do(method, path+query, token)
			if strings.Contains(body, "canary") && !strings.Contains(path, "canary") && status < 300 {
				t.Errorf("%s %s: %d %s", method, path, status, body)
			}
			onItself := strings.Contains(path, "/organizations/acme") && !strings.Contains(path, "/canary") ||
				strings.Contains(path, "/users/")
			if status < 300 && !onItself && !strings.HasSuffix(pattern, " /api/v2/organizations") &&
				!strings.Contains(pattern, "account/") {
				t.Errorf("%s %s: %d %s", method, path, status, body)
			}
		}
	}
	if _, err := s.Workspaces.Find(s.Admin, w.ID); err != nil {
		t.Errorf("the workspace was deleted: %v", err)
	}
}

// fill returns a path with each of the values for its parameters.
func fill(t *testing.T, path string, values map[string][]string) []string {
	t.Helper()
	name := parameter.FindStringSubmatch(path)
	if name == nil {
		return []string{path}
	}
	if len(values[name[1]]) == 0 {
		t.Fatalf("the test has no value for {%s} in %s", name[1], path)
	}
	var out []string
	for _, v := range values[name[1]] {
		out = append(out, fill(t, strings.Replace(path, name[0], v, 1), values)...)
	}
	return out
}
