package drivers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-exec/tfexec"
)

const acting = `
resource "fleet_machine" "a" {
  name = "a"
  lifecycle {
    action_trigger {
      events  = [before_create, after_create]
      actions = [action.fleet_notify.n]
    }
  }
}
action "fleet_notify" "n" {
  config {
    message = "made ${caller.name}"
    steps   = 2
  }
}
`

// The plan is parsed by terraform-json, and applied from its file.
func TestExecPlansAndInvokesActions(t *testing.T) {
	ctx := t.Context()
	record := filepath.Join(t.TempDir(), "record")
	text := fmt.Sprintf(identities, filepath.Join(t.TempDir(), "cloud")) + acting
	tf, dir := inDir(t, strings.Replace(text, "cloud = ", fmt.Sprintf("record = %q\n  cloud = ", record), 1))
	file := filepath.Join(dir, "plan")
	changes, err := tf.Plan(ctx, tfexec.Out(file))
	must(t, err)
	p, err := tf.ShowPlanFile(ctx, file)
	must(t, err)
	if !changes || len(p.ActionInvocations) != 2 {
		t.Fatalf("the plan has the invocations %+v", p.ActionInvocations)
	}
	after := p.ActionInvocations[1]
	if after.Type != "fleet_notify" || after.LifecycleActionTrigger.ActionTriggerEvent != "after_create" ||
		after.LifecycleActionTrigger.TriggeringResourceAddress != "fleet_machine.a" {
		t.Errorf("the second invocation is %+v, because of %+v", after, after.LifecycleActionTrigger)
	}
	must(t, tf.Apply(ctx, tfexec.DirOrPlan(file)))
	lines, err := os.ReadFile(record) //nolint:gosec // of this test
	must(t, err)
	if n := strings.Count(string(lines), `"op":"invoke","phase":"end"`); n != 2 {
		t.Errorf("%d actions were invoked", n)
	}
	changes, err = tf.Plan(ctx)
	must(t, err)
	if changes {
		t.Error("the next plan has changes")
	}
}
