package tfe

import (
	"net/http"
	"slices"
	"strings"
)

// The related documents that can be included with each kind of document.
var (
	withWorkspace = []string{
		"organization", "project", "current_run", "current_run.plan", "current_run.configuration_version",
		"current_run.configuration_version.ingress_attributes", "current_state_version", "current_state_version.outputs",
		"outputs", "locked_by", "current_configuration_version", "current_configuration_version.ingress_attributes",
		"readme", "effective_tag_bindings", "current_assessment_result", "remote_state_consumers",
	}
	withRun = []string{
		"workspace", "plan", "apply", "task_stages", "created_by", "configuration_version",
		"configuration_version.ingress_attributes", "cost_estimate", "policy_checks", "run_events", "comments",
		"confirmed_by",
	}
	withConfiguration = []string{"ingress_attributes", "run"}
	withState         = []string{"outputs", "run", "created_by", "run.created_by", "run.configuration_version"}
	withProject       = []string{"effective_tag_bindings", "organization"}
	withOrganization  = []string{"default_project"}
	withTeam          = []string{"users", "organization_memberships"}
	withMembership    = []string{"user", "teams", "organization"}
	withSet           = []string{"vars", "workspaces", "projects", "stacks"}
	withNote          = []string{"actor", "comment"}
	withToken         = []string{"created_by"}
	withTrigger       = []string{"workspace", "sourceable"}
)

// includable lists the documents that can be included in the response of each path; other paths have none.
var includable = map[string][]string{
	"organizations/{org}/workspaces":                            withWorkspace,
	"organizations/{org}/workspaces/{name}":                     withWorkspace,
	"organizations/{org}/workspaces/{name}/actions/safe-delete": withWorkspace,
	"workspaces/{ws}":                                           withWorkspace,
	"workspaces/{ws}/actions/lock":                              withWorkspace,
	"workspaces/{ws}/actions/unlock":                            withWorkspace,
	"workspaces/{ws}/actions/force-unlock":                      withWorkspace,
	"workspaces/{ws}/relationships/remote-state-consumers":      withWorkspace,
	"runs":                                         withRun,
	"runs/{run}":                                   withRun,
	"workspaces/{ws}/runs":                         withRun,
	"organizations/{org}/runs":                     withRun,
	"organizations/{org}/runs/queue":               withRun,
	"runs/{run}/run-events":                        withNote,
	"run-events/{event}":                           withNote,
	"workspaces/{ws}/configuration-versions":       withConfiguration,
	"configuration-versions/{cv}":                  withConfiguration,
	"state-versions":                               withState,
	"state-versions/{sv}":                          withState,
	"workspaces/{ws}/state-versions":               withState,
	"workspaces/{ws}/current-state-version":        withState,
	"organizations/{org}":                          withOrganization,
	"organizations/{org}/projects":                 withProject,
	"projects/{project}":                           withProject,
	"organizations/{org}/teams":                    withTeam,
	"teams/{team}":                                 withTeam,
	"organizations/{org}/organization-memberships": withMembership,
	"organization-memberships/{membership}":        withMembership,
	"organizations/{org}/varsets":                  withSet,
	"projects/{project}/varsets":                   withSet,
	"workspaces/{ws}/varsets":                      withSet,
	"varsets/{parent}":                             withSet,
	"users/{owner}/authentication-tokens":          withToken,
	"authentication-tokens/{token}":                withToken,
	"workspaces/{ws}/run-triggers":                 withTrigger,
	"run-triggers/{trigger}":                       withTrigger,
}

// readIncludes reads which related documents are requested. An unknown name is an error that clients can
// handle; it is returned before anything is changed.
func (c *call) readIncludes(path string) error {
	c.asked = map[string]bool{}
	for name := range strings.SplitSeq(c.r.URL.Query().Get("include"), ",") {
		if name = strings.ReplaceAll(strings.TrimSpace(name), "-", "_"); name == "" {
			continue
		}
		if !slices.Contains(includable[path], name) {
			return &failure{http.StatusBadRequest, "invalid include parameter", "the include parameter " + name +
				" is not known here"}
		}
		c.asked[name] = true
	}
	return nil
}

// wants reports whether any of these related documents is requested.
func (c *call) wants(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return c.asked[n] })
}

// includedDocuments collects included documents without duplicates.
type includedDocuments struct {
	all  []resource
	seen map[string]bool
}

func (a *includedDocuments) add(more ...resource) {
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	for _, r := range more {
		if key := r.Type + "/" + r.ID; !a.seen[key] {
			a.seen[key] = true
			a.all = append(a.all, r)
		}
	}
}
