package graph

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

// randomPlan is a configuration of a few resources that refer to earlier ones, objects (with orphans) that depend on
// each other the same way, and changes as a planning run may choose them: objects whose block says so are created
// first, and so are all their dependencies.
func randomPlan(t testing.TB, chance *rand.Rand) (*Static, *plan.Plan, [][2]int) {
	n := 2 + chance.IntN(7)
	name := func(i int) string { return fmt.Sprintf("t.r%d", i) }
	refers := make([][]int, n)
	var pairs [][2]int // the first depends on the second
	orphan, first := make([]bool, n), make([]bool, n)
	var text strings.Builder
	prior := make([]string, n)
	for i := range n {
		orphan[i], first[i] = chance.IntN(4) == 0, chance.IntN(4) == 0
		for j := range i {
			if chance.IntN(3) == 0 && (orphan[i] || !orphan[j]) { // a block cannot refer to what has none
				refers[i] = append(refers[i], j)
			}
		}
	}
	all := make([][]int, n) // transitively
	for i := range n {
		for _, j := range refers[i] {
			all[i] = append(append(all[i], j), all[j]...)
		}
		slices.Sort(all[i])
		all[i] = slices.Compact(all[i])
		prior[i] = name(i) + ":"
		for _, j := range all[i] {
			prior[i] += " " + name(j)
			pairs = append(pairs, [2]int{i, j})
		}
		if !orphan[i] {
			fmt.Fprintf(&text, "resource \"t\" \"r%d\" {\n", i)
			for _, j := range refers[i] {
				fmt.Fprintf(&text, "x%d = %s.id\n", j, name(j))
			}
			if first[i] {
				text.WriteString("lifecycle {\ncreate_before_destroy = true\n}\n")
			}
			text.WriteString("}\n")
		} else if first[i] {
			prior[i] = strings.Replace(prior[i], ":", "!:", 1)
		}
	}
	p := &plan.Plan{Prior: remembered(t, prior...)}
	s := static(t, map[string]string{".": text.String()}, p.Prior)
	createdFirst := CreatedFirst(s, p.Prior, everywhere)
	for i := range n {
		actions := []plan.Action{plan.NoOp, plan.Create, plan.Update, plan.Delete, plan.DeleteThenCreate, plan.Forget}
		if orphan[i] {
			actions = []plan.Action{plan.Delete, plan.Forget}
		}
		c := change(t, name(i)+" "+string(actions[chance.IntN(len(actions))]))
		c.CreateBeforeDestroy = createdFirst[c.Addr.Config()]
		if c.Action == plan.DeleteThenCreate && c.CreateBeforeDestroy {
			c.Action = plan.CreateThenDelete
		}
		p.Changes = append(p.Changes, c)
		if chance.IntN(5) == 0 {
			d := *change(t, name(i)+"~0123abcd delete")
			d.CreateBeforeDestroy = c.CreateBeforeDestroy
			p.Changes = append(p.Changes, &d)
		}
	}
	return s, p, pairs
}

func TestNoPlanHasACycleAndEndingsAreBackwards(t *testing.T) {
	for seed := range uint64(400) {
		s, p, pairs := randomPlan(t, rand.New(rand.NewPCG(seed, 7)))
		g, _ := BuildApply(s, p, ApplyOptions{Covered: everywhere, References: single})
		steps := stepsOf(g)
		if cycles := steps.g.Cycles(); len(cycles) > 0 {
			for _, c := range p.Changes {
				t.Logf("%s %s first=%v", c.Addr, c.Action, c.CreateBeforeDestroy)
			}
			t.Logf("pairs %v", pairs)
			t.Logf("seed %d", seed)
			steps.acyclic(t)
		}
		for _, pair := range pairs {
			above, below := fmt.Sprintf("t.r%d", pair[0]), fmt.Sprintf("t.r%d", pair[1])
			for _, kind := range [][2]string{{"D(" + above + ")", "D(" + below + ")"},
				{"C(" + below + ")", "C(" + above + ")"}} {
				_, one := steps.names[kind[0]]
				_, two := steps.names[kind[1]]
				if one && two && !steps.before(t, kind[0], kind[1]) {
					t.Errorf("seed %d: %s does not wait for %s", seed, kind[1], kind[0])
				}
			}
		}
	}
}

func TestWhatIsCreatedFirstMakesWhatItDependsOnSo(t *testing.T) {
	const first = "lifecycle {\ncreate_before_destroy = true\n}\n"
	for sentence, c := range map[string]struct {
		text  string
		prior []string
		want  string
	}{
		"nothing by itself": {chain, nil, ""},
		"itself":            {block("a", first), nil, "t.a"},
		"what it refers to, transitively": {block("a", "") + block("b", "x = t.a.id") + block("c",
			"x = t.b.id\n"+first), nil, "t.a t.b t.c"},
		"through a local value": {block("a", "") + "locals {\nl = t.a.id\n}\n" +
			block("b", "x = local.l\n"+first), nil, "t.a t.b"},
		"not what refers to it": {block("a", first) + block("b", "x = t.a.id"), nil, "t.a"},
		"over an explicit false": {block("a", strings.Replace(first, "true", "false", 1)) + block("b",
			"x = t.a.id\n"+first), nil, "t.a t.b"},
		"not by what the state says of an orphan": {block("a", "") + block("b", ""), []string{"t.o!: t.a"}, "t.o"},
		"not by what an orphan does not say":      {block("a", ""), []string{"t.o: t.a"}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			prior := remembered(t, c.prior...)
			var got []string
			for r := range CreatedFirst(static(t, map[string]string{".": c.text}, prior), prior, everywhere) {
				got = append(got, r.String())
			}
			slices.Sort(got)
			if strings.Join(got, " ") != c.want {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestTheClosureOfAConfigurationIsTransitive(t *testing.T) {
	for seed := range uint64(100) {
		s, _, _ := randomPlan(t, rand.New(rand.NewPCG(seed, 8)))
		c := NewClosure(s)
		for v := range s.Nodes {
			list := c.Resources(v)
			for r := range list.All() {
				begin, _ := s.ResourceVertex(r.Value())
				for further := range c.Resources(begin).All() {
					if !list.Has(further) {
						t.Fatalf("seed %d: %s waits for %s, and that for %s", seed, s.Nodes[v].Address(), r.Value(),
							further.Value())
					}
				}
			}
		}
	}
}
