package system

import (
	"slices"
	"syscall"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/service/seat"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// freeze stops processes, as a debugger or a disk that does not answer does.
func freeze(t *testing.T, pids []int) {
	t.Helper()
	if len(pids) == 0 {
		t.Fatal("there is no such process")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
}

// gone reports whether processes have ended.
func gone(pids []int) bool {
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			return false
		}
	}
	return true
}

// An engine that was frozen kept its seat, and its runs did not go on.
func TestTheRunsOfAFrozenEngineGoOnWithTheNextOne(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	s.Worker("default")
	v := s.Service("-parallelism=2")
	r := v.Apply(v.Workspace("one"), site.Slow(6, 700))
	site.Eventually(t, "the first machines are being created", func() bool { return s.Begun("create") >= 2 })
	engines := v.Engines()
	freeze(t, engines)
	frozen := time.Now()
	site.Eventually(t, "the frozen engine is gone", func() bool { return gone(engines) })
	t.Logf("it was killed after %v", time.Since(frozen).Round(time.Millisecond))
	text := v.Logs(v.Ends(r.ID, client.RunApplied))
	site.Wants(t, text, "has ended unexpectedly. The run continues", "Apply complete!")
	s.CreatedOnce(6)
}

// An embedded worker that was frozen was never replaced: runs waited for a worker until the service was restarted.
func TestAFrozenEmbeddedWorkerIsReplaced(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	v := s.Service()
	v.Ends(v.Apply(v.Workspace("one"), site.Slow(1, 10)).ID, client.RunApplied)
	worker := v.EmbeddedWorkers()
	freeze(t, worker)
	frozen := time.Now()
	site.Eventually(t, "the frozen worker is gone", func() bool { return gone(worker) })
	t.Logf("it was killed after %v", time.Since(frozen).Round(time.Millisecond))
	v.Ends(v.Apply(v.Workspace("two"), site.Slow(2, 10)).ID, client.RunApplied)
}

// A frozen worker held the end of the service for ever.
func TestAFrozenWorkerDoesNotHoldTheEndOfTheService(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	v := s.Service()
	worker := v.EmbeddedWorkers()
	freeze(t, worker)
	if err := v.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := site.Exit(t, v.Process); code != 0 || !gone(worker) {
		t.Errorf("the service has exit status %d, and the worker is gone: %t", code, gone(worker))
	}
}

// A worker that was told to finish its tasks did so after a second interrupt, too: it went on without its service.
func TestASecondInterruptEndsTheEmbeddedWorkerToo(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	v := s.Service()
	r := v.Apply(v.Workspace("one"), deaf(1, 300_000))
	site.Eventually(t, "the machine is being created", func() bool { return s.Begun("create") == 1 })
	if err := v.Client.Runs.Cancel(t.Context(), r.ID, client.RunCancelOptions{}); err != nil {
		t.Fatal(err)
	}
	site.Eventually(t, "the run is left", func() bool {
		return v.Client.Runs.ForceCancel(t.Context(), r.ID, client.RunForceCancelOptions{}) == nil // at first it is too early
	})
	v.Ends(r.ID, client.RunCanceled)
	worker := v.EmbeddedWorkers()
	if err := v.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	site.Eventually(t, "only the worker is left", func() bool { return len(v.Engines()) == 0 })
	if len(v.EmbeddedWorkers()) != 1 {
		t.Error("the worker has not finished its task")
	}
	if err := v.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	site.Exit(t, v.Process)
	site.Eventually(t, "the worker is gone", func() bool { return gone(worker) })
}

// A machine that is stopped as a whole, as a virtual one is, has made its processes late, but none of them is frozen.
func TestAMachineThatWasStoppedKillsNoEngine(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	v := s.Service()
	engines, worker := v.Engines(), v.EmbeddedWorkers()
	all := append(append([]int{v.PID()}, engines...), worker...)
	freeze(t, all)
	<-time.After(seat.FrozenTime + 5*time.Second)
	for _, pid := range all {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(5 * time.Second) // more than a look
	v.Ends(v.Apply(v.Workspace("one"), site.Slow(1, 10)).ID, client.RunApplied)
	if now := v.Engines(); !slices.Equal(now, engines) {
		t.Errorf("the engines are %v, and were %v", now, engines)
	}
	if now := v.EmbeddedWorkers(); !slices.Equal(now, worker) {
		t.Errorf("the workers are %v, and were %v", now, worker)
	}
}
