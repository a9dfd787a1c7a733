package command

import (
	"runtime/debug"
	"testing"
)

// growthWith returns the collector's percentage after it was tuned where GOGC and GOMEMLIMIT have the given values.
func growthWith(t *testing.T, gogc, limit string) int {
	t.Helper()
	const untouched = 77
	before := debug.SetGCPercent(untouched)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", gogc)
	t.Setenv("GOMEMLIMIT", limit)
	tuneCollector()
	set := debug.SetGCPercent(before)
	if set == untouched {
		return 0
	}
	return set
}

func TestTheCollectorIsTunedUnlessTheUserSaysHowMemoryIsUsed(t *testing.T) {
	for name, c := range map[string]struct {
		gogc, limit string
		want        int
	}{
		"nothing said":    {want: heapGrowth},
		"GOGC said":       {gogc: "50"},
		"GOMEMLIMIT said": {limit: "1GiB"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := growthWith(t, c.gogc, c.limit); got != c.want {
				t.Errorf("the percentage was set to %d instead of %d", got, c.want)
			}
		})
	}
}
