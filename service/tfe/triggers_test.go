package tfe_test

import (
	"errors"
	"strings"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/service/record"
)

// The provider tfe has a resource for run triggers; its requests got 404.
func TestAnAppliedRunCreatesRunsInOtherWorkspaces(t *testing.T) {
	s := newSite(t)
	network, app, local := s.NewWorkspace("network"), s.NewWorkspace("app"), s.NewWorkspace("local")
	for _, w := range []string{app.ID, local.ID} {
		must(t, of(s.client.RunTriggers.Create(s.ctx, w, client.RunTriggerCreateOptions{
			Sourceable: &client.Workspace{ID: network.ID}})))
	}
	s.NewConfiguration(app, false)
	s.NewConfiguration(local, false)
	must(t, of(s.client.Workspaces.UpdateByID(s.ctx, local.ID,
		client.WorkspaceUpdateOptions{ExecutionMode: client.String("local")})))
	must(t, of(s.client.Workspaces.UpdateByID(s.ctx, app.ID,
		client.WorkspaceUpdateOptions{AutoApplyRunTrigger: client.Bool(true)})))

	only := s.NewRun(network, func(r *record.Run) { r.PlanOnly = true })
	s.Await(only.ID, record.PlannedAndFinished)
	if all := must(t, of(s.client.Runs.List(s.ctx, app.ID, nil))).Items; len(all) != 0 {
		t.Errorf("a plan has created %d runs", len(all))
	}
	r := s.NewRun(network, func(r *record.Run) { r.AutoApply = true })
	s.Await(r.ID, record.Applied)
	all := must(t, of(s.client.Runs.List(s.ctx, app.ID, nil))).Items
	if len(all) != 1 || !strings.Contains(all[0].Message, r.ID) || !strings.Contains(all[0].Message, "network") {
		t.Fatalf("%d runs: %+v", len(all), all)
	}
	s.Await(all[0].ID, record.Applied)
	if all := must(t, of(s.client.Runs.List(s.ctx, local.ID, nil))).Items; len(all) != 0 {
		t.Errorf("a workspace whose runs the client executes has %d runs", len(all))
	}
	if err := s.client.Workspaces.DeleteByID(s.ctx, network.ID); err != nil {
		t.Fatal(err)
	}
	if left := must(t, of(s.client.RunTriggers.List(s.ctx, app.ID, &client.RunTriggerListOptions{
		RunTriggerType: client.RunTriggerInbound}))); len(left.Items) != 0 {
		t.Errorf("the triggers of a deleted workspace are left: %d", len(left.Items))
	}
}

func TestRunTriggersAreListedAndLeadNowhereBack(t *testing.T) {
	s := newSite(t)
	a, b, c := s.NewWorkspace("a"), s.NewWorkspace("b"), s.NewWorkspace("c")
	create := func(on, from string) (*client.RunTrigger, error) {
		return s.client.RunTriggers.Create(s.ctx, on, client.RunTriggerCreateOptions{Sourceable: &client.Workspace{ID: from}})
	}
	first := must(t, of(create(b.ID, a.ID)))
	if again := must(t, of(create(b.ID, a.ID))); again.ID != first.ID {
		t.Error("a repeated request has created another trigger")
	}
	must(t, of(create(c.ID, b.ID)))
	for what, pair := range map[string][2]string{
		"itself": {a.ID, a.ID}, "a cycle": {a.ID, c.ID}, "nothing": {a.ID, "ws-none"},
	} {
		if _, err := create(pair[0], pair[1]); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
	got := must(t, of(s.client.RunTriggers.ReadWithOptions(s.ctx, first.ID, &client.RunTriggerReadOptions{
		Include: []client.RunTriggerIncludeOpt{client.RunTriggerSourceable, client.RunTriggerWorkspace}})))
	if got.SourceableName != "a" || got.WorkspaceName != "b" || got.Sourceable.Name != "a" || got.CreatedAt.IsZero() {
		t.Errorf("%+v", got)
	}
	for direction, want := range map[client.RunTriggerFilterOp]string{
		client.RunTriggerInbound: "a", client.RunTriggerOutbound: "b",
	} {
		all := must(t, of(s.client.RunTriggers.List(s.ctx, b.ID, &client.RunTriggerListOptions{RunTriggerType: direction})))
		if len(all.Items) != 1 || all.TotalCount != 1 || all.Items[0].SourceableName != want {
			t.Errorf("%s: %+v", direction, all.Items)
		}
	}
	if status, _ := s.ask("GET", "workspaces/"+b.ID+"/run-triggers", ""); status != 400 {
		t.Errorf("without a direction: %d", status)
	}
	token := s.teamToken(b.ID, "write")
	theirs := s.as(token)
	if all := must(t, of(theirs.RunTriggers.List(s.ctx, b.ID, &client.RunTriggerListOptions{
		RunTriggerType: client.RunTriggerInbound}))); len(all.Items) != 0 {
		t.Error("the list shows the name of a workspace without permission")
	}
	if err := theirs.RunTriggers.Delete(s.ctx, first.ID); !errors.Is(err, client.ErrResourceNotFound) {
		t.Errorf("deleting a trigger without permission: %v", err)
	}
	if err := s.client.RunTriggers.Delete(s.ctx, first.ID); err != nil {
		t.Fatal(err)
	}
	must(t, of(create(a.ID, c.ID))) // the circle is open now
}
