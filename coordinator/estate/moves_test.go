package estate

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/edit"
)

// inMemory is a state that moves change.
type inMemory struct{ st *state.State }

func (m inMemory) Load(context.Context) (*state.State, diag.List) { return m.st, nil }
func (m inMemory) Close(context.Context) diag.List                { return nil }
func (m inMemory) Commit(_ context.Context, changes []state.Change) diag.List {
	m.st.Apply(changes...)
	return nil
}

// state mv dropped the recorded dependencies of all objects that depended on a moved one, so that a later removal of
// several blocks destroyed the objects in a wrong order.
func TestAStateMoveRenamesRecordedDependencies(t *testing.T) {
	parse := func(text string) addr.Target {
		at, diags := addr.ParseTarget(text)
		must(t, diags)
		return at
	}
	on := func(st *state.State, text string, deposed state.DeposedKey) []string {
		return slices.Collect(st.Object(parse(text).AsInstance(), deposed).Dependencies.Texts())
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
				list = append(list, state.DependOn(parse(text).AsInstance().Config()))
			}
			st.Apply(state.SetObject{Addr: parse(o.at).AsInstance(), Deposed: o.deposed,
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
				target := source
				if elsewhere {
					target = state.Empty()
				}
				read := source.Clone()
				there := read
				if elsewhere {
					there = target.Clone()
				}
				moves, diags := edit.PlannedMoves(read, there, parse(c.from), parse(c.to))
				must(t, diags)
				must(t, Move(t.Context(), moves, read, inMemory{source}, there, inMemory{target}))
				if elsewhere && c.from != "module.m" {
					return // what depends on it is in the other state
				}
				got := on(target, c.of, state.CurrentObject)
				if want := strings.Fields(c.want); !slices.Equal(got, want) {
					t.Errorf("%s depends on %v", c.of, got)
				}
				if c.from != "terraform_data.b" {
					return
				}
				deposed := on(target, "module.m.terraform_data.d", "0123abcd")
				if !slices.Equal(deposed, []string{"terraform_data.e"}) {
					t.Errorf("the deposed object depends on %v", deposed)
				}
			})
		}
	}
}
