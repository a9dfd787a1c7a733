package operation_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/state/journal"
)

const savedConfig = `
variable "password" {
  type      = string
  sensitive = true
}
resource "fake_thing" "a" {
  count = 2
  name  = "a${count.index}"
  note  = var.password
}
data "fake_lookup" "later" { key = fake_thing.a[0].id }
resource "terraform_data" "b" { input = { found = data.fake_lookup.later.value, at = plantimestamp() } }
output "found" { value = terraform_data.b.output.found }
output "at" { value = terraform_data.b.output.at }
`

// saved returns a plan of savedConfig as decoded from a file.
func (e *estate) saved() []byte {
	e.t.Helper()
	e.session.Inputs = map[string]values.Input{"password": {Value: cty.StringVal("hunter2")}}
	e.configure(savedConfig)
	data, err := planfile.Encode(planfile.Saved{Plan: e.plan(plan.Options{})})
	e.check(err)
	return data
}

func (e *estate) decode(data []byte) *plan.Plan {
	e.t.Helper()
	s, err := planfile.Decode(data)
	e.check(err)
	return s.Plan
}

func TestASavedPlanDoesWhatThePlanDoes(t *testing.T) {
	e := newEstate(t)
	p := e.decode(e.saved())
	e.equal("plan", changes(p), []string{
		"create fake_thing.a[0]", "create fake_thing.a[1]", "create terraform_data.b", "read data.fake_lookup.later"})
	_, diags := e.tryApply(p)
	e.clean(diags)
	e.equal("state", existing(e.state()), []string{"fake_thing.a[0]", "fake_thing.a[1]", "terraform_data.b"})
	if n := len(e.object("fake_thing.a[1]").Sensitive); n != 2 {
		t.Errorf("%d paths are sensitive, want those of the note and of the secret", n)
	}
	if at := e.state().Outputs["at"].Value; !at.RawEquals(cty.StringVal(p.Timestamp.Format("2006-01-02T15:04:05Z"))) {
		t.Errorf("plantimestamp() is %#v, but the plan was made at %s", at, p.Timestamp)
	}
	if got := e.state().Outputs["found"].Value.AsString(); got != "value of "+e.attribute("fake_thing.a[0]",
		"id").(string) {
		t.Errorf("the output is %q", got)
	}
}

func TestARunIsResumedFromThePlanThatTheJournalKeeps(t *testing.T) {
	e := newEstate(t)
	data := e.saved()
	e.cloud.onCreate = func(ctx context.Context, name string) (bool, error) {
		if name == "a0" {
			e.interrupt()
			select {
			case <-e.cloud.stopped:
			case <-ctx.Done():
			}
		}
		return false, nil
	}
	applied, _ := e.session.Apply(t.Context(), operation.ApplyOptions{Plan: e.decode(data), Saved: data,
		Command: "apply"})
	if !applied.Outcome.Interrupted {
		t.Fatalf("the run is %s", applied.Outcome.Status)
	}
	e.cloud.onCreate = nil
	record, kept, err := e.store.RunPlan(t.Context(), applied.Run)
	e.check(err)
	e.again()
	_, diags := e.session.Resume(t.Context(), record, e.decode(kept), "")
	e.clean(diags)
	e.equal("state", existing(e.state()), []string{"fake_thing.a[0]", "fake_thing.a[1]", "terraform_data.b"})
	e.equal("cloud", e.cloud.names(), []string{"a0", "a1"})
	if e.cloud.made != 2 {
		t.Errorf("%d objects were created, want 2", e.cloud.made)
	}
}

// Only the command refused such runs, based on data that it had read before it had the lock.
func TestARunThatAnotherOneHasOvertakenOrThatHasEndedIsNotResumed(t *testing.T) {
	e := newEstate(t)
	p := e.decode(e.saved())
	begun := func(id string, at time.Duration) journal.Run {
		r := journal.Run{ID: id, Workspace: "default", Coordinator: e.session.Hub.Coordinator(), Command: "apply",
			Started: e.session.Now().Add(at), Status: "interrupted", Vertices: len(p.Graph.Vertices)}
		e.check(e.store.BeginRun(t.Context(), "", r, nil))
		return r
	}
	first, second := begun("first", 0), begun("second", time.Second)
	e.check(e.store.EndRun(t.Context(), "", second.ID, "failed", e.session.Now()))
	for _, c := range []struct {
		run  journal.Run
		says string
	}{{first, "The run was overtaken"}, {second, "The run has ended"}} {
		if applied, diags := e.session.Resume(t.Context(), c.run, p, ""); applied != nil || !says(diags, c.says) {
			t.Errorf("resuming %s: %v", c.run.ID, diags)
		}
		if applied, diags := e.session.Cancel(t.Context(), c.run, p, ""); applied != nil || !says(diags, c.says) {
			t.Errorf("cancelling %s: %v", c.run.ID, diags)
		}
	}
	if e.cloud.made != 0 {
		t.Errorf("%d objects were created", e.cloud.made)
	}
}

// older returns a plan as planfile.DecodeRecorded reads it from format 1: vertices other than objects have no name.
func older(p *plan.Plan) *plan.Plan {
	for i := range p.Graph.Vertices {
		if v := &p.Graph.Vertices[i]; v.Change < 0 {
			v.Kind, v.Node = plan.Sync, plan.Node{}
		}
	}
	return p
}

// A run that was killed under the former format of plans, which numbered the blocks of its configuration, can still be
// ended: the results of workers are in the state, and operations that were not started are never started.
func TestARunWithAnOlderPlanIsSettledAndCancelled(t *testing.T) {
	for _, way := range []string{"settle", "cancel"} {
		t.Run(way, func(t *testing.T) {
			e := newEstate(t)
			e.session.Embedded = false // its worker goes on without it
			data := e.saved()
			goOn := make(chan struct{})
			e.cloud.onApply = func(what string) error {
				if what != "create a0" {
					return nil
				}
				e.interrupt()
				e.abandon()
				<-goOn
				return nil
			}
			left, diags := e.session.Apply(t.Context(),
				operation.ApplyOptions{Plan: e.decode(data), Saved: data, Command: "apply"})
			if !diags.HasErrors() {
				t.Fatal("the run did not end while operations were in progress")
			}
			close(goOn)
			e.again()
			record, kept, err := e.store.RunPlan(t.Context(), left.Run)
			e.check(err)
			p := older(e.decode(kept))
			ended := e.session.Settle
			if way == "cancel" {
				ended = e.session.Cancel
			}
			if _, diags := ended(t.Context(), record, p, ""); diags.HasErrors() && way == "settle" {
				t.Fatal(diags.Err())
			}
			for d := range e.state().Doubts() {
				t.Errorf("%s is still in doubt", d.Attempt)
			}
			if e.object("fake_thing.a[0]").Attrs == nil {
				t.Error("the result of the operation in progress was not recorded")
			}
			if slices.Contains(existing(e.state()), "terraform_data.b") {
				t.Error("an operation was started")
			}
			e.cloud.done()
			_, diags = e.tryApply(e.plan(plan.Options{}))
			e.clean(diags)
			e.equal("a new plan does the rest", existing(e.state()),
				[]string{"fake_thing.a[0]", "fake_thing.a[1]", "terraform_data.b"})
			e.equal("cloud", e.cloud.names(), []string{"a0", "a1"})
		})
	}
}
