package running

import (
	"reflect"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/remote"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/cloud/tfc"
	"github.com/millipede-iac/millipede/lang/addr"
)

// The options of a command are converted to a request to a service once, here.
func TestAServiceIsAskedForTheRunOfTheOptions(t *testing.T) {
	target, diags := addr.ParseTarget("module.m")
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	replaced, diags := addr.ParseInstance(`t.a["x"]`)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	variables := []tfc.RunVariable{{Key: "v", Value: "1"}}
	d := &estate.Delegated{Dir: "/config", Variables: variables}
	for sentence, c := range map[string]struct {
		request Request
		want    remote.Request
	}{
		"a plan that is only shown": {Request{}, remote.Request{PlanOnly: true, NewRun: tfc.NewRun{Refresh: true}}},
		"a plan to save":            {Request{Out: "f"}, remote.Request{Saved: true, NewRun: tfc.NewRun{Refresh: true}}},
		"an apply":                  {Request{Applies: true}, remote.Request{NewRun: tfc.NewRun{Refresh: true}}},
		"an approved apply": {
			Request{Applies: true, Approved: true}, remote.Request{NewRun: tfc.NewRun{Refresh: true, AutoApply: true}},
		},
		"a plan is never approved": {
			Request{Approved: true}, remote.Request{PlanOnly: true, NewRun: tfc.NewRun{Refresh: true}},
		},
		"without refreshing": {
			Request{Applies: true, Options: plan.Options{SkipRefresh: true}}, remote.Request{},
		},
		"a destroy of a part": {
			Request{Applies: true, Options: plan.Options{Mode: plan.Destroy, Targets: []addr.Target{target}}},
			remote.Request{NewRun: tfc.NewRun{Refresh: true, Destroy: true, Targets: []string{"module.m"}}},
		},
		"a refresh": {
			Request{Applies: true, Options: plan.Options{Mode: plan.RefreshOnly}},
			remote.Request{NewRun: tfc.NewRun{Refresh: true, RefreshOnly: true}},
		},
		"a replacement, and generated blocks": {
			Request{Applies: true, GeneratedInto: "f", Options: plan.Options{Replace: []addr.Instance{replaced}}},
			remote.Request{NewRun: tfc.NewRun{Refresh: true, GenerateConfig: true, Replace: []string{`t.a["x"]`}}},
		},
	} {
		c.want.Dir, c.want.Temp, c.want.Variables = "/config", "/temp", variables
		if got := c.request.remote(d, "/temp"); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: the request is %+v", sentence, got)
		}
	}
}

func TestAnApprovalSaysWhatHappensAndNamesAnyOtherWorkspace(t *testing.T) {
	for sentence, c := range map[string]struct {
		mode            plan.Mode
		workspace       string
		question, warns string
	}{
		"changes": {plan.Normal, "default", "Do you want to perform these actions?", "perform the actions"},
		"a destroy": {
			plan.Destroy, "default", "Do you really want to destroy all resources?", "no undo",
		},
		"a refresh": {
			plan.RefreshOnly, "default", "Would you like to update the state to reflect these detected changes?",
			"without modifying any real infrastructure",
		},
		"a destroy elsewhere": {
			plan.Destroy, "prod", `Do you really want to destroy all resources in workspace "prod"?`, "no undo",
		},
	} {
		question, what := approval(c.mode, c.workspace)
		if question != c.question || !strings.Contains(what, c.warns) || !strings.Contains(what, "'yes'") {
			t.Errorf("%s: %s\n%s", sentence, question, what)
		}
	}
}
