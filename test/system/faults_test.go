package system

import (
	"strings"
	"syscall"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

func TestWhatALostWorkerRanIsInDoubt(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(40, 500))
	s.Server()
	lost, other := s.Worker("default"), s.Worker("default")
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color", "-parallelism=8")
	site.Eventually(t, "each worker has finished a creation and has begun more", func() bool {
		return s.Busy(lost) &&
			s.Busy(other)
	})
	if err := lost.Kill(); err != nil {
		t.Fatal(err)
	}
	cut := s.Cut(lost.ID)
	r := site.Result{Code: site.Exit(t, p), Text: p.Output()}
	s.Surfaced(r, cut, 40, 8)
	s.GoesOn(40, "runs", "resume")
}

func TestALateResultResolvesItsDoubt(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(20, 300))
	s.Server()
	paused := s.Worker("default")
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color", "-parallelism=4")
	site.Eventually(t, "the worker has finished a creation and has begun more", func() bool { return s.Busy(paused) })
	if err := paused.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Await(site.Waiting(t), "The outcome is not known"); err != nil {
		t.Fatal(err)
	}
	if err := paused.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	site.Succeeds(t, p, "the apply")
	s.CreatedOnce(20)
	if after := s.State(); len(after.Doubts) > 0 {
		t.Errorf("%v is still in doubt", after.Doubts)
	}
	s.Agree()
	s.Unchanged()
}

func TestAWorkerThatComesBackReportsItsDoubts(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(20, 500))
	s.Server()
	w := s.Worker("default")
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color", "-parallelism=4")
	site.Eventually(t, "the worker has finished a creation and has begun more", func() bool { return s.Busy(w) })
	if err := w.Kill(); err != nil {
		t.Fatal(err)
	}
	cut := s.Cut(w.ID)
	w.Start()
	r := site.Result{Code: site.Exit(t, p), Text: p.Output()}
	s.Surfaced(r, cut, 20, 4)
	s.GoesOn(20, "apply", "-auto-approve")
}

func TestARunWhosePermitsAreHeldByDoubtsEndsAndGoesOnWhenTheyAreResolved(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(20, 500))
	s.Server()
	lost := s.Worker("default")
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color", "-parallelism=4")
	site.Eventually(t, "four more creations are under way", func() bool {
		return s.Busy(lost) &&
			len(s.Cut(lost.ID)) == 4
	})
	if err := lost.Kill(); err != nil {
		t.Fatal(err)
	}
	cut := s.Cut(lost.ID)
	s.Worker("default")
	// The command reports it immediately.
	if _, err := p.Await(site.Waiting(t), "4 of its 4 are held by operations whose outcome is not known"); err != nil {
		t.Error(err)
	}
	if code := site.Exit(t, p); code != 1 {
		t.Errorf("an apply with operations in doubt has exit status %d", code)
	}
	planned := s.Run("plan", "-no-color", "-parallelism=4") // a plan needs permits to read objects
	if planned.Code != 1 {
		t.Errorf("a plan that can get no permit has exit status %d", planned.Code)
	}
	for _, text := range []string{p.Output(), planned.Text} {
		site.Wants(t, text, "Error: Nothing more can be started", `All 4 permits of the limit "default" are held`)
		for _, address := range cut {
			site.Wants(t, text, "coordinator runs resolve '"+address+"' -not-created")
		}
	}
	after := s.State()
	for _, address := range cut {
		if after.Doubts[address] != "create" {
			t.Errorf("the creation of %s was interrupted, but it is not in doubt in the state", address)
		}
	}
	if n := s.Begun("create"); n >= 20 {
		t.Errorf("%d creations were started", n)
	}
	s.OnceEach("create")
	s.Agree()
	s.GoesOn(20, "runs", "resume")
}

func TestAWorkerDrainsOnSIGTERM(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(40, 300))
	s.Server()
	leaving, other := s.Worker("default"), s.Worker("default")
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color", "-parallelism=8")
	site.Eventually(t, "each worker has finished a creation and has begun more", func() bool {
		return s.Busy(leaving) &&
			s.Busy(other)
	})
	if err := leaving.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := site.Exit(t, leaving.Process); code != 0 {
		t.Errorf("the worker ended with exit status %d", code)
	}
	if cut := s.Cut(leaving.ID); len(cut) > 0 {
		t.Errorf("the worker ended while it created %v", cut)
	}
	site.Succeeds(t, p, "the apply")
	s.CreatedOnce(40)
	s.Agree()
}

func TestARunContinuesAfterNATSWasKilled(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(60, 300))
	server := s.Server()
	s.Worker("default")
	s.Worker("default")
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color")
	site.Eventually(t, "10 machines were created", func() bool { return s.Finished("create") >= 10 })
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(site.Waiting(t)); err != nil {
		t.Fatal(err)
	}
	site.Succeeds(t, p, "the apply")
	s.CreatedOnce(60)
	s.Agree()
	s.Unchanged()
}

func TestARunWithoutNATSCanBeLeftAndResumed(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(40, 400))
	server := s.Server()
	s.Worker("default")
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color")
	site.Eventually(t, "10 machines were created, and more are under way", func() bool {
		return s.Finished("create") >= 10 && s.Begun("create") > s.Finished("create")
	})
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, heard := range []string{"Interrupt received.", "Two interrupts received."} {
		if err := p.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Await(site.Waiting(t), heard); err != nil {
			t.Fatal(err)
		}
	}
	if code := site.Exit(t, p); code != 1 {
		t.Errorf("the exit status after two interrupts is %d", code)
	}
	if err := server.Restart(site.Waiting(t)); err != nil {
		t.Fatal(err)
	}
	s.Must("runs", "resume", "-no-color")
	s.CreatedOnce(40)
	s.Agree()
	s.Unchanged()
}

const crash = requirements + `
resource "fleet_machine" "a" {
  name     = "a-crash"
  crash_on = ["create"]
  times    = 1
}
resource "fleet5_machine" "b" {
  name = "b"
}
resource "fleet5_machine" "c" {
  name = fleet_machine.a.name
  depends_on = [fleet_machine.a]
}
`

func TestACrashedPluginIsAnErrorWithItsLastOutput(t *testing.T) {
	t.Parallel()
	s := site.New(t, crash)
	s.Must("init")
	r := s.Run("apply", "-auto-approve", "-no-color")
	if r.Code != 1 {
		t.Errorf("exit status %d", r.Code)
	}
	site.Wants(t, r.Text, "Error: ", "millipede/fleet",
		`fleet_machine "a-crash" crashes at the moment create, as it was told to`)
	after := s.State()
	if len(after.Objects) != 1 || after.Objects[0].Address != "fleet5_machine.b" {
		t.Errorf("the state holds %v", after.Objects)
	}
	if after.Doubts["fleet_machine.a"] != "create" {
		t.Errorf("the creation in which the plugin crashed is not in doubt: %v", after.Doubts)
	}
	s.OnceEach("create")
	if n := s.Begun("create"); n != 2 {
		t.Errorf("%d creations were started", n)
	}

	// An apply continues after the user has resolved the doubt.
	s.Must("runs", "resolve", "fleet_machine.a", "-not-created", "-no-color")
	s.Must("apply", "-auto-approve", "-no-color")
	s.Unchanged()
	if got := strings.Join(strings.Fields(s.Must("state", "list")), " "); got != "fleet5_machine.b fleet5_machine.c "+
		"fleet_machine.a" {
		t.Errorf("the state holds %s", got)
	}
}
