package operation

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// A call outside of a run went to whoever took it: to an older worker, which could not read it, as often as to another.
func TestACallOutsideOfARunHasTheVersionOfThePoolsWorkers(t *testing.T) {
	of := func(pool string, lowest, highest int) wire.Worker {
		return wire.Worker{Heartbeat: wire.Heartbeat{Worker: "w", Pools: []string{pool}, Slots: 2, Lowest: lowest,
			Protocol: highest, Version: "0.0.9"}}
	}
	own := wire.Spoken().Highest
	gone, draining := of("eu", own, own), of("eu", own, own)
	gone.Since, draining.Draining = time.Minute, true
	for name, c := range map[string]struct {
		workers []wire.Worker
		version int
		why     bool
	}{
		"nobody":                        {nil, 0, false},
		"a worker of this version":      {[]wire.Worker{of("eu", own, own)}, own, false},
		"of the next, too":              {[]wire.Worker{of("eu", own, own+1)}, own, false},
		"an older one":                  {[]wire.Worker{of("eu", 1, own-1)}, 0, true},
		"a newer one":                   {[]wire.Worker{of("eu", own+1, own+2)}, 0, true},
		"an older one, and a suited":    {[]wire.Worker{of("eu", 1, own-1), of("eu", own, own)}, own, true},
		"a suited one of another pool":  {[]wire.Worker{of("us", own, own)}, 0, false},
		"a suited one that is silent":   {[]wire.Worker{gone}, 0, false},
		"a suited one that is draining": {[]wire.Worker{draining}, 0, false},
	} {
		if got := versionFor("eu", c.workers); got != c.version {
			t.Errorf("%s: version %d", name, got)
		}
		if why := unsuited("eu", c.workers); (why != "") != c.why {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func TestACallWithoutASuitedWorkerSaysWhichThereAre(t *testing.T) {
	none := &absentError{pools: []string{"eu", "us"}}
	none.note(wire.ErrNoWorker)
	if text := none.Error(); strings.Contains(text, "version") {
		t.Errorf("without workers it says %q", text)
	}
	unsuited := &wire.UnsuitedError{Pool: "eu", Why: "worker w is Millipede 0.0.9"}
	if !errors.Is(unsuited, wire.ErrNoWorker) {
		t.Error("it is not waited for a suited worker")
	}
	none.note(unsuited)
	if text := none.Error(); !strings.Contains(text, "worker w is Millipede 0.0.9") || !errors.Is(none, wire.ErrNoWorker) {
		t.Errorf("it says %q", text)
	}
}
