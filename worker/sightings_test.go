package worker

import (
	"testing"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

func TestATaskIsLeftToTheWorkerThatItNamesButNotForEver(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := New(Options{ID: "me", Pools: []string{"eu"}, Slots: 1, Now: func() time.Time { return now }})
	for _, free := range []string{"", "me"} {
		if w.forOther("a", &wire.Task{Worker: free}) {
			t.Errorf("a task for %q is left to another worker", free)
		}
	}
	other := &wire.Task{Worker: "other"}
	if !w.forOther("a", other) {
		t.Error("a task for another worker was taken")
	}
	if now = now.Add(leaveToNamed - 1); !w.forOther("a", other) {
		t.Error("a task for another worker was taken too early")
	}
	if now = now.Add(1); w.forOther("a", other) {
		t.Error("a task for a worker that does not fetch it is never taken")
	}
	w.forOther("b", other)
	now = now.Add(time.Hour)
	w.forOther("c", other)
	if len(w.left.seen) != 1 {
		t.Errorf("%d attempts are remembered", len(w.left.seen))
	}
}
