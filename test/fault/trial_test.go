package fault

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// trial is a site into which faults are injected, with the actions of its user, who resumes interrupted runs and
// resolves doubts.
type trial struct {
	*site.Site
	// generation is the beginning of the names of the machines, so that the generations have different names.
	generation string
	// forgiven has, by name, the number of creations that the user has resolved as not done. Each permits another
	// creation.
	forgiven map[string]int
	// doubts counts the doubts that the user has resolved.
	doubts int
}

// newTrial creates a site with count machines, whose operations take the given time.
func newTrial(t *testing.T, count, ms int) *trial {
	return &trial{Site: site.New(t, machines("a", count, ms, "small")), generation: "a", forgiven: map[string]int{}}
}

func machines(generation string, count, ms int, size string) string {
	return site.FleetOnly + fmt.Sprintf(`
resource "fleet_machine" "a" {
  count     = %[2]d
  name      = "%[1]s-${count.index}"
  size      = %[4]q
  create_ms = %[3]d
  update_ms = %[3]d
  delete_ms = %[3]d
}
`, generation, count, ms, size)
}

// awaitProviders waits until no provider executes a call any more: every call without an end belongs to a process that
// has ended.
func (s *trial) awaitProviders() {
	s.T.Helper()
	site.Eventually(s.T, "no provider executes a call", func() bool {
		for _, c := range s.Calls("create", "update", "delete") {
			if !c.Ended && alive(c.PID) {
				return false
			}
		}
		return true
	})
}

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // without /proc, the result of the signal counts
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// resolve resolves the creations in doubt, like a user who looks at the cloud. Updates and deletions are resolved by
// the next command, which reads the objects.
func (s *trial) resolve() {
	s.T.Helper()
	s.awaitProviders()
	ids := map[string]string{}
	for id := range s.Objects() {
		ids[site.Machine(site.NameOf(id))] = id
	}
	doubts := s.State().Doubts
	for _, address := range slices.Sorted(maps.Keys(doubts)) {
		if doubts[address] != "create" {
			continue
		}
		s.doubts++
		switch id := ids[address]; {
		case id != "":
			s.Must("runs", "resolve", address, "-created="+id, "-no-color")
		default:
			s.forgiven[s.generation+"-"+strings.Trim(strings.TrimPrefix(address, "fleet_machine.a"), "[]")]++
			s.Must("runs", "resolve", address, "-not-created", "-no-color")
		}
	}
}

var (
	apply   = []string{"apply", "-auto-approve", "-no-color", "-parallelism=4"}
	destroy = []string{"destroy", "-auto-approve", "-no-color", "-parallelism=4"}
	resume  = []string{"runs", "resume", "-no-color", "-parallelism=4"}
)

// follows returns the command that a user runs after another one: it resumes the run, unless there is none.
func follows(r site.Result, did, command []string) []string {
	if none(r) || r.Code == 0 && slices.Equal(did, resume) {
		return command
	}
	return resume
}

// none reports whether there was no run to resume.
func none(r site.Result) bool {
	return slices.ContainsFunc([]string{"Nothing to resume", "The run was overtaken", "The run has ended"},
		func(words string) bool {
			return strings.Contains(r.Text, words)
		})
}

// goOn completes an interrupted command: it resumes its run, resolves doubts, and repeats the command until that
// succeeds.
func (s *trial) goOn(command []string) {
	s.T.Helper()
	next := resume
	for range 12 {
		r := s.Run(next...)
		if !none(r) { // without a run to resume, the snapshot may still be that of before a crash
			s.resolve()
		}
		if r.Code == 0 && slices.Equal(next, command) {
			return
		}
		if next = follows(r, next, command); !none(r) && len(s.State().Doubts) > 0 {
			next = command // its plan reads the objects of updates and deletions in doubt
		}
	}
	s.T.Fatalf("%q has not succeeded after many tries", command)
}

// holds checks the guarantees that must hold whenever no command runs: no operation was started twice, and the state
// agrees with the cloud, except for objects in doubt.
func (s *trial) holds() {
	s.T.Helper()
	planned := map[string]bool{}
	created := map[string]int{}
	for _, c := range s.Calls("plan", "create", "update", "delete") {
		switch c.Op {
		case "plan":
			planned[c.Name] = true
		case "create":
			created[c.Name]++
		default:
			if !planned[c.Name] {
				s.T.Errorf("the %s of %s was started twice by one plan", c.Op, c.Name)
			}
			planned[c.Name] = false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(created)) {
		if n, most := created[name], 1+s.forgiven[name]; n > most {
			s.T.Errorf("%s was created %d times, but its creation was resolved as not done %d times", name, n, most-1)
		}
	}
	s.Agree()
}

// complete checks that count machines exist, and that a plan has no changes.
func (s *trial) complete(count int) {
	s.T.Helper()
	s.holds()
	if after := s.State(); len(after.Objects) != count || len(after.Doubts) > 0 {
		s.T.Errorf("%d of %d machines are in the state, and %v in doubt", len(after.Objects), count, after.Doubts)
	}
	s.Unchanged()
}
