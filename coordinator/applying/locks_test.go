package applying

import (
	"maps"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/locks"
)

func located(t *testing.T, text string) addr.Instance {
	t.Helper()
	at, diags := addr.ParseInstance(text)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return at
}

var ours = addr.ProviderInstance{Provider: addr.DefaultProvider("t")}

// lockCase is a plan, in one line for each part: the stored objects, the changes, and the plan's dependencies.
type lockCase struct {
	stored  []string
	changes map[string]plan.Action
	found   []string
	reads   []string
	keeps   []string
	outputs []string
	mode    plan.Mode
	want    locks.Set
}

func TestAnApplyLocksWhatItsPlanRestsOn(t *testing.T) {
	const a, b, c = "t.a", "t.b[0]", "t.c"
	in, of := locks.Instance, locks.Resource
	for sentence, k := range map[string]lockCase{
		"what is changed in place is written, its resource shared": {
			stored: []string{b}, changes: map[string]plan.Action{b: plan.Update},
			want: locks.Set{in(b): 'w', of("t.b"): 'r'},
		},
		"what did not change is not locked": {
			stored: []string{a, b}, changes: map[string]plan.Action{a: plan.NoOp, b: plan.Update},
			want: locks.Set{in(b): 'w', of("t.b"): 'r'},
		},
		"the first instance has its resource alone": {
			changes: map[string]plan.Action{b: plan.Create}, want: locks.Set{in(b): 'w', of("t.b"): 'w'},
		},
		"another instance shares it": {
			stored: []string{"t.b[1]"}, changes: map[string]plan.Action{b: plan.Create},
			want: locks.Set{in(b): 'w', of("t.b"): 'r'},
		},
		"what is destroyed may be the last one, and nothing may begin to depend on it": {
			stored: []string{b, "t.b[1]"}, changes: map[string]plan.Action{b: plan.Delete}, keeps: []string{b},
			want: locks.Set{in(b): 'w', of("t.b"): 'w', locks.Dependents(located(t, b).Config()): 'k'},
		},
		"what is replaced is away for a while": {
			stored: []string{b}, changes: map[string]plan.Action{b: plan.DeleteThenCreate},
			want: locks.Set{in(b): 'w', of("t.b"): 'w'},
		},
		"what is created before it is destroyed is never away": {
			stored: []string{b}, changes: map[string]plan.Action{b: plan.CreateThenDelete},
			want: locks.Set{in(b): 'w', of("t.b"): 'r'},
		},
		"what it was made from is read": {
			stored: []string{a, b}, changes: map[string]plan.Action{b: plan.Update}, reads: []string{a},
			want: locks.Set{in(b): 'w', of("t.b"): 'r', in(a): 'r'},
		},
		"outputs that change are written": {
			stored: []string{b}, changes: map[string]plan.Action{b: plan.Update}, outputs: []string{"o"},
			want: locks.Set{in(b): 'w', of("t.b"): 'r', locks.Output("o"): 'w'},
		},
		"what refreshing found to be gone is written, with its resource": {
			stored: []string{c}, found: []string{c}, want: locks.Set{in(c): 'w', of("t.c"): 'w'},
		},
		"of what does not change, dependencies are noted anew": {
			stored: []string{"t.d: t.a"}, changes: map[string]plan.Action{"t.d": plan.NoOp},
			want: locks.Set{in("t.d"): 'w', of("t.d"): 'r'},
		},
		"a check is written that a change flows to, and no other": {
			stored: []string{b, "t.checked"}, changes: map[string]plan.Action{b: plan.Update},
			want: locks.Set{in(b): 'w', of("t.b"): 'r', locks.Check("check.after"): 'w'},
		},
		"a plan to destroy everything has everything": {
			stored: []string{b}, changes: map[string]plan.Action{b: plan.Delete}, mode: plan.Destroy,
			want: locks.Set{locks.All: 'w'},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := applierOf(t, k).Locks(); !maps.Equal(got, k.want) {
				t.Errorf("the locked objects are %v, want %v", got, k.want)
			}
		})
	}
}

// applierOf returns the applier of a case.
func applierOf(t *testing.T, k lockCase) *Applier {
	t.Helper()
	stored := state.Empty()
	checked := false
	for _, line := range k.stored {
		o := &state.Object{Status: state.Ready, Attrs: []byte("{}")}
		if line == "t.d: t.a" {
			line = "t.d"
			o.Dependencies = state.DependenciesOn(state.DependOn(located(t, "t.a").Config()))
		}
		checked = checked || line == "t.checked"
		stored.Apply(state.SetObject{Addr: located(t, line), Provider: ours, Object: o})
	}
	p := &plan.Plan{Mode: k.mode, Prior: stored.Clone(), Dependencies: &plan.Dependencies{Outputs: k.outputs}}
	for _, name := range slices.Sorted(maps.Keys(k.changes)) {
		action := k.changes[name]
		p.Graph.Vertices = append(p.Graph.Vertices, plan.Vertex{Kind: plan.ApplyObject, Change: len(p.Changes),
			Address: name})
		p.Changes = append(p.Changes, &plan.Change{Addr: located(t, name), Action: action, Provider: ours})
		if action != plan.NoOp {
			p.Dependencies.Writes = append(p.Dependencies.Writes, located(t, name))
		}
	}
	if checked {
		p.Checks = []state.CheckResult{{Config: "check.after"}, {Config: "check.other"}}
		for i, c := range p.Checks {
			v := plan.Vertex{Kind: plan.EvalCheck, Change: -1, Address: c.Config}
			p.Graph.Vertices = append(p.Graph.Vertices, v)
			if i == 0 {
				p.Graph.Edges = append(p.Graph.Edges, [2]int32{0, int32(len(p.Graph.Vertices) - 1)})
			}
		}
		p.Graph.Values = len(p.Graph.Edges)
	}
	for _, name := range k.found {
		p.Dependencies.Found = append(p.Dependencies.Found, plan.Found{Addr: located(t, name)})
		p.Prior.Apply(state.SetObject{Addr: located(t, name)})
	}
	for _, name := range k.reads {
		p.Dependencies.Reads = append(p.Dependencies.Reads, located(t, name))
	}
	for _, name := range k.keeps {
		p.Dependencies.Keeps = append(p.Dependencies.Keeps, located(t, name).Config())
	}
	return &Applier{Options: Options{Plan: p, Static: &graph.Static{}}, state: stored}
}
