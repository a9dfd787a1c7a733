package edit

import (
	"maps"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/locks"
)

func TestAChangeOfObjectsIsMadeOnALaterVersionOfTheState(t *testing.T) {
	prior := stateOf(t, "test_a.a", "test_a.b", "test_a.b 0123abcd", "test_a.c")
	prior.Lineage, prior.Serial = "l", 4
	// One instance is removed, one loses one of its two objects, one is added.
	next := prior.Clone()
	next.Apply(Removal(next, instance(t, "test_a.a"))...)
	next.Apply(state.SetObject{Addr: instance(t, "test_a.b"), Deposed: "0123abcd"})
	next.Apply(state.SetObject{Addr: instance(t, "test_a.d"), Provider: prior.ProviderOf(instance(t, "test_a.c")),
		Object: &state.Object{Status: state.Ready}})
	c, err := ObjectsOf(prior, next)
	if err != nil {
		t.Fatal(err)
	}
	if c.Changed.Lineage != "l" || c.Changed.Serial != 4 {
		t.Errorf("the change is for %s %d", c.Changed.Lineage, c.Changed.Serial)
	}
	if got := contents(c.Changed); got != "test_a.b, test_a.d" {
		t.Errorf("changed: %s", got)
	}
	if len(c.Removed) != 1 || c.Removed[0] != instance(t, "test_a.a") {
		t.Errorf("removed: %v", c.Removed)
	}
	later := prior.Clone()
	later.Apply(Removal(later, instance(t, "test_a.c"))...)
	changes, err := c.Onto(later)
	if err != nil {
		t.Fatal(err)
	}
	for n := range changes { // a resource that remains is not removed in between
		between := later.Clone()
		between.Apply(changes[:n]...)
		if between.Instance(instance(t, "test_a.b")) == nil {
			t.Errorf("after %d changes, an instance that remains is missing", n)
		}
	}
	later.Apply(changes...)
	if got := contents(later); got != "test_a.b, test_a.d" {
		t.Errorf("afterwards: %s", got)
	}
	again, err := c.Onto(later)
	if err != nil {
		t.Fatal(err)
	}
	same := later.Clone()
	same.Apply(again...)
	if !same.SameContent(later) {
		t.Error("the same change again has an effect")
	}
}

func TestAChangeOfObjectsRefusesOutputsAndObjectsInDoubt(t *testing.T) {
	prior := stateOf(t, "test_a.a")
	outputs := prior.Clone()
	outputs.Apply(state.SetOutput{Name: "o", Output: &state.Output{}})
	if _, err := ObjectsOf(prior, outputs); err == nil || !strings.Contains(err.Error(), "no outputs or checks") {
		t.Errorf("an output: %v", err)
	}
	doubtful := prior.Clone()
	doubtful.Apply(state.SetObject{Addr: instance(t, "test_a.a"), Provider: prior.ProviderOf(instance(t, "test_a.a")),
		Object: &state.Object{Status: state.InDoubt, Doubt: &state.Doubt{Operation: "update"}}})
	for _, c := range []Objects{
		{Changed: state.Empty(), Removed: []addr.Instance{instance(t, "test_a.a")}},
		{Changed: prior},
	} {
		if _, err := c.Onto(doubtful); err == nil || !strings.Contains(err.Error(), "an operation on test_a.a is in doubt") {
			t.Errorf("an object in doubt: %v", err)
		}
	}
}

func TestAChangeLocksWhatItTouches(t *testing.T) {
	at := instance(t, "test_a.a[0]")
	on := state.DependOn(instance(t, "test_b.b").Config())
	prior := stateOf(t, "test_a.a[0]")
	provider := prior.ProviderOf(at)
	set := func(o *state.Object, p addr.ProviderInstance) []state.Change {
		return []state.Change{state.SetObject{Addr: at, Provider: p, Object: o}}
	}
	const i, r = "test_a.a[0]", "test_a.a"
	other := addr.ProviderConfig{Provider: addr.DefaultProvider("other")}.Instance(addr.RootInstance, addr.NoKey)
	dependent := &state.Object{Status: state.Ready, Dependencies: state.DependenciesOn(on)}
	before := prior.Clone()
	before.Apply(set(dependent, provider)...)
	tainted := *dependent
	tainted.Status = state.Tainted
	for sentence, c := range map[string]struct {
		prior   *state.State
		changes []state.Change
		want    locks.Set
	}{
		"an object is replaced in place": {prior, set(&state.Object{Status: state.Tainted}, provider),
			locks.Set{locks.Instance(i): locks.Write, locks.Resource(r): locks.Read}},
		"an instance is removed": {prior, Removal(prior, at),
			locks.Set{locks.Instance(i): locks.Write, locks.Resource(r): locks.Write}},
		"an instance is added": {state.Empty(), set(&state.Object{Status: state.Ready}, provider),
			locks.Set{locks.Instance(i): locks.Write, locks.Resource(r): locks.Write}},
		"its resource gets another provider": {prior, set(&state.Object{Status: state.Ready}, other),
			locks.Set{locks.Instance(i): locks.Write, locks.Resource(r): locks.Write}},
		"it begins to depend on something": {prior, set(dependent, provider), locks.Set{locks.Instance(i): locks.Write,
			locks.Resource(r): locks.Read, locks.Dependents(on.Value()): locks.Depend}},
		"it has depended on that before": {before, set(&tainted, provider),
			locks.Set{locks.Instance(i): locks.Write, locks.Resource(r): locks.Read}},
	} {
		next := c.prior.Clone()
		next.Apply(c.changes...)
		if got := Locks(state.Differences(c.prior, next)); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v", sentence, got)
		}
	}
}
