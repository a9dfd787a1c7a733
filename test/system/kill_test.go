package system

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/millipede-iac/millipede/test/process"
)

// slow are machines that take their time.
func slow(count, ms int) string {
	return fleetOnly + fmt.Sprintf(`
resource "fleet_machine" "a" {
  count     = %[1]d
  name      = "a-${count.index}"
  create_ms = %[2]d
  delete_ms = %[2]d
}
`, count, ms)
}

func TestAKilledCoordinatorsRunGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	s := newSite(t, slow(200, 100))
	s.server()
	s.worker("default")
	s.worker("default")
	s.must("init")
	p := s.start("apply", "-auto-approve", "-no-color")
	for _, n := range []int{40, 110} {
		s.killedAfter(p, "create", n)
		s.settledFirst()
		p = s.start("runs", "resume", "-no-color")
	}
	if code := exit(t, p); code != 0 {
		t.Errorf("the resumed run ended with exit status %d", code)
	}
	if n := s.finished("create"); n != 200 {
		t.Errorf("%d creations were finished", n)
	}
	if n := len(s.state().objects); n != 200 {
		t.Errorf("the state holds %d objects", n)
	}
	s.onceEach("create")
	s.agree()
	s.unchanged()

	s.killedAfter(s.start("destroy", "-auto-approve", "-no-color"), "delete", 70)
	s.must("runs", "resume", "-no-color")
	s.onceEach("delete")
	if left := s.objects(); len(left) > 0 {
		t.Errorf("destroy has left %v", left)
	}
	if left := s.state().objects; len(left) > 0 {
		t.Errorf("destroy has left %v in the state", left)
	}
}

// settledFirst claims that nothing else can be done to the state before the run that was cut off is resumed.
func (s *site) settledFirst() {
	s.t.Helper()
	for _, command := range [][]string{
		{"plan", "-no-color"}, {"apply", "-auto-approve", "-no-color"}, {"destroy", "-auto-approve", "-no-color"}, {"state", "rm", "-no-color", "fleet_machine.a[0]"},
	} {
		r := s.run(command...)
		if r.code != 1 {
			s.t.Errorf("%s upon a run that was cut off has exit status %d", command[0], r.code)
		}
		wants(s.t, r.text, "Error: A run was cut off", "coordinator runs resume ")
	}
}

// killedAfter kills a coordinator when n operations were finished and others are under way.
func (s *site) killedAfter(p *process.Process, op string, n int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%d calls of %s have ended", n, op), func() bool {
		return s.finished(op) >= n && s.begun(op) > s.finished(op)
	})
	if err := p.Kill(); err != nil {
		s.t.Fatal(err)
	}
	if n := s.begun(op); n >= 190 {
		s.t.Fatalf("the coordinator was killed too late: %d calls of %s had begun", n, op)
	}
}

func TestWhatAKilledProcessRanItselfIsInDoubt(t *testing.T) {
	t.Parallel()
	s := newSite(t, slow(200, 100))
	s.must("init")
	s.killedAfter(s.start("apply", "-auto-approve", "-no-color"), "create", 60)
	cut := s.cut("")
	s.settledFirst()
	s.surfaced(s.run("runs", "resume", "-no-color"), cut, 200, 10)
	s.goesOn(200, "apply", "-auto-approve")
	// The plan of the old run does not fit any more.
	if r := s.run("runs", "resume", "-no-color"); r.code != 1 {
		t.Errorf("a run that another has overtaken was resumed (exit status %d):\n%s", r.code, tail(r.text))
	}

	// What became of a deletion can be read.
	s.killedAfter(s.start("destroy", "-auto-approve", "-no-color"), "delete", 60)
	s.run("runs", "resume", "-no-color")
	s.must("destroy", "-auto-approve", "-no-color")
	if left := s.objects(); len(left) > 0 {
		t.Errorf("destroy has left %v", left)
	}
	if after := s.state(); len(after.objects)+len(after.doubts) > 0 {
		t.Errorf("destroy has left %v in the state, and in doubt %v", after.objects, after.doubts)
	}
}

func TestAnInterruptedApplyLeavesATrueState(t *testing.T) {
	t.Parallel()
	s := newSite(t, slow(60, 300))
	s.must("init")
	p := s.start("apply", "-auto-approve", "-no-color")
	eventually(t, "10 machines were created, and more are under way", func() bool {
		return s.finished("create") >= 10 && len(s.cut("")) > 0
	})
	if err := p.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := exit(t, p); code != 1 {
		t.Errorf("an interrupted apply has exit status %d", code)
	}
	wants(t, p.Output(), "Interrupt received.", "Gracefully shutting down...")
	if n := s.begun("create"); n >= 60 {
		t.Errorf("the apply went on to the end: %d creations were begun", n)
	}
	if cut := s.cut(""); len(cut) > 0 {
		t.Errorf("the command ended while %v were created", cut)
	}
	if after := s.state(); len(after.doubts) > 0 {
		t.Errorf("%v is in doubt, though everything was answered", after.doubts)
	}
	s.agree()
	s.must("apply", "-auto-approve", "-no-color")
	if n := len(s.state().objects); n != 60 {
		t.Errorf("the state holds %d objects", n)
	}
	s.agree()
	s.unchanged()
}

// cut returns the addresses of the machines whose creation was begun and has not ended: at a worker, or at all if the
// name is empty. Once what carries them out is gone, they never will.
func (s *site) cut(worker string) []string {
	s.t.Helper()
	var out []string
	for _, c := range s.calls("create") {
		if !c.ended && (worker == "" || c.Worker == worker) {
			out = append(out, machine(c.Name))
		}
	}
	return out
}

// machine is the address of a machine of the slow configuration.
func machine(name string) string { return "fleet_machine.a[" + strings.TrimPrefix(name, "a-") + "]" }

// surfaced claims that a command failed because operations were cut off: that it and the state show each of them as
// being in doubt, and beside them those that were about to begin or had just ended, which makes slots at most; that no
// creation was begun twice; that all others of count machines are there.
func (s *site) surfaced(r result, cut []string, count, slots int) {
	s.t.Helper()
	if r.code != 1 {
		s.t.Errorf("exit status %d of a command that leaves operations in doubt:\n%s", r.code, tail(r.text))
	}
	s.onceEach("create")
	after := s.state()
	for _, address := range cut {
		if after.doubts[address] != "create" {
			s.t.Errorf("the creation of %s was cut off, and the state does not have it in doubt", address)
		}
	}
	for address := range after.doubts {
		wants(s.t, r.text, address+" is in doubt")
	}
	if n := len(after.doubts); n > slots {
		s.t.Errorf("%d operations are in doubt, and only %d can have been under way", n, slots)
	}
	if n := len(after.objects) + len(after.doubts); n != count {
		s.t.Errorf("%d machines are in the state and %d in doubt, of %d", len(after.objects), len(after.doubts), count)
	}
	s.agree()
}

// goesOn resolves what is in doubt, as a user would who looks at the cloud, and claims that a command then makes what
// is missing of count machines.
func (s *site) goesOn(count int, command ...string) {
	s.t.Helper()
	ids := map[string]string{}
	for id := range s.objects() {
		ids[machine(nameOf(id))] = id
	}
	for address := range s.state().doubts {
		if id := ids[address]; id != "" {
			s.must("runs", "resolve", address, "-created="+id, "-no-color")
		} else {
			s.must("runs", "resolve", address, "-not-created", "-no-color")
		}
	}
	s.must(append(command, "-no-color")...)
	after := s.state()
	if len(after.objects) != count || len(after.doubts) > 0 {
		s.t.Errorf("%d of %d machines are in the state, and %v in doubt", len(after.objects), count, after.doubts)
	}
	s.agree()
	s.must("apply", "-auto-approve", "-no-color") // the cloud does not tell all about what was taken over from it
	s.unchanged()
}
