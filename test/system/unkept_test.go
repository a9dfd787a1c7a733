package system

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/site"
)

// unkept are answers to a create that no state can hold.
var unkept = []string{"infinite_size", "missing_attribute", "wrong_type", "null", "garbage", "absent"}

// The object that a provider had made was neither in the state nor in doubt when its answer could not be kept: the
// answer counted as a failure without a trace, and the next apply made the object again.
func TestAnObjectWhoseAnswerCannotBeKeptIsInDoubtAndNotMadeAgain(t *testing.T) {
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
variable "deeds" {
  default = ["`+strings.Join(unkept, `", "`)+`"]
}
variable "tame" {
  default = false
}
resource "unruly_thing" "a" {
  for_each  = toset(var.deeds)
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
				t.Errorf("exit status %d of an apply whose answers cannot be kept", first.Code)
			}
			show := s.Must("show", "-no-color")
			for _, deed := range unkept {
				if address := fmt.Sprintf("unruly_thing.a[%q]", deed); !strings.Contains(show,
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
					t.Errorf("%d times %s, not %d", begun, op, want)
				}
			}
			s.OnceEach("create")

			// One was not made after all, the others are there.
			for _, deed := range unkept {
				address := fmt.Sprintf("unruly_thing.a[%q]", deed)
				if deed == "garbage" {
					s.Must("runs", "resolve", address, "-not-created")
				} else {
					s.Must("runs", "resolve", address, "-created="+deed)
				}
			}
			s.Must("apply", "-auto-approve", "-no-color", "-var=tame=true")
			if begun := s.Begun("create"); begun != len(unkept)+1 {
				t.Errorf("%d objects were made where one more was wanted than before, which were %d",
					begun, len(unkept))
			}
			if r := s.Run("plan", "-no-color", "-detailed-exitcode", "-var=tame=true"); r.Code != 0 {
				t.Errorf("something is left to do (exit status %d):\n%s", r.Code, r.Text)
			}
		})
	}
}
