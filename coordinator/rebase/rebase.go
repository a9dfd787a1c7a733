package rebase

import (
	"slices"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// Onto returns a plan for the present state, which differs by changed from the state for which the plan was
// made. There must be no Conflicts. The plan makes the same changes; everything else keeps its present value:
//
//   - results of refreshing are stored only for objects that nobody has changed since;
//   - objects, outputs and checks that depend on a change, and are not changed by the plan, are not evaluated again:
//     root outputs and check results with values from the plan are not stored.
func Onto(p *plan.Plan, now *state.State, changed []journal.Difference) *plan.Plan {
	out := *p
	out.BaseLineage, out.BaseSerial = now.Lineage, now.Serial
	out.Prior = prior(p, now, changed)
	passed := passedBy(p, changed)
	out.Graph.Vertices = slices.Clone(p.Graph.Vertices)
	unlooked := map[string]bool{}
	for v, pass := range passed {
		if !pass {
			continue
		}
		x := &out.Graph.Vertices[v]
		name := x.Address
		if x.Change >= 0 {
			name = p.Changes[x.Change].Addr.Config().String()
		}
		unlooked[name] = true
		*x = plan.Vertex{Kind: plan.Sync, Change: -1, Address: x.Address}
	}
	for _, c := range p.Checks {
		if unlooked[c.Config] {
			out.Untouched = append(out.Untouched, c.Config)
		}
	}
	return &out
}

// Reduced returns a plan whose state contains only the differences from a version of the store; Complete
// restores it. ok is false if that is impossible, because the plan was made for another version.
func Reduced(p *plan.Plan, version *state.State) (reduced *plan.Plan, ok bool) {
	if p.Dependencies == nil || p.BaseLineage != version.Lineage || p.BaseSerial != version.Serial {
		return nil, false
	}
	out := *p
	out.Prior = state.Empty()
	out.Prior.Lineage, out.Prior.Serial, out.Prior.EngineVersion = version.Lineage, version.Serial, version.EngineVersion
	for _, f := range p.Dependencies.Found {
		i, provider := p.Prior.Instance(f.Addr), p.Prior.ProviderOf(f.Addr)
		if i == nil {
			continue
		}
		if i.Current != nil {
			out.Prior.Apply(state.SetObject{Addr: f.Addr, Provider: provider, Object: i.Current})
		}
		for k, o := range i.Deposed {
			out.Prior.Apply(state.SetObject{Addr: f.Addr, Deposed: k, Provider: provider, Object: o})
		}
	}
	return &out, Complete(&out, version).Prior.SameContent(p.Prior)
}

// Complete restores a plan from Reduced, with the same version of the state.
func Complete(p *plan.Plan, version *state.State) *plan.Plan {
	out := *p
	out.Prior = prior(p, version, nil)
	return &out
}

// prior returns the present state, with the plan's refreshed objects that nobody has changed since.
func prior(p *plan.Plan, now *state.State, changed []journal.Difference) *state.State {
	out := now.Clone()
	if len(p.Dependencies.Found) == 0 {
		return out
	}
	since := map[addr.Instance]state.Difference{}
	for _, d := range changed {
		if d.Output == "" && !d.Checks {
			since[d.Instance] = d.Difference
		}
	}
	for _, f := range p.Dependencies.Found {
		if d, ok := since[f.Addr]; ok && differs(p, d) {
			continue
		}
		found := p.Prior.Instance(f.Addr)
		if i := now.Instance(f.Addr); i != nil {
			if found == nil || found.Current == nil {
				out.Apply(state.SetObject{Addr: f.Addr})
			}
			for _, k := range i.DeposedKeys() {
				if found == nil || found.Deposed[k] == nil {
					out.Apply(state.SetObject{Addr: f.Addr, Deposed: k})
				}
			}
		}
		if found == nil {
			continue
		}
		provider := p.Prior.ProviderOf(f.Addr)
		if found.Current != nil {
			out.Apply(state.SetObject{Addr: f.Addr, Provider: provider, Object: found.Current})
		}
		for _, k := range found.DeposedKeys() {
			out.Apply(state.SetObject{Addr: f.Addr, Deposed: k, Provider: provider, Object: found.Deposed[k]})
		}
	}
	return out
}

// passedBy returns which vertices of the apply graph are skipped: those of changed objects, and those that
// depend on their values. None of these changes an object or an output; otherwise there would be a conflict.
func passedBy(p *plan.Plan, changed []journal.Difference) []bool {
	at := newPositions(p)
	passed := make([]bool, len(p.Graph.Vertices))
	var open []int32
	visit := func(v int32) {
		if !passed[v] {
			passed[v] = true
			open = append(open, v)
		}
	}
	for _, d := range changed {
		if v, ok := at.of(p, d.Difference); ok && !passed[v] && matters(p, d.Difference) {
			visit(v)
		}
	}
	if len(open) == 0 {
		return passed
	}
	after := make([][]int32, len(p.Graph.Vertices))
	for _, e := range p.Graph.Edges[:p.Graph.Values] {
		after[e[0]] = append(after[e[0]], e[1])
	}
	for len(open) > 0 {
		v := open[len(open)-1]
		open = open[:len(open)-1]
		for _, w := range after[v] {
			visit(w)
		}
	}
	return passed
}

// positions has the positions of objects in an apply graph.
type positions struct {
	instances map[addr.Instance]int32
	nodes     map[plan.Node]int32
}

func newPositions(p *plan.Plan) positions {
	at := positions{map[addr.Instance]int32{}, map[plan.Node]int32{}}
	for v, x := range p.Graph.Vertices {
		switch {
		case x.Change < 0 && x.Node != (plan.Node{}):
			at.nodes[x.Node] = int32(v)
		case x.Change >= 0 && x.Kind != plan.DestroyObject:
			at.instances[p.Changes[x.Change].Addr] = int32(v)
		}
	}
	return at
}

// matters reports whether a difference is one for the vertices that use the value.
func matters(p *plan.Plan, d state.Difference) bool { return d.Output != "" || differs(p, d) }

// of returns the vertex with the value in which states differ, if the difference matters. There is none if the plan
// changes the object itself, or if the value did not exist when the plan was made.
func (at positions) of(p *plan.Plan, d state.Difference) (int32, bool) {
	if d.Checks {
		return 0, false
	}
	if d.Output != "" {
		v, ok := at.nodes[plan.Node{Kind: "output", Name: addr.Output{Name: d.Output}.String()}]
		return v, ok
	}
	none := d.Then == nil && p.Prior.Instance(d.Instance) == nil
	if none || addr.ContainsInstance(p.Dependencies.Writes, d.Instance) {
		return 0, false
	}
	if v, ok := at.instances[d.Instance]; ok {
		return v, true
	}
	config := d.Instance.Config()
	v, ok := at.nodes[plan.Node{Kind: "instances", Module: config.Module, Name: config.Resource.String()}]
	return v, ok
}
