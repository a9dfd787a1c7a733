package tfe_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/work"
)

func TestAConfigurationThatNothingNeedsIsArchived(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	first := s.NewConfiguration(w, false)
	refused := func(why string) {
		t.Helper()
		if err := s.client.ConfigurationVersions.Archive(s.ctx, first); err == nil ||
			!strings.Contains(err.Error(), "transition not allowed") || !strings.Contains(err.Error(), why) {
			t.Errorf("the error is %v, without %q", err, why)
		}
	}
	refused("because it is current")
	r := s.NewRun(w, func(r *record.Run) { r.Configuration = first })
	s.Await(r.ID, record.Planned)
	s.NewConfiguration(w, false)
	refused("because the run " + r.ID + " is planned")
	if err := s.client.Runs.Discard(s.ctx, r.ID, client.RunDiscardOptions{}); err != nil {
		t.Fatal(err)
	}
	empty := must(t, of(s.client.ConfigurationVersions.Create(s.ctx, w.ID, client.ConfigurationVersionCreateOptions{})))
	if err := s.client.ConfigurationVersions.Archive(s.ctx, empty.ID); err == nil {
		t.Error("a version without files was archived")
	}
	if !s.fileOf(first) {
		t.Fatal("the files are not where the test looks for them")
	}
	for range 2 { // the second time, the response was lost
		if err := s.client.ConfigurationVersions.Archive(s.ctx, first); err != nil {
			t.Fatal(err)
		}
	}
	got := must(t, of(s.client.ConfigurationVersions.Read(s.ctx, first)))
	if got.Status != client.ConfigurationArchived || got.StatusTimestamps.ArchivedAt.IsZero() || s.fileOf(first) {
		t.Errorf("%s, %s", got.Status, got.StatusTimestamps.ArchivedAt)
	}
	if _, err := s.client.ConfigurationVersions.Download(s.ctx, first); !errors.Is(err, client.ErrResourceNotFound) {
		t.Errorf("downloading the files of an archived version: %v", err)
	}
	if _, err := s.Runs.Create(s.Admin, w.ID, record.Run{Configuration: first, Refresh: true}); err == nil ||
		!strings.Contains(err.Error(), "archived") {
		t.Errorf("a run of an archived version: %v", err)
	}
}

// fileOf reports whether the service has the files of a configuration version.
func (s *site) fileOf(id string) bool {
	data, err := s.Configurations.Download(s.Admin, id)
	return err == nil && data.Close() == nil
}

func TestAConfigurationWithWhichAWorkspaceIsWatchedIsNotArchived(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	first := s.NewConfiguration(w, false)
	r := s.NewRun(w, func(r *record.Run) { r.Configuration, r.AutoApply = first, true })
	s.Await(r.ID, record.Applied)
	s.NewConfiguration(w, false)
	period := 90 * time.Minute
	must(t, of(s.Workspaces.Change(s.Admin, w.ID, service.WorkspaceSettings{DriftPeriod: &period})))
	if err := s.client.ConfigurationVersions.Archive(s.ctx, first); err == nil ||
		!strings.Contains(err.Error(), "watched for drift") {
		t.Errorf("%v", err)
	}
	period = 0
	must(t, of(s.Workspaces.Change(s.Admin, w.ID, service.WorkspaceSettings{DriftPeriod: &period})))
	if err := s.client.ConfigurationVersions.Archive(s.ctx, first); err != nil {
		t.Error(err)
	}
}

func TestAPendingRunIsExecutedInsteadOfThoseBeforeIt(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	first := s.NewRun(w, nil)
	s.Await(first.ID, record.Planned)
	second := s.NewRun(w, func(r *record.Run) { r.Message = "second" })
	third := s.NewRun(w, func(r *record.Run) { r.Message = "third" })
	if err := s.client.Runs.ForceExecute(s.ctx, first.ID); err == nil {
		t.Error("force-execute was accepted for a planned run")
	}
	if err := s.client.Runs.ForceExecute(s.ctx, third.ID); err != nil {
		t.Fatal(err)
	}
	s.Await(third.ID, record.Planned)
	for _, id := range []string{first.ID, second.ID} {
		s.Await(id, record.Discarded)
		events := must(t, of(s.client.RunEvents.List(s.ctx, id, nil)))
		said := false
		for _, e := range events.Items {
			said = said || strings.Contains(e.Description, third.ID)
		}
		if !said {
			t.Errorf("the history of %s does not say why it was discarded", id)
		}
	}
	if r := must(t, of(s.client.Runs.Read(s.ctx, third.ID))); !r.Permissions.CanForceExecute {
		t.Error("the permission to execute by force is not reported")
	}
}

func TestARunIsNotExecutedByForceBeforeOneInProgress(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	gone := make(chan struct{})
	begun := make(chan struct{}, 2)
	s.Engine.Mu.Lock()
	s.Engine.PlanFunc = servicetest.PlanThen(func(*work.Job) { begun <- struct{}{}; <-gone })
	s.Engine.Mu.Unlock()
	first := s.NewRun(w, nil)
	<-begun
	second := s.NewRun(w, func(r *record.Run) { r.Message = "second" })
	err := s.client.Runs.ForceExecute(s.ctx, second.ID)
	if err == nil || !strings.Contains(err.Error(), "cancel it first") {
		t.Errorf("%v", err)
	}
	close(gone)
	s.Await(first.ID, record.Planned)
	token := s.teamToken(w.ID, "plan")
	if status, _ := s.do(http.MethodPost, "/api/v2/runs/"+second.ID+"/actions/force-execute", token); status != 403 {
		t.Errorf("somebody who may only plan has discarded the plan of another: %d", status)
	}
}

// The addresses and modules of resources have the format of other products.
func TestTheResourcesOfAWorkspaceAreListed(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	if all := must(t, of(s.client.WorkspaceResources.List(s.ctx, w.ID, nil))); len(all.Items) != 0 {
		t.Errorf("%d resources without a state", len(all.Items))
	}
	must(t, of(s.client.Workspaces.Lock(s.ctx, w.ID, client.WorkspaceLockOptions{})))
	write := func(serial int64, text string) string {
		state := []byte(text)
		v := must(t, of(s.client.StateVersions.Upload(s.ctx, w.ID, client.StateVersionUploadOptions{
			StateVersionCreateOptions: client.StateVersionCreateOptions{Serial: &serial, Lineage: client.String("l"),
				MD5: client.String(service.Sum(state))}, RawState: state})))
		return v.ID
	}
	const head = `{"version":4,"terraform_version":"1.12.6","lineage":"l","resources":[`
	const bucket = `{"module":"module.media.module.store[0]","mode":"managed","type":"aws_s3_bucket","name":"this",` +
		`"provider":"module.media.provider[\"registry.terraform.io/hashicorp/aws\"].west","instances":[` +
		`{"index_key":"a","attributes":{"id":"x"}},{"index_key":"a","deposed":"0011","attributes":{"id":"y"}}]}`
	const read = `{"mode":"data","type":"aws_ami","name":"this",` +
		`"provider":"provider[\"registry.terraform.io/hashicorp/aws\"]",` +
		`"instances":[{"attributes":{}}]}`
	thing := func(n string) string {
		return `{"mode":"managed","type":"thing","name":"one","provider":"provider[\"example.org/acme/thing\"]",` +
			`"instances":[{"index_key":3,"attributes":{"n":` + n + `}}]}`
	}
	first := write(1, head+bucket+","+read+","+thing("1")+`],"serial":1}`)
	second := write(2, head+bucket+","+read+","+thing("2")+`],"serial":2}`)
	all := must(t, of(s.client.WorkspaceResources.List(s.ctx, w.ID, nil)))
	if len(all.Items) != 2 || all.TotalCount != 2 {
		t.Fatalf("%d resources of %d", len(all.Items), all.TotalCount)
	}
	one, two := all.Items[0], all.Items[1]
	if one.Address != `media.store[0].aws_s3_bucket.this["a"]` || one.Module != "media.store[0]" || one.Name != "this" ||
		one.Provider != "hashicorp/aws" || one.ProviderType != "aws_s3_bucket" || *one.NameIndex != "a" {
		t.Errorf("%+v", one)
	}
	if two.Address != "thing.one[3]" || two.Module != "root" || two.Provider != "example.org/acme/thing" ||
		*two.NameIndex != "3" || two.ModifiedByStateVersionID != second || two.UpdatedAt == "" || one.ID == two.ID {
		t.Errorf("%+v, after %s and %s", two, first, second)
	}
	page := must(t, of(s.client.WorkspaceResources.List(s.ctx, w.ID, &client.WorkspaceResourceListOptions{
		ListOptions: client.ListOptions{PageNumber: 999, PageSize: 100}})))
	if len(page.Items) != 0 || page.CurrentPage != 999 || page.TotalCount != 2 {
		t.Errorf("a page that does not exist: %d, %+v", len(page.Items), page.Pagination)
	}
	write(3, `{"serial":3,"lineage":"l","meta":{},"encrypted_data":"eA==","encryption_version":"v0"}`)
	if all := must(t, of(s.client.WorkspaceResources.List(s.ctx, w.ID, nil))); len(all.Items) != 0 {
		t.Errorf("%d resources of a state that cannot be read", len(all.Items))
	}
}

// Until an invited person had logged in, their user had no ID that notifications accept.
func TestANotificationIsForSomebodyWhoIsInvited(t *testing.T) {
	s := newSite(t, func(o *service.Options) { o.Mail = true })
	w := s.NewWorkspace("one")
	m := must(t, of(s.client.OrganizationMemberships.Create(s.ctx, "acme", client.OrganizationMembershipCreateOptions{
		Email: client.String("ann@example.org")})))
	n := must(t, of(s.client.NotificationConfigurations.Create(s.ctx, w.ID, client.NotificationConfigurationCreateOptions{
		Name: client.String("n"), Enabled: client.Bool(true), EmailUsers: []*client.User{m.User},
		DestinationType: client.NotificationDestination(client.NotificationDestinationTypeEmail)})))
	recipients := func() []string {
		t.Helper()
		o, err := s.Notifications.Verification(s.Admin, n.ID)
		if err != nil {
			t.Fatal(err)
		}
		return o.Recipients
	}
	if got := recipients(); len(got) != 0 {
		t.Errorf("an unconfirmed address gets mail: %v", got)
	}
	must(t, of(s.Users.Create(s.Admin, "ann", "ann@example.org", true)))
	if got := recipients(); len(got) != 1 || got[0] != "ann@example.org" {
		t.Errorf("after the invitation was accepted: %v", got)
	}
	must(t, of(s.Organizations.Create(s.Admin, "other", "")))
	other := must(t, of(s.Memberships.Invite(s.Admin, "other", "bob@example.org", nil)))
	if _, err := s.client.NotificationConfigurations.Create(s.ctx, w.ID, client.NotificationConfigurationCreateOptions{
		Name: client.String("m"), Enabled: client.Bool(false),
		EmailUsers:      []*client.User{{ID: accounts.InvitedUser(other.ID)}},
		DestinationType: client.NotificationDestination(client.NotificationDestinationTypeEmail)}); err == nil {
		t.Error("a person who is invited to another organization is accepted")
	}
}

// Programs that require the address of a picture failed.
func TestAUserHasAPictureThatIsNotLoadedFromElsewhere(t *testing.T) {
	s := newSite(t)
	u := must(t, of(s.client.Users.ReadCurrent(s.ctx)))
	if !strings.HasPrefix(u.AvatarURL, "data:image/svg+xml,") || bytes.ContainsAny([]byte(u.AvatarURL), `<>" `) {
		t.Errorf("%q", u.AvatarURL)
	}
}
