package tfe_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tfe"
)

// A PATCH with a repository or an SSH key was answered with 200, and the attribute was dropped.
func TestSettingsThatTheServiceDoesNotHaveAreRefused(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	for attributes, want := range map[string]int{
		`"vcs-repo":{"identifier":"acme/one","oauth-token-id":"ot-1"}`: http.StatusUnprocessableEntity,
		`"ssh-key-id":"sshkey-1"`:                                      http.StatusUnprocessableEntity,
		`"vcs-repo":null,"description":"none of these"`:                http.StatusOK,
	} {
		status, text := s.ask(http.MethodPatch, "workspaces/"+w.ID, `{"data":{"type":"workspaces","attributes":{`+
			attributes+`}}}`)
		if status != want || want != http.StatusOK && !strings.Contains(text, "this service has no") {
			t.Errorf("%s: %d %s", attributes, status, text)
		}
	}
}

// The entitlements had an audit log, whose endpoint is a 404.
func TestEntitlementsHaveOnlyWhatThereIs(t *testing.T) {
	s := newSite(t)
	_, text := s.ask(http.MethodGet, "organizations/acme/entitlement-set", "")
	for entitlement, path := range map[string]string{
		"operations": "organizations/acme/runs/queue", "teams": "organizations/acme/teams",
		"state-storage": "organizations/acme/workspaces", "audit-logging": "organization/audit-trail",
		"private-module-registry": "organizations/acme/registry-modules",
		"policy-enforcement":      "organizations/acme/policies", "agents": "organizations/acme/agent-pools",
		"run-tasks": "organizations/acme/tasks", "vcs-integrations": "organizations/acme/oauth-clients",
	} {
		status, _ := s.ask(http.MethodGet, path, "")
		if has := strings.Contains(text, `"`+entitlement+`":true`); has != (status == http.StatusOK) {
			t.Errorf("%s is %t, and %s answers with %d", entitlement, has, path, status)
		}
	}
}

// late is a body that does not arrive in time.
type late struct{}

func (late) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// A body that did not arrive in time was an internal error.
func TestABodyThatComesTooSlowlyIsATimeout(t *testing.T) {
	h := servicetest.New(t)
	api := tfe.Handler(tfe.Options{Service: h.Service})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v2/organizations/acme/workspaces", late{})
	r.Header.Set("Authorization", "Bearer "+h.Token)
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	if w.Code != http.StatusRequestTimeout || !strings.Contains(w.Body.String(), "did not arrive in time") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
