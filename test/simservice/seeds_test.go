package simservice

import (
	"bytes"
	"flag"
	"os"
	"runtime"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/seeds"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay this seed, with its trace")
	seedsFlag = flag.Int("seeds", 0, "play this many seeds instead of the ordinary number, on all cores")
	fromFlag  = flag.Uint64("from", 1, "the first seed of -seeds")
	guardFlag = flag.String("without", "", "play without this guard")
	shardFlag = flag.Bool("shard", false, "play the seeds in this process")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// One processor, so that goroutines that wake together run in the same order each time.
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// ordinary is how many seeds the ordinary tests play.
const ordinary = 40

func TestEveryRunEndsAsItWouldHaveUndisturbed(t *testing.T) {
	switch {
	case *seedFlag != 0:
		report(t, *seedFlag, simulate(t, *seedFlag, guard(*guardFlag), os.Stdout))
	case *seedsFlag == 0:
		play(t, 1, ordinary)
	case *shardFlag:
		play(t, *fromFlag, *seedsFlag)
	default:
		seeds.Many(t, *fromFlag, *seedsFlag, "-without="+*guardFlag)
	}
}

// play plays seeds one after the other.
func play(t *testing.T, from uint64, n int) {
	total := map[string]int{"seeds": n}
	for seed := from; seed < from+uint64(n); seed++ { //nolint:gosec // not negative
		out := simulate(t, seed, guard(*guardFlag), nil)
		report(t, seed, out)
		for what, k := range out.counted {
			total[what] += k
		}
		if len(out.wrong) > 0 {
			total["seeds with violations"]++
		}
	}
	seeds.Sums(t, total)
}

func report(t *testing.T, seed uint64, out outcome) {
	t.Helper()
	for _, v := range out.wrong {
		t.Errorf("seed %d: %s", seed, v)
	}
}

// Several changes that become durable at once are made by goroutines that no seed orders.
func TestASeedWhoseChangesAreMadeOneByOneIsReplayedExactly(t *testing.T) {
	for seed := uint64(1); seed <= 15; seed += 2 { // see world.exact
		var first, again bytes.Buffer
		a, b := simulate(t, seed, "", &first), simulate(t, seed, "", &again)
		if a.sum != b.sum {
			t.Errorf("seed %d was not replayed exactly, from here on:\n%s", seed,
				seeds.Difference(first.String(), again.String()))
		}
	}
}

// exposing are seeds that violate a promise when the guard is left out, as docs/guarantees.md lists them.
var exposing = map[guard]uint64{guardResumed: 2, guardStarted: 2, guardReleased: 1, guardConfirmed: 19,
	guardAgain: 2, guardFence: 2}

// enough is how many seeds suffice to find a missing guard, even if a change of the product has made the guard's own
// seed useless.
const enough = 100

func TestEachGuardIsNeeded(t *testing.T) {
	for _, g := range guards {
		t.Run(string(g), func(t *testing.T) {
			out := simulate(t, exposing[g], g, nil)
			for seed := uint64(1); len(out.wrong) == 0 && seed <= enough; seed++ {
				if out = simulate(t, seed, g, nil); len(out.wrong) > 0 {
					t.Logf("seed %d shows nothing any more, but seed %d does: say so here and in docs/guarantees.md",
						exposing[g], seed)
				}
			}
			if len(out.wrong) == 0 {
				t.Fatalf("without the guard %d seeds violate nothing", enough)
			}
			t.Log(out.wrong[0])
		})
	}
}
