package sim

import (
	"bytes"
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/seeds"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "simulate only this seed, and print its trace")
	seedsFlag = flag.Int("seeds", 0, "simulate this many seeds instead of the default number, on all cores")
	fromFlag  = flag.Uint64("from", 1, "the first seed of -seeds")
	guardFlag = flag.String("without", "", "simulate without this guard")
	stepFlag  = flag.Uint64("step", 1, "the distance from one simulated seed to the next")
	shardFlag = flag.Bool("shard", false, "simulate the seeds in this process")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// With one processor, goroutines that continue at the same time run in the same order each time.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	warmUp()
	os.Exit(m.Run())
}

// ordinary is the default number of seeds.
const ordinary = 30

func TestNothingIsLostAndNothingDoneTwice(t *testing.T) {
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

// play simulates seeds one after the other.
func play(t *testing.T, from uint64, n int) {
	total := map[string]int{}
	for seed := from; seed < from+uint64(n); seed += *stepFlag {
		out := simulate(t, seed, guard(*guardFlag), nil)
		report(t, seed, out)
		for f, k := range out.faults {
			total[f] += k
		}
		total["steps"] += out.steps
		total["objects made"] += out.made
		total["virtual seconds"] += int(out.took.Seconds())
		total["seeds"]++
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

func TestASeedWithoutTiesIsReplayedExactly(t *testing.T) {
	compared := 0
	for seed := uint64(1); compared < 8; seed++ {
		var first, again bytes.Buffer
		a, b := simulate(t, seed, "", &first), simulate(t, seed, "", &again)
		if a.ties > 0 || b.ties > 0 {
			continue
		}
		compared++
		if a.sum != b.sum {
			t.Errorf("seed %d was not replayed exactly, from here on:\n%s", seed,
				seeds.Difference(first.String(), again.String()))
		}
	}
}

// exposing has, for each guard, a seed that violates a promise without it, as listed in docs/guarantees.md.
var exposing = map[guard]uint64{
	guardClaim: 57, guardNonce: 41, guardIntent: 54, guardStart: 1, guardCommit: 2, guardPermit: 9, guardFence: 3,
	guardRecorded: 9, guardKept: 3, guardPlace: 2, guardSubject: 15, guardTold: 9,
	guardAway: 38,
	guardTomb: 1, guardWrites: 1, guardReads: 41, guardKeeps: 191, guardOrder: 16, guardObjects: 1,
}

// teamGuards are the guards whose absence only seeds with a team can show.
var teamGuards = []guard{guardWrites, guardReads, guardKeeps, guardOrder, guardObjects}

// enough is a number of seeds that always includes one which shows that a guard is disabled, also after changes of the
// product. A fifth of them simulate teams.
const enough = 150

func TestEachGuardIsNeeded(t *testing.T) {
	for _, g := range guards {
		t.Run(string(g), func(t *testing.T) {
			out := simulate(t, exposing[g], g, nil)
			team, most := slices.Contains(teamGuards, g), uint64(enough)
			if team {
				most *= 5
			}
			for seed := uint64(1); len(out.wrong) == 0 && seed <= most; seed++ {
				if team && !teamed(seed) {
					continue
				}
				if out = simulate(t, seed, g, nil); len(out.wrong) > 0 {
					t.Logf("seed %d does not need the guard any more, but seed %d does: update this test and docs/guarantees.md",
						exposing[g], seed)
				}
			}
			if len(out.wrong) == 0 {
				t.Fatalf("without the guard, none of %d seeds violates a promise", most)
			}
			t.Log(out.wrong[0])
		})
	}
}
