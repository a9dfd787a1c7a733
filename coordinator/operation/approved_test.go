package operation_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

// An output whose value the plan showed was evaluated again when the plan was applied: if the file that it reads had
// changed since, a value was stored that nobody had approved.
func TestAKnownOutputIsStoredAsPlanned(t *testing.T) {
	e := newEstate(t)
	file := filepath.Join(t.TempDir(), "f.txt")
	write := func(text string) {
		t.Helper()
		e.check(os.WriteFile(file, []byte(text), 0o600))
	}
	write("planned")
	e.configure(`
resource "fake_thing" "a" { name = "a" }
output "known" {
  value     = file("` + file + `")
  sensitive = true
}
output "conditional" {
  value = file("` + file + `")
  precondition {
    condition     = fake_thing.a.name == "a"
    error_message = "never"
  }
}
output "gone" { value = fileexists("` + file + `") ? null : "no file" }
output "mixed" { value = [fake_thing.a.id != "", file("` + file + `")] }
`)
	p := e.plan(plan.Options{})
	write("changed")
	_, diags := e.tryApply(p)
	e.clean(diags)
	outputs := e.state().Outputs
	for name, want := range map[string]string{"known": "planned", "conditional": "planned"} {
		if o := outputs[name]; o == nil || o.Value.AsString() != want {
			t.Errorf("the output %q is %v, want %q", name, o, want)
		}
	}
	if !outputs["known"].Sensitive {
		t.Error("the output is not sensitive any more")
	}
	if outputs["gone"] != nil {
		t.Errorf("an output that is null is stored: %v", outputs["gone"])
	}
	// A partly unknown value is evaluated again as a whole, as in OpenTofu.
	if got := outputs["mixed"].Value.AsValueSlice()[1].AsString(); got != "changed" {
		t.Errorf("the partly unknown output has %q", got)
	}
}
