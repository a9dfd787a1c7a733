package system

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/process"
	"github.com/millipede-iac/millipede/test/stage/site"
)

func TestTheRunOfAKilledCoordinatorIsResumedWhereItStopped(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(200, 100))
	s.Server()
	s.Worker("default")
	s.Worker("default")
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color")
	for _, n := range []int{40, 110} {
		killedAfter(s, p, "create", n)
		refusesBeforeSettling(s)
		p = s.Start("runs", "resume", "-no-color")
	}
	site.Succeeds(t, p, "the resumed run")
	s.CreatedOnce(200)
	if n := len(s.State().Objects); n != 200 {
		t.Errorf("the state holds %d objects", n)
	}
	s.Agree()
	s.Unchanged()

	killedAfter(s, s.Start("destroy", "-auto-approve", "-no-color"), "delete", 70)
	s.Must("runs", "resume", "-no-color")
	s.OnceEach("delete")
	if left := s.Objects(); len(left) > 0 {
		t.Errorf("destroy has left %v in the cloud", left)
	}
	if left := s.State().Objects; len(left) > 0 {
		t.Errorf("destroy has left %v in the state", left)
	}
}

// refusesBeforeSettling checks that "state rm" is refused as long as the run that was cut off is not settled.
func refusesBeforeSettling(s *site.Site) {
	s.T.Helper()
	r := s.Run("state", "rm", "-no-color", "fleet_machine.a[0]")
	if r.Code != 1 {
		s.T.Errorf("state rm upon a run that was cut off has exit status %d", r.Code)
	}
	site.Wants(s.T, r.Text, "Error: A run was cut off", "coordinator runs resume ")
}

// After a kill -9 every plan and every apply was refused until somebody called "runs resume", which a pipeline does not
// do.
func TestTheNextCommandSettlesTheRunOfAKilledApply(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(100, 300))
	s.Server()
	s.Worker("default")
	s.Worker("default")
	s.Must("init")
	killedAfter(s, s.Start("apply", "-auto-approve", "-no-color"), "create", 20)

	// A plan waits for the operations that workers execute, and starts none.
	begun := s.Begun("create")
	planned := s.Must("plan", "-no-color")
	site.Wants(t, planned, "was cut off. Collecting its results")
	made := s.Finished("create")
	if now := s.Begun("create"); now != made || now > begun+20 {
		t.Errorf("before the plan %d creations had started; after it %d have started, of which %d have ended", begun,
			now, made)
	}
	if n := len(s.State().Objects); n != made {
		t.Errorf("%d machines were created, and %d are in the state", made, n)
	}
	site.Wants(t, planned, fmt.Sprintf("Plan: %d to add, 0 to change, 0 to destroy.", 100-made))

	// "runs resume" still continues the run. When it is killed, too, the next apply settles the run.
	killedAfter(s, s.Start("runs", "resume", "-no-color"), "create", made+20)
	s.Must("apply", "-auto-approve", "-no-color")
	s.CreatedOnce(100)
	s.Agree()
	s.Unchanged()
}

// killedAfter kills a coordinator once n operations have finished and others are in progress.
func killedAfter(s *site.Site, p *process.Process, op string, n int) {
	s.T.Helper()
	site.Eventually(s.T, fmt.Sprintf("%d calls of %s have ended", n, op), func() bool {
		select {
		case <-p.Done():
			s.T.Fatalf("the coordinator has ended by itself:\n%s", site.Tail(p.Output()))
		default:
		}
		calls := s.Calls(op)
		ended := 0
		for _, c := range calls {
			if c.Ended && !c.Failed {
				ended++
			}
		}
		return ended >= n && len(calls) > ended
	})
	if err := p.Kill(); err != nil {
		s.T.Fatal(err)
	}
	if n := s.Begun(op); n >= 190 {
		s.T.Fatalf("the coordinator was killed too late: %d calls of %s had started", n, op)
	}
}

func TestOperationsOfTheEmbeddedWorkerOfAKilledProcessAreInDoubt(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(200, 100))
	s.Must("init")
	killedAfter(s, s.Start("apply", "-auto-approve", "-no-color"), "create", 60)
	cut := s.Cut("")
	refusesBeforeSettling(s)
	s.Surfaced(s.Run("runs", "resume", "-no-color"), cut, 200, 10)
	s.GoesOn(200, "apply", "-auto-approve")
	// The plan of the old run is stale.
	if r := s.Run("runs", "resume", "-no-color"); r.Code != 1 {
		t.Errorf("a run was resumed after another run had changed the state (exit status %d):\n%s", r.Code,
			site.Tail(r.Text))
	}

	// A deletion in doubt needs no resolution: reading the object tells whether it was deleted.
	killedAfter(s, s.Start("destroy", "-auto-approve", "-no-color"), "delete", 60)
	s.Run("runs", "resume", "-no-color")
	s.Must("destroy", "-auto-approve", "-no-color")
	if left := s.Objects(); len(left) > 0 {
		t.Errorf("destroy has left %v in the cloud", left)
	}
	if after := s.State(); len(after.Objects)+len(after.Doubts) > 0 {
		t.Errorf("destroy has left %v in the state, and in doubt %v", after.Objects, after.Doubts)
	}
}

func TestAnInterruptedApplyLeavesACorrectState(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(60, 300))
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color")
	site.Eventually(t, "10 machines were created, and more are under way", func() bool {
		return s.Finished("create") >= 10 && len(s.Cut("")) > 0
	})
	if err := p.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := site.Exit(t, p); code != 1 {
		t.Errorf("an interrupted apply has exit status %d", code)
	}
	site.Wants(t, p.Output(), "Interrupt received.", "Gracefully shutting down...")
	if n := s.Begun("create"); n >= 60 {
		t.Errorf("the apply continued to its end: %d creations were started", n)
	}
	if cut := s.Cut(""); len(cut) > 0 {
		t.Errorf("the command ended while %v were being created", cut)
	}
	if after := s.State(); len(after.Doubts) > 0 {
		t.Errorf("%v is in doubt, although every call has returned", after.Doubts)
	}
	s.Agree()
	s.Must("apply", "-auto-approve", "-no-color")
	if n := len(s.State().Objects); n != 60 {
		t.Errorf("the state holds %d objects", n)
	}
	s.Agree()
	s.Unchanged()
}
