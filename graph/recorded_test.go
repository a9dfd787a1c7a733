package graph

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/state"
)

// A block that refers to objects that were made from its own object had no order, so that not even a destroy was
// possible. In this case the recorded dependencies alone decide.
func TestWhatWasRecordedDecidesIfTheConfigurationContradictsIt(t *testing.T) {
	modules := map[string]string{".": block("a", "x = t.b.id") + block("b", "")}
	for action, mode := range map[string]plan.Mode{"delete": plan.Destroy, "delete-create": plan.Normal} {
		for _, unrefreshed := range []bool{false, true} {
			p := &plan.Plan{Mode: mode, Prior: remembered(t, "t.a", "t.b: t.a")}
			p.Changes = []*plan.Change{change(t, "t.a "+action), change(t, "t.b "+action)}
			s := static(t, modules, p.Prior)
			g, circle := BuildApply(s, p, ApplyOptions{Covered: everywhere, References: single,
				Unrefreshed: unrefreshed})
			steps := stepsOf(g)
			if circle != nil || !steps.before(t, "D(t.b)", "D(t.a)") {
				t.Errorf("%s: the circle is %v", action, circle)
			}
			if mode == plan.Normal && !steps.before(t, "C(t.b)", "C(t.a)") {
				t.Errorf("%s: t.a is not made after t.b", action)
			}
		}
	}
}

// Dependencies that were recorded at different times, for objects that have not changed since, may form a circle, and
// no variant removed it: the objects could not be destroyed at all. The order that does not contradict itself still has
// to hold.
func TestADestroyHasAnOrderWhateverWasRecorded(t *testing.T) {
	p := &plan.Plan{Mode: plan.Destroy, Prior: remembered(t, "t.a: t.b t.c", "t.b: t.a t.c", "t.c", "t.d: t.a t.b t.c")}
	for _, name := range []string{"a", "b", "c", "d"} {
		p.Changes = append(p.Changes, change(t, "t."+name+" delete"))
	}
	for _, text := range []string{"", block("a", "") + block("b", "x = t.a.id"),
		block("c", "x = t.d.id") + block("d", "")} {
		s := static(t, map[string]string{".": text}, p.Prior)
		g, circle := BuildApply(s, p, ApplyOptions{Covered: everywhere, References: single})
		steps := stepsOf(g)
		steps.acyclic(t)
		for _, order := range [][2]string{{"d", "a"}, {"d", "b"}, {"a", "c"}, {"b", "c"}} {
			if circle != nil || !steps.before(t, "D(t."+order[0]+")", "D(t."+order[1]+")") {
				t.Errorf("with %q: t.%s ends before t.%s: %v", text, order[1], order[0], circle)
			}
		}
	}
}

// A provider may be configured with values of an object (t.a) that was made from one of its own objects (u.b). By the
// recorded dependencies t.a would end before u.b, but the provider of u.b needs t.a until then. So the provider's
// configuration takes precedence, or nothing could be destroyed.
func TestADestroyHasAnOrderIfAProviderContradictsWhatWasRecorded(t *testing.T) {
	p := &plan.Plan{Mode: plan.Destroy, Prior: remembered(t, "t.a: u.b", "u.b", "t.c: t.a u.b")}
	for _, name := range []string{"t.a", "u.b", "t.c"} {
		p.Changes = append(p.Changes, change(t, name+" delete"))
	}
	s := static(t, map[string]string{".": block("a", "") + block("c", "") +
		"provider \"u\" {\nx = t.a.id\n}\nresource \"u\" \"b\" {}\n"}, p.Prior)
	g, circle := BuildApply(s, p, ApplyOptions{Covered: everywhere, References: single})
	steps := stepsOf(g)
	if circle != nil || !steps.before(t, "D(u.b)", "D(t.a)") || !steps.before(t, "D(t.c)", "D(t.a)") {
		t.Errorf("the circle is %v", circle)
	}
}

// An object that is created first ends after its dependents have changed, and before its own dependencies are replaced.
// If these rules contradict each other, the plan had no order.
func TestWhatIsCreatedFirstMayGoBeforeWhatDependsOnItHasChanged(t *testing.T) {
	modules := map[string]string{
		".": block("a", "") + block("x", "") + block("y", "x = [t.x.id, t.a.id]") + block("z", ""),
	}
	p := &plan.Plan{Mode: plan.Normal, Prior: remembered(t, "t.a", "t.x: t.a", "t.y: t.x t.a", "t.z: t.x t.a")}
	for _, c := range []string{"t.a delete-create", "t.x create-delete", "t.y update", "t.z delete-create"} {
		p.Changes = append(p.Changes, change(t, c))
	}
	s := static(t, modules, p.Prior)
	g, circle := BuildApply(s, p, ApplyOptions{Covered: everywhere, References: single})
	steps := stepsOf(g)
	for _, order := range [][2]string{{"C(t.x)", "D(t.x)"}, {"D(t.x)", "D(t.a)"}, {"D(t.a)", "C(t.a)"}, {"C(t.a)",
		"C(t.y)"}, {"D(t.z)", "D(t.a)"}} {
		if circle != nil || !steps.before(t, order[0], order[1]) {
			t.Errorf("%s does not come before %s: %v", order[0], order[1], circle)
		}
	}
}

// The edges that top and bottom leave out must follow from others: the order has to be the same as with all of them.
func TestWhatWasRecordedHoldsWhateverTheConfigurationSays(t *testing.T) {
	for seed := range uint64(600) {
		chance := rand.New(rand.NewPCG(seed, 9))
		s, p, _ := randomPlan(t, chance)
		// The state says of some objects that they were made from others, which no block says.
		for _, c := range p.Changes {
			o := p.Prior.Object(c.Addr, state.CurrentObject)
			more := *o
			list := slices.Collect(o.Dependencies.All())
			for _, d := range p.Changes {
				if d.Addr.Less(c.Addr) && chance.IntN(4) == 0 && c.Deposed == state.CurrentObject {
					list = append(list, state.DependOn(d.Addr.Config()))
				}
			}
			more.Dependencies = state.DependenciesOn(list...)
			if chance.IntN(2) == 0 {
				p.Prior.Apply(state.SetObject{Addr: c.Addr, Provider: c.Provider, Object: &more})
			}
		}
		g, circle := BuildApply(s, p, ApplyOptions{Covered: everywhere, References: single})
		if circle != nil {
			t.Errorf("seed %d: the circle is %v", seed, circle)
			continue
		}
		steps := stepsOf(g)
		for _, x := range p.Changes {
			if !endsObject(x) || x.Deposed != state.CurrentObject {
				continue
			}
			for d := range recordedIn(p, x).All() {
				for _, y := range p.Changes {
					if y.Addr.Config() == d.Value() && y != x && endsObject(y) && y.Deposed == state.CurrentObject &&
						!steps.before(t, "D("+x.Addr.String()+")", "D("+y.Addr.String()+")") {
						t.Errorf("seed %d: %s ends before %s, which was made from it", seed, y.Addr, x.Addr)
					}
				}
			}
		}
	}
}
