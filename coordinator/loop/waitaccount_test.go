package loop

import (
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/state/journal"
)

// Fifty vertices of a second each share the one slot of eu, and fifty the ten permits of the limit.
func TestTheJournalSaysWhatAVertexHasWaitedFor(t *testing.T) {
	w := regions(t, 100, program.Safe, 8)
	w.boot()
	w.finish()
	sums := map[journal.Wait]time.Duration{}
	for _, e := range w.events {
		if e.Kind != journal.Dispatch {
			continue
		}
		var sum time.Duration
		for _, one := range e.Waits {
			sum += one.For
			sums[journal.Wait{Kind: one.Kind, Name: one.Name}] += one.For
		}
		if sum > e.Waited || e.Waited-sum > 5*waitWorthTelling {
			t.Errorf("vertex %d was ready for %s; its waits add up to %s: %v", e.Vertex, e.Waited, sum, e.Waits)
		}
	}
	place := sums[journal.Wait{Kind: journal.WaitPlace, Name: "eu"}]
	permit := sums[journal.Wait{Kind: journal.WaitPermit, Name: "default"}]
	if place < 100*time.Second || permit < time.Second {
		t.Errorf("the vertices waited %s for places of eu and %s for permits: %v", place, permit, sums)
	}
}
