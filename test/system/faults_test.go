package system

import (
	"strings"
	"syscall"
	"testing"
)

func TestWhatALostWorkerRanIsInDoubt(t *testing.T) {
	t.Parallel()
	s := newSite(t, slow(40, 500))
	s.server()
	lost, other := s.worker("default"), s.worker("default")
	s.must("init")
	p := s.start("apply", "-auto-approve", "-no-color", "-parallelism=8")
	eventually(t, "each worker has finished a creation and has begun more", func() bool { return s.busy(lost) && s.busy(other) })
	if err := lost.Kill(); err != nil {
		t.Fatal(err)
	}
	cut := s.cut(lost.id)
	r := result{exit(t, p), p.Output()}
	s.surfaced(r, cut, 40, 8)
	s.goesOn(40, "runs", "resume")
}

// busy tells whether a worker has finished a creation and has begun another one.
func (s *site) busy(w *worker) bool {
	s.t.Helper()
	var begun, ended int
	for _, c := range s.calls("create") {
		switch {
		case c.Worker != w.id:
		case c.ended:
			ended++
		default:
			begun++
		}
	}
	return begun > 0 && ended > 0
}

func TestALateResultResolvesItsDoubt(t *testing.T) {
	t.Parallel()
	s := newSite(t, slow(20, 300))
	s.server()
	paused := s.worker("default")
	s.must("init")
	p := s.start("apply", "-auto-approve", "-no-color", "-parallelism=4")
	eventually(t, "the worker has finished a creation and has begun more", func() bool { return s.busy(paused) })
	if err := paused.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Await(waiting(t), "The outcome is not known"); err != nil {
		t.Fatal(err)
	}
	if err := paused.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := exit(t, p); code != 0 {
		t.Errorf("the apply ended with exit status %d", code)
	}
	if n := s.finished("create"); n != 20 {
		t.Errorf("%d creations were finished", n)
	}
	if after := s.state(); len(after.doubts) > 0 {
		t.Errorf("%v is still in doubt", after.doubts)
	}
	s.onceEach("create")
	s.agree()
	s.unchanged()
}

func TestAWorkerThatComesBackReportsItsDoubts(t *testing.T) {
	t.Parallel()
	s := newSite(t, slow(20, 500))
	s.server()
	w := s.worker("default")
	s.must("init")
	p := s.start("apply", "-auto-approve", "-no-color", "-parallelism=4")
	eventually(t, "the worker has finished a creation and has begun more", func() bool { return s.busy(w) })
	if err := w.Kill(); err != nil {
		t.Fatal(err)
	}
	cut := s.cut(w.id)
	w.start()
	r := result{exit(t, p), p.Output()}
	s.surfaced(r, cut, 20, 4)
	s.goesOn(20, "apply", "-auto-approve")
}

func TestARunWhosePermitsAreHeldByDoubtsEndsAndGoesOnWhenTheyAreResolved(t *testing.T) {
	t.Parallel()
	s := newSite(t, slow(20, 500))
	s.server()
	lost := s.worker("default")
	s.must("init")
	p := s.start("apply", "-auto-approve", "-no-color", "-parallelism=4")
	eventually(t, "four more creations are under way", func() bool { return s.busy(lost) && len(s.cut(lost.id)) == 4 })
	if err := lost.Kill(); err != nil {
		t.Fatal(err)
	}
	cut := s.cut(lost.id)
	s.worker("default")
	if code := exit(t, p); code != 1 {
		t.Errorf("an apply with operations in doubt has exit status %d", code)
	}
	wants(t, p.Output(), "Error: Nothing more can be started", `All 4 permits of the limit "default" are held`)
	after := s.state()
	for _, address := range cut {
		if after.doubts[address] != "create" {
			t.Errorf("the creation of %s was cut off, and the state does not have it in doubt", address)
		}
	}
	if n := s.begun("create"); n >= 20 {
		t.Errorf("%d creations were begun", n)
	}
	s.onceEach("create")
	s.agree()
	s.goesOn(20, "runs", "resume")
}

func TestAWorkerDrainsOnSIGTERM(t *testing.T) {
	t.Parallel()
	s := newSite(t, slow(40, 300))
	s.server()
	leaving, other := s.worker("default"), s.worker("default")
	s.must("init")
	p := s.start("apply", "-auto-approve", "-no-color", "-parallelism=8")
	eventually(t, "each worker has finished a creation and has begun more", func() bool { return s.busy(leaving) && s.busy(other) })
	if err := leaving.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exit(t, leaving.Process); code != 0 {
		t.Errorf("the worker left with exit status %d", code)
	}
	if cut := s.cut(leaving.id); len(cut) > 0 {
		t.Errorf("the worker left while it created %v", cut)
	}
	if code := exit(t, p); code != 0 {
		t.Errorf("the apply ended with exit status %d", code)
	}
	if n := s.finished("create"); n != 40 {
		t.Errorf("%d creations were finished", n)
	}
	s.onceEach("create")
	s.agree()
}

func TestARunOutlastsTheDeathOfNATS(t *testing.T) {
	t.Parallel()
	s := newSite(t, slow(60, 300))
	server := s.server()
	s.worker("default")
	s.worker("default")
	s.must("init")
	p := s.start("apply", "-auto-approve", "-no-color")
	eventually(t, "10 machines were created", func() bool { return s.finished("create") >= 10 })
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(waiting(t)); err != nil {
		t.Fatal(err)
	}
	if code := exit(t, p); code != 0 {
		t.Errorf("the apply ended with exit status %d", code)
	}
	if n := s.finished("create"); n != 60 {
		t.Errorf("%d creations were finished", n)
	}
	s.onceEach("create")
	s.agree()
	s.unchanged()
}

func TestARunWithoutNATSCanBeLeftAndResumed(t *testing.T) {
	t.Parallel()
	s := newSite(t, slow(40, 400))
	server := s.server()
	s.worker("default")
	s.must("init")
	p := s.start("apply", "-auto-approve", "-no-color")
	eventually(t, "10 machines were created, and more are under way", func() bool {
		return s.finished("create") >= 10 && s.begun("create") > s.finished("create")
	})
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, heard := range []string{"Interrupt received.", "Two interrupts received."} {
		if err := p.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Await(waiting(t), heard); err != nil {
			t.Fatal(err)
		}
	}
	if code := exit(t, p); code != 1 {
		t.Errorf("a run that was left has exit status %d", code)
	}
	if err := server.Restart(waiting(t)); err != nil {
		t.Fatal(err)
	}
	s.must("runs", "resume", "-no-color")
	if n := s.finished("create"); n != 40 {
		t.Errorf("%d creations were finished", n)
	}
	s.onceEach("create")
	s.agree()
	s.unchanged()
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

func TestACrashedPluginIsAnErrorWithItsLastWords(t *testing.T) {
	t.Parallel()
	s := newSite(t, crash)
	s.must("init")
	r := s.run("apply", "-auto-approve", "-no-color")
	if r.code != 1 {
		t.Errorf("exit status %d", r.code)
	}
	wants(t, r.text, "Error: ", "millipede/fleet", `fleet_machine "a-crash" crashes at the moment create, as it was told to`)
	after := s.state()
	if len(after.objects) != 1 || after.objects[0].address != "fleet5_machine.b" {
		t.Errorf("the state holds %v", after.objects)
	}
	if after.doubts["fleet_machine.a"] != "create" {
		t.Errorf("the creation in which the plugin crashed is not in doubt: %v", after.doubts)
	}
	s.onceEach("create")
	if n := s.begun("create"); n != 2 {
		t.Errorf("%d creations were begun", n)
	}

	// It goes on when the user has looked.
	s.must("runs", "resolve", "fleet_machine.a", "-not-created", "-no-color")
	s.must("apply", "-auto-approve", "-no-color")
	s.unchanged()
	if got := strings.Join(strings.Fields(s.must("state", "list")), " "); got != "fleet5_machine.b fleet5_machine.c fleet_machine.a" {
		t.Errorf("the state holds %s", got)
	}
}
