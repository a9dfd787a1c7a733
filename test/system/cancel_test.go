package system

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/site"
)

func TestAnInterruptStopsProvidersAndEndsSoon(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(4, 120_000)) // far longer than the timeout of the test
	s.Must("init")
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		before := s.Begun("stop")
		p := s.Start("apply", "-auto-approve", "-no-color", "-json")
		begun := s.Begun("create")
		site.Eventually(t, "four creations are under way", func() bool { return s.Begun("create") >= begun+4 })
		at := time.Now()
		if err := p.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if code := site.Exit(t, p); code != 1 {
			t.Errorf("after %s the apply has exit status %d", signal, code)
		}
		if took := time.Since(at); took > site.Slowness*5*time.Second {
			t.Errorf("the apply continued for %s after %s", took, signal)
		}
		if s.Begun("stop") == before {
			t.Errorf("after %s no provider was asked to stop", signal)
		}
		if after := s.State(); len(after.Objects)+len(after.Doubts) > 0 {
			t.Errorf("after %s the state has the objects %v, and the doubts %v", signal, after.Objects, after.Doubts)
		}
		s.Agree()
	}
}

// deaf is a configuration of slow machines whose provider ignores requests to stop.
func deaf(count, ms int) string {
	return strings.Replace(site.Slow(count, ms), "create_ms", "deaf = true\n  create_ms", 1)
}

func TestARunInAnotherProcessIsCancelled(t *testing.T) {
	t.Parallel()
	s := site.New(t, deaf(60, 300))
	s.Server()
	s.Worker("default")
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color", "-parallelism=4")
	site.Eventually(t, "some machines were created", func() bool { return s.Finished("create") >= 4 })
	site.Wants(t, s.Must("runs", "cancel"), "was asked to end")
	if code := site.Exit(t, p); code != 1 {
		t.Errorf("a cancelled apply has exit status %d", code)
	}
	cancelledEarly(s, 60)
}

func TestARunWhoseCoordinatorIsDeadIsCancelled(t *testing.T) {
	t.Parallel()
	s := site.New(t, deaf(60, 300))
	s.Server()
	s.Worker("default")
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color", "-parallelism=4")
	site.Eventually(t, "some machines were created, and more are under way", func() bool {
		return s.Finished("create") >= 4 && s.Begun("create") > s.Finished("create")
	})
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	s.Run("runs", "cancel", "-no-color")
	cancelledEarly(s, 60)
}

// cancelledEarly checks that the only run was cancelled before it had created all of count machines, that the state
// agrees with the cloud, and that another apply creates the rest.
func cancelledEarly(s *site.Site, count int) {
	s.T.Helper()
	if list := s.Must("runs", "list"); !strings.Contains(list, " cancelled ") {
		s.T.Errorf("the run is not cancelled:\n%s", list)
	}
	if n := s.Begun("create"); n >= count || n != s.Finished("create") {
		s.T.Errorf("%d creations were started, and %d have ended", n, s.Finished("create"))
	}
	s.Agree()
	if r := s.Run("runs", "resume", "-no-color"); r.Code != 1 || !strings.Contains(r.Text, "Nothing to resume") {
		s.T.Errorf("a cancelled run can be resumed:\n%s", site.Tail(r.Text))
	}
	s.Must("apply", "-auto-approve", "-no-color", "-parallelism=16")
	if n := len(s.State().Objects); n != count {
		s.T.Errorf("%d machines are in the state", n)
	}
	s.OnceEach("create")
	s.Agree()
}

func TestARunInsideAnotherProcessSaysWhoCanEndIt(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(4, 2000))
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color")
	site.Eventually(t, "the apply creates", func() bool { return s.Begun("create") > 0 })
	r := s.Run("runs", "cancel", "-no-color")
	if r.Code != 1 {
		t.Errorf("exit status %d", r.Code)
	}
	site.Wants(t, r.Text, "Error: The run is inside another process", "Ctrl-C", "Who:")
	site.Succeeds(t, p, "the apply")
}
