package drivers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/millipede-iac/millipede/test/providers/record"
)

const required = `
terraform {
  required_providers {
    fleet = { source = "millipede/fleet" }
  }
}
`

const machine = required + `
variable "size" {
  default = "small"
}

resource "fleet_machine" "a" {
  name = "a"
  size = var.size
}

output "size" {
  value = fleet_machine.a.size
}
`

// inDir returns a driver in a new folder with a configuration that was initialized.
func inDir(t *testing.T, config string) (*tfexec.Terraform, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	tf, err := tfexec.NewTerraform(dir, binary)
	must(t, err)
	must(t, tf.Init(t.Context()))
	return tf, dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestExecReadsTheVersionAndTheSelections(t *testing.T) {
	tf, _ := inDir(t, machine)
	v, selections, err := tf.Version(t.Context(), true)
	must(t, err)
	if v.String() != "1.12.6" || selections["registry.opentofu.org/millipede/fleet"].String() != "1.0.0" {
		t.Errorf("version %s, selections %v", v, selections)
	}
}

func TestExecPlansShowsAndAppliesASavedPlan(t *testing.T) {
	tf, _ := inDir(t, machine)
	ctx := t.Context()
	validity, err := tf.Validate(ctx)
	must(t, err)
	if !validity.Valid || len(validity.Diagnostics) > 0 {
		t.Errorf("validate: %+v", validity)
	}
	changes, err := tf.Plan(ctx, tfexec.Out("plan"), tfexec.Var("size=large"))
	must(t, err)
	if !changes {
		t.Error("there is nothing to do for a new machine")
	}
	plan, err := tf.ShowPlanFile(ctx, "plan")
	must(t, err)
	if len(plan.ResourceChanges) != 1 || !plan.ResourceChanges[0].Change.Actions.Create() ||
		plan.Variables["size"].Value != "large" {
		t.Errorf("the plan is %+v", plan)
	}
	text, err := tf.ShowPlanFileRaw(ctx, "plan")
	must(t, err)
	if !strings.Contains(text, "Plan: 1 to add, 0 to change, 0 to destroy.") {
		t.Errorf("the plan is shown as %s", text)
	}
	must(t, tf.Apply(ctx, tfexec.DirOrPlan("plan")))
	outputs, err := tf.Output(ctx)
	must(t, err)
	if string(outputs["size"].Value) != `"large"` {
		t.Errorf("the outputs are %v", outputs)
	}
	if changes, err = tf.Plan(ctx, tfexec.Var("size=large")); err != nil || changes {
		t.Errorf("after the apply there is something to do, or %v", err)
	}
}

// onlyResource returns the one resource of the state.
func onlyResource(t *testing.T, tf *tfexec.Terraform) *tfjson.StateResource {
	t.Helper()
	state, err := tf.Show(t.Context())
	must(t, err)
	if state.Values == nil || len(state.Values.RootModule.Resources) != 1 {
		t.Fatalf("the state is %+v", state.Values)
	}
	return state.Values.RootModule.Resources[0]
}

func TestExecWorksOnTheState(t *testing.T) {
	tf, _ := inDir(t, machine)
	ctx := t.Context()
	must(t, tf.Apply(ctx))
	id := onlyResource(t, tf).AttributeValues["id"]
	must(t, tf.Taint(ctx, "fleet_machine.a"))
	if r := onlyResource(t, tf); !r.Tainted {
		t.Errorf("%s is not tainted", r.Address)
	}
	must(t, tf.Untaint(ctx, "fleet_machine.a"))
	must(t, tf.StateMv(ctx, "fleet_machine.a", "fleet_machine.b"))
	if r := onlyResource(t, tf); r.Tainted || r.Address != "fleet_machine.b" || r.AttributeValues["id"] != id {
		t.Errorf("moved, it is %+v", r)
	}
	pulled, err := tf.StatePull(ctx)
	must(t, err)
	must(t, tf.StateRm(ctx, "fleet_machine.b"))
	state, err := tf.Show(ctx)
	must(t, err)
	if state.Values != nil && len(state.Values.RootModule.Resources) > 0 {
		t.Errorf("after its removal the state holds %+v", state.Values.RootModule)
	}
	// The removal has made a newer state; the pushed one must be newer still.
	var document map[string]any
	must(t, json.Unmarshal([]byte(pulled), &document))
	document["serial"] = document["serial"].(float64) + 10
	pushed, err := json.Marshal(document)
	must(t, err)
	file := filepath.Join(t.TempDir(), "pushed.tfstate")
	must(t, os.WriteFile(file, pushed, 0o600))
	must(t, tf.StatePush(ctx, file))
	if r := onlyResource(t, tf); r.Address != "fleet_machine.b" {
		t.Errorf("what was pushed is %+v", r)
	}
}

func TestExecChangesWorkspaces(t *testing.T) {
	tf, _ := inDir(t, machine)
	ctx := t.Context()
	must(t, tf.WorkspaceNew(ctx, "other"))
	all, current, err := tf.WorkspaceList(ctx)
	must(t, err)
	if current != "other" || !slices.Equal(all, []string{"default", "other"}) {
		t.Errorf("selected is %s of %v", current, all)
	}
	must(t, tf.WorkspaceSelect(ctx, "default"))
	must(t, tf.WorkspaceDelete(ctx, "other"))
	if current, err = tf.WorkspaceShow(ctx); err != nil || current != "default" {
		t.Errorf("selected is %s, %v", current, err)
	}
}

func TestExecReadsSchemasFunctionsAndFormatsText(t *testing.T) {
	tf, _ := inDir(t, machine)
	ctx := t.Context()
	schemas, err := tf.ProvidersSchema(ctx)
	must(t, err)
	if schemas.Schemas["registry.opentofu.org/millipede/fleet"].ResourceSchemas["fleet_machine"] == nil {
		t.Errorf("the schemas are %+v", schemas)
	}
	functions, err := tf.MetadataFunctions(ctx)
	must(t, err)
	if functions.Signatures["cidrsubnet"] == nil {
		t.Error("the function cidrsubnet is unknown")
	}
	text, err := tf.FormatString(ctx, "a=1\nlong = 2\n")
	must(t, err)
	if text != "a    = 1\nlong = 2\n" {
		t.Errorf("formatted: %q", text)
	}
}

func TestExecStreamsMessages(t *testing.T) {
	tf, _ := inDir(t, machine)
	for _, step := range []struct {
		name string
		run  func(out *bytes.Buffer) error
		last string
	}{
		{"plan", func(out *bytes.Buffer) error { _, err := tf.PlanJSON(t.Context(), out); return err }, "outputs"},
		{"apply", func(out *bytes.Buffer) error { return tf.ApplyJSON(t.Context(), out) }, "outputs"},
		{"refresh", func(out *bytes.Buffer) error { return tf.RefreshJSON(t.Context(), out) }, "outputs"},
		{"destroy", func(out *bytes.Buffer) error { return tf.DestroyJSON(t.Context(), out) }, "change_summary"},
	} {
		var out bytes.Buffer
		if err := step.run(&out); err != nil {
			t.Fatalf("%s: %v\n%s", step.name, err, out.String())
		}
		var kinds []string
		for line := range bytes.Lines(out.Bytes()) {
			var message struct{ Type string }
			if err := json.Unmarshal(line, &message); err != nil {
				t.Errorf("%s writes %q: %v", step.name, line, err)
			}
			kinds = append(kinds, message.Type)
		}
		if kinds[0] != "version" || kinds[len(kinds)-1] != step.last {
			t.Errorf("%s writes %v", step.name, kinds)
		}
	}
}

func TestExecImportsAndDestroys(t *testing.T) {
	cloud := t.TempDir()
	t.Setenv("FLEET_CLOUD", cloud)
	made, _ := inDir(t, machine)
	ctx := t.Context()
	must(t, made.Apply(ctx))
	id := onlyResource(t, made).AttributeValues["id"].(string)

	tf, _ := inDir(t, machine)
	must(t, tf.Import(ctx, "fleet_machine.a", id))
	if got := onlyResource(t, tf).AttributeValues["id"]; got != id {
		t.Errorf("imported is %v", got)
	}
	// A user who imports may still be writing the block.
	unfinished, _ := inDir(t, required+"resource \"fleet_machine\" \"a\" {\n}\n")
	must(t, unfinished.Import(ctx, "fleet_machine.a", id))
	must(t, tf.Destroy(ctx))
	if changes, err := made.Plan(ctx); err != nil || !changes {
		t.Errorf("the machine is still there, or %v", err)
	}
}

func TestExecTellsErrors(t *testing.T) {
	tf, _ := inDir(t, required+`
terraform {
  backend "inmem" {
    lock_id = "2b6a6738-5dd5-50d6-c0ae-f6352977666b"
  }
}

resource "fleet_machine" "a" {
  name = "a"
}
`)
	ctx := t.Context()
	if err := tf.Apply(ctx); err == nil || !strings.Contains(err.Error(), "state lock") {
		t.Fatalf("the state is locked, and apply says %v", err)
	}
	must(t, tf.ForceUnlock(ctx, "2b6a6738-5dd5-50d6-c0ae-f6352977666b"))

	tf, _ = inDir(t, "variable \"needed\" {}\n")
	if _, err := tf.Plan(ctx); err == nil || !strings.Contains(err.Error(), "No value for required variable") {
		t.Errorf("a variable without a value gives %v", err)
	}
}

// A cancelled driver sends an interrupt only to the coordinator, which must stop the provider.
func TestAnInterruptStopsTheProvider(t *testing.T) {
	log := filepath.Join(t.TempDir(), "record")
	t.Setenv("FLEET_RECORD", log)
	tf, _ := inDir(t, required+`
resource "fleet_machine" "slow" {
  name    = "slow"
  hang_on = ["create"]
}
`)
	must(t, tf.SetWaitDelay(time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- tf.Apply(ctx) }()
	for begun := false; !begun; {
		select {
		case err := <-ended:
			t.Fatalf("the apply is over: %v", err)
		case <-time.After(20 * time.Millisecond): // the record is a file that another process writes
		}
		if r, err := record.ReadFile(log); err == nil {
			begun = r.Count(record.Create) > 0
		}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("an interrupted apply succeeds")
	}
	r, err := record.ReadFile(log)
	must(t, err)
	if r.Count(record.Stop) == 0 {
		t.Error("the provider was not asked to stop")
	}
}
