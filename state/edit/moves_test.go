package edit

import (
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// state mv dropped the recorded dependencies of all objects that depended on a moved one, so that a later removal of
// several blocks destroyed the objects in a wrong order.
func TestAStateMoveRenamesRecordedDependencies(t *testing.T) {
	on := func(st *state.State, text string, deposed state.DeposedKey) []string {
		return slices.Collect(st.Object(target(t, text).AsInstance(), deposed).Dependencies.Texts())
	}
	made := func(t *testing.T) *state.State {
		st := state.Empty()
		for _, o := range []struct {
			at      string
			deposed state.DeposedKey
			on      []string
		}{
			{"terraform_data.a[0]", "", nil}, {"terraform_data.a[1]", "", nil},
			{"terraform_data.b", "", []string{"terraform_data.a"}},
			{"module.m.terraform_data.c", "", []string{"terraform_data.a", "terraform_data.b"}},
			{"module.m.terraform_data.d", "", []string{"terraform_data.a", "terraform_data.b", "module.m.terraform_data.c"}},
			{"module.m.terraform_data.d", "0123abcd", []string{"terraform_data.b"}},
		} {
			var list []state.Dependency
			for _, text := range o.on {
				list = append(list, state.DependOn(target(t, text).AsInstance().Config()))
			}
			st.Apply(state.SetObject{Addr: target(t, o.at).AsInstance(), Deposed: o.deposed,
				Provider: testProvider.Instance(addr.RootInstance, addr.NoKey),
				Object:   &state.Object{Status: state.Ready, Dependencies: state.DependenciesOn(list...)}})
		}
		return st
	}
	for sentence, c := range map[string]struct{ from, to, of, want string }{
		"a resource": {"terraform_data.b", "terraform_data.e", "module.m.terraform_data.c",
			"terraform_data.a terraform_data.e"},
		"one of two instances": {"terraform_data.a[0]", "terraform_data.e", "terraform_data.b",
			"terraform_data.a terraform_data.e"},
		"all instances": {"terraform_data.a", "terraform_data.e", "terraform_data.b", "terraform_data.e"},
		"a module": {"module.m", "module.n", "module.n.terraform_data.d",
			"module.n.terraform_data.c terraform_data.a terraform_data.b"},
	} {
		for _, elsewhere := range []bool{false, true} {
			t.Run(sentence, func(t *testing.T) {
				source := made(t)
				dest := source
				if elsewhere {
					dest = state.Empty()
				}
				read := source.Clone()
				there := read
				if elsewhere {
					there = dest.Clone()
				}
				moves, diags := PlannedMoves(read, there, target(t, c.from), target(t, c.to))
				must(t, diags)
				changes := Changes(moves, read, there)
				dest.Apply(changes.Arrive...)
				source.Apply(changes.Away...)
				if elsewhere && c.from != "module.m" {
					return // what depends on it is in the other state
				}
				got := on(dest, c.of, state.CurrentObject)
				if want := strings.Fields(c.want); !slices.Equal(got, want) {
					t.Errorf("%s depends on %v", c.of, got)
				}
				if c.from != "terraform_data.b" {
					return
				}
				deposed := on(dest, "module.m.terraform_data.d", "0123abcd")
				if !slices.Equal(deposed, []string{"terraform_data.e"}) {
					t.Errorf("the deposed object depends on %v", deposed)
				}
			})
		}
	}
}

func TestAMoveThatDoesNotFitIsRefused(t *testing.T) {
	source := stateOf(t, "test_a.a[0]", "test_a.a[1]", "test_a.b", "data.test_a.d", "module.m.test_a.a",
		"module.m.module.n.test_a.a", "module.o.test_a.a")
	for sentence, c := range map[string]struct{ from, to, want string }{
		"an instance that is not there": {"test_a.a[2]", "test_a.c",
			"Invalid source address: The current state does not contain test_a.a[2]."},
		"a resource that is not there": {"test_a.c", "test_a.d",
			"Invalid source address: Cannot move test_a.c: does not match anything in the current state."},
		"a module that is not there": {"module.x", "module.y",
			"Invalid source address: Cannot move module.x: does not match anything in the current state."},
		"a module to a resource": {"module.m", "test_a.c",
			"Invalid target address: Cannot move module.m to test_a.c: the target must also be a module."},
		"a resource to a module": {"test_a.b", "module.x",
			"Invalid target address: Cannot move test_a.b to module.x: the target must also be a resource instance."},
		"a whole resource to one instance": {"test_a.a", "test_a.c[0]",
			"Invalid target address: Cannot move test_a.a to test_a.c[0]: the source is a whole resource"},
		"to an instance that is there": {"test_a.b", "test_a.a[0]",
			"Invalid target address: Cannot move to test_a.a[0]: there is already a resource instance"},
		"to a resource that is there": {"test_a.a", "test_a.b",
			"Invalid target address: Cannot move to test_a.b: there is already a resource at that address"},
		"to a module that is there": {"module.m", "module.o",
			"Destination module already exists: There is something in module.o already."},
		"a module into itself": {"module.m", "module.m.module.x", "Invalid target address: Cannot move module.m to "},
		"to another type": {"test_a.b", "test_b.b",
			"Invalid state move request: Cannot move test_a.b to test_b.b: resource types don't match."},
		"to another mode": {"test_a.b", "data.test_a.b", "Invalid state move request: Cannot move test_a.b to " +
			"data.test_a.b: a managed resource can be moved only to another managed resource address."},
	} {
		before := contents(source)
		moves, diags := PlannedMoves(source, source, target(t, c.from), target(t, c.to))
		if got := summary(diags); !strings.HasPrefix(got, c.want) || moves != nil {
			t.Errorf("%s: %s, %v", sentence, got, moves)
		}
		if contents(source) != before {
			t.Errorf("%s: the state has changed", sentence)
		}
	}
}

func TestAMoveTakesAllObjects(t *testing.T) {
	for sentence, c := range map[string]struct{ from, to, moves, after, stays string }{
		"an instance": {"test_a.b", "test_a.c", "test_a.b>test_a.c",
			"module.m.test_a.a, module.m.module.n[1].test_a.a, test_a.a[0], test_a.a[1], test_a.c, test_a.c 0123abcd",
			"module.m.test_a.a, module.m.module.n[1].test_a.a, test_a.a[0], test_a.a[1]"},
		"a resource": {"test_a.a", "module.x.test_a.z", "test_a.a>module.x.test_a.z",
			"module.m.test_a.a, module.m.module.n[1].test_a.a, module.x.test_a.z[0], module.x.test_a.z[1], test_a.b, " +
				"test_a.b 0123abcd",
			"module.m.test_a.a, module.m.module.n[1].test_a.a, test_a.b, test_a.b 0123abcd"},
		"one instance to a resource of its own": {"test_a.a[1]", "test_a.c[\"x\"]", `test_a.a[1]>test_a.c["x"]`,
			`module.m.test_a.a, module.m.module.n[1].test_a.a, test_a.a[0], test_a.b, test_a.b 0123abcd, test_a.c["x"]`,
			"module.m.test_a.a, module.m.module.n[1].test_a.a, test_a.a[0], test_a.b, test_a.b 0123abcd"},
		"a module": {"module.m", "module.k", "module.m>module.k module.m.module.n[1]>module.k.module.n[1]",
			"module.k.test_a.a, module.k.module.n[1].test_a.a, test_a.a[0], test_a.a[1], test_a.b, test_a.b 0123abcd",
			"test_a.a[0], test_a.a[1], test_a.b, test_a.b 0123abcd"},
	} {
		made := func() *state.State {
			return stateOf(t, "test_a.a[0]", "test_a.a[1]", "test_a.b", "test_a.b 0123abcd", "module.m.test_a.a",
				"module.m.module.n[1].test_a.a")
		}
		same := func(got *state.State, want, where string) {
			t.Helper()
			a, b := strings.Split(contents(got), ", "), strings.Split(want, ", ")
			slices.Sort(a)
			slices.Sort(b)
			if !slices.Equal(a, b) {
				t.Errorf("%s: %s has %v", sentence, where, a)
			}
		}
		source := made()
		moves, diags := PlannedMoves(source, source, target(t, c.from), target(t, c.to))
		must(t, diags)
		var texts []string
		for _, m := range moves {
			texts = append(texts, m.From+">"+m.To)
		}
		slices.Sort(texts)
		want := strings.Fields(c.moves)
		slices.Sort(want)
		if !slices.Equal(texts, want) {
			t.Errorf("%s: moves %v", sentence, texts)
		}
		changes := Changes(moves, source, source)
		if len(changes.Arrive) > 0 {
			t.Errorf("%s: in one state, %d changes are for another one", sentence, len(changes.Arrive))
		}
		source.Apply(changes.Away...)
		same(source, c.after, "the state")

		source, there := made(), state.Empty()
		moves, diags = PlannedMoves(source, there, target(t, c.from), target(t, c.to))
		must(t, diags)
		changes = Changes(moves, source, there)
		there.Apply(changes.Arrive...)
		source.Apply(changes.Away...)
		same(source, c.stays, "the source")
		both := there.Clone()
		for _, at := range source.Addrs() {
			both.Apply(setInstance(source, at)...)
		}
		same(both, c.after, "the source with the target")
	}
}
