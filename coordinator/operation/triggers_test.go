package operation_test

import (
	"testing"
)

// An attribute of a resource with several instances was accepted by validation, and made every later plan fail.
func TestAnAttributeOfACountedResourceTriggersNothing(t *testing.T) {
	e := newEstate(t)
	e.configure(`
resource "fake_thing" "a" {
  count = 1
  name  = "a"
}
resource "fake_thing" "b" {
  name = "b"
  lifecycle { replace_triggered_by = [fake_thing.a.size] }
}`)
	if diags := e.session.Validate(t.Context()); !says(diags, "Missing resource instance key") {
		t.Errorf("the diagnostics are %v", diags)
	}
}
