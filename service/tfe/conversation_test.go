package tfe_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/work"
)

// The requests were recorded from command lines, byte for byte where a library would send others: a lock with an empty
// type, actions with an empty object or without a body, a run with the attributes of apply -auto-approve.
func TestACommandLineGetsWhatItNeedsInTheOrderInWhichItAsks(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	answer := func(method, path, body string, want int, parts ...string) string {
		t.Helper()
		status, text := s.ask(method, path, body)
		if status != want {
			t.Fatalf("%s %s: %d, not %d: %s", method, path, status, want, text)
		}
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s %s: no %s in %s", method, path, part, text)
			}
		}
		return text
	}
	space := "workspaces/" + w.ID
	lock := `{"data":{"type":"","attributes":{"reason":"a plan"}}}`
	answer(http.MethodPost, space+"/actions/lock", lock, 200, `"locked":true`, `"permissions":{`)
	answer(http.MethodPost, space+"/actions/lock", lock, 409, "locked")
	answer(http.MethodPost, space+"/actions/unlock", "", 200, `"locked":false`)
	answer(http.MethodPost, space+"/actions/unlock", "", 409, "not locked")
	answer(http.MethodPost, space+"/actions/force-unlock", "", 409, "not locked")
	answer(http.MethodGet, space+"/current-state-version", "", 404)
	answer(http.MethodGet, space+"/current-state-version-outputs", "", 200, `"data":[]`)

	cv := s.NewConfiguration(w, false)
	gone := make(chan struct{})
	s.Engine.Mu.Lock()
	s.Engine.PlanFunc = servicetest.PlanThen(func(*work.Job) { <-gone })
	s.Engine.Mu.Unlock()
	text := answer(http.MethodPost, "runs", fmt.Sprintf(`{"data":{"type":"runs","attributes":{"auto-apply":false,`+
		`"refresh":true,"save-plan":false,"variables":[{"key":"x","value":"\"5\""}]},"relationships":{"workspace":{"data":`+
		`{"type":"workspaces","id":%q}},"configuration-version":{"data":{"type":"configuration-versions","id":%q}}}}}`,
		w.ID, cv), 201, `"actions":{`, `"is-cancelable":true`, `"is-confirmable":false`, `"has-changes":false`,
		`"can-apply":true`, `"type":"plans"`, `"type":"applies"`)
	run := "runs/" + regexp.MustCompile(`run-\w+`).FindString(text)
	id := strings.TrimPrefix(run, "runs/")
	// A command line fails if one of these requests gets 404.
	answer(http.MethodGet, run+"/run-events", "", 200, `"data":[`)
	answer(http.MethodGet, run+"?include=task_stages", "", 200, `"task-stages":{"data":[]}`)
	answer(http.MethodGet, "organizations/acme/runs/queue", "", 200, id)
	answer(http.MethodGet, "organizations/acme/capacity", "", 200, `"pending":`, `"running":`)
	answer(http.MethodGet, space, "", 200, `"current-run":{"data":{"id":"`+id)
	answer(http.MethodPost, run+"/actions/apply", "{}", 409)
	plan := "plans/" + regexp.MustCompile(`"id":"(plan-\w+)"`).FindStringSubmatch(text)[1]
	close(gone)
	s.Await(id, record.Planned)
	// A command line reads these immediately after the end of the log.
	answer(http.MethodGet, plan, "", 200, `"status":"finished"`, `"has-changes":true`, `"log-read-url":"http`)
	answer(http.MethodGet, run+"?include=workspace,plan", "", 200, `"status":"planned"`, `"is-confirmable":true`,
		`"is-discardable":true`, `"has-changes":true`, `"structured-run-output-enabled":false`)
	answer(http.MethodGet, plan+"/json-output-redacted", "", 200, "{")
	s.Engine.Mu.Lock()
	s.Engine.PlanFunc = nil
	s.Engine.Mu.Unlock()
	answer(http.MethodPost, run+"/actions/apply", "{}", 202)
	if text := answer(http.MethodGet, run, "", 200); strings.Contains(text, `"status":"planned"`) ||
		strings.Contains(text, `"is-confirmable":true`) {
		t.Errorf("after the run was confirmed: %s", text)
	}
	answer(http.MethodPost, run+"/actions/apply", `{"comment":"again"}`, 409)
	s.Await(id, record.Applied)
	for _, action := range []string{"apply", "discard", "cancel", "force-cancel"} {
		answer(http.MethodPost, run+"/actions/"+action, "{}", 409, `"status":"409"`)
	}
	answer(http.MethodGet, space+"/current-state-version-outputs", "", 200, `"name":"o"`, `"detailed-type":"string"`)
	answer(http.MethodPost, "organizations/acme/workspaces/one/actions/safe-delete", "", 204)
	answer(http.MethodGet, space, "", 404)
}

// Resources that no client requests get 404 instead of an empty response. Resources that clients request in passing
// exist, even if they are always empty.
func TestWhatTheServiceDoesNotHaveIsNotFound(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{
		"task-stages/ts-1", "policy-checks/pol-1", "policy-checks/pol-1/output", "cost-estimates/ce-1",
		"organizations/acme/policies", "organizations/acme/agent-pools", "organizations/acme/registry-modules",
		"organizations/acme/oauth-clients", "organizations/acme/ssh-keys", "admin/runs", "vcs-events",
	} {
		if status, text := s.ask(http.MethodGet, path, ""); status != http.StatusNotFound ||
			!strings.Contains(text, `"status":"404"`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}
