package system

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/process"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// The size of the test of many teams. `make teams` runs it with a large state.
var (
	teamCount   = flag.Int("teams", 3, "how many teams change one state at once")
	teamObjects = flag.Int("objects", 60, "how many objects the state has")
	teamChanges = flag.Int("changes", 6, "how many of its objects each team changes at a time")
	teamLasts   = flag.Duration("lasts", 50*time.Millisecond, "how long the change of one object takes")
	teamCold    = flag.Bool("cold", true, "whether to measure changes also before the whole state has been planned")
	teamRounds  = flag.Int("rounds", 1, "how many times the service is killed while all teams change the state")
)

// sharedState is a state that many teams change; each team changes other objects.
type sharedState struct {
	*site.Site
	v      *site.Service
	w      *client.Workspace
	config *client.ConfigurationVersion
	asked  atomic.Int32 // the number of runs that were queued
	// every is how often the status of a run is requested: as often as real clients do. More frequent requests would
	// dominate the measured time.
	every time.Duration
	// refresh is the option "refresh" of the runs; nil means that of the workspace.
	refresh *bool
}

func newSharedState(t *testing.T) *sharedState {
	t.Helper()
	var text strings.Builder
	for i := range *teamCount {
		fmt.Fprintf(&text, `
variable "t%[1]d" { default = "1" }
resource "bulk_item" "t%[1]d" {
  count     = %[2]d
  name      = "t%[1]d-${count.index}"
  update_ms = %[4]d
  value     = count.index < %[3]d ? var.t%[1]d : "1"
}
`, i, *teamObjects / *teamCount, *teamChanges, teamLasts.Milliseconds())
	}
	e := newState(t, text.String(), true)
	set(t, e.v, e.w, "refresh", `"changed"`) // otherwise each plan would read all objects of the large state
	e.refresh = nil
	return e
}

// newState starts a service and four workers, and applies a configuration. If objects is set, runs lock objects instead
// of the whole state.
func newState(t *testing.T, text string, objects bool) *sharedState {
	t.Helper()
	s := site.New(t, "")
	s.Server()
	for range 4 {
		w := s.NewWorker("default")
		w.Args = []string{"-slots=25"}
		w.Start()
	}
	e := &sharedState{Site: s, v: s.Service(), every: 200 * time.Millisecond}
	e.w, e.refresh = e.v.Workspace("one"), new(bool)
	if objects {
		objectLocks(t, e.v, e.w)
	}
	dir := t.TempDir()
	err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(site.BulkOnly+text), 0o600)
	if err == nil {
		e.config, err = e.v.Upload(t.Context(), e.w, dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	switch r := e.run(client.RunCreateOptions{}); {
	case r == nil:
		t.FailNow()
	case r.Status != client.RunApplied:
		t.Fatalf("the objects were not created: %s", e.v.Logs(r))
	}
	return e
}

// run queues a run, and returns it once it has ended. Meanwhile the service may be killed and restarted.
func (e *sharedState) run(o client.RunCreateOptions) *client.Run {
	t, yes := e.T, true
	o.Workspace, o.ConfigurationVersion, o.AutoApply, o.Refresh = e.w, e.config, &yes, e.refresh
	r, err := e.v.Client.Runs.Create(t.Context(), o)
	if err != nil {
		t.Error(err)
		return nil
	}
	id := r.ID
	e.asked.Add(1)
	again := time.NewTicker(e.every)
	defer again.Stop()
	ctx := site.Waiting(t)
	for {
		r, err := e.v.Client.Runs.Read(ctx, id)
		switch {
		case err == nil && site.Over(r.Status):
			return r
		case ctx.Err() != nil:
			t.Errorf("the run %s does not end: %v", id, err)
			return nil
		}
		<-again.C
	}
}

// change makes teams change their objects at the same time, each to its revision, and returns their runs.
func (e *sharedState) change(teams []int, revisions ...string) []*client.Run {
	out := make([]*client.Run, len(teams))
	var all sync.WaitGroup
	for i, team := range teams {
		all.Go(func() {
			name := fmt.Sprintf("t%d", team)
			out[i] = e.run(client.RunCreateOptions{TargetAddrs: []string{"bulk_item." + name},
				Variables: []*client.RunVariable{{Key: name, Value: fmt.Sprintf("%q", revisions[i%len(revisions)])}}})
		})
	}
	all.Wait()
	return out
}

// took makes teams change their objects, and returns how long that took and how much CPU time the service used: 0 if
// the system does not tell.
func (e *sharedState) took(teams []int, revision string) (wall, cpu time.Duration) {
	before, err := process.Spent(e.v.PID())
	began := time.Now()
	e.applied(e.change(teams, revision))
	wall = time.Since(began)
	after, more := process.Spent(e.v.PID())
	if errors.Join(err, more) != nil {
		return wall, 0
	}
	return wall, after - before
}

// compare makes one team change its objects to one revision, and then all teams to another one. It logs how long both
// take, and checks that each object was changed as often as necessary, and not more often.
func (e *sharedState) compare(known string, teams []int, one, all string) {
	t := e.T
	before := e.updates()
	alone, aloneCPU := e.took(teams[:1], one)
	together, togetherCPU := e.took(teams, all)
	t.Logf("%s: one team: %v, %d teams: %v, which is %.2f times as long; the service took %v and %v of CPU", known,
		alone.Round(time.Millisecond), len(teams), together.Round(time.Millisecond), float64(together)/float64(alone),
		aloneCPU, togetherCPU)
	after := e.updates()
	for _, team := range teams {
		for k := range *teamChanges {
			want, name := 1, fmt.Sprintf("t%d-%d", team, k)
			if team == teams[0] {
				want = 2
			}
			if got := after[name] - before[name]; got != want {
				t.Errorf("%s: %s was changed %d times, not %d", known, name, got, want)
			}
		}
	}
}

// plan plans the whole state with the current revision of all teams.
func (e *sharedState) plan(teams []int, revision string) {
	yes := true
	o := client.RunCreateOptions{PlanOnly: &yes}
	for _, team := range teams {
		o.Variables = append(o.Variables, &client.RunVariable{Key: fmt.Sprintf("t%d", team),
			Value: fmt.Sprintf("%q", revision)})
	}
	began := time.Now()
	if r := e.run(o); r == nil || r.Status != client.RunPlannedAndFinished {
		e.T.Fatal("the state is not planned")
	}
	e.T.Logf("a plan of the whole state: %v", time.Since(began).Round(time.Millisecond))
}

// applied checks that all runs were applied.
func (e *sharedState) applied(runs []*client.Run) {
	e.T.Helper()
	for _, r := range runs {
		if r == nil {
			e.T.FailNow()
		}
		if r.Status != client.RunApplied {
			e.T.Errorf("%s: %s", r.Status, e.v.Logs(r))
		}
	}
}

// updates returns the number of updates that were started, by machine.
func (e *sharedState) updates() map[string]int {
	out := map[string]int{}
	for _, c := range e.Calls("update") {
		out[c.Name]++
	}
	return out
}

// objectTime is how long the creation of an object may take, on a busy machine.
const objectTime = 20 * time.Millisecond

// Runs on one state waited for each other, whatever they changed: eight teams took eight times as long as one.
func TestTeamsChangeOneStateAtOnce(t *testing.T) {
	timeout := site.Timeout
	t.Cleanup(func() { site.Timeout = timeout })
	site.Timeout += site.Slowness * time.Duration(*teamObjects) * objectTime
	e := newSharedState(t)
	var everybody []int
	for i := range *teamCount {
		everybody = append(everybody, i)
	}
	if *teamCold {
		e.compare("without verdicts", everybody, "2", "3")
	}
	// In a workspace in use, objects that an earlier plan has found unchanged have verdicts.
	e.plan(everybody, "3")
	e.compare("with verdicts of the whole state", everybody, "4", "5")

	for round := range *teamRounds {
		before := e.updates()
		revision := fmt.Sprintf("killed-%d", round)
		done, runs := make(chan []*client.Run, 1), e.asked.Load()+int32(*teamCount) //nolint:gosec // it is small
		go func() { done <- e.change(everybody, revision) }()
		site.Eventually(t, "changes are under way", func() bool {
			return e.asked.Load() == runs && len(e.Calls("update")) >= total(before)+*teamCount**teamChanges/3
		})
		if err := e.v.Kill(); err != nil {
			t.Fatal(err)
		}
		e.v.Start()
		e.applied(<-done)
		for name, n := range e.updates() {
			if n != before[name]+1 {
				t.Errorf("while the service was killed, %s was changed %d times", name, n-before[name])
			}
		}
	}

	// Two runs change the same objects: the second one names the first one, and waits for it.
	pair := e.change([]int{0, 0}, "6", "7")
	e.applied(pair)
	first, last := 0, 1
	if pair[0].StatusTimestamps.AppliedAt.After(pair[1].StatusTimestamps.AppliedAt) {
		first, last = 1, 0
	}
	if text := e.v.Logs(pair[last]); strings.Contains(text, "was changed") { // not if the first ended before it planned
		site.Wants(t, text, "which the plan changes, was changed", pair[first].ID, "so it plans again")
	}
	if err := e.sees([]string{"6", "7"}[last]); err != nil {
		t.Error(err)
	}
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// sees checks that a plan of the first team finds no changes with a revision.
func (e *sharedState) sees(revision string) error {
	yes := true
	r, err := e.v.Client.Runs.Create(e.T.Context(), client.RunCreateOptions{Workspace: e.w,
		ConfigurationVersion: e.config, PlanOnly: &yes, TargetAddrs: []string{"bulk_item.t0"},
		Variables: []*client.RunVariable{{Key: "t0", Value: fmt.Sprintf("%q", revision)}}})
	if err != nil {
		return err
	}
	if r = e.v.Ends(r.ID, client.RunPlannedAndFinished); r.HasChanges {
		return errors.New(e.v.Logs(r))
	}
	return nil
}
