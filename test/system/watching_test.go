package system

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// The size of the test of applies during watching. `make watching` runs it with a large state.
var (
	watchObjects = flag.Int("watched", 40, "how many objects are watched for drift")
	watchPeriod  = flag.Duration("period", time.Minute, "the period in which each of them is read")
	watchBehind  = flag.Int("behind", 4, "how many of them change in the cloud without a run")
	watchChanges = flag.Int("applied", 10, "how many objects each apply changes")
	watchApplies = flag.Int("applies", 2, "how many applies are measured with watching, and as many before and after")
	watchSlower  = flag.Float64("slower", 0, "by how many percent watching may slow an apply down, on an idle machine; "+
		"0 means no bound")
)

// watchedState is a state that is watched for drift while somebody applies changes to it.
type watchedState struct {
	*sharedState
	revision int
}

// apply changes objects, and returns how long that took.
func (e *watchedState) apply() time.Duration {
	e.revision++
	began := time.Now()
	r := e.run(client.RunCreateOptions{TargetAddrs: []string{"bulk_item.changed"},
		Variables: []*client.RunVariable{{Key: "revision", Value: fmt.Sprintf("%q", fmt.Sprint(e.revision))}}})
	took := time.Since(began)
	e.applied([]*client.Run{r})
	return took
}

// Watching reads all objects in the background. An apply waits only for reads that are in progress already, and drift
// is reported within one period.
func TestWatchingDoesNotSlowAppliesDownAndFindsDriftInOnePeriod(t *testing.T) {
	// If there are few objects, one batch reads all of them, and nothing is read until the end of the period.
	few := *watchObjects <= 50
	if few {
		t.Parallel()
	} else {
		timeout := site.Timeout
		t.Cleanup(func() { site.Timeout = timeout })
		site.Timeout += site.Slowness*time.Duration(*watchObjects)*objectTime + 2**watchPeriod
	}
	e := &watchedState{revision: 1, sharedState: newState(t, fmt.Sprintf(`
variable "revision" { default = "1" }
resource "bulk_item" "watched" {
  count   = %d
  name    = "watched-${count.index}"
  read_ms = 20
}
resource "bulk_item" "changed" {
  count     = %d
  name      = "changed-${count.index}"
  update_ms = 200
  read_ms   = 20
  value     = var.revision
}
`, *watchObjects-*watchChanges, *watchChanges), false)}
	e.every = 20 * time.Millisecond
	var alone, beside []time.Duration
	measure := func(list *[]time.Duration) {
		for range *watchApplies {
			*list = append(*list, e.apply())
		}
	}
	var names, want []string
	for i := range *watchBehind {
		k := i * ((*watchObjects - *watchChanges) / *watchBehind)
		names = append(names, fmt.Sprintf("watched-%d", k))
		want = append(want, fmt.Sprintf("bulk_item.watched[%d]", k))
	}
	slices.Sort(want)
	e.apply() // the first apply starts the providers, and is not measured
	measure(&alone)
	reads := e.Begun("read")
	changed := time.Now()
	if few {
		behind(t, e.Site, names, "")
	}
	set(t, e.v, e.w, "drift-period", fmt.Sprintf("%q", watchPeriod.String()))
	site.Eventually(t, "reading has begun", func() bool { return e.Begun("read") > reads })
	measure(&beside)
	if !few { // objects that were read just before they changed are read again a period later
		changed = time.Now()
		behind(t, e.Site, names, "")
	}
	var found drift
	site.Eventually(t, "all drift is found", func() bool {
		found = driftOf(t, e.v, e.w)
		return len(found.Drifted) >= *watchBehind
	})
	took := time.Since(changed)
	var addresses []string
	for _, d := range found.Drifted {
		addresses = append(addresses, d.Address)
	}
	if !slices.Equal(addresses, want) {
		t.Errorf("the drift of %v was reported, not that of %v", addresses, want)
	}
	// The bound allows for a batch, which takes some seconds.
	if most := *watchPeriod + *watchPeriod/20 + 10*time.Second; took > most {
		t.Errorf("the drift was found after %v; the period is %v", took, *watchPeriod)
	}
	set(t, e.v, e.w, "drift-period", `""`)
	measure(&alone)
	slices.Sort(alone)
	slices.Sort(beside)
	before, with := alone[len(alone)/2], beside[len(beside)/2]
	slower := 100 * (float64(with)/float64(before) - 1)
	t.Logf("%d objects, period %v: the drift of %d was found after %v; an apply of %d changes took %v, and %v during "+
		"watching, which is %.1f %% more (medians of %d and %d: %v, %v)", *watchObjects, *watchPeriod, *watchBehind,
		took.Round(time.Second), *watchChanges, before.Round(time.Millisecond), with.Round(time.Millisecond), slower,
		len(alone), len(beside), alone, beside)
	if *watchSlower > 0 && slower > *watchSlower {
		t.Errorf("watching slows an apply down by %.1f %%, and may by %.1f %%", slower, *watchSlower)
	}
}
