package operation_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

// A run can be interrupted between the creation of an object and its provisioners. A process that resumes it must
// neither create the object again nor leave it tainted without having run the provisioners.
func TestARunThatIsInterruptedBeforeProvisionersRunsThemWhenItIsResumed(t *testing.T) {
	e := newEstate(t)
	log := filepath.Join(t.TempDir(), "log")
	e.configure(strings.ReplaceAll(`
resource "fake_thing" "a" {
  name = "a"
  provisioner "local-exec" { command = "echo first ${self.id} >> LOG" }
  provisioner "local-exec" { command = "echo second >> LOG" }
}
resource "fake_thing" "b" { name = "b-${fake_thing.a.id}" }
`, "LOG", log))
	p := e.plan(plan.Options{})
	e.cloud.onCreate = func(ctx context.Context, _ string) (bool, error) {
		e.interrupt()
		select {
		case <-e.cloud.stopped: // the worker was told, so the run has taken notice
		case <-ctx.Done():
		}
		return false, nil
	}
	applied, _ := e.tryApply(p)
	if !applied.Outcome.Interrupted {
		t.Fatalf("the run is %s", applied.Outcome.Status)
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.a tainted"})
	if _, err := os.Stat(log); err == nil {
		t.Fatal("a provisioner ran although the run was interrupted")
	}
	e.cloud.onCreate = nil

	e.again()
	runs, err := e.store.Runs(t.Context(), "default")
	e.check(err)
	resumed, diags := e.session.Resume(t.Context(), runs[0], p, "")
	e.clean(diags)
	if resumed.Outcome.Status != "done" || e.cloud.made != 2 {
		t.Errorf("the resumed run is %s, and %d objects were made, want 2", resumed.Outcome.Status, e.cloud.made)
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.a", "fake_thing.b"})
	text, err := os.ReadFile(log)
	if want := "first id1\nsecond\n"; err != nil || string(text) != want {
		t.Errorf("the provisioners have written %q, %v; want %q", text, err, want)
	}
}

// The destroy-time provisioners of an object were looked up in its module instance. When count, for_each or enabled
// of the call had taken that instance away, they were silently skipped, although the module still has the block.
func TestDestroyProvisionersRunWhenTheirModuleInstanceGoes(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	child := strings.Replace(`
resource "fake_thing" "a" {
  for_each = toset(["x"])
  name     = "a"
  provisioner "local-exec" {
    when    = destroy
    command = "echo ${each.key}-${self.name}-${path.module} >> LOG"
  }
}`, "LOG", log, 1)
	called := func(repetition string) string {
		return `module "m" {
  source = "./child"
  ` + repetition + `
}`
	}
	for gone, c := range map[string]struct{ with, without string }{
		"count":            {called(`count = 1`), called(`count = 0`)},
		"for_each":         {called(`for_each = toset(["k"])`), called(`for_each = toset([])`)},
		"enabled":          {called(`lifecycle { enabled = true }`), called(`lifecycle { enabled = false }`)},
		"the whole module": {called(``), `output "o" { value = 1 }`},
	} {
		t.Run(gone, func(t *testing.T) {
			_ = os.Remove(log)
			e := newEstate(t)
			e.apply(c.with, child)
			e.apply(c.without, child)
			e.equal("cloud", e.cloud.names(), nil)
			var want []string
			if gone != "the whole module" { // then there is no block either
				want = []string{"x-a-child"}
			}
			text, _ := os.ReadFile(log) // none ran
			e.equal("ran", strings.Fields(string(text)), want)
		})
	}
}
