package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// A canceled run ends a version with the changes that it has made until then. If the service dies before it has
// recorded the cancellation, the run is resumed and ends a second version. The oracle expected all changes in the first
// one (seed 7456).
func TestTheLastVersionOfAResumedRunHasAllItsChanges(t *testing.T) {
	blocks := []thingBlock{{index: 1, gen: 1, size: 1, as: -1}, {index: 3, gen: 1, size: 2, as: -1}}
	makes := func(b thingBlock) state.Change {
		return state.SetObject{Addr: instanceOf(b), Provider: addr.ProviderInstance{}, Object: &state.Object{
			Status: state.Ready,
			Attrs:  fmt.Appendf(nil, `{"id": "i%d", "name": %q, "size": %d}`, b.index, b.own("s1"), b.size),
		}}
	}
	part, all := state.Empty(), state.Empty()
	part.Apply(makes(blocks[0]))
	all.Apply(makes(blocks[0]), makes(blocks[1]))
	versions := func(run string, st *state.State, next string, then *state.State) []madeVersion {
		return []madeVersion{{state: st, run: run}, {state: then, run: next}}
	}
	for name, k := range map[string]struct {
		versions []madeVersion
		wrong    bool
	}{
		"the second version has the rest":        {versions("run", part, "run", all), false},
		"the second version has no more":         {versions("run", part, "run", part), true},
		"the rest is in the version of another":  {versions("run", part, "other", all), true},
		"the rest is gone in the second version": {versions("run", all, "run", part), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{began: time.Now(), faults: map[string]int{}}
			l := newLedger(&team{s: &site{w: w, name: "s1"}})
			l.versions = k.versions
			r := &teamRun{id: "s1h1r1", journal: "run", blocks: blocks}
			for _, b := range blocks {
				r.changes = append(r.changes, &plan.Change{Addr: instanceOf(b), Action: plan.Create})
			}
			l.mustBeAsPlanned(r)
			if (len(w.wrong) > 0) != k.wrong {
				t.Errorf("the violations are %v", w.wrong)
			}
		})
	}
}
