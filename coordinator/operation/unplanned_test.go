package operation_test

import (
	"fmt"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// If data of a check, which the plan defers to the apply, could not be read in the apply, it was stored with its
// configuration alone. As in OpenTofu, it is not stored; only data that the plan itself has tried to read is.
func TestDataOfACheckThatOnlyTheApplyReadsIsNotStoredUnread(t *testing.T) {
	const lookup = `
resource "fake_thing" "a" { name = "a" }
check "lookup" {
  data "fake_lookup" "d" { key = %s }
  assert {
    condition     = data.fake_lookup.d.value != ""
    error_message = "empty"
  }
}
`
	data, _ := addr.ParseInstance("data.fake_lookup.d")
	for key, stored := range map[string]bool{
		`fake_thing.a.id == "" ? "k" : "nothing"`: false,
		`"nothing"`: true,
	} {
		e := newEstate(t)
		e.configure(fmt.Sprintf(lookup, key))
		planned, diags := e.session.Plan(t.Context(), e.state(), plan.Options{})
		e.clean(diags)
		_, diags = e.tryApply(planned.Plan)
		e.clean(diags)
		if !says(diags, "there is nothing of that key") {
			t.Errorf("said: %v", diags)
		}
		if got := e.state().Object(data, state.CurrentObject) != nil; got != stored {
			t.Errorf("with the key %s, stored: %v", key, got)
		}
	}
}
