package tfe_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tfe"
	"github.com/millipede-iac/millipede/service/variables"
)

// A change read the object, then the body of the request, and then stored the whole object. Changes that somebody else
// made meanwhile were silently undone, and a client that sent its request slowly could extend that time at will.
func TestTwoWhoChangeAnObjectAtOnceUndoNothing(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	project := must(t, of(s.Projects.Create(s.Admin, record.Project{Organization: "acme", Name: "platform"})))
	set := must(t, of(s.VariableSets.Create(s.Admin, record.VariableSet{Organization: "acme", Name: "common"})))
	team := must(t, of(s.Teams.Create(s.Admin, record.Team{Organization: "acme", Name: "devs"})))
	access := must(t, of(s.TeamAccess.Create(s.Admin, record.Access{Team: team.ID, On: w.ID, Role: "custom"})))
	n := must(t, of(s.Notifications.Create(s.Admin, record.Notification{
		Workspace: w.ID, Name: "hook", Destination: "generic", URL: "https://example.com",
	})))
	api := tfe.Handler(tfe.Options{Service: s.Service})
	for path, change := range map[string]struct{ slow, quick, wants string }{
		"projects/" + project.ID: {`{"name":"slow"}`, `{"description":"quick"}`, `"description":"quick"`},
		"varsets/" + set.ID:      {`{"name":"slow"}`, `{"priority":true}`, `"priority":true`},
		"teams/" + team.ID:       {`{"name":"slow"}`, `{"sso-team-id":"quick"}`, `"sso-team-id":"quick"`},
		"team-workspaces/" + access.ID: {`{"runs":"plan"}`, `{"variables":"write"}`,
			`"variables":"write"`},
		"notification-configurations/" + n.ID: {`{"name":"slow"}`, `{"triggers":["run:errored"]}`,
			`"triggers":["run:errored"]`},
		"workspaces/" + w.ID: {`{"description":"slow"}`, `{"working-directory":"quick"}`, `"working-directory":"quick"`},
	} {
		document := func(attributes string) string { return `{"data":{"type":"x","attributes":` + attributes + `}}` }
		body, send := io.Pipe()
		r := httptest.NewRequestWithContext(s.ctx, http.MethodPatch, "/api/v2/"+path, body)
		r.Header.Set("Authorization", "Bearer "+s.Token)
		answer, done := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(done)
			api.ServeHTTP(answer, r)
			body.Close()
		}()
		text := document(change.slow)
		must(t, of(io.WriteString(send, text[:5]))) // the request is being read
		if status, said := s.ask(http.MethodPatch, path, document(change.quick)); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, said)
		}
		must(t, of(io.WriteString(send, text[5:])))
		send.Close()
		<-done
		status, said := s.ask(http.MethodGet, path, "")
		if answer.Code != http.StatusOK || status != http.StatusOK || !strings.Contains(said, change.wants) ||
			!strings.Contains(said, strings.Trim(change.slow, "{}")) {
			t.Errorf("%s: %d %s, then %s", path, answer.Code, answer.Body, said)
		}
	}
}

// A team that may manage teams could not join the owners, but it could set the group of the owners' team. If it set one
// of its own groups, its members were owners after their next login.
func TestOnlyOwnersChangeTheOwnersTeam(t *testing.T) {
	s := newSite(t)
	team := must(t, of(s.Teams.Create(s.Admin, record.Team{Organization: "acme", Name: "devs", ManageTeams: true})))
	token, _, err := s.Tokens.Create(s.Admin, record.TokenTeam, team.ID, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	o := must(t, of(s.Organizations.Find(s.Admin, "acme")))
	group := client.TeamUpdateOptions{SSOTeamID: client.String("mine")}
	if _, err := s.as(token).Teams.Update(s.ctx, o.Owners, group); err == nil {
		t.Error("a team that is not the owners has set the group of the owners")
	}
	if owners := must(t, of(s.Teams.Find(s.Admin, o.Owners))); owners.SSO != "" {
		t.Errorf("the group of the owners is %q", owners.SSO)
	}
	must(t, of(s.client.Teams.Update(s.ctx, o.Owners, group)))
	if other := must(t, of(s.Teams.Create(s.Admin, record.Team{Organization: "acme", Name: "ops"}))); other != nil {
		must(t, of(s.as(token).Teams.Update(s.ctx, other.ID, group)))
	}
}

// Programs asked for the tags of an organization, and got 404; a tag that was given by its ID became a new one, with
// the ID as its name.
func TestTheTagsOfAnOrganizationAreListedAddedAndDeleted(t *testing.T) {
	s := newSite(t)
	one, two := s.NewWorkspace("one"), s.NewWorkspace("two")
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(s.client.Workspaces.AddTags(s.ctx, one.ID, client.WorkspaceAddTagsOptions{
		Tags: []*client.Tag{{Name: "app"}, {Name: "prod"}}}))
	list := func(o *client.OrganizationTagsListOptions) string {
		t.Helper()
		var out []string
		for _, tag := range must(t, of(s.client.OrganizationTags.List(s.ctx, "acme", o))).Items {
			out = append(out, fmt.Sprint(tag.ID, " ", tag.Name, " ", tag.InstanceCount, " ", tag.Organization.Name))
		}
		return strings.Join(out, ", ")
	}
	if got := list(nil); got != "tag-app app 1 acme, tag-prod prod 1 acme" {
		t.Error(got)
	}
	ok(s.client.OrganizationTags.AddWorkspaces(s.ctx, "tag-app", client.AddWorkspacesToTagOptions{
		WorkspaceIDs: []string{two.ID}}))
	ok(s.client.Workspaces.AddTags(s.ctx, two.ID, client.WorkspaceAddTagsOptions{Tags: []*client.Tag{{ID: "tag-db"}}}))
	if got := list(nil); got != "tag-app app 2 acme, tag-db db 1 acme, tag-prod prod 1 acme" {
		t.Error(got)
	}
	if got := list(&client.OrganizationTagsListOptions{Filter: two.ID}); got != "tag-prod prod 1 acme" {
		t.Errorf("the tags that a workspace does not have: %s", got)
	}
	if got := list(&client.OrganizationTagsListOptions{Query: "PRO"}); got != "tag-prod prod 1 acme" {
		t.Errorf("searched: %s", got)
	}
	ok(s.client.OrganizationTags.Delete(s.ctx, "acme", client.OrganizationTagsDeleteOptions{IDs: []string{"tag-app"}}))
	if got := list(nil); got != "tag-db db 1 acme, tag-prod prod 1 acme" {
		t.Errorf("after one was deleted: %s", got)
	}
	token := s.teamToken(one.ID, "admin")
	theirs := s.as(token).OrganizationTags
	if err := theirs.Delete(s.ctx, "acme", client.OrganizationTagsDeleteOptions{IDs: []string{"tag-db"}}); err == nil {
		t.Error("an administrator of one workspace has deleted a tag of all")
	}
	if err := theirs.AddWorkspaces(s.ctx, "tag-x", client.AddWorkspacesToTagOptions{
		WorkspaceIDs: []string{one.ID, two.ID}}); err == nil || strings.Contains(list(nil), "tag-x") {
		t.Errorf("a workspace of others was tagged: %v, %s", err, list(nil))
	}
}

// The provider tfe sets the tags of a project by another path since its version 0.79: every project with tags failed.
func TestTagsAreSetAsARelationship(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	p := must(t, of(s.Projects.Create(s.Admin, record.Project{Organization: "acme", Name: "platform"})))
	const pair = `{"data":[{"type":"tag-bindings","attributes":{"key":%q,"value":%q}}]}`
	for _, of := range []string{"projects/" + p.ID, "workspaces/" + w.ID} {
		for _, step := range []struct{ method, key, want string }{
			{http.MethodPost, "a", "a"}, {http.MethodPost, "b", "a b"}, {http.MethodPatch, "c", "c"},
		} {
			path := of + "/relationships/tag-bindings"
			if status, body := s.ask(step.method, path, fmt.Sprintf(pair, step.key, "1")); status/100 != 2 {
				t.Fatalf("%s %s: %d %s", step.method, path, status, body)
			}
			_, body := s.ask(http.MethodGet, path, "")
			var got []string
			for _, key := range []string{"a", "b", "c"} {
				if strings.Contains(body, fmt.Sprintf(`"key":%q`, key)) {
					got = append(got, key)
				}
			}
			if strings.Join(got, " ") != step.want {
				t.Errorf("%s %s %s: %s", step.method, path, step.key, body)
			}
		}
	}
}

// Tags that a workspace inherits could not be distinguished from its own. The provider tfe added them to the workspace
// with its next change, and they stayed when the project changed.
func TestATagOfTheProjectIsNotTakenForOneOfTheWorkspace(t *testing.T) {
	s := newSite(t)
	w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme", client.WorkspaceCreateOptions{Name: client.String("one"),
		TagBindings: []*client.TagBinding{{Key: "own", Value: "1"}}})))
	must(t, of(s.client.Projects.AddTagBindings(s.ctx, w.Project.ID, client.ProjectAddTagBindingsOptions{
		TagBindings: []*client.TagBinding{{Key: "owner", Value: "us"}, {Key: "own", Value: "2"}}})))
	listed := must(t, of(s.client.Workspaces.ListEffectiveTagBindings(s.ctx, w.ID)))
	included := must(t, of(s.client.Workspaces.ReadByIDWithOptions(s.ctx, w.ID, &client.WorkspaceReadOptions{
		Include: []client.WSIncludeOpt{client.WSEffectiveTagBindings}}))).EffectiveTagBindings
	for _, all := range [][]*client.EffectiveTagBinding{listed, included} {
		var got []string
		for _, b := range all {
			got = append(got, fmt.Sprint(b.Key, " ", b.Value, " ", b.Links["inherited-from"]))
		}
		if text := strings.Join(got, ", "); text != "own 1 <nil>, owner us /api/v2/projects/"+w.Project.ID {
			t.Error(text)
		}
	}
}

// The list of all variables of a workspace included variables that others override.
func TestAllVariablesAreThoseThatARunHas(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	put := func(parent, key, value string) {
		must(t, of(s.Variables.Put(s.Admin, parent, "", variables.Settings{Key: &key, Value: &value,
			Sensitive: servicetest.Ptr(key == "secret")})))
	}
	first := must(t, of(s.VariableSets.Create(s.Admin, record.VariableSet{
		Organization: "acme", Name: "first", Global: true})))
	last := must(t, of(s.VariableSets.Create(s.Admin, record.VariableSet{
		Organization: "acme", Name: "last", Global: true, Priority: true})))
	for _, key := range []string{"a", "b", "c", "secret"} {
		put(first.ID, key, "first")
	}
	put(w.ID, "b", "own")
	put(w.ID, "c", "own")
	put(last.ID, "c", "last")
	var got []string
	for _, v := range must(t, of(s.client.Variables.ListAll(s.ctx, w.ID, nil))).Items {
		got = append(got, v.Key+"="+v.Value)
	}
	if slices.Sort(got); strings.Join(got, " ") != "a=first b=own c=last secret=" {
		t.Errorf("%q", got)
	}
}

func TestWhatIsIncludedWithAnOrganizationATeamAndAToken(t *testing.T) {
	s := newSite(t)
	o := must(t, of(s.client.Organizations.ReadWithOptions(s.ctx, "acme", client.OrganizationReadOptions{
		Include: []client.OrganizationIncludeOpt{client.OrganizationDefaultProject}})))
	if o.DefaultProject == nil || o.DefaultProject.Name != "Default Project" {
		t.Errorf("%+v", o.DefaultProject)
	}
	team := must(t, of(s.Teams.Create(s.Admin, record.Team{Organization: "acme", Name: "devs"})))
	m := must(t, of(s.client.OrganizationMemberships.Create(s.ctx, "acme", client.OrganizationMembershipCreateOptions{
		Email: client.String("new@example.org"), Teams: []*client.Team{{ID: team.ID}}})))
	if m.User.Email != "new@example.org" {
		t.Errorf("the response to an invitation does not include the user: %+v", m.User)
	}
	all := must(t, of(s.client.TeamMembers.ListOrganizationMemberships(s.ctx, team.ID)))
	if len(all) != 1 || all[0].ID != m.ID || all[0].Status != client.OrganizationMembershipInvited {
		t.Errorf("%d memberships of a team to which somebody is invited", len(all))
	}
	if status, body := s.ask(http.MethodGet, "teams/"+team.ID+"/relationships/organization-memberships", ""); status !=
		http.StatusOK || !strings.Contains(body, m.ID) {
		t.Errorf("%d %s", status, body)
	}
	found := must(t, of(s.client.OrganizationMemberships.List(s.ctx, "acme", &client.OrganizationMembershipListOptions{
		Include: []client.OrgMembershipIncludeOpt{client.OrgMembershipUser}, Emails: []string{"new@example.org"}})))
	if len(found.Items) != 1 || found.Items[0].User.Email != "new@example.org" {
		t.Errorf("somebody who is invited is not found by their address: %d", len(found.Items))
	}
	if k := must(t, of(s.client.TeamTokens.Create(s.ctx, team.ID))); k.Description != nil {
		t.Errorf("a token without a description has the description %q", *k.Description)
	}
}

// Settings that the service does not support were accepted and ignored: the provider tfe planned to set them with each
// run, and an administrator who disabled the tokens of users believed that they were disabled.
func TestSettingsOfAnOrganizationAreKeptOrRefused(t *testing.T) {
	s := newSite(t)
	no, yes, minutes := false, true, 60
	o := must(t, of(s.client.Organizations.Update(s.ctx, "acme", client.OrganizationUpdateOptions{
		SpeculativePlanManagementEnabled: &no, SendPassingStatusesForUntriggeredSpeculativePlans: &yes,
		CostEstimationEnabled: &yes})))
	if !o.CostEstimationEnabled || o.SpeculativePlanManagementEnabled || !o.AggregatedCommitStatusEnabled ||
		!o.SendPassingStatusesForUntriggeredSpeculativePlans || !o.AllowForceDeleteWorkspaces {
		t.Errorf("%+v", o)
	}
	policy := client.AuthPolicyTwoFactor
	for what, change := range map[string]client.OrganizationUpdateOptions{
		"two factors": {CollaboratorAuthPolicy: &policy}, "short sessions": {SessionTimeout: &minutes},
		"no user tokens": {UserTokensEnabled: &no}, "assessments": {AssessmentsEnforced: &yes},
	} {
		if _, err := s.client.Organizations.Update(s.ctx, "acme", change); err == nil {
			t.Errorf("%s: accepted, although it has no effect", what)
		}
	}
}

func TestOnlyOwnersDeleteWhatManagesResourcesWhereTheySaySo(t *testing.T) {
	s := newSite(t)
	team := must(t, of(s.Teams.Create(s.Admin, record.Team{Organization: "acme", Name: "devs"})))
	token, _, err := s.Tokens.Create(s.Admin, record.TokenTeam, team.ID, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	full, empty := s.NewWorkspace("full"), s.NewWorkspace("empty")
	state := []byte(`{"version":4,"serial":1,"lineage":"l","resources":[{"mode":"managed","instances":[{}]}]}`)
	must(t, of(s.client.Workspaces.Lock(s.ctx, full.ID, client.WorkspaceLockOptions{})))
	must(t, of(s.client.StateVersions.Upload(s.ctx, full.ID, client.StateVersionUploadOptions{
		StateVersionCreateOptions: client.StateVersionCreateOptions{Serial: client.Int64(1), Lineage: client.String("l"),
			MD5: client.String(service.Sum(state))}, RawState: state})))
	must(t, of(s.client.Workspaces.Unlock(s.ctx, full.ID)))
	for _, w := range []string{full.ID, empty.ID} {
		must(t, of(s.TeamAccess.Create(s.Admin, record.Access{Team: team.ID, On: w, Role: "admin"})))
	}
	must(t, of(s.client.Organizations.Update(s.ctx, "acme", client.OrganizationUpdateOptions{
		AllowForceDeleteWorkspaces: client.Bool(false)})))
	theirs := s.as(token)
	if err := theirs.Workspaces.DeleteByID(s.ctx, full.ID); err == nil || !strings.Contains(err.Error(), "only owners") {
		t.Errorf("a workspace with resources: %v", err)
	}
	if err := theirs.Workspaces.DeleteByID(s.ctx, empty.ID); err != nil {
		t.Errorf("an empty one: %v", err)
	}
	if err := s.client.Workspaces.DeleteByID(s.ctx, full.ID); err != nil {
		t.Errorf("by an owner: %v", err)
	}
}

// Searches for a person or a commit were ignored, and found every run.
func TestRunsAreSearchedByPersonAndCommit(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	s.NewRun(w, nil)
	me := must(t, of(s.client.Users.ReadCurrent(s.ctx)))
	for _, search := range []struct {
		by   client.RunListOptions
		want int
	}{
		{client.RunListOptions{User: me.Username}, 1}, {client.RunListOptions{User: "nobody-at-all"}, 0},
		{client.RunListOptions{Commit: "4f2a"}, 0}, {client.RunListOptions{User: me.Username, Commit: "4f2a"}, 0},
	} {
		if got := must(t, of(s.client.Runs.List(s.ctx, w.ID, &search.by))).Items; len(got) != search.want {
			t.Errorf("%+v: %d runs", search.by, len(got))
		}
	}
}
