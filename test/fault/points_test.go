package fault

import (
	"flag"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/internal/failpoint"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// kills is the number of faults of the series. The default is for the ordinary test command, and makes the tests of
// points use only some of them.
var kills = flag.Int("kills", fewKills, "how many faults the series makes; more than the default also has every "+
	"point tested")

const fewKills = 6

// some chooses the points that an ordinary test run tests, because all of them take a minute.
func some(points []failpoint.Point, always ...failpoint.Point) []failpoint.Point {
	if *kills > fewKills {
		return points
	}
	return always
}

// at returns the environment variable that kills a process at a point, or pauses it there.
func at(p failpoint.Point, how string) string {
	times := 2 // one operation has finished then, and another one is in progress
	if slices.Contains(once, p) {
		times = 1
	}
	return fmt.Sprintf("MILLIPEDE_FAILPOINTS=%s=%d%s", p, times, how)
}

// once has the points that a run passes only once.
var once = []failpoint.Point{failpoint.PermitReleased, failpoint.PlanUnsaved, failpoint.PlanSaved, failpoint.EndUnsaved,
	failpoint.RunEnded,
	failpoint.RunPurged, failpoint.SnapshotCopied, failpoint.SnapshotCut, failpoint.SnapshotWritten}

const few = 6 // machines

// killed waits for the end of a process that is killed at a point.
func killed(t *testing.T, p interface{ Output() string }, code int) {
	t.Helper()
	if code != -1 {
		t.Fatalf("the process has not reached the point: it ended with exit status %d\n%s", code, site.Tail(p.Output()))
	}
}

func TestACoordinatorMayDieAtAnyPoint(t *testing.T) {
	t.Parallel()
	for _, point := range some(failpoint.Coordinator, failpoint.IntentSaved, failpoint.TaskSent, failpoint.OutcomeSaved,
		failpoint.SnapshotCut) {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			s := newTrial(t, few, 50)
			s.Server()
			s.Worker("default")
			s.Must("init")
			s.Env = []string{at(point, "")}
			p := s.Start(apply...)
			killed(t, p, site.Exit(t, p))
			s.Env = nil
			s.goOn(apply)
			s.complete(few)
			if s.doubts > 0 {
				t.Errorf("%d creations were in doubt, although the worker was not killed", s.doubts)
			}
		})
	}
}

func TestAProcessWithEverythingInItMayDieAtAnyPoint(t *testing.T) {
	t.Parallel()
	all := append(append([]failpoint.Point{}, failpoint.Coordinator...), failpoint.Worker...)
	for _, point := range some(all, failpoint.OutcomeUnsaved, failpoint.EndNoted) {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			s := newTrial(t, few, 50)
			s.Must("init")
			s.Env = []string{at(point, "")}
			p := s.Start(apply...)
			killed(t, p, site.Exit(t, p))
			s.Env = nil
			s.goOn(apply)
			s.complete(few)
		})
	}
}

// uncertain has the points after which the operation may have begun, and its end is not recorded.
var uncertain = []failpoint.Point{failpoint.StartNoted, failpoint.TaskAcked, failpoint.Operated}

func TestAWorkerMayDieAtAnyPoint(t *testing.T) {
	t.Parallel()
	for _, point := range some(failpoint.Worker, failpoint.Claimed, failpoint.Operated, failpoint.EndNoted) {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			s := newTrial(t, few, 50)
			s.Server()
			w := s.NewWorker("default")
			w.Env = []string{at(point, "")}
			w.Start()
			s.Must("init")
			p := s.Start("apply", "-auto-approve", "-no-color", "-parallelism=1") // so that nothing else is in progress
			killed(t, w, site.Exit(t, w.Process))
			w.Env = nil
			w.Start()
			code := site.Exit(t, p)
			if wanted := map[bool]int{true: 1}[slices.Contains(uncertain, point)]; code != wanted {
				t.Errorf("the apply ended with exit status %d, not %d", code, wanted)
			}
			s.goOn(apply)
			s.complete(few)
			if doubtful := s.doubts > 0; doubtful != slices.Contains(uncertain, point) {
				t.Errorf("%d creations were in doubt", s.doubts)
			}
		})
	}
}

// nap is longer than the lease of a worker, and than the time for which it trusts its claim.
const nap = 7 * time.Second

func TestAWorkerMaySleepAtAnyPoint(t *testing.T) {
	t.Parallel()
	for _, point := range some(failpoint.Worker, failpoint.Claimed) {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			s := newTrial(t, few, 50)
			s.Server()
			w := s.NewWorker("default")
			w.Env = []string{at(point, ":stop")}
			w.Start()
			s.Must("init")
			p := s.Start(apply...)
			if _, err := w.Await(site.Waiting(t), "failpoint "); err != nil {
				t.Fatal(err)
			}
			s.Worker("default") // it may execute the tasks that the paused worker has not started
			wait(nap)
			if err := w.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if code := site.Exit(t, p); code != 0 {
				t.Errorf("the apply ended with exit status %d", code)
			}
			s.complete(few)
			if s.Begun("create") != few {
				t.Errorf("%d creations were started, not %d", s.Begun("create"), few)
			}
		})
	}
}

// wait waits in real time, because the duration of the fault matters: leases end by the clock.
func wait(d time.Duration) { <-time.After(d) }
