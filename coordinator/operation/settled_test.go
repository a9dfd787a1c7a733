package operation_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Each apply asked the provider for its plan a second time, although the answer could not differ: for a cheap object,
// that was half of a worker's cost of a change.
func TestAnApplyAsksForAPlanAgainOnlyIfTheConfigurationHasChanged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "note")
	for claim, c := range map[string]struct {
		before, text string
		between      func(*estate)
		want         []string // the requests to the provider during the apply
		fails        string
	}{
		"a creation whose configuration was known": {text: `resource "fake_thing" "a" { name = "a" }`},
		"an update whose configuration was known": {
			before: `resource "fake_thing" "a" { name = "a" }`,
			text:   "resource \"fake_thing\" \"a\" {\n  name = \"a\"\n  size = 2\n}",
		},
		"a value that was unknown": {
			text: `
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" {
  name = "b"
  note = fake_thing.a.id
}`,
			want: []string{"plan b"},
		},
		"a replacement": {
			before: `resource "fake_thing" "a" { name = "a" }`, text: `resource "fake_thing" "a" { name = "b" }`,
			want: []string{"plan b"},
		},
		"an ephemeral value, of which no digest may be recorded": {
			text: `
ephemeral "fake_token" "t" {
  provider = fake.plain
  name     = "t"
}
provider "fake" { token = ephemeral.fake_token.t.value }
provider "fake" { alias = "plain" }
resource "fake_thing" "a" { name = "a" }`,
			want: []string{"plan a"},
		},
		"a provider whose configuration was unknown": {
			text: `
resource "fake_thing" "a" {
  provider = fake.plain
  name     = "a"
}
provider "fake" { token = fake_thing.a.id }
provider "fake" { alias = "plain" }
resource "fake_thing" "b" { name = "b" }`,
			want: []string{"plan b"},
		},
		"a warning, which the apply repeats": {
			text: "resource \"fake_thing\" \"a\" {\n  name = \"a\"\n  note = \"strange\"\n}",
			want: []string{"plan a"},
		},
		"a file that has changed since the plan": {
			text:    fmt.Sprintf("resource \"fake_thing\" \"a\" {\n  name = \"a\"\n  note = file(%q)\n}", file),
			between: func(e *estate) { e.check(os.WriteFile(file, []byte("second"), 0o600)) },
			want:    []string{"plan a"}, fails: "Provider produced inconsistent final plan",
		},
	} {
		t.Run(claim, func(t *testing.T) {
			e := newEstate(t)
			e.cloud.warns = true
			e.check(os.WriteFile(file, []byte("first"), 0o600))
			if c.before != "" {
				e.apply(c.before)
			}
			e.configure(c.text)
			data, err := planfile.Encode(planfile.Saved{Plan: e.plan(plan.Options{})})
			e.check(err)
			if c.between != nil {
				c.between(e)
			}
			e.questions()
			_, diags := e.tryApply(e.decode(data))
			e.equal("asked", e.questions(), c.want)
			if c.fails == "" {
				e.clean(diags)
			} else if !says(diags, c.fails) {
				t.Errorf("the diagnostics are %v, want %q", diags, c.fails)
			}
			if claim == "a warning, which the apply repeats" && !warned(diags, "Strange note") {
				t.Errorf("the warning is not repeated: %v", diags)
			}
		})
	}
}

func warned(diags diag.List, summary string) bool {
	for _, d := range diags {
		if d.Severity == diag.Warning && d.Summary == summary {
			return true
		}
	}
	return false
}
