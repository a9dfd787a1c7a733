// Package versions tests programs of neighbouring versions with each other: they are built with other numbers of the
// protocol.
package versions

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
	"github.com/millipede-iac/millipede/wire"
)

func TestMain(m *testing.M) { site.Main(m) }

// workerOf builds a worker that speaks other versions of the protocol.
func workerOf(t *testing.T, lowest, highest int) string {
	t.Helper()
	return site.Build(t, "./cmd/worker", fmt.Sprintf(
		"-ldflags=-X github.com/millipede-iac/millipede/wire.built=%d-%d", lowest, highest))
}

// by counts the calls of a worker in the record of the providers.
func by(s *site.Site, w *site.Worker, ops ...string) (n int) {
	for _, c := range s.Calls(ops...) {
		if c.Worker == w.ID {
			n++
		}
	}
	return n
}

const own = wire.ProtocolVersion

// An old worker in a pool took half of the calls and of the tasks, and failed them.
func TestAWorkerOfAnotherVersionIsGivenNothingOnEitherLane(t *testing.T) {
	const count = 60
	s := site.New(t, site.Slow(count, 30))
	s.Server()
	s.Must("init")
	old := s.NewWorker("default")
	old.Program = workerOf(t, own-1, own-1)
	old.Start()

	// Alone, it serves nobody: the plan waits, and says why.
	alone := s.Start("plan", "-no-color", "-out=saved.plan")
	if _, err := alone.Await(site.Waiting(t), "speaks version "+fmt.Sprint(own-1)+" of the protocol"); err != nil {
		t.Fatal(err)
	}
	if r := s.Run("upgrade", "check", "-no-color"); r.Code != 1 || !strings.Contains(r.Text, `the pool "default" would`) {
		t.Errorf("with this worker alone, an upgrade is checked with exit status %d:\n%s", r.Code, r.Text)
	}
	suited := s.Worker("default")
	site.Succeeds(t, alone, "the plan that waited")

	if text := s.Must("workers", "list", "-no-color"); !strings.Contains(text, "is given nothing") ||
		!strings.Contains(text, "replace this worker") {
		t.Errorf("the list of workers does not say that one is given nothing:\n%s", text)
	}
	if r := s.Run("upgrade", "check", "-no-color"); r.Code != 0 {
		t.Errorf("beside a suited worker, an upgrade is checked with exit status %d:\n%s", r.Code, r.Text)
	}
	s.Must("apply", "-no-color", "saved.plan")
	s.CreatedOnce(count)
	s.Unchanged()
	s.Must("destroy", "-auto-approve", "-no-color")
	all := []string{"plan", "read", "create", "update", "delete"}
	if n := by(s, old, all...); n != 0 {
		t.Errorf("the old worker was given %d calls", n)
	}
	if n := by(s, suited, all...); n < 4*count { // each is planned, created, read and deleted
		t.Errorf("the suited worker was given %d calls", n)
	}
	if n := by(s, suited, "create"); n != count {
		t.Errorf("the suited worker has created %d machines of %d", n, count)
	}
	for _, no := range []string{"an attempt is claimed", "cannot read"} {
		if strings.Contains(old.Output(), no) {
			t.Errorf("the old worker says %q", no)
		}
	}
}

func TestWorkersOfNeighbouringVersionsShareAPool(t *testing.T) {
	const count = 120
	s := site.New(t, site.Slow(count, 50))
	s.Server()
	s.Must("init")
	before, after := s.NewWorker("default"), s.NewWorker("default")
	before.Program, after.Program = workerOf(t, own-1, own), workerOf(t, own, own+1)
	before.Start()
	after.Start()
	s.Must("apply", "-auto-approve", "-no-color", "-parallelism=32")
	s.CreatedOnce(count)
	for name, w := range map[string]*site.Worker{"before": before, "after": after} {
		if n := by(s, w, "create"); n < count/10 {
			t.Errorf("the worker of the version %s has created %d machines of %d", name, n, count)
		}
	}
	s.Unchanged()
}

func TestWorkersAreReplacedOneAfterTheOtherUnderOperations(t *testing.T) {
	const count, fleet = 400, 3
	s := site.New(t, site.Slow(count, 200))
	s.Server()
	s.Must("init")
	older, newer := workerOf(t, own-1, own), workerOf(t, own, own+1)
	var serving []*site.Worker
	for range fleet {
		w := s.NewWorker("default")
		w.Program = older
		w.Start()
		serving = append(serving, w)
	}
	apply := s.Start("apply", "-auto-approve", "-no-color", "-parallelism=24")
	for i, leaving := range serving {
		site.Eventually(t, "the worker is busy", func() bool { return s.Busy(leaving) })
		next := s.NewWorker("default")
		next.Program = newer
		next.Start()
		serving[i] = next
		if err := leaving.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		site.Succeeds(t, leaving.Process, "a worker that was replaced")
	}
	if n := s.Finished("create"); n == count {
		t.Error("the workers were replaced too late: no operation was under way")
	}
	site.Succeeds(t, apply, "the apply")
	s.CreatedOnce(count)
	for _, c := range s.Calls("create") {
		if !c.Ended || c.Failed {
			t.Errorf("the creation of %s was interrupted", c.Name)
		}
	}
	if after := s.State(); len(after.Doubts) != 0 || len(after.Objects) != count {
		t.Errorf("%d objects are in the state, and %d in doubt", len(after.Objects), len(after.Doubts))
	}
	for _, w := range serving {
		if by(s, w, "create") == 0 {
			t.Errorf("the worker %s, which has replaced another one, was given nothing", w.ID)
		}
	}
}
