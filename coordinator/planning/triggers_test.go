package planning_test

import (
	"fmt"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

// A plan failed with "no change found" if replace_triggered_by named a resource whose count was 0. An instance that was
// to be destroyed triggered a replacement.
func TestTheInstancesOfACountedResourceTriggerReplacements(t *testing.T) {
	for element, want := range map[string]map[int][]string{
		"fake_thing.a":    {0: nil, 1: {"delete-create fake_thing.b"}, 2: {"delete-create fake_thing.b"}},
		"fake_thing.a[0]": {0: nil, 1: {"delete-create fake_thing.b"}},
	} {
		for n, replaced := range want {
			t.Run(fmt.Sprint(element, n), func(t *testing.T) {
				e := newStage(t)
				text := func(count, note int) string {
					return fmt.Sprintf(`
resource "fake_thing" "a" {
  count = %d
  name  = "a${count.index}"
  note  = "%d"
  size  = 1
}
resource "fake_thing" "b" {
  name = "b"
  lifecycle { replace_triggered_by = [%s] }
}`, count, note, element)
				}
				e.apply(text(1, 1))
				e.configure(text(n, 2))
				var got []string
				for _, c := range changes(e.plan(plan.Options{})) {
					if c == "delete-create fake_thing.b" {
						got = append(got, c)
					}
				}
				e.equal("replaced", got, replaced)
				e.apply(text(n, 2))
				e.equal("a second plan", changes(e.plan(plan.Options{})), nil)
			})
		}
	}
}

func TestAReplaceOptionThatNamesAWholeResourceReplacesNothingAndWarns(t *testing.T) {
	e := newStage(t)
	e.apply("resource \"fake_thing\" \"a\" {\n count = 2\n name = \"a\"\n}")
	at, diags := addr.ParseInstance("fake_thing.a")
	e.clean(diags)
	p, diags := e.tryPlan(plan.Options{Replace: []addr.Instance{at}})
	e.clean(diags)
	if len(changes(p)) > 0 || !says(diags, "Incompletely-matched force-replace resource instance") {
		t.Errorf("%v: %v", changes(p), diags)
	}
}
