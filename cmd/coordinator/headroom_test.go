package main

import (
	"runtime"
	"testing"
)

// collectedAt returns how large the heap grows before it is collected.
func collectedAt(t *testing.T, gogc string) uint64 {
	t.Helper()
	t.Setenv("GOGC", gogc)
	t.Setenv("GOMEMLIMIT", "")
	headroom = nil
	t.Cleanup(func() { headroom = nil })
	reserveHeadroom()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.NextGC
}

func TestASmallHeapIsLeftAloneUnlessTheUserSaysHowMemoryIsUsed(t *testing.T) {
	usual, asTold := collectedAt(t, ""), collectedAt(t, "100")
	if usual < asTold+headroomBytes {
		t.Errorf("with headroom the heap is collected at %d bytes, without it at %d", usual, asTold)
	}
}
