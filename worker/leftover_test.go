package worker

import (
	"testing"
	"time"
)

func TestATaskIsLeftToTheWorkerThatItNamesButNotForEver(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var l leftover
	for _, free := range []string{"", "me"} {
		if l.forOther("a", free, "me", now) {
			t.Errorf("a task for %q is left to somebody", free)
		}
	}
	if !l.forOther("a", "other", "me", now) || !l.forOther("a", "other", "me", now.Add(courtesy-1)) {
		t.Error("a task for another worker is taken")
	}
	if l.forOther("a", "other", "me", now.Add(courtesy)) {
		t.Error("a task for a worker that does not come is never taken")
	}
	l.forOther("b", "other", "me", now)
	l.forOther("c", "other", "me", now.Add(time.Hour))
	if len(l.seen) != 1 {
		t.Errorf("%d attempts are remembered", len(l.seen))
	}
}
