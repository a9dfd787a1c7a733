package tfe

import (
	"net/http"
	"strings"
)

// routes are the endpoints that require a token.
func (s *server) routes() map[string]handler {
	all := map[string]handler{}
	for pattern, h := range map[string]handler{
		"GET account/details": (*call).account,

		"GET organizations":                                           (*call).organizations,
		"POST organizations":                                          (*call).createOrganization,
		"GET organizations/{org}":                                     (*call).organization,
		"DELETE organizations/{org}":                                  (*call).deleteOrganization,
		"GET organizations/{org}/entitlement-set":                     (*call).entitlements,
		"GET organizations/{org}/capacity":                            (*call).capacity,
		"GET organizations/{org}/runs/queue":                          (*call).runQueue,
		"PATCH organizations/{org}":                                   (*call).changeOrganization,
		"GET organizations/{org}/runs":                                (*call).organizationRuns,
		"GET organizations/{org}/organization-memberships":            (*call).memberships,
		"POST organizations/{org}/organization-memberships":           (*call).invite,
		"GET organization-memberships/{membership}":                   (*call).membership,
		"DELETE organization-memberships/{membership}":                (*call).expel,
		"GET organizations/{org}/team-tokens":                         (*call).teamTokens,
		"GET authentication-tokens/{token}":                           (*call).token,
		"GET teams/{owner}/authentication-token":                      oneToken("team"),
		"GET organizations/{owner}/authentication-token":              oneToken("organization"),
		"GET teams/{team}/relationships/organization-memberships":     (*call).teamMemberships,
		"POST teams/{team}/relationships/organization-memberships":    members(false),
		"DELETE teams/{team}/relationships/organization-memberships":  members(true),
		"GET projects/{project}/varsets":                              (*call).variableSets,
		"GET projects/{project}/tag-bindings":                         (*call).projectTags,
		"PATCH projects/{project}/tag-bindings":                       (*call).addProjectTags,
		"GET projects/{project}/relationships/tag-bindings":           (*call).projectTags,
		"POST projects/{project}/relationships/tag-bindings":          (*call).addProjectTags,
		"PATCH projects/{project}/relationships/tag-bindings":         (*call).setProjectTags,
		"GET projects/{project}/effective-tag-bindings":               (*call).projectTags,
		"GET workspaces/{parent}/all-vars":                            (*call).allVariables,
		"GET workspaces/{ws}/relationships/remote-state-consumers":    (*call).consumers,
		"POST workspaces/{ws}/relationships/remote-state-consumers":   changeConsumers(add),
		"DELETE workspaces/{ws}/relationships/remote-state-consumers": changeConsumers(remove),
		"PATCH workspaces/{ws}/relationships/remote-state-consumers":  changeConsumers(replace),
		"PATCH account/update":                                        (*call).changeAccount,
		"GET organizations/{org}/projects":                            (*call).projects,
		"POST organizations/{org}/projects":                           (*call).createProject,
		"GET projects/{project}":                                      (*call).project,
		"PATCH projects/{project}":                                    (*call).changeProject,
		"DELETE projects/{project}":                                   (*call).deleteProject,

		"GET organizations/{org}/workspaces":                             (*call).workspaces,
		"POST organizations/{org}/workspaces":                            (*call).createWorkspace,
		"GET organizations/{org}/workspaces/{name}":                      (*call).workspace,
		"PATCH organizations/{org}/workspaces/{name}":                    (*call).changeWorkspace,
		"DELETE organizations/{org}/workspaces/{name}":                   (*call).deleteWorkspace,
		"POST organizations/{org}/workspaces/{name}/actions/safe-delete": (*call).safeDelete,
		"GET workspaces/{ws}":                                            (*call).workspace,
		"PATCH workspaces/{ws}":                                          (*call).changeWorkspace,
		"DELETE workspaces/{ws}":                                         (*call).deleteWorkspace,
		"POST workspaces/{ws}/actions/safe-delete":                       (*call).safeDelete,
		"POST workspaces/{ws}/actions/lock":                              (*call).lock,
		"POST workspaces/{ws}/actions/unlock":                            (*call).unlock,
		"POST workspaces/{ws}/actions/force-unlock":                      (*call).forceUnlock,
		"GET workspaces/{ws}/relationships/tags":                         (*call).tags,
		"POST workspaces/{ws}/relationships/tags":                        (*call).addTags,
		"DELETE workspaces/{ws}/relationships/tags":                      (*call).removeTags,
		"GET workspaces/{ws}/tag-bindings":                               (*call).tagBindings,
		"PATCH workspaces/{ws}/tag-bindings":                             (*call).addTagBindings,
		"GET workspaces/{ws}/effective-tag-bindings":                     (*call).tagBindings,
		"GET workspaces/{ws}/relationships/tag-bindings":                 (*call).tagBindings,
		"POST workspaces/{ws}/relationships/tag-bindings":                (*call).addTagBindings,
		"PATCH workspaces/{ws}/relationships/tag-bindings":               (*call).setTagBindings,
		"GET organizations/{org}/tags":                                   (*call).organizationTags,
		"DELETE organizations/{org}/tags":                                (*call).deleteOrganizationTags,
		"POST tags/{tag}/relationships/workspaces":                       (*call).tagWorkspaces,

		"GET workspaces/{parent}/vars":                     (*call).variables,
		"POST workspaces/{parent}/vars":                    (*call).createVariable,
		"GET workspaces/{parent}/vars/{var}":               (*call).variable,
		"PATCH workspaces/{parent}/vars/{var}":             (*call).changeVariable,
		"DELETE workspaces/{parent}/vars/{var}":            (*call).deleteVariable,
		"GET workspaces/{ws}/varsets":                      (*call).variableSets,
		"GET organizations/{org}/varsets":                  (*call).variableSets,
		"POST organizations/{org}/varsets":                 (*call).createVariableSet,
		"GET varsets/{parent}":                             (*call).variableSet,
		"PATCH varsets/{parent}":                           (*call).changeVariableSet,
		"DELETE varsets/{parent}":                          (*call).deleteVariableSet,
		"GET varsets/{parent}/relationships/vars":          (*call).variables,
		"POST varsets/{parent}/relationships/vars":         (*call).createVariable,
		"GET varsets/{parent}/relationships/vars/{var}":    (*call).variable,
		"PATCH varsets/{parent}/relationships/vars/{var}":  (*call).changeVariable,
		"DELETE varsets/{parent}/relationships/vars/{var}": (*call).deleteVariable,
		"POST varsets/{parent}/relationships/workspaces":   assign("workspaces", false),
		"DELETE varsets/{parent}/relationships/workspaces": assign("workspaces", true),
		"POST varsets/{parent}/relationships/projects":     assign("projects", false),
		"DELETE varsets/{parent}/relationships/projects":   assign("projects", true),

		"GET workspaces/{ws}/configuration-versions":       (*call).configurations,
		"POST workspaces/{ws}/configuration-versions":      (*call).createConfiguration,
		"GET configuration-versions/{cv}":                  (*call).configuration,
		"GET configuration-versions/{cv}/download":         (*call).downloadConfiguration,
		"POST configuration-versions/{cv}/actions/archive": (*call).archiveConfiguration,
		"GET runs/{run}/configuration-version/download":    (*call).downloadRunConfiguration,

		"POST runs":                              (*call).createRun,
		"GET runs/{run}":                         (*call).run,
		"GET runs/{run}/run-events":              (*call).runEvents,
		"GET runs/{run}/comments":                (*call).comments,
		"GET run-events/{event}":                 (*call).runEvent,
		"GET comments/{comment}":                 (*call).readComment,
		"POST runs/{run}/comments":               (*call).comment,
		"POST runs/{run}/actions/apply":          (*call).applyRun,
		"POST runs/{run}/actions/discard":        (*call).discardRun,
		"POST runs/{run}/actions/cancel":         (*call).cancelRun,
		"POST runs/{run}/actions/force-cancel":   (*call).forceCancelRun,
		"POST runs/{run}/actions/force-execute":  (*call).forceExecuteRun,
		"GET workspaces/{ws}/runs":               (*call).runs,
		"GET plans/{phase}":                      (*call).plan,
		"GET applies/{phase}":                    (*call).apply,
		"GET runs/{run}/plan":                    (*call).plan,
		"GET runs/{run}/apply":                   (*call).apply,
		"GET plans/{phase}/json-output":          (*call).planJSON,
		"GET runs/{run}/plan/json-output":        (*call).planJSON,
		"GET plans/{phase}/json-output-redacted": (*call).planRedacted,

		"GET workspaces/{ws}/resources":                     (*call).resources,
		"GET state-versions":                                (*call).stateVersions,
		"GET workspaces/{ws}/state-versions":                (*call).stateVersions,
		"POST workspaces/{ws}/state-versions":               (*call).createStateVersion,
		"GET workspaces/{ws}/current-state-version":         (*call).currentStateVersion,
		"GET workspaces/{ws}/current-state-version-outputs": (*call).currentOutputs,
		"GET state-versions/{sv}":                           (*call).stateVersion,
		"GET state-versions/{sv}/outputs":                   (*call).stateOutputs,
		"GET state-versions/{sv}/download":                  (*call).downloadState,
		"GET state-versions/{sv}/json-download":             (*call).downloadStateJSON,
		"GET state-version-outputs/{output}":                (*call).stateOutput,

		"GET organizations/{org}/teams":                     (*call).teams,
		"POST organizations/{org}/teams":                    (*call).createTeam,
		"GET teams/{team}":                                  (*call).team,
		"PATCH teams/{team}":                                (*call).changeTeam,
		"DELETE teams/{team}":                               (*call).deleteTeam,
		"POST teams/{team}/relationships/users":             members(false),
		"DELETE teams/{team}/relationships/users":           members(true),
		"GET team-workspaces":                               (*call).accesses,
		"POST team-workspaces":                              (*call).grant,
		"GET team-workspaces/{access}":                      (*call).access,
		"PATCH team-workspaces/{access}":                    (*call).changeAccess,
		"DELETE team-workspaces/{access}":                   (*call).revoke,
		"GET team-projects":                                 (*call).accesses,
		"POST team-projects":                                (*call).grant,
		"GET team-projects/{access}":                        (*call).access,
		"PATCH team-projects/{access}":                      (*call).changeAccess,
		"DELETE team-projects/{access}":                     (*call).revoke,
		"GET users/{user}":                                  (*call).user,
		"GET users/{owner}/authentication-tokens":           (*call).userTokens,
		"POST users/{owner}/authentication-tokens":          newToken("user", "owner"),
		"DELETE authentication-tokens/{token}":              (*call).deleteToken,
		"POST teams/{owner}/authentication-token":           newToken("team", "owner"),
		"DELETE teams/{owner}/authentication-token":         dropToken("team"),
		"POST organizations/{owner}/authentication-token":   newToken("organization", "owner"),
		"DELETE organizations/{owner}/authentication-token": dropToken("organization"),

		"GET workspaces/{ws}/run-triggers":  (*call).runTriggers,
		"POST workspaces/{ws}/run-triggers": (*call).createRunTrigger,
		"GET run-triggers/{trigger}":        (*call).runTrigger,
		"DELETE run-triggers/{trigger}":     (*call).deleteRunTrigger,

		"GET workspaces/{ws}/notification-configurations":  (*call).notifications,
		"POST workspaces/{ws}/notification-configurations": (*call).createNotification,
		"GET notification-configurations/{nc}":             (*call).notification,
		"PATCH notification-configurations/{nc}":           (*call).changeNotification,
		"DELETE notification-configurations/{nc}":          (*call).deleteNotification,

		"POST notification-configurations/{nc}/actions/verify": (*call).verifyNotification,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		all[method+" "+root+path] = h
	}
	return all
}

// Paths are the patterns of the paths that Handler serves.
var Paths = append([]string{"/.well-known/terraform.json", root}, SecretPaths...)

// SecretPaths are the prefixes of these addresses: the rest of such a path must not be logged.
var SecretPaths = []string{"/uploads/configurations/", "/uploads/states/", "/logs/"}

// secretRoutes are the addresses that the API hands out. The secret is part of the path: the log reader of
// clients replaces the query, and uploads come without a token.
func (s *server) secretRoutes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"PUT /uploads/configurations/{secret}": s.uploadConfiguration,
		"PUT /uploads/states/{secret}":         s.uploadState,
		"PUT /uploads/states/{secret}/json":    s.uploadStateJSON,
		"GET /logs/{address}":                  s.log,
	}
}
