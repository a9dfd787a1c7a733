package sim

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay this seed, with its trace")
	seedsFlag = flag.Int("seeds", 0, "play this many seeds instead of the ordinary number, on all cores")
	fromFlag  = flag.Uint64("from", 1, "the first seed of -seeds")
	guardFlag = flag.String("without", "", "play without this guard")
	shardFlag = flag.Bool("shard", false, "play the seeds in this process")
)

// cores is how many processes play seeds at a time.
var cores = runtime.NumCPU()

func TestMain(m *testing.M) {
	flag.Parse()
	// One processor, so that goroutines that are let through together run in the same order each time. Many seeds share
	// the cores by being shared among processes.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

const (
	// ordinary is how many seeds the ordinary tests play.
	ordinary = 30
	// shard is how many seeds one process plays of many.
	shard = 25
	// shardTime is far more than a shard takes.
	shardTime = 10 * time.Minute
)

func TestNothingIsLostAndNothingDoneTwice(t *testing.T) {
	switch {
	case *seedFlag != 0:
		report(t, *seedFlag, simulate(t, *seedFlag, guard(*guardFlag), os.Stdout))
	case *seedsFlag == 0:
		play(t, 1, ordinary)
	case *shardFlag:
		play(t, *fromFlag, *seedsFlag)
	default:
		many(t, *fromFlag, *seedsFlag)
	}
}

// play plays seeds one after the other.
func play(t *testing.T, from uint64, n int) {
	total := map[string]int{}
	for seed := from; seed < from+uint64(n); seed++ {
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
	for _, name := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%s%s: %d", sumMark, name, total[name])
	}
}

// sumMark begins a line that many adds up.
const sumMark = "sum of "

func report(t *testing.T, seed uint64, out outcome) {
	t.Helper()
	for _, v := range out.wrong {
		t.Errorf("seed %d: %s", seed, v)
	}
}

// many plays seeds in several processes, and adds up what they found.
func many(t *testing.T, from uint64, n int) {
	began := time.Now()
	var shards errgroup.Group
	shards.SetLimit(cores)
	outputs := make([][]byte, (n+shard-1)/shard)
	for i := range outputs {
		shards.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), shardTime)
			defer cancel()
			at := i * shard
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-shard",
				"-without="+*guardFlag,
				fmt.Sprintf("-from=%d", from+uint64(at)), fmt.Sprintf("-seeds=%d", min(shard, n-at)))
			out, err := cmd.CombinedOutput() // that a seed has violations shows in the output
			if err != nil && !bytes.Contains(out, []byte("--- FAIL")) {
				err = fmt.Errorf("the seeds from %d: %w\n%s", from+uint64(at), err, out[max(0, len(out)-4000):])
			} else {
				err = nil
			}
			outputs[i] = out
			return err
		})
	}
	if err := shards.Wait(); err != nil {
		t.Error(err)
	}
	total := map[string]int{}
	for _, out := range outputs {
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			_, line, _ := strings.Cut(lines.Text(), ": ")
			var k int
			if name, count, ok := strings.Cut(strings.TrimPrefix(line, sumMark), ": "); ok &&
				strings.HasPrefix(line, sumMark) {
				if _, err := fmt.Sscan(count, &k); err == nil {
					total[name] += k
				}
			} else if strings.HasPrefix(line, "seed ") {
				t.Error(line)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%12d %s", total[name], name)
	}
	t.Logf("took %s in %d processes", time.Since(began).Round(time.Second), cores)
}

func TestASeedIsReplayedExactly(t *testing.T) {
	for seed := uint64(1); seed <= 8; seed++ {
		var first, again bytes.Buffer
		a, b := simulate(t, seed, "", &first), simulate(t, seed, "", &again)
		if a.sum != b.sum {
			t.Errorf("seed %d was not replayed exactly, from here on:\n%s", seed,
				difference(first.String(), again.String()))
		}
	}
}

// difference shows where two traces part.
func difference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	i := 0
	for i < min(len(as), len(bs)) && as[i] == bs[i] {
		i++
	}
	from := max(0, i-6)
	return strings.Join(as[from:min(len(as), i+3)], "\n") + "\n\n" + strings.Join(bs[from:min(len(bs), i+3)], "\n")
}

// exposing are seeds that violate a promise when the guard is away, as docs/guarantees.md lists them.
var exposing = map[guard]uint64{
	guardClaim: 52, guardNonce: 52, guardIntent: 28, guardStart: 13, guardCommit: 2, guardPermit: 28, guardFence: 7,
	guardRecorded: 2, guardKept: 3, guardPlace: 2, guardSubject: 14, guardTold: 9,
	guardTomb: 88,
}

// enough is how many seeds find that a guard is away, whatever its own seed has come to since the product changed.
const enough = 150

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
