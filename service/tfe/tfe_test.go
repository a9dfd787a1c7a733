package tfe_test

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheServiceIsFound(t *testing.T) {
	s := newSite(t)
	status, header, body := s.get("/.well-known/terraform.json", "")
	var services map[string]string
	if err := json.Unmarshal([]byte(body), &services); err != nil || status != 200 ||
		header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d, %v, %s", status, header, body)
	}
	for _, name := range []string{"tfe.v2", "tfe.v2.1", "tfe.v2.2", "state.v2"} {
		if services[name] != "/api/v2/" {
			t.Errorf("%s is %q", name, services[name])
		}
	}
	_, header, _ = s.get("/api/v2/ping", "")
	if header.Get("TFP-API-Version") != "2.6" || !strings.HasPrefix(header.Get("X-TFE-Version"), "v2025") {
		t.Errorf("%v", header)
	}
}

func TestWithoutATokenNothingIsTold(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"account/details", "organizations", "organizations/acme/workspaces",
		"runs/run-1", "nosuch"} {
		for _, token := range []string{"", "wrong"} {
			status, header, body := s.get("/api/v2/"+path, token)
			if status != 401 || header.Get("Content-Type") != "application/vnd.api+json" ||
				!strings.Contains(body, `"status":"401"`) {
				t.Errorf("%s with %q: %d %s", path, token, status, body)
			}
		}
	}
	if status, _, body := s.get("/api/v2/nosuch", s.Token); status != 404 || !strings.Contains(body, `"title"`) {
		t.Errorf("a path that does not exist: %d %s", status, body)
	}
}

func TestWorkspacesAreMadeFoundChangedAndDeleted(t *testing.T) {
	s := newSite(t)
	set := must(t, of(s.client.Organizations.ReadEntitlements(s.ctx, "acme")))
	if !set.Operations || !set.StateStorage {
		t.Errorf("%+v", set)
	}
	w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme", client.WorkspaceCreateOptions{
		Name: client.String("one"), TerraformVersion: client.String("1.12.6"), Tags: []*client.Tag{{Name: "app"},
			{Name: "prod"}},
	})))
	if w.Name != "one" || w.TerraformVersion != "1.12.6" || w.ExecutionMode != "remote" || w.Permissions == nil ||
		!w.Permissions.CanQueueRun ||
		w.Organization.Name != "acme" || fmt.Sprint(w.TagNames) != "[app prod]" {
		t.Errorf("%+v", w)
	}
	if _, err := s.client.Workspaces.Create(s.ctx, "acme",
		client.WorkspaceCreateOptions{Name: client.String("one")}); err == nil ||
		!strings.Contains(err.Error(), "already been taken") {
		t.Errorf("creating a name twice: %v", err)
	}
	for i := range 25 {
		must(t, of(s.client.Workspaces.Create(s.ctx, "acme",
			client.WorkspaceCreateOptions{Name: client.String(fmt.Sprintf("w%02d", i))})))
	}
	page := must(t, of(s.client.Workspaces.List(s.ctx, "acme",
		&client.WorkspaceListOptions{ListOptions: client.ListOptions{PageNumber: 2}})))
	if len(page.Items) != 6 || page.TotalCount != 26 || page.CurrentPage != 2 || page.NextPage != 0 ||
		page.PreviousPage != 1 {
		t.Errorf("%d of %+v", len(page.Items), page.Pagination)
	}
	tagged := must(t, of(s.client.Workspaces.List(s.ctx, "acme", &client.WorkspaceListOptions{Tags: "app,prod"})))
	if len(tagged.Items) != 1 || tagged.Items[0].ID != w.ID {
		t.Errorf("by tags: %+v", tagged)
	}
	if err := s.client.Workspaces.AddTags(s.ctx, w.ID,
		client.WorkspaceAddTagsOptions{Tags: []*client.Tag{{Name: "more"}}}); err != nil {
		t.Fatal(err)
	}
	w = must(t, of(s.client.Workspaces.Update(s.ctx, "acme", "one", client.WorkspaceUpdateOptions{
		ExecutionMode: client.String("local"), WorkingDirectory: client.String("envs/prod"),
	})))
	if w.ExecutionMode != "local" || w.WorkingDirectory != "envs/prod" || len(w.TagNames) != 3 {
		t.Errorf("%+v", w)
	}
	if _, err := s.client.Workspaces.UpdateByID(s.ctx, w.ID,
		client.WorkspaceUpdateOptions{WorkingDirectory: client.String("../up")}); err == nil {
		t.Error("a working directory outside of the configuration was accepted")
	}
	if err := s.client.Workspaces.SafeDelete(s.ctx, "acme", "one"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Workspaces.Read(s.ctx, "acme", "one"); !errors.Is(err, client.ErrResourceNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

func TestARunGoesThroughTheAPI(t *testing.T) {
	s := newSite(t)
	w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme",
		client.WorkspaceCreateOptions{Name: client.String("one")})))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte("# nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	cv := must(t, of(s.client.ConfigurationVersions.Create(s.ctx, w.ID,
		client.ConfigurationVersionCreateOptions{AutoQueueRuns: client.Bool(false)})))
	if err := s.client.ConfigurationVersions.Upload(s.ctx, cv.UploadURL, dir); err != nil {
		t.Fatal(err)
	}
	if cv = must(t, of(s.client.ConfigurationVersions.Read(s.ctx, cv.ID))); cv.Status != client.ConfigurationUploaded {
		t.Errorf("%+v", cv)
	}
	r := must(t, of(s.client.Runs.Create(s.ctx, client.RunCreateOptions{
		Workspace: w, ConfigurationVersion: cv, Message: client.String("first"),
		Variables: []*client.RunVariable{{Key: "x", Value: `"5"`}},
	})))
	for r.Status != client.RunPlanned {
		r = must(t, of(s.client.Runs.ReadWithOptions(s.ctx, r.ID,
			&client.RunReadOptions{Include: []client.RunIncludeOpt{client.RunWorkspace, client.RunPlan}})))
	}
	if !r.HasChanges || !r.Actions.IsConfirmable || r.Actions.IsCancelable || !r.Permissions.CanApply ||
		r.Workspace.Name != "one" ||
		r.Plan.Status != client.PlanFinished || len(r.Variables) != 1 {
		t.Errorf("%+v", r)
	}
	logs := must(t, of(s.client.Plans.Logs(s.ctx, r.Plan.ID)))
	if text := must(t, of(io.ReadAll(logs))); !strings.Contains(string(text), "planning") ||
		bytes.ContainsAny(text, "\x02\x03") {
		t.Errorf("%q", text)
	}
	events := must(t, of(s.client.RunEvents.List(s.ctx, r.ID, nil)))
	if len(events.Items) < 4 || events.Items[0].Action != "created" {
		t.Errorf("%d events", len(events.Items))
	}
	if data := must(t, of(s.client.Plans.ReadJSONOutput(s.ctx, r.Plan.ID))); !strings.Contains(string(data), r.ID) {
		t.Errorf("%s", data)
	}
	if err := s.client.Runs.Apply(s.ctx, r.ID, client.RunApplyOptions{Comment: client.String("go")}); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Runs.Discard(s.ctx, r.ID, client.RunDiscardOptions{}); err == nil {
		t.Error("a confirmed run was discarded")
	}
	for r.Status != client.RunApplied {
		r = must(t, of(s.client.Runs.Read(s.ctx, r.ID)))
	}
	logs = must(t, of(s.client.Applies.Logs(s.ctx, r.Apply.ID)))
	if text := must(t, of(io.ReadAll(logs))); !strings.Contains(string(text), "applying") {
		t.Errorf("%q", text)
	}
	outputs := must(t, of(s.client.StateVersionOutputs.ReadCurrent(s.ctx, w.ID)))
	if len(outputs.Items) != 1 || outputs.Items[0].Name != "o" || outputs.Items[0].Value != "v" {
		t.Errorf("%+v", outputs.Items)
	}
	if all := must(t, of(s.client.Runs.List(s.ctx, w.ID, nil))); len(all.Items) != 1 {
		t.Errorf("%d runs", len(all.Items))
	}
}

func TestAClientCarriesItsRunsOutItself(t *testing.T) {
	s := newSite(t)
	w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme", client.WorkspaceCreateOptions{
		Name: client.String("one"), ExecutionMode: client.String("local"),
	})))
	if _, err := s.client.StateVersions.ReadCurrent(s.ctx, w.ID); !errors.Is(err, client.ErrResourceNotFound) {
		t.Errorf("reading the current state before there is one: %v", err)
	}
	if outputs := must(t, of(s.client.StateVersionOutputs.ReadCurrent(s.ctx, w.ID))); len(outputs.Items) != 0 {
		t.Errorf("%+v", outputs.Items)
	}
	must(t, of(s.client.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{Reason: client.String("apply")})))
	if _, err := s.client.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{}); !errors.Is(err,
		client.ErrWorkspaceLocked) {
		t.Errorf("locking twice: %v", err)
	}
	state := []byte(`{"version":4,"terraform_version":"1.12.6","serial":1,"lineage":"l","outputs":{` +
		`"list":{"value":["a"],"type":["list","string"]},` +
		`"secret":{"value":"canary","type":"string","sensitive":true}},"resources":[]}`)
	v := must(t, of(s.client.StateVersions.Upload(s.ctx, w.ID, client.StateVersionUploadOptions{
		StateVersionCreateOptions: client.StateVersionCreateOptions{
			Serial: client.Int64(1), Lineage: client.String("l"), MD5: client.String(fmt.Sprintf("%x", md5.Sum(state))),
			JSONStateOutputs: client.String(base64.StdEncoding.EncodeToString([]byte(`{}`))),
		},
		RawState: state, RawJSONState: []byte("{}"),
	})))
	if v.Status != client.StateVersionFinalized || !v.ResourcesProcessed {
		t.Errorf("%+v", v)
	}
	if got := must(t, of(s.client.StateVersions.Download(s.ctx, v.DownloadURL))); !bytes.Equal(got, state) {
		t.Errorf("%s", got)
	}
	if _, _, body := s.get("/api/v2/workspaces/"+w.ID+"/current-state-version-outputs", s.Token); strings.Contains(
		body, "canary") {
		t.Errorf("a sensitive value is in the list: %s", body)
	}
	for _, o := range must(t, of(s.client.StateVersionOutputs.ReadCurrent(s.ctx, w.ID))).Items {
		one := must(t, of(s.client.StateVersionOutputs.Read(s.ctx, o.ID)))
		if want := map[string]string{"list": "[a] [list string]", "secret": "canary string"}[o.Name]; fmt.Sprint(
			one.Value, " ", one.DetailedType) != want {
			t.Errorf("%s is %v, %v", o.Name, one.Value, one.DetailedType)
		}
	}
	must(t, of(s.client.Workspaces.Unlock(s.ctx, w.ID)))
	if _, err := s.client.Workspaces.Unlock(s.ctx, w.ID); !errors.Is(err, client.ErrWorkspaceNotLocked) {
		t.Errorf("unlocking twice: %v", err)
	}
}

func TestVariablesTeamsAndTheRestAreManaged(t *testing.T) {
	s := newSite(t)
	w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme",
		client.WorkspaceCreateOptions{Name: client.String("one")})))
	v := must(t, of(s.client.Variables.Create(s.ctx, w.ID, client.VariableCreateOptions{
		Key: client.String("k"), Value: client.String("canary"), Category: client.Category(client.CategoryEnv),
		Sensitive: client.Bool(true),
	})))
	if v.Value != "" || v.Category != client.CategoryEnv {
		t.Errorf("%+v", v)
	}
	must(t, of(s.client.Variables.Update(s.ctx, w.ID, v.ID,
		client.VariableUpdateOptions{Description: client.String("d")})))
	if all := must(t, of(s.client.Variables.List(s.ctx, w.ID, nil))); len(all.Items) != 1 ||
		all.Items[0].Description != "d" {
		t.Errorf("%+v", all.Items)
	}
	set := must(t, of(s.client.VariableSets.Create(s.ctx, "acme",
		&client.VariableSetCreateOptions{Name: client.String("set"), Global: client.Bool(false)})))
	must(t, of(s.client.VariableSetVariables.Create(s.ctx, set.ID, &client.VariableSetVariableCreateOptions{
		Key: client.String("k"), Value: client.String("v"), Category: client.Category(client.CategoryTerraform),
	})))
	if err := s.client.VariableSets.ApplyToWorkspaces(s.ctx, set.ID,
		&client.VariableSetApplyToWorkspacesOptions{Workspaces: []*client.Workspace{w}}); err != nil {
		t.Fatal(err)
	}
	include := []client.VariableSetIncludeOpt{client.VariableSetVars, client.VariableSetWorkspaces}
	set = must(t, of(s.client.VariableSets.Read(s.ctx, set.ID, &client.VariableSetReadOptions{Include: &include})))
	if len(set.Variables) != 1 || len(set.Workspaces) != 1 {
		t.Errorf("%+v", set)
	}
	team := must(t, of(s.client.Teams.Create(s.ctx, "acme", client.TeamCreateOptions{Name: client.String("devs")})))
	access := must(t, of(s.client.TeamAccess.Add(s.ctx, client.TeamAccessAddOptions{
		Team: team, Workspace: w, Access: client.Access(client.AccessCustom),
		Runs:          client.RunsPermission(client.RunsPermissionPlan),
		Variables:     client.VariablesPermission(client.VariablesPermissionNone),
		StateVersions: client.StateVersionsPermission(client.StateVersionsPermissionReadOutputs),
	})))
	if access.Runs != client.RunsPermissionPlan || access.StateVersions != client.StateVersionsPermissionReadOutputs ||
		access.WorkspaceLocking {
		t.Errorf("%+v", access)
	}
	token := must(t, of(s.client.TeamTokens.Create(s.ctx, team.ID)))
	theirs := s.as(token.Token)
	if _, err := theirs.Variables.List(s.ctx, w.ID, nil); err == nil {
		t.Error("a team without permission has read variables")
	}
	must(t, of(theirs.Workspaces.Read(s.ctx, "acme", "one")))
	n := must(t, of(s.client.NotificationConfigurations.Create(s.ctx, w.ID,
		client.NotificationConfigurationCreateOptions{
			Name: client.String("n"), DestinationType: client.NotificationDestination(
				client.NotificationDestinationTypeGeneric), Enabled: client.Bool(false),
			URL: client.String("https://example.com"), Token: client.String("canary"),
			Triggers: []client.NotificationTriggerType{client.NotificationTriggerCompleted},
		})))
	if n.Token != "" || len(n.Triggers) != 1 {
		t.Errorf("%+v", n)
	}
	people := []*client.User{must(t, of(s.client.Users.ReadCurrent(s.ctx)))}
	mailed := must(t, of(s.client.NotificationConfigurations.Create(s.ctx, w.ID,
		client.NotificationConfigurationCreateOptions{
			Name: client.String("m"), DestinationType: client.NotificationDestination(
				client.NotificationDestinationTypeEmail), Enabled: client.Bool(false),
			EmailAddresses: []string{"team@example.org"}, EmailUsers: people,
		})))
	mailed = must(t, of(s.client.NotificationConfigurations.Update(s.ctx, mailed.ID,
		client.NotificationConfigurationUpdateOptions{Name: client.String("mail")})))
	if mailed.Name != "mail" || !slices.Equal(mailed.EmailAddresses, []string{"team@example.org"}) ||
		len(mailed.EmailUsers) != 1 || mailed.EmailUsers[0].ID != people[0].ID {
		t.Errorf("%+v", mailed)
	}
	p := must(t, of(s.client.Projects.Create(s.ctx, "acme", client.ProjectCreateOptions{Name: "other"})))
	must(t, of(s.client.Workspaces.UpdateByID(s.ctx, w.ID, client.WorkspaceUpdateOptions{Project: p})))
	if err := s.client.Projects.Delete(s.ctx, p.ID); err == nil {
		t.Error("a project with a workspace was deleted")
	}
	me := must(t, of(s.client.Users.ReadCurrent(s.ctx)))
	mine := must(t, of(s.client.UserTokens.Create(s.ctx, me.ID, client.UserTokenCreateOptions{Description: "ci"})))
	if err := s.client.UserTokens.Delete(s.ctx, mine.ID); err != nil || mine.Token == "" {
		t.Errorf("%q, %v", mine.Token, err)
	}
}

// A request that is repeated because its response was lost must not create a second object.
func TestARepeatedRequestMakesNothingTwice(t *testing.T) {
	s := newSite(t)
	w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme",
		client.WorkspaceCreateOptions{Name: client.String("one")})))
	options := client.ConfigurationVersionCreateOptions{AutoQueueRuns: client.Bool(false)}
	cv := must(t, of(s.client.ConfigurationVersions.Create(s.ctx, w.ID, options)))
	if other := must(t, of(s.client.ConfigurationVersions.Create(s.ctx, w.ID, options))); other.ID == cv.ID {
		t.Error("two equal requests, neither of which is a repetition, have created only one configuration version")
	} else {
		cv = other
	}
	s.Later(time.Second) // nobody asks again sooner
	if again := must(t, of(s.client.ConfigurationVersions.Create(s.ctx, w.ID, options))); again.ID != cv.ID {
		t.Error("the repeated request has created a second configuration version")
	}
	if err := s.client.ConfigurationVersions.Upload(s.ctx, cv.UploadURL, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	run := client.RunCreateOptions{Workspace: w, ConfigurationVersion: cv}
	r := must(t, of(s.client.Runs.Create(s.ctx, run)))
	s.Later(time.Second)
	if again := must(t, of(s.client.Runs.Create(s.ctx, run))); again.ID != r.ID {
		t.Error("two runs")
	}
}

func TestUploadAndLogAddressesCannotBeGuessed(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/logs/x", "/logs/", "/uploads/states/x"} {
		if status, _, _ := s.get(path, ""); status != 404 && status != 405 {
			t.Errorf("%s: %d", path, status)
		}
	}
	w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme",
		client.WorkspaceCreateOptions{Name: client.String("one")})))
	cv := must(t, of(s.client.ConfigurationVersions.Create(s.ctx, w.ID, client.ConfigurationVersionCreateOptions{})))
	secret := cv.UploadURL[strings.LastIndex(cv.UploadURL, "/")+1:]
	if len(secret) < 40 || strings.Contains(cv.UploadURL, cv.ID) {
		t.Errorf("the address is %s", cv.UploadURL)
	}
	if err := s.client.ConfigurationVersions.Upload(s.ctx, cv.UploadURL, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte("# another one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.client.ConfigurationVersions.Upload(s.ctx, cv.UploadURL, dir); err == nil {
		t.Error("an address was used twice")
	}
}
