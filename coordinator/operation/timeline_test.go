package operation_test

import (
	"context"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/history"
	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/sleep"
)

// The timeline that is recorded during the run and the one from the journal afterwards are the same, except for the
// time that it takes to record an event.
func TestTheTimelineIsTheSameLiveAndAfterwards(t *testing.T) {
	e := newEstate(t)
	var books []*timeline.Recorder
	e.session.Timeline = func(h timeline.Head) *timeline.Recorder {
		books = append(books, timeline.NewRecorder(h))
		return books[len(books)-1]
	}
	e.session.Parallelism = 2
	e.configure(`
resource "fake_thing" "bad" { name = "bad" }
resource "fake_thing" "after" { name = "after-${fake_thing.bad.id}" }
resource "fake_thing" "many" {
  count = 4
  name  = "many${count.index}"
}
module "child" {
  source = "./child"
  names  = fake_thing.many[*].id
}
`, `
variable "names" {}
resource "fake_thing" "each" {
  count = 3
  name  = "${count.index}-${var.names[count.index]}"
}
`)
	e.cloud.onCreate = func(ctx context.Context, name string) (bool, error) {
		if name == "bad" {
			return false, errNoRoom
		}
		return false, sleep.For(ctx, 30*time.Millisecond)
	}
	p := e.plan(plan.Options{})
	planned := books[0].Model(0)
	if planned.Head.Command != "plan" || planned.Head.Outcome != "done" {
		t.Errorf("the head of the plan's timeline is %+v", planned.Head)
	}
	applied, _ := e.tryApply(p)
	live := books[1].Model(0)

	run, _, err := e.store.RunPlan(t.Context(), applied.Run)
	e.check(err)
	events, err := e.store.Events(t.Context(), applied.Run)
	e.check(err)
	after := history.Of(run, p, events, false, time.Now())
	if len(live.Vertices) != len(after.Vertices) || live.Counts != after.Counts {
		t.Fatalf("live %d vertices, %+v; afterwards %d, %+v", len(live.Vertices), live.Counts, len(after.Vertices),
			after.Counts)
	}
	if live.Head.Outcome != "failed" || after.Head.Outcome != "failed" {
		t.Errorf("the outcome is %q live, and %q afterwards", live.Head.Outcome, after.Head.Outcome)
	}
	near := func(a, b int64) bool { return a-b < 50 && b-a < 50 }
	waited := false
	for i, l := range live.Vertices {
		a := after.Vertices[i]
		if l.Number != a.Number || l.Address != a.Address || l.Status != a.Status || l.Worker != a.Worker ||
			l.Attempts != a.Attempts || l.Action != a.Action || l.Failure != a.Failure || l.Because != a.Because {
			t.Errorf("the live vertex is\n%+v\nand the one afterwards\n%+v", l, a)
		}
		if !near(l.Ready, a.Ready) || !near(l.Started, a.Started) || !near(l.Ended, a.Ended) {
			t.Errorf("%s: live %d %d %d, afterwards %d %d %d", l.Address, l.Ready, l.Started, l.Ended, a.Ready, a.Started,
				a.Ended)
		}
		for _, w := range a.Waits {
			waited = waited || w.Kind == timeline.ForPermit && w.Name == "default" || w.Kind == timeline.ForPlace
			if w.From < a.Ready || w.To > a.Started || w.To <= w.From {
				t.Errorf("%s waits from %d to %d, is ready at %d, and starts at %d", a.Address, w.From, w.To, a.Ready,
					a.Started)
			}
		}
		switch a.Address {
		case "fake_thing.bad":
			if a.Status != timeline.Failed || a.Failure == "" || a.Worker != "w1" {
				t.Errorf("the failed vertex is %+v", a)
			}
		case "fake_thing.after":
			if a.Status != timeline.Skipped || a.Because != "fake_thing.bad" || len(a.After) == 0 {
				t.Errorf("the skipped vertex is %+v", a)
			}
		case "module.child.fake_thing.each[0]":
			if a.Module != "module.child" || a.Status != timeline.Done || a.Started < 60 {
				t.Errorf("the second vertex is %+v", a)
			}
		}
	}
	if !waited {
		t.Error("no vertex has waited for a permit")
	}
}
