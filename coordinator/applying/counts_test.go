package applying

import (
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

func TestChangesOfDoneVerticesAreCountedByTheirOutcome(t *testing.T) {
	apply, destroy := plan.ApplyObject, plan.DestroyObject
	for sentence, c := range map[string]struct {
		change plan.Change
		kinds  []plan.VertexKind
		want   Counts
	}{
		"a creation adds": {
			plan.Change{Action: plan.Create}, []plan.VertexKind{apply}, Counts{Added: 1},
		},
		"an update changes": {
			plan.Change{Action: plan.Update}, []plan.VertexKind{apply}, Counts{Changed: 1},
		},
		"an unchanged object counts as nothing": {plan.Change{Action: plan.NoOp}, []plan.VertexKind{apply}, Counts{}},
		"a deletion destroys": {
			plan.Change{Action: plan.Delete}, []plan.VertexKind{destroy}, Counts{Destroyed: 1},
		},
		"a forgotten object is not destroyed": {
			plan.Change{Action: plan.Forget}, []plan.VertexKind{destroy}, Counts{Forgotten: 1},
		},
		"a replacement adds and destroys": {
			plan.Change{Action: plan.DeleteThenCreate}, []plan.VertexKind{destroy, apply}, Counts{Added: 1, Destroyed: 1},
		},
		"a replacement that forgets adds and forgets": {
			plan.Change{Action: plan.ForgetThenCreate}, []plan.VertexKind{destroy, apply}, Counts{Added: 1, Forgotten: 1},
		},
		"an import of an unchanged object imports only": {
			plan.Change{Action: plan.NoOp, Importing: &plan.Importing{ID: "i"}}, []plan.VertexKind{apply}, Counts{Imported: 1},
		},
		"an import that updates counts twice": {
			plan.Change{Action: plan.Update, Importing: &plan.Importing{ID: "i"}}, []plan.VertexKind{apply},
			Counts{Changed: 1, Imported: 1},
		},
		"a deferred reading counts as nothing": {
			plan.Change{Action: plan.Read}, []plan.VertexKind{plan.ReadObject}, Counts{},
		},
	} {
		p := &plan.Plan{Changes: []*plan.Change{&c.change}}
		p.Graph.Vertices = []plan.Vertex{{Kind: plan.EvalOutput, Change: -1}} // it is no change
		for _, kind := range c.kinds {
			p.Graph.Vertices = append(p.Graph.Vertices, plan.Vertex{Kind: kind})
		}
		if got := CountDone(p, func(int) bool { return true }); got != c.want {
			t.Errorf("%s: %+v, want %+v", sentence, got, c.want)
		}
		if got := CountDone(p, func(int) bool { return false }); got != (Counts{}) {
			t.Errorf("%s, but the vertices are not counted as done: %+v", sentence, got)
		}
	}
}

func TestAVertexIsDescribedByTheOperationThatItCarriesOut(t *testing.T) {
	at := located(t, "t.a")
	for sentence, c := range map[string]struct {
		kind   plan.VertexKind
		change plan.Change
		action string
		// deposed is set if the operation is about the deposed object.
		deposed bool
	}{
		"a creation":                {plan.ApplyObject, plan.Change{Action: plan.Create}, "create", false},
		"an update":                 {plan.ApplyObject, plan.Change{Action: plan.Update}, "update", false},
		"the creation of a new one": {plan.ApplyObject, plan.Change{Action: plan.CreateThenDelete}, "create", false},
		"the deletion of an old one": {
			plan.DestroyObject, plan.Change{Action: plan.CreateThenDelete}, "delete", true,
		},
		"a deletion first": {
			plan.DestroyObject, plan.Change{Action: plan.DeleteThenCreate}, "delete", false,
		},
		"a deposed object": {
			plan.DestroyObject, plan.Change{Action: plan.Delete, Deposed: "00000001"}, "delete", true,
		},
		"a forgotten object": {plan.DestroyObject, plan.Change{Action: plan.Forget}, "forget", false},
		"forgotten, then created": {
			plan.DestroyObject, plan.Change{Action: plan.ForgetThenCreate}, "forget", false,
		},
		"a data source": {plan.ReadObject, plan.Change{Action: plan.Read}, "read", false},
	} {
		c.change.Addr = at
		p := &plan.Plan{Changes: []*plan.Change{&c.change}}
		p.Graph.Vertices = []plan.Vertex{{Kind: c.kind, Address: "t.a"}}
		d := (&Applier{Options: Options{Plan: p, Run: "r"}}).Describe(0)
		if d.Action != c.action || (d.Deposed != "") != c.deposed || d.Address != "t.a" || d.Class != "t" {
			t.Errorf("%s is described as %+v", sentence, d)
		}
	}
}

// A resumed run looks for the deposed object of the run that was cut off, so it has to derive the same key. Another run
// has to derive another one, because it may depose another object of the same instance.
func TestADeposedKeyFollowsFromRunAndInstance(t *testing.T) {
	key := func(run, at string) string {
		a := &Applier{Options: Options{Run: run}}
		return string(a.deposedKey(located(t, at)))
	}
	keys := []string{key("r1", "t.a"), key("r2", "t.a"), key("r1", "t.b")}
	if again := key("r1", "t.a"); again != keys[0] || len(again) != 8 {
		t.Errorf("first %s, then %s", keys[0], again)
	}
	if slices.Sort(keys); len(slices.Compact(keys)) != 3 {
		t.Errorf("keys repeat: %v", keys)
	}
}
