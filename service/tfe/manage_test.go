package tfe_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	client "github.com/hashicorp/go-tfe"
)

func TestWhatProgramsManageComesBackAsTheySetIt(t *testing.T) {
	s := newSite(t)
	o := must(t, of(s.client.Organizations.Update(s.ctx, "acme", client.OrganizationUpdateOptions{
		DefaultExecutionMode: client.String("local"), Email: client.String("a@example.com"),
	})))
	p := must(t, of(s.client.Projects.Create(s.ctx, "acme", client.ProjectCreateOptions{
		Name: "platform", TagBindings: []*client.TagBinding{{Key: "owner", Value: "us"}, {Key: "tier", Value: "1"}},
	})))
	w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme", client.WorkspaceCreateOptions{
		Name: client.String("one"), Project: p, FileTriggersEnabled: client.Bool(true),
		TriggerPrefixes: []string{"/a"}, TagBindings: []*client.TagBinding{{Key: "tier", Value: "2"}},
	})))
	if o.DefaultExecutionMode != "local" || w.ExecutionMode != "local" || *w.SettingOverwrites.ExecutionMode ||
		!w.FileTriggersEnabled || len(w.TriggerPrefixes) != 1 {
		t.Errorf("%+v", w)
	}
	w = must(t, of(s.client.Workspaces.UpdateByID(s.ctx, w.ID,
		client.WorkspaceUpdateOptions{ExecutionMode: client.String("remote")})))
	if w.ExecutionMode != "remote" || !*w.SettingOverwrites.ExecutionMode {
		t.Errorf("the execution mode of the workspace: %+v", w)
	}
	tags := map[string]string{}
	for _, b := range must(t, of(s.client.Workspaces.ListEffectiveTagBindings(s.ctx, w.ID))) {
		tags[b.Key] = b.Value
	}
	if tags["owner"] != "us" || tags["tier"] != "2" {
		t.Errorf("the tags are %v", tags)
	}
	reader := must(t, of(s.client.Workspaces.Create(s.ctx, "acme",
		client.WorkspaceCreateOptions{Name: client.String("reader")})))
	if err := s.client.Workspaces.AddRemoteStateConsumers(s.ctx, w.ID,
		client.WorkspaceAddRemoteStateConsumersOptions{Workspaces: []*client.Workspace{reader}}); err != nil {
		t.Fatal(err)
	}
	if all := must(t, of(s.client.Workspaces.ListRemoteStateConsumers(s.ctx, w.ID, nil))); len(all.Items) != 1 {
		t.Errorf("%d consumers", len(all.Items))
	}
	if err := s.client.Workspaces.RemoveRemoteStateConsumers(s.ctx, w.ID,
		client.WorkspaceRemoveRemoteStateConsumersOptions{Workspaces: []*client.Workspace{reader}}); err != nil {
		t.Fatal(err)
	}
	team := must(t, of(s.client.Teams.Create(s.ctx, "acme", client.TeamCreateOptions{
		Name: client.String("devs"), SSOTeamID: client.String("sso"), Visibility: client.String("organization"),
		OrganizationAccess: &client.OrganizationAccessOptions{
			ManageTeams: client.Bool(true), ManageModules: client.Bool(true),
		},
	})))
	if a := team.OrganizationAccess; !a.ManageTeams || !a.ManageModules || a.ManageMembership || team.SSOTeamID != "sso" {
		t.Errorf("%+v", a)
	}
	on := must(t, of(s.client.TeamProjectAccess.Add(s.ctx, client.TeamProjectAccessAddOptions{
		Team: team, Project: p, Access: client.TeamProjectAccessCustom,
		ProjectAccess: &client.TeamProjectAccessProjectPermissionsOptions{
			Settings: client.ProjectSettingsPermission(client.ProjectSettingsPermissionUpdate),
		},
		WorkspaceAccess: &client.TeamProjectAccessWorkspacePermissionsOptions{
			Runs: client.WorkspaceRunsPermission(client.WorkspaceRunsPermissionPlan), Create: client.Bool(true),
		},
	})))
	on = must(t, of(s.client.TeamProjectAccess.Update(s.ctx, on.ID, client.TeamProjectAccessUpdateOptions{
		Access:          client.ProjectAccess(client.TeamProjectAccessCustom),
		WorkspaceAccess: &client.TeamProjectAccessWorkspacePermissionsOptions{Delete: client.Bool(true)},
	})))
	if a := on.WorkspaceAccess; a.WorkspaceRunsPermission != client.WorkspaceRunsPermissionPlan ||
		!a.WorkspaceCreatePermission || !a.WorkspaceDeletePermission || a.WorkspaceMovePermission ||
		on.ProjectAccess.ProjectSettingsPermission != client.ProjectSettingsPermissionUpdate {
		t.Errorf("%+v, %+v", a, on.ProjectAccess)
	}
	if _, err := s.client.TeamTokens.Read(s.ctx, team.ID); !errors.Is(err, client.ErrResourceNotFound) {
		t.Errorf("reading a token that does not exist: %v", err)
	}
	made := must(t, of(s.client.TeamTokens.Create(s.ctx, team.ID)))
	if read := must(t, of(s.client.TeamTokens.Read(s.ctx, team.ID))); read.ID != made.ID || read.Token != "" {
		t.Errorf("%+v", read)
	}
	mine := s.as(made.Token)
	must(t, of(mine.Workspaces.Create(s.ctx, "acme",
		client.WorkspaceCreateOptions{Name: client.String("theirs"), Project: p})))
	if _, err := mine.Workspaces.Create(s.ctx, "acme",
		client.WorkspaceCreateOptions{Name: client.String("elsewhere")}); err == nil {
		t.Error("a team has created a workspace without permission")
	}
	m := must(t, of(s.client.OrganizationMemberships.Create(s.ctx, "acme", client.OrganizationMembershipCreateOptions{
		Email: client.String("bob@example.com"), Teams: []*client.Team{team},
	})))
	if m.Status != client.OrganizationMembershipInvited || m.User == nil || len(m.Teams) != 1 {
		t.Errorf("%+v", m)
	}
	if err := s.client.OrganizationMemberships.Delete(s.ctx, m.ID); err != nil {
		t.Error(err)
	}
}

// The responses to clients that may only read versions included the addresses for uploading them. With such an address
// a reader could upload a configuration or a state.
func TestOnlyWhoMakesAVersionIsToldWhereToUploadIt(t *testing.T) {
	s := newSite(t)
	w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme",
		client.WorkspaceCreateOptions{Name: client.String("one")})))
	cv := must(t, of(s.client.ConfigurationVersions.Create(s.ctx, w.ID, client.ConfigurationVersionCreateOptions{})))
	must(t, of(s.client.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{})))
	sv := must(t, of(s.client.StateVersions.Create(s.ctx, w.ID, client.StateVersionCreateOptions{
		Serial: client.Int64(1), MD5: client.String("0cc175b9c0f1b6a831c399e269772661"), Lineage: client.String("l"),
	})))
	if cv.UploadURL == "" || sv.UploadURL == "" || sv.JSONUploadURL == "" {
		t.Errorf("%+v, %+v", cv, sv)
	}
	token := s.teamToken(w.ID, "admin")
	for who, c := range map[string]*client.Client{"its maker": s.client, "others": s.as(token)} {
		cv := must(t, of(c.ConfigurationVersions.Read(s.ctx, cv.ID)))
		sv := must(t, of(c.StateVersions.Read(s.ctx, sv.ID)))
		told := who == "its maker"
		if cv.UploadURL != "" || told != (sv.UploadURL != "") || told != (sv.JSONUploadURL != "") {
			t.Errorf("%s: %+v, %+v", who, cv, sv)
		}
	}
}

func TestRunsAreFoundByWhatTheyAre(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	plan := s.NewRun(w, nil)
	s.Await(plan.ID, "planned")
	if err := s.client.Runs.Apply(s.ctx, plan.ID, client.RunApplyOptions{Comment: client.String("go")}); err != nil {
		t.Fatal(err)
	}
	s.Await(plan.ID, "applied")
	for status, want := range map[string]int{"applied": 1, "planned,applied": 1, "errored": 0, "": 1} {
		all := must(t, of(s.client.Runs.List(s.ctx, w.ID, &client.RunListOptions{Status: status})))
		if len(all.Items) != want {
			t.Errorf("%q: %d", status, len(all.Items))
		}
	}
	all := must(t, of(s.client.Runs.ListForOrganization(s.ctx, "acme", &client.RunListForOrganizationOptions{
		WorkspaceNames: "one", Operation: "plan_and_apply",
	})))
	if len(all.Items) != 1 || all.Items[0].ID != plan.ID {
		t.Errorf("in the organization: %d", len(all.Items))
	}
	r := must(t, of(s.client.Runs.ReadWithOptions(s.ctx, plan.ID,
		&client.RunReadOptions{Include: []client.RunIncludeOpt{"run_events"}})))
	if len(r.RunEvents) == 0 || r.RunEvents[0].Action != "created" || r.ConfirmedBy == nil || len(r.Comments) != 1 {
		t.Errorf("%+v", r)
	}
	if said := must(t, of(s.client.Comments.Read(s.ctx, r.Comments[0].ID))); said.Body != "go" {
		t.Errorf("%+v", said)
	}
}

// Only members could be added to a team: an invited person was reported as a user that does not exist.
func TestATeamTakesInSomebodyWhoIsInvited(t *testing.T) {
	s := newSite(t)
	team := must(t, of(s.client.Teams.Create(s.ctx, "acme", client.TeamCreateOptions{Name: client.String("devs")})))
	m := must(t, of(s.client.OrganizationMemberships.Create(s.ctx, "acme", client.OrganizationMembershipCreateOptions{
		Email: client.String("bob@example.com"),
	})))
	read := func() int {
		return len(must(t, of(s.client.OrganizationMemberships.Read(s.ctx, m.ID))).Teams)
	}
	if err := s.client.TeamMembers.Add(s.ctx, team.ID, client.TeamMemberAddOptions{
		OrganizationMembershipIDs: []string{m.ID}}); err != nil || read() != 1 {
		t.Errorf("%v, %d teams", err, read())
	}
	if err := s.client.TeamMembers.Remove(s.ctx, team.ID, client.TeamMemberRemoveOptions{
		OrganizationMembershipIDs: []string{m.ID}}); err != nil || read() != 0 {
		t.Errorf("%v, %d teams", err, read())
	}
	p := must(t, of(s.client.Projects.Create(s.ctx, "acme", client.ProjectCreateOptions{Name: "platform"})))
	if _, err := s.client.TeamProjectAccess.Add(s.ctx, client.TeamProjectAccessAddOptions{
		Team: team, Project: p, Access: client.TeamProjectAccessCustom,
		ProjectAccess: &client.TeamProjectAccessProjectPermissionsOptions{
			Settings: client.ProjectSettingsPermission("everything"),
		},
	}); err == nil {
		t.Error("an unknown permission was accepted")
	}
}

func TestSettingsOfMillipedesOwnAreAttributesOfAWorkspace(t *testing.T) {
	s := newSite(t)
	w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme",
		client.WorkspaceCreateOptions{Name: client.String("one")})))
	patch := func(attributes string) (int, string) {
		t.Helper()
		return s.ask(http.MethodPatch, "workspaces/"+w.ID, `{"data":{"type":"workspaces","attributes":`+attributes+`}}`)
	}
	status, text := patch(`{"refresh":"changed","drift-period":"10m0s","object-locks":true}`)
	if status != http.StatusOK || !strings.Contains(text, `"refresh":"changed"`) ||
		!strings.Contains(text, `"drift-period":"10m"`) || !strings.Contains(text, `"object-locks":true`) {
		t.Errorf("%d: %s", status, text)
	}
	if status, text = patch(`{"description":"d"}`); status != http.StatusOK ||
		!strings.Contains(text, `"refresh":"changed"`) || !strings.Contains(text, `"drift-period":"10m"`) {
		t.Errorf("a setting that the request does not name has changed: %d: %s", status, text)
	}
	for _, wrong := range []string{`{"refresh":"some"}`, `{"drift-period":"5s"}`, `{"drift-period":"x"}`} {
		if status, text = patch(wrong); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d: %s", wrong, status, text)
		}
	}
	// Only the whole service had a retention.
	kept := `"retention":{"for":"720h","runs":20,"states":0}`
	for _, attributes := range []string{`{"retention":{"runs":20,"for":"720h"}}`, `{"description":"e"}`} {
		if status, text = patch(attributes); status != http.StatusOK || !strings.Contains(text, kept) {
			t.Errorf("%s: %d: %s", attributes, status, text)
		}
	}
	for _, wrong := range []string{
		`{"retention":{"runs":-1}}`, `{"retention":{"for":"x"}}`, `{"retention":{"for":"-1h"}}`,
	} {
		if status, text = patch(wrong); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d: %s", wrong, status, text)
		}
	}
	if status, text = patch(`{"retention":null}`); status != http.StatusOK || !strings.Contains(text, `"retention":null`) {
		t.Errorf("%d: %s", status, text)
	}
	if status, text = patch(`{"refresh":"","drift-period":"0"}`); status != http.StatusOK ||
		!strings.Contains(text, `"refresh":""`) || !strings.Contains(text, `"drift-period":"0"`) {
		t.Errorf("%d: %s", status, text)
	}
}
