package state_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

func TestRecordedDependenciesFollowMoves(t *testing.T) {
	at := func(text string) addr.Instance {
		a, diags := addr.ParseInstance(text)
		if diags.HasErrors() {
			t.Fatal(diags.Err())
		}
		return a
	}
	for sentence, c := range map[string]struct {
		moves string // from>to
		after string // the instances after the moves
		own   string
		on    string
		want  string
	}{
		"a resource":                            {"t.a>t.b", "t.b", "t.x", "t.a t.z", "t.b t.z"},
		"all instances of a resource":           {"t.a[0]>t.b[0] t.a[1]>t.b[1]", "t.b[0] t.b[1]", "t.x", "t.a", "t.b"},
		"one of several instances":              {"t.a[0]>t.b", "t.b t.a[1]", "t.x", "t.a", "t.a t.b"},
		"instances that part":                   {"t.a[0]>t.b t.a[1]>t.c", "t.b t.c", "t.x", "t.a", "t.b t.c"},
		"a change of the key":                   {"t.a>t.a[0]", "t.a[0]", "t.x", "t.a", "t.a"},
		"a resource into a module":              {"t.a>module.m.t.a", "module.m.t.a", "t.x", "t.a", "module.m.t.a"},
		"one of two instances of a module":      {`module.m[0].t.a>t.a`, `module.m[1].t.a t.a`, "t.x", "module.m.t.a", "module.m.t.a t.a"},
		"two resources that change places":      {"t.a>t.b t.b>t.a", "t.a t.b", "t.x", "t.a", "t.b"},
		"two resources that become one":         {"t.a[0]>t.b[0] t.c[0]>t.b[1]", "t.b[0] t.b[1]", "t.x", "t.a t.c", "t.b"},
		"what would depend on itself then":      {"t.a>t.x[1]", "t.x[1] t.x[0]", "t.x[0]", "t.a t.z", "t.z"},
		"what does not depend on what is moved": {"t.a>t.b", "t.b", "t.x", "t.z", "t.z"},
	} {
		t.Run(sentence, func(t *testing.T) {
			moves := map[addr.Instance]addr.Instance{}
			for _, m := range strings.Fields(c.moves) {
				from, to, _ := strings.Cut(m, ">")
				moves[at(from)] = at(to)
			}
			var on []state.Dependency
			for _, d := range strings.Fields(c.on) {
				on = append(on, state.DependOn(at(d).Config()))
			}
			st := state.Empty()
			set := func(text string, key state.DeposedKey, on ...state.Dependency) {
				st.Apply(state.SetObject{Addr: at(text), Deposed: key,
					Provider: addr.ProviderInstance{Provider: addr.DefaultProvider("t")},
					Object:   &state.Object{Status: state.Ready, Dependencies: state.DependenciesOn(on...)}})
			}
			for _, text := range strings.Fields(c.after) {
				set(text, state.CurrentObject)
			}
			set(c.own, state.CurrentObject, on...)
			set(c.own, "0123abcd", on...)
			renaming := state.NewRenaming(moves, st)
			st.Apply(renaming.Changes(st)...)
			i := st.Instance(at(c.own))
			for _, o := range []*state.Object{i.Current, i.Deposed["0123abcd"]} {
				if got := strings.Join(slices.Collect(o.Dependencies.Texts()), " "); got != c.want {
					t.Errorf("it depends on %q", got)
				}
			}
		})
	}
}
