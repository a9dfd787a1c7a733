package system

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// unkept are faults in a provider's response to a create: the response cannot be stored in the state.
var unkept = []string{"infinite_size", "missing_attribute", "wrong_type", "null", "garbage", "absent"}

// If the response of a provider could not be stored, the object that it had created was neither in the state nor in
// doubt: the response counted as a failure, and the next apply created the object again.
func TestAnObjectWhoseResponseCannotBeStoredIsInDoubtAndNotCreatedAgain(t *testing.T) {
	t.Parallel()
	for sentence, remote := range map[string]bool{"in one process": false, "over a server with a worker": true} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, `
terraform {
  required_providers {
    unruly = { source = "millipede/unruly" }
  }
}
variable "faults" {
  default = ["`+strings.Join(unkept, `", "`)+`"]
}
variable "tame" {
  default = false
}
resource "unruly_thing" "a" {
  for_each  = toset(var.faults)
  name      = each.key
  misbehave = var.tame ? null : "apply:${each.key}"
}
`)
			if remote {
				s.Server()
				s.Worker("default")
			}
			s.Must("init")
			first := s.Run("apply", "-auto-approve", "-no-color")
			if first.Code != 1 {
				t.Errorf("exit status %d of an apply whose responses cannot be stored", first.Code)
			}
			show := s.Must("show", "-no-color")
			for _, fault := range unkept {
				if address := fmt.Sprintf("unruly_thing.a[%q]", fault); !strings.Contains(show,
					"# "+address+": (in doubt)") {
					t.Errorf("%s is not in doubt:\n%s", address, show)
				}
			}
			again := s.Run("apply", "-auto-approve", "-no-color")
			if again.Code != 1 {
				t.Errorf("exit status %d of an apply while objects are in doubt", again.Code)
			}
			site.Wants(t, again.Text, "runs resolve")
			for _, op := range []string{"create", "update", "delete"} {
				if begun, want := s.Begun(op), map[string]int{"create": len(unkept)}[op]; begun != want {
					t.Errorf("the operation %s was started %d times, not %d", op, begun, want)
				}
			}
			s.OnceEach("create")

			// One object was not created after all; the others exist.
			for _, fault := range unkept {
				address := fmt.Sprintf("unruly_thing.a[%q]", fault)
				if fault == "garbage" {
					s.Must("runs", "resolve", address, "-not-created")
				} else {
					s.Must("runs", "resolve", address, "-created="+fault)
				}
			}
			s.Must("apply", "-auto-approve", "-no-color", "-var=tame=true")
			if begun := s.Begun("create"); begun != len(unkept)+1 {
				t.Errorf("%d objects were made where one more was wanted than before, which were %d",
					begun, len(unkept))
			}
			if r := s.Run("plan", "-no-color", "-detailed-exitcode", "-var=tame=true"); r.Code != 0 {
				t.Errorf("a plan finds changes (exit status %d):\n%s", r.Code, r.Text)
			}
		})
	}
}
