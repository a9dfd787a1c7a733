package locks_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/millipede-iac/millipede/state/locks"
)

func ask(t *locks.Table, id string, set locks.Set) {
	t.Ask(locks.Request{ID: id, Set: set})
}

func granted(t *locks.Table) (ids []string) {
	for _, r := range t.Requests() {
		if _, yes, _ := t.Get(r.ID); yes {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func TestWhoIsInConflictWaitsAndOthersPass(t *testing.T) {
	a, b, c := locks.Instance("t.a"), locks.Instance("t.b"), locks.Instance("t.c")
	var table locks.Table
	ask(&table, "1", locks.Set{a: locks.Write})
	ask(&table, "2", locks.Set{a: locks.Read, b: locks.Write}) // waits for 1
	ask(&table, "3", locks.Set{b: locks.Read})                 // must not overtake 2
	ask(&table, "4", locks.Set{c: locks.Write})                // nobody's business
	if got := granted(&table); !slices.Equal(got, []string{"1", "4"}) {
		t.Errorf("granted are %v", got)
	}
	got := table.Blockers("3", 9)
	if len(got) != 1 || got[0].Object != b || got[0].By.ID != "2" || got[0].Granted {
		t.Errorf("3 waits for %v", got)
	}
	if got := table.Leave("1"); !slices.Equal(got, []string{"2"}) {
		t.Errorf("when 1 leaves, %v are granted", got)
	}
	if got := table.Leave("2"); !slices.Equal(got, []string{"3"}) {
		t.Errorf("when 2 leaves, %v are granted", got)
	}
}

func TestOfModesOnlyTheSameGoTogether(t *testing.T) {
	modes := []locks.Mode{locks.Read, locks.Keep, locks.Depend, locks.Write}
	for _, m := range modes {
		for _, n := range modes {
			var table locks.Table
			ask(&table, "1", locks.Set{"x": m})
			ask(&table, "2", locks.Set{"x": n})
			if together := len(granted(&table)) == 2; together != (m == n && m != locks.Write) {
				t.Errorf("%c and %c go together: %v", m, n, together)
			}
		}
	}
}

func TestWhoWantsEverythingWaitsForAllAndAllForIt(t *testing.T) {
	var table locks.Table
	ask(&table, "1", locks.Set{"a": locks.Write})
	ask(&table, "2", locks.Set{locks.All: locks.Write})
	ask(&table, "3", locks.Set{"b": locks.Write})
	if got := granted(&table); !slices.Equal(got, []string{"1"}) {
		t.Errorf("granted are %v", got)
	}
	table.Leave("1")
	if got := granted(&table); !slices.Equal(got, []string{"2"}) {
		t.Errorf("then %v", got)
	}
	table.Leave("2")
	if got := granted(&table); !slices.Equal(got, []string{"3"}) {
		t.Errorf("then %v", got)
	}
}

// A request behind a request for everything was reported to wait for the holders of that time, although it conflicted
// with none of them. The same happened to readers of an object behind a writer that was waiting.
func TestWhoWaitsIsToldWithWhomItIsInConflict(t *testing.T) {
	for name, k := range map[string]struct {
		first, second, third locks.Set
		want                 string
	}{
		"everything": {locks.Set{"a": locks.Write}, locks.Set{locks.All: locks.Write}, locks.Set{"b": locks.Write},
			"the whole state, which 2 waits for"},
		"one object": {locks.Set{"ia": locks.Read}, locks.Set{"ia": locks.Write}, locks.Set{"ia": locks.Read},
			"a, which 2 waits for"},
		"dependents": {locks.Set{"da": locks.Keep}, locks.Set{"da": locks.Depend}, locks.Set{"da": locks.Keep},
			"what depends on a, which 2 waits for"},
		"the instances": {locks.Set{locks.Resource("a"): locks.Read}, locks.Set{locks.Resource("a"): locks.Write},
			locks.Set{locks.Resource("a"): locks.Read}, "the instances of a, which 2 waits for"},
		"the first": {locks.Set{"ia": locks.Read}, locks.Set{"ia": locks.Read}, locks.Set{"ia": locks.Write},
			"a, which 1 has"},
	} {
		t.Run(name, func(t *testing.T) {
			var table locks.Table
			ask(&table, "1", k.first)
			ask(&table, "2", k.second)
			ask(&table, "3", k.third)
			if got := table.Blockers("3", 9); len(got) != 1 || got[0].String() != k.want {
				t.Errorf("it is told that it waits for %v, not for %s", got, k.want)
			}
		})
	}
}

// model decides directly by the rules of the design, by comparing all requests.
type model []locks.Request

func conflict(x, y locks.Set) bool {
	if x.Whole() || y.Whole() {
		return true
	}
	for o, m := range x {
		if n, ok := y[o]; ok && (m != n || m == locks.Write) {
			return true
		}
	}
	return false
}

func (m model) granted() (ids []string) {
	for i, r := range m {
		waits := slices.ContainsFunc(m[:i], func(before locks.Request) bool { return conflict(before.Set, r.Set) })
		if !waits {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// The table uses counters; the model compares all requests with each other.
func TestATableGrantsWhatTheRulesSay(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var table locks.Table
		var m model
		next := 0
		for range 60 {
			if len(m) > 0 && rnd.IntN(5) < 2 {
				i := rnd.IntN(len(m))
				before := m.granted()
				id := m[i].ID
				m = slices.Delete(slices.Clone(m), i, i+1)
				fresh := slices.DeleteFunc(m.granted(), func(id string) bool { return slices.Contains(before, id) })
				if got := table.Leave(id); !slices.Equal(got, fresh) {
					t.Fatalf("seed %d: when %s leaves, %v are granted, want %v", seed, id, got, fresh)
				}
			} else {
				set := locks.Set{}
				for range 1 + rnd.IntN(4) {
					set.Add(locks.Instance(fmt.Sprint("t.", rnd.IntN(6))),
						[]locks.Mode{locks.Read, locks.Read, locks.Keep, locks.Depend, locks.Write}[rnd.IntN(5)])
				}
				if rnd.IntN(12) == 0 {
					set = locks.Set{locks.All: locks.Write}
				}
				r := locks.Request{ID: fmt.Sprint(next), Set: set}
				next++
				m = append(slices.Clone(m), r)
				table.Ask(r)
			}
			if got, want := granted(&table), m.granted(); !slices.Equal(got, want) {
				t.Fatalf("seed %d: granted are %v, want %v", seed, got, want)
			}
			for _, r := range m {
				_, yes, _ := table.Get(r.ID)
				if waits := len(table.Blockers(r.ID, 1)) > 0; waits == yes {
					t.Fatalf("seed %d: %s is granted: %v, and waits for something: %v", seed, r.ID, yes, waits)
				}
				for _, b := range table.Blockers(r.ID, 9) {
					if !conflict(b.By.Set, r.Set) {
						t.Fatalf("seed %d: %s waits for %s: %s", seed, r.ID, b.By.ID, b)
					}
				}
			}
		}
		// A table that is made from the durable requests, in their order, gives the same results.
		var again locks.Table
		for _, r := range table.Requests() {
			again.Ask(r)
		}
		if got, want := granted(&again), granted(&table); !slices.Equal(got, want) {
			t.Fatalf("seed %d: after a restart %v are granted, before it %v", seed, got, want)
		}
	}
}

func TestASetWantsInTwoModesWhatItWantsAlone(t *testing.T) {
	s := locks.Set{}
	s.Add("x", locks.Keep)
	s.Add("x", locks.Depend)
	s.Add("y", locks.Read)
	if !maps.Equal(s, locks.Set{"x": locks.Write, "y": locks.Read}) || !s.Writes("x") || s.Writes("y") {
		t.Errorf("it is %v", s)
	}
	if !s.Covers(locks.Set{"x": locks.Read}) || s.Covers(locks.Set{"y": locks.Write}) || s.Covers(locks.Set{"z": 'r'}) {
		t.Error("what it covers is wrong")
	}
}

func TestWhoAwaitsIsWokenWhenItsLocksAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b locks.Tables
		b.Ask("s", locks.Request{ID: "1", Set: locks.Set{"x": locks.Write}})
		b.Ask("s", locks.Request{ID: "2", Set: locks.Set{"x": locks.Write}})
		b.Ask("other", locks.Request{ID: "2", Set: locks.Set{"x": locks.Write}})
		if err := b.Await(t.Context(), "other", "2"); err != nil {
			t.Error(err)
		}
		done := make(chan error, 1)
		go func() { done <- b.Await(t.Context(), "s", "2") }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("it did not wait: %v", err)
		default:
		}
		b.Leave("s", "1")
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
