package operation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

// A mistyped address of -target planned nothing, and one of -exclude left nothing out, without a word.
func TestAnAddressThatMatchesNothingHasAWarning(t *testing.T) {
	e := newEstate(t)
	text := `
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" {
  count = 2
  name  = "b${count.index}"
}
resource "fake_thing" "none" {
  count = 0
  name  = "none"
}
module "m" {
  source   = "./child"
  for_each = toset(["x"])
}
`
	child := `resource "fake_thing" "c" { name = "c" }`
	e.apply(text+`resource "fake_thing" "gone" { name = "gone" }`, child)
	e.configure(text, child)
	for address, matches := range map[string]bool{
		"fake_thing.a": true, "fake_thing.b": true, "fake_thing.b[1]": true, "fake_thing.none": true,
		"fake_thing.gone": true, "module.m": true, `module.m["x"]`: true, `module.m["x"].fake_thing.c`: true,
		"fake_thing.nosuch": false, "fake_thing.b[2]": false, "fake_thing.none[0]": false, "module.n": false,
		`module.m["y"]`: false, `module.m["x"].fake_thing.d`: false,
	} {
		for _, o := range []plan.Options{
			{Targets: targets(address)}, {Excludes: targets(address)},
			{Targets: targets(address), Mode: plan.Destroy}, {Targets: targets(address), Mode: plan.RefreshOnly},
		} {
			_, diags := e.tryPlan(o)
			if says(diags, "matches nothing") == matches {
				t.Errorf("%s with %+v: %v", address, o, diags)
			}
		}
		if !strings.Contains(address, "fake_thing") || slices.Contains([]string{"fake_thing.b", "fake_thing.none"}, address) {
			continue
		}
		at, diags := addr.ParseInstance(address)
		e.clean(diags)
		_, diags = e.tryPlan(plan.Options{Replace: []addr.Instance{at}})
		if says(diags, "matches nothing") == matches {
			t.Errorf("-replace=%s: %v", address, diags)
		}
	}
}
