package tfe_test

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/variables"
	"github.com/millipede-iac/millipede/service/work"
)

// Routes without included documents accepted any name in include. On others, a change with an unknown name was made
// before it was refused, and the client repeated it without the name.
func TestAnUnknownIncludeIsRefusedBeforeAnythingIsDone(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	for _, path := range []string{
		"organizations", "organizations/acme", "organizations/acme/workspaces", "workspaces/" + w.ID,
		"workspaces/" + w.ID + "/vars", "workspaces/" + w.ID + "/runs", "organizations/acme/projects",
		"state-versions?filter[organization][name]=acme&filter[workspace][name]=one", "account/details",
	} {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		status, body := s.ask(http.MethodGet, path+separator+"include=nosuch", "")
		if status != http.StatusBadRequest || !strings.Contains(body, "include parameter") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := s.ask(http.MethodPost, "organizations/acme/workspaces?include=nosuch",
		`{"data":{"type":"workspaces","attributes":{"name":"two"}}}`); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := s.ask(http.MethodGet, "organizations/acme/workspaces/two", ""); status != http.StatusNotFound {
		t.Errorf("the object was created nevertheless: %d", status)
	}
	if status, body := s.ask(http.MethodGet, "workspaces/"+w.ID+"?include=organization,project,effective-tag-bindings",
		""); status != http.StatusOK || !strings.Contains(body, `"included"`) {
		t.Errorf("%d %s", status, body)
	}
}

// Command lines did not know the status of a run that was canceled by force: they took it for a run in progress, and
// exited successfully.
func TestARunThatWasLeftIsCanceledForClients(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	begun := make(chan struct{})
	s.Engine.Mu.Lock()
	s.Engine.PlanFunc = servicetest.PlanUntilLeft(begun)
	s.Engine.Mu.Unlock()
	r := s.NewRun(w, nil)
	<-begun
	if err := s.client.Runs.Cancel(s.ctx, r.ID, client.RunCancelOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Later(time.Minute)
	if err := s.client.Runs.ForceCancel(s.ctx, r.ID, client.RunForceCancelOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Await(r.ID, record.ForceCanceled)
	got := must(t, of(s.client.Runs.Read(s.ctx, r.ID)))
	if got.Status != client.RunCanceled || got.CanceledAt.IsZero() || got.ForceCancelAvailableAt.IsZero() {
		t.Errorf("%s, %s, %s", got.Status, got.CanceledAt, got.ForceCancelAvailableAt)
	}
	all := must(t, of(s.client.Runs.List(s.ctx, w.ID, &client.RunListOptions{Status: "canceled"})))
	if len(all.Items) != 1 {
		t.Errorf("%d runs are canceled", len(all.Items))
	}
}

// A client repeats an upload if the response was lost. The service responded that the address had been used already,
// and the client failed.
func TestTheSameUploadAgainIsTheSame(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	archive := must(t, of(io.ReadAll(servicetest.Archive(t, map[string]string{"main.tf": "# one"}))))
	other := must(t, of(io.ReadAll(servicetest.Archive(t, map[string]string{"main.tf": "# two"}))))
	cv := must(t, of(s.client.ConfigurationVersions.Create(s.ctx, w.ID,
		client.ConfigurationVersionCreateOptions{AutoQueueRuns: client.Bool(false)})))
	must(t, of(s.client.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{})))
	state, another := []byte(`{"version":4,"serial":1,"lineage":"l"}`), []byte(`{"version":4,"serial":1,"lineage":"m"}`)
	sv := must(t, of(s.client.StateVersions.Create(s.ctx, w.ID, client.StateVersionCreateOptions{
		Serial: client.Int64(1), MD5: client.String(service.Sum(state)), Lineage: client.String("l"),
	})))
	for _, try := range []struct {
		what, to string
		data     []byte
		want     int
	}{
		{"a configuration", cv.UploadURL, archive, 200}, {"it again", cv.UploadURL, archive, 200},
		{"another one", cv.UploadURL, other, 409},
		{"a state", sv.UploadURL, state, 200}, {"the state again", sv.UploadURL, state, 200},
		{"another state", sv.UploadURL, another, 409}, {"its JSON form", sv.JSONUploadURL, state, 200},
		{"its JSON form again", sv.JSONUploadURL, state, 200},
	} {
		if got := s.put(try.to, try.data); got != try.want {
			t.Errorf("%s: %d", try.what, got)
		}
	}
	if got := must(t, of(s.client.StateVersions.Download(s.ctx, sv.DownloadURL))); !bytes.Equal(got, state) {
		t.Errorf("the state is %s", got)
	}
}

// The lock was checked when a version was created, but not when its bytes were uploaded: a client whose lock had been
// broken overwrote the state of the new holder.
func TestAStateIsNotTakenFromSomebodyWhoHasLostTheLock(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	state := []byte(`{"version":4,"serial":1,"lineage":"l"}`)
	for what, lose := range map[string]func(){
		"nobody has it": func() {},
		"a team has it": func() {
			token := s.teamToken(w.ID, "write")
			must(t, of(s.as(token).Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{})))
		},
	} {
		must(t, of(s.client.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{})))
		sv := must(t, of(s.client.StateVersions.Create(s.ctx, w.ID, client.StateVersionCreateOptions{
			Serial: client.Int64(1), MD5: client.String(service.Sum(state)), Lineage: client.String("l"),
		})))
		must(t, of(s.client.Workspaces.ForceUnlock(s.ctx, w.ID)))
		lose()
		if status := s.put(sv.UploadURL, state); status != http.StatusConflict {
			t.Errorf("%s: %d", what, status)
		}
		if _, err := s.client.StateVersions.ReadCurrent(s.ctx, w.ID); !errors.Is(err, client.ErrResourceNotFound) {
			t.Errorf("%s: the workspace has a state: %v", what, err)
		}
		if what == "a team has it" {
			must(t, of(s.client.Workspaces.ForceUnlock(s.ctx, w.ID)))
		}
	}
}

// If a client sent no lineage, the serial in the state's text replaced the one in the request.
func TestAStateVersionHasTheSerialThatItsMakerSaid(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	must(t, of(s.client.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{})))
	text := []byte(`{"version":4,"serial":5,"lineage":"l","resources":[{"mode":"managed","instances":[{},{}]},` +
		`{"mode":"data","instances":[{}]}]}`)
	for serial := range int64(2) {
		sv := must(t, of(s.client.StateVersions.Create(s.ctx, w.ID, client.StateVersionCreateOptions{
			Serial: &serial, MD5: client.String(fmt.Sprintf("%x", md5.Sum(text))),
			State: client.String(base64.StdEncoding.EncodeToString(text)),
		})))
		if sv.Serial != serial {
			t.Errorf("the serial is %d, not %d", sv.Serial, serial)
		}
	}
	if w := must(t, of(s.client.Workspaces.ReadByID(s.ctx, w.ID))); w.ResourceCount != 2 {
		t.Errorf("%d resources", w.ResourceCount)
	}
}

// With an empty version, or an invalid one, command lines refuse every command that changes a state.
func TestAWorkspaceAlwaysHasAVersionThatClientsUnderstand(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	for version, want := range map[string]string{"": "latest", "1.12.6": "1.12.6", "~> 1.9": "~> 1.9",
		"latest": "latest"} {
		got := must(t, of(s.client.Workspaces.UpdateByID(s.ctx, w.ID,
			client.WorkspaceUpdateOptions{TerraformVersion: &version})))
		if got.TerraformVersion != want {
			t.Errorf("%q became %q", version, got.TerraformVersion)
		}
	}
	for _, version := range []string{"newest", "1.x.y.z", "~> "} {
		if _, err := s.client.Workspaces.UpdateByID(s.ctx, w.ID,
			client.WorkspaceUpdateOptions{TerraformVersion: &version}); err == nil {
			t.Errorf("the version %q was accepted", version)
		}
	}
}

// Tags of a workspace were added to the existing ones, so that a program could not remove any.
func TestTheTagsThatAreSetReplaceThosePairs(t *testing.T) {
	s := newSite(t)
	w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme", client.WorkspaceCreateOptions{
		Name: client.String("one"), Tags: []*client.Tag{{Name: "app"}},
		TagBindings: []*client.TagBinding{{Key: "tier", Value: "1"}, {Key: "owner", Value: "us"}},
	})))
	list := func() string {
		var out []string
		for _, b := range must(t, of(s.client.Workspaces.ListTagBindings(s.ctx, w.ID))) {
			out = append(out, b.Key+"="+b.Value)
		}
		return strings.Join(out, " ")
	}
	must(t, of(s.client.Workspaces.UpdateByID(s.ctx, w.ID, client.WorkspaceUpdateOptions{
		TagBindings: []*client.TagBinding{{Key: "tier", Value: "2"}},
	})))
	if got := list(); got != "app= tier=2" {
		t.Errorf("after a change: %s", got)
	}
	if err := s.client.Workspaces.DeleteAllTagBindings(s.ctx, w.ID); err != nil {
		t.Fatal(err)
	}
	if got := list(); got != "app=" {
		t.Errorf("after all are deleted: %s", got)
	}
	if all := must(t, of(s.client.Workspaces.List(s.ctx, "acme", &client.WorkspaceListOptions{Tags: "APP"}))); len(
		all.Items) != 1 {
		t.Errorf("%d workspaces have the tag", len(all.Items))
	}
}

// A request for a run with auto-apply was taken for the repetition of one without, so the run was never applied.
func TestARunThatIsToBeAppliedIsAnotherOne(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	s.NewConfiguration(w, false)
	create := func(o client.RunCreateOptions) *client.Run {
		o.Workspace = &client.Workspace{ID: w.ID}
		return must(t, of(s.client.Runs.Create(s.ctx, o)))
	}
	first := create(client.RunCreateOptions{})
	second := create(client.RunCreateOptions{AutoApply: client.Bool(true)})
	third := create(client.RunCreateOptions{AllowEmptyApply: client.Bool(true)})
	if first.ID == second.ID || !second.AutoApply || third.ID == first.ID || !third.AllowEmptyApply {
		t.Errorf("%s, %s, %s", first.ID, second.ID, third.ID)
	}
	if len(first.RunEvents) == 0 {
		t.Error("a new run has no events")
	}
}

func TestAPlanWithoutChangesIsAppliedWhereThatIsAllowed(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	s.Engine.Mu.Lock()
	s.Engine.PlanFunc = servicetest.PlanNothing
	s.Engine.Mu.Unlock()
	r := s.NewRun(w, func(r *record.Run) { r.AllowEmpty = true })
	s.Await(r.ID, record.Planned)
	if got := must(t, of(s.client.Runs.Read(s.ctx, r.ID))); !got.Actions.IsConfirmable || got.HasChanges {
		t.Errorf("%+v, %t", got.Actions, got.HasChanges)
	}
	if err := s.client.Runs.Apply(s.ctx, r.ID, client.RunApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Await(r.ID, record.Applied)
}

// A program that a run starts may print the characters that begin and end a log: readers then considered the log
// complete.
func TestALogHasNoEndInItsMidst(t *testing.T) {
	s := newSite(t)
	s.Engine.Mu.Lock()
	s.Engine.PlanFunc = servicetest.PlanThen(func(j *work.Job) { fmt.Fprint(j.Log, "one \x03two\x02 three\n") })
	s.Engine.Mu.Unlock()
	r := s.NewRun(s.NewWorkspace("one"), nil)
	s.Await(r.ID, record.Planned)
	p := must(t, of(s.client.Plans.Read(s.ctx, r.Plan.ID)))
	text := ""
	for !strings.HasSuffix(text, "\x03") {
		_, _, part := s.get(strings.TrimPrefix(p.LogReadURL, s.server.URL)+fmt.Sprintf("?offset=%d", len(text)), "")
		text += part
	}
	if !strings.Contains(text, "one two three") || strings.Count(text, "\x02") != 1 || strings.Count(text, "\x03") != 1 {
		t.Errorf("%q", text)
	}
}

func TestWorkspacesComeInTheOrderThatIsAskedFor(t *testing.T) {
	s := newSite(t)
	idle, applied, waiting := s.NewWorkspace("idle"), s.NewWorkspace("b"), s.NewWorkspace("a")
	first := s.NewRun(applied, func(r *record.Run) { r.AutoApply = true })
	s.Await(first.ID, record.Applied)
	second := s.NewRun(waiting, nil)
	s.Await(second.ID, record.Planned)
	for sort, want := range map[string]string{
		"": "a b idle", "-name": "idle b a", "current-run.created-at": "b a idle", "-current-run.created-at": "a b idle",
	} {
		all := must(t, of(s.client.Workspaces.List(s.ctx, "acme", &client.WorkspaceListOptions{Sort: sort,
			Include: []client.WSIncludeOpt{client.WSCurrentRun}})))
		var names []string
		for _, w := range all.Items {
			names = append(names, w.Name)
			if w.ID == applied.ID && (w.CurrentRun == nil || w.CurrentRun.Status != client.RunApplied) {
				t.Errorf("the run that was applied is not the current one: %+v", w.CurrentRun)
			}
			if w.ID == idle.ID && w.CurrentRun != nil {
				t.Errorf("a workspace without a run has one")
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("sorted by %q: %s", sort, got)
		}
	}
	if status, _ := s.ask(http.MethodGet, "organizations/acme/workspaces?sort=colour", ""); status != 400 {
		t.Errorf("sorted by an unknown attribute: %d", status)
	}
	some := must(t, of(s.client.Workspaces.List(s.ctx, "acme", &client.WorkspaceListOptions{CurrentRunStatus: "planned"})))
	if len(some.Items) != 1 || some.Items[0].ID != waiting.ID {
		t.Errorf("%d workspaces have a plan that waits for approval", len(some.Items))
	}
}

// The API reported all permissions to everybody with any access to an organization or a project.
func TestSomebodyIsToldWhatTheyMayDo(t *testing.T) {
	s := newSite(t)
	p := must(t, of(s.Projects.Create(s.Admin, record.Project{Organization: "acme", Name: "platform"})))
	token := s.teamToken(p.ID, "read")
	for who, c := range map[string]*client.Client{"admin": s.client, "team": s.as(token)} {
		o := must(t, of(c.Organizations.Read(s.ctx, "acme")))
		if may := who == "admin"; o.Permissions.CanUpdate != may || o.Permissions.CanCreateWorkspace != may ||
			o.Permissions.CanDestroy != may || !o.Permissions.CanTraverse {
			t.Errorf("%s: %+v", who, o.Permissions)
		}
	}
	_, mine, body := s.get("/api/v2/projects/"+p.ID, token)
	rights, _ := attributes(t, body)
	if got := fmt.Sprint(rights["permissions"]); strings.Contains(got, "true") || mine == nil {
		t.Errorf("%s", got)
	}
}

func TestWhatSomebodySaysIsInTheHistoryOfARun(t *testing.T) {
	s := newSite(t)
	r := s.NewRun(s.NewWorkspace("one"), nil)
	must(t, of(s.client.Comments.Create(s.ctx, r.ID, client.CommentCreateOptions{Body: "why?"})))
	for _, e := range must(t, of(s.client.RunEvents.List(s.ctx, r.ID, nil))).Items {
		if e.Action != "commented" {
			continue
		}
		e = must(t, of(s.client.RunEvents.ReadWithOptions(s.ctx, e.ID, &client.RunEventReadOptions{
			Include: []client.RunEventIncludeOpt{client.RunEventComment, client.RunEventActor},
		})))
		if e.Comment.Body != "why?" || e.Actor.Username != "root" {
			t.Errorf("%+v", e)
		}
		return
	}
	t.Error("the history of the run does not have the comment")
}

// The upload of a configuration queued its run without regard to the settings: a speculative one queued none, and the
// workspace's auto-apply was ignored.
func TestTheRunThatAnUploadQueuesFollowsTheWorkspace(t *testing.T) {
	s := newSite(t)
	for name, try := range map[string]struct {
		settings    client.WorkspaceCreateOptions
		speculative bool
		want        client.RunStatus
	}{
		"plain":       {want: client.RunPlanned},
		"speculative": {speculative: true, want: client.RunPlannedAndFinished},
		"auto":        {settings: client.WorkspaceCreateOptions{AutoApply: client.Bool(true)}, want: client.RunApplied},
		"local":       {settings: client.WorkspaceCreateOptions{ExecutionMode: client.String("local")}},
	} {
		try.settings.Name = client.String(name)
		w := must(t, of(s.client.Workspaces.Create(s.ctx, "acme", try.settings)))
		cv := must(t, of(s.client.ConfigurationVersions.Create(s.ctx, w.ID,
			client.ConfigurationVersionCreateOptions{Speculative: &try.speculative})))
		if err := s.client.ConfigurationVersions.Upload(s.ctx, cv.UploadURL, t.TempDir()); err != nil {
			t.Fatal(err)
		}
		all := must(t, of(s.client.Runs.List(s.ctx, w.ID, nil))).Items
		if try.want == "" {
			if len(all) != 0 {
				t.Errorf("%s: %d runs", name, len(all))
			}
			continue
		}
		if len(all) != 1 {
			t.Fatalf("%s: %d runs", name, len(all))
		}
		s.Await(all[0].ID, record.RunStatus(try.want))
	}
}

func TestVariablesComeInPagesToThoseWhoAskForPages(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	for i := range 25 {
		must(t, of(s.Variables.Put(s.Admin, w.ID, "", variables.Settings{
			Key: servicetest.Ptr(fmt.Sprintf("v%02d", i)), Value: servicetest.Ptr("x")})))
	}
	if all := must(t, of(s.client.Variables.List(s.ctx, w.ID, nil))); len(all.Items) != 25 {
		t.Errorf("without a page: %d", len(all.Items))
	}
	page := must(t, of(s.client.Variables.List(s.ctx, w.ID,
		&client.VariableListOptions{ListOptions: client.ListOptions{PageNumber: 2, PageSize: 10}})))
	if len(page.Items) != 10 || page.Items[0].Key != "v10" || page.TotalCount != 25 {
		t.Errorf("the second page: %d of %d", len(page.Items), page.TotalCount)
	}
}
