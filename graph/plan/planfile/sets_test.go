package planfile

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// modules returns a plan without changes and the state of modules that depend on each other as wholes: each object
// depends on all objects of all modules before.
func modules(t *testing.T, modules, objects int) Saved {
	t.Helper()
	var before []state.Dependency
	u := state.NewUniverse()
	prior := state.Empty()
	for m := range modules {
		set := u.Set(slices.Values(before))
		for o := range objects {
			a := instance(t, fmt.Sprintf("module.m%d.test_thing.a%d", m, o))
			prior.Apply(state.SetObject{Addr: a, Provider: addr.ProviderInstance{Provider: addr.BuiltinTerraform},
				Object: &state.Object{Attrs: []byte(`{"id":"x"}`), Dependencies: set}})
			before = append(before, state.DependOn(a.Config()))
		}
	}
	return Saved{Plan: &plan.Plan{Prior: prior, Variables: map[string]plan.Variable{}}}
}

// Each object of the state named all its dependencies: the plan of a destroy of 36 modules of 100 objects, each of
// which depends on the module before it as a whole, had 280 MB, and the journal's copy of it as well.
func TestThePlanOfModulesThatDependOnEachOtherGrowsWithTheirObjects(t *testing.T) {
	size := func(n int) int {
		data, err := EncodeRecorded(modules(t, n, 20))
		if err != nil {
			t.Fatal(err)
		}
		return len(data)
	}
	small, large := size(8), size(32)
	if large > 6*small {
		t.Errorf("four times the objects need %d bytes instead of %d", large, small)
	}
}

func TestDependenciesAreReadAsTheyWereSaved(t *testing.T) {
	want := modules(t, 9, 7)
	// Sets of another universe, which an operation adds, are the same sets as before if they are equal.
	last := instance(t, "module.m8.test_thing.a0")
	object := *want.Plan.Prior.Object(last, state.CurrentObject)
	object.Dependencies = state.DependenciesOn(slices.Collect(object.Dependencies.All())...)
	want.Plan.Prior.Apply(state.SetObject{Addr: last, Object: &object,
		Provider: addr.ProviderInstance{Provider: addr.BuiltinTerraform}})
	got, err := Decode(mustEncode(t, want))
	if err != nil {
		t.Fatal(err)
	}
	sets := map[*state.Dependencies]bool{}
	for _, a := range want.Plan.Prior.Addrs() {
		was, is := want.Plan.Prior.Object(a, state.CurrentObject), got.Plan.Prior.Object(a, state.CurrentObject)
		if !is.Dependencies.Equal(was.Dependencies) {
			t.Errorf("%s depends on %d resources, not %d", a, is.Dependencies.Len(), was.Dependencies.Len())
		}
		sets[is.Dependencies] = true
	}
	if len(sets) != 9 {
		t.Errorf("the objects of nine modules have %d different sets", len(sets))
	}
}

// testdata/format2.plan was saved by the last version that wrote format 2: it destroys a chain of three resources.
func TestAPlanWithListsOfDependenciesIsStillRead(t *testing.T) {
	data, err := os.ReadFile("testdata/format2.plan")
	if err != nil {
		t.Fatal(err)
	}
	saved, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, a := range saved.Plan.Prior.Addrs() {
		o := saved.Plan.Prior.Object(a, state.CurrentObject)
		got[a.String()] = slices.Collect(o.Dependencies.Texts())
	}
	if diff := cmp.Diff(map[string][]string{
		"terraform_data.a":    nil,
		"terraform_data.b[0]": {"terraform_data.a"},
		"terraform_data.b[1]": {"terraform_data.a"},
		"terraform_data.c":    {"terraform_data.a", "terraform_data.b"},
	}, got); diff != "" {
		t.Error(diff)
	}
	if len(saved.Plan.Changes) != 4 || saved.Plan.Changes[0].Before == cty.NilVal {
		t.Errorf("it has %d changes", len(saved.Plan.Changes))
	}
}

func TestANumberOfNoSetIsAnError(t *testing.T) {
	whole := modules(t, 2, 1)
	data, err := encodePlan(whole.Plan, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	const number = `"dependencies":0`
	i := bytes.Index(data, []byte(number))
	if i < 0 {
		t.Fatal("no object has the number of a set")
	}
	for _, other := range []byte("1-n\"") {
		altered := slices.Clone(data)
		altered[i+len(number)-1] = other
		if _, _, err := decodePlan(altered); err == nil {
			t.Errorf("the number %q is read as a set", other)
		}
	}
}
