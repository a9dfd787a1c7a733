package coordinator

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/state/journal"
)

func TestOnlyOutcomesOfFastCallsWaitForOthers(t *testing.T) {
	outcome := loop.Record{Kind: loop.Concluded, Events: []journal.Event{{Kind: journal.Finish}}}
	unrecorded := loop.Record{Kind: loop.Concluded}
	safe := loop.Record{Kind: loop.Concluded, Events: []journal.Event{{Kind: journal.Finish, Sequence: 7}}}
	for name, c := range map[string]struct {
		waiting []loop.Record
		calling int64
		want    bool
	}{
		"nothing waits":                     {nil, gatherBeside, false},
		"an outcome beside calls":           {[]loop.Record{outcome}, gatherBeside, true},
		"an outcome without an event":       {[]loop.Record{unrecorded}, gatherBeside, true},
		"an outcome beside too few calls":   {[]loop.Record{outcome}, gatherBeside - 1, false},
		"an outcome of the safe lane":       {[]loop.Record{outcome, safe}, gatherBeside, false},
		"the intent to run a task":          {[]loop.Record{outcome, {Kind: loop.Intended}}, gatherBeside, false},
		"enough outcomes for a transaction": {slices.Repeat([]loop.Record{outcome}, gatherMost), gatherBeside, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := &executor{}
			x.calling.Store(c.calling)
			if got := (&committer{x: x, waiting: c.waiting}).canWait(); got != c.want {
				t.Errorf("can wait: %t, want %t", got, c.want)
			}
		})
	}
}

func TestAnOutcomeWaitsForOthersUntilItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &executor{ctx: t.Context()}
		x.calling.Store(gatherBeside)
		c := newCommitter(x)
		c.add([]loop.Record{{Kind: loop.Concluded}})
		began := time.Now()
		c.gather()
		if waited := time.Since(began); waited != gatherFor {
			t.Errorf("it has waited for %s, not %s", waited, gatherFor)
		}
		c.add([]loop.Record{{Kind: loop.Wanted}})
		began = time.Now()
		c.gather()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a record that others wait for has waited for %s", waited)
		}
	})
}
