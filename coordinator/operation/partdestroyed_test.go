package operation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

// A targeted destroy left all data sources in the state, also those of the destroyed part: later commands still showed
// the data of a destroyed module.
func TestADestroyOfAPartForgetsItsData(t *testing.T) {
	const text = `
data "fake_lookup" "used" { key = "u" }
data "fake_lookup" "late" { key = fake_thing.a.name }
data "fake_lookup" "free" { key = "f" }
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" {
  name = "b"
  note = data.fake_lookup.used.value
}
`
	for sentence, c := range map[string]struct {
		o    plan.Options
		want string
	}{
		"everything":                {plan.Options{}, ""},
		"data that is targeted":     {plan.Options{Targets: targets("data.fake_lookup.free")}, "late used a b"},
		"a resource":                {plan.Options{Targets: targets("fake_thing.b")}, "free late used a"},
		"all but data":              {plan.Options{Excludes: targets("data.fake_lookup.free")}, "free"},
		"all but what uses data":    {plan.Options{Excludes: targets("fake_thing.b")}, "used b"},
		"all but what data depends": {plan.Options{Excludes: targets("fake_thing.a")}, "a"},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.apply(text)
			c.o.Mode = plan.Destroy
			_, diags := e.tryApply(e.plan(c.o))
			e.clean(diags)
			var left []string
			for _, a := range e.state().Addrs() {
				left = append(left, a.Resource.Name)
			}
			slices.Sort(left)
			want := strings.Fields(c.want)
			slices.Sort(want)
			if !slices.Equal(left, want) {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func targets(list ...string) []addr.Target {
	var out []addr.Target
	for _, text := range list {
		t, _ := addr.ParseTarget(text)
		out = append(out, t)
	}
	return out
}
