package system

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// announced is a number of objects whose creations trigger slow actions.
func announced(n int) string {
	return site.FleetOnly + fmt.Sprintf(`
resource "terraform_data" "a" {
  count = %[1]d
  lifecycle {
    action_trigger {
      events  = [after_create]
      actions = [action.fleet_notify.n[count.index]]
    }
  }
}
action "fleet_notify" "n" {
  count = %[1]d
  config {
    message = "n-${count.index}"
    steps   = 12
    step_ms = 50
  }
}
`, n)
}

// A worker and a coordinator died during invocations. Each was begun at most once, except those of which the user said
// that they had not taken place; and what was cut off says how far it had come.
func TestActionsAreInvokedAtMostOnceWhateverDies(t *testing.T) {
	t.Parallel()
	const n = 24
	s := site.New(t, announced(n))
	s.Server()
	lost, _ := s.Worker("default"), s.Worker("default")
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color", "-parallelism=6")
	site.Eventually(t, "the worker has ended an invocation and has begun more", func() bool {
		begun, ended := 0, 0
		for _, c := range s.Calls("invoke") {
			if c.Worker == lost.ID && c.Ended {
				ended++
			} else if c.Worker == lost.ID {
				begun++
			}
		}
		return begun > 0 && ended > 0 && strings.Contains(p.Output(), "step 3 of 12")
	})
	if err := lost.Kill(); err != nil {
		t.Fatal(err)
	}
	lost.Start() // and reports from its journal what it had begun
	killedAfter(s, p, "invoke", 10)

	again := map[string]bool{} // a plugin may go on to the end of an action after its worker has died
	doubted := 0
	var text string
	for range 4 {
		r := s.Run("runs", "resume", "-no-color")
		text += r.Text
		doubts := s.State().Doubts
		if len(doubts) == 0 {
			break
		}
		doubted += len(doubts)
		finished := map[string]bool{}
		for _, c := range s.Calls("invoke") {
			finished[c.Name] = finished[c.Name] || c.Ended
		}
		for address, operation := range doubts {
			name := "n-" + address[strings.IndexByte(address, '[')+1:len(address)-1]
			if operation != "invoke" {
				t.Errorf("%s is in doubt about %s", address, operation)
			}
			outcome := "-invoked"
			if !finished[name] {
				outcome, again[name] = "-not-invoked", true
			}
			s.Must("runs", "resolve", address, outcome, "-no-color")
		}
	}
	if !strings.Contains(text, "Its last progress was: step ") {
		t.Errorf("no doubt says how far the action had come:\n%s", site.Tail(text))
	}
	starts := map[string]int{}
	for _, c := range s.Calls("invoke") {
		starts[c.Name]++
	}
	for i := range n {
		name := fmt.Sprintf("n-%d", i)
		if most := 1 + map[bool]int{true: 1}[again[name]]; starts[name] < 1 || starts[name] > most {
			t.Errorf("%s was begun %d times; resolved as not invoked: %t", name, starts[name], again[name])
		}
	}
	if doubted == 0 {
		t.Error("nothing was in doubt")
	}
	if left := s.State().Doubts; len(left) > 0 {
		t.Errorf("in doubt are still %v", left)
	}
	s.Unchanged()
}
