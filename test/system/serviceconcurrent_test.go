package system

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// objectLocks makes the runs of a workspace lock objects instead of the whole state.
func objectLocks(t *testing.T, v *site.Service, w *client.Workspace) {
	t.Helper()
	set(t, v, w, "object-locks", "true")
}

// waitsForObjects reports whether a run waits for objects that other runs have locked, and returns the message about
// it.
func waitsForObjects(v *site.Service, run string) (string, bool) {
	_, text := v.Ask(http.MethodGet, "runs/"+run+"/wait", nil)
	return text, strings.Contains(text, `"kind":"objects"`)
}

// If the locks of a run were released when the process ends, another run could change objects on which the run has
// operations in progress. A resumed run has to cope with the changes of others.
func TestRunsOnOneStateGoOnWhenTheServiceIsKilled(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	s.Worker("default")
	v := s.Service()
	w := v.Workspace("one")
	objectLocks(t, v, w)
	machine := func(name string) string {
		return strings.NewReplacer(`"a"`, fmt.Sprintf("%q", name), `"a-`, `"`+name+`-`).Replace(site.Slow(1, 5000))
	}
	a, b := v.Apply(w, machine("a")), v.Apply(w, machine("b"))
	site.Eventually(t, "both creations have begun", func() bool {
		for _, r := range []*client.Run{a, b} {
			now, err := v.Client.Runs.Read(t.Context(), r.ID)
			if err != nil || site.Over(now.Status) {
				t.Fatalf("%v: it is %s: %s", err, now.Status, v.Logs(now))
			}
		}
		return s.Begun("create") == 2
	})
	// Neither object is in an ended version of the state yet.
	late := v.Apply(w, machine("a")+strings.TrimPrefix(machine("b"), site.FleetOnly))
	said := ""
	site.Eventually(t, "the third run waits", func() bool {
		text, waits := waitsForObjects(v, late.ID)
		said = text
		return waits
	})
	site.Wants(t, said, "fleet_machine.a[0], which", a.ID)
	if err := v.Kill(); err != nil {
		t.Fatal(err)
	}
	v.Start()
	v.Ends(a.ID, client.RunApplied)
	v.Ends(b.ID, client.RunApplied)
	site.Wants(t, v.Logs(v.Ends(late.ID, client.RunApplied)), "fleet_machine.a[0], which the plan changes, was added",
		a.ID, "so it plans again")
	if n := len(s.Objects()); n != 2 || s.Begun("create") != 2 {
		t.Errorf("the cloud has %d machines, made by %d creations", n, s.Begun("create"))
	}
	state, err := v.Client.StateVersions.ReadCurrent(t.Context(), w.ID)
	if err != nil {
		t.Fatal(err)
	}
	text, err := v.Client.StateVersions.Download(context.WithoutCancel(t.Context()), state.DownloadURL)
	if err != nil || state.Serial != 2 {
		t.Errorf("the state has serial %d: %v", state.Serial, err)
	}
	site.Wants(t, string(text), `"a"`, `"b"`)
}

// A run that was cancelled by force keeps its locks, and a worker may still execute one of its operations. A run that
// waits for the locked objects has to wait for that operation and to plan with its result. Otherwise it would create
// the same object again.
func TestARunWaitsForTheOperationsOfARunThatWasCancelledByForce(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	s.Worker("default")
	v := s.Service()
	w := v.Workspace("one")
	objectLocks(t, v, w)
	left := v.Apply(w, deaf(1, 30000))
	site.Eventually(t, "the creation has begun", func() bool { return s.Begun("create") == 1 })
	next := v.Apply(w, deaf(1, 30000))
	site.Eventually(t, "the second run waits", func() bool { _, waits := waitsForObjects(v, next.ID); return waits })
	if err := v.Client.Runs.Cancel(t.Context(), left.ID, client.RunCancelOptions{}); err != nil {
		t.Fatal(err)
	}
	// The run may end by itself at about the time from which it may be cancelled by force.
	site.Eventually(t, "the first run has ended, while the worker continues", func() bool {
		now, err := v.Client.Runs.Read(t.Context(), left.ID)
		if err != nil {
			t.Fatal(err)
		}
		if !site.Over(now.Status) {
			_ = v.Client.Runs.ForceCancel(t.Context(), left.ID, client.RunForceCancelOptions{}) // at first it is too early
			return false
		}
		return s.Finished("create") == 0
	})
	logs := v.Logs(v.Ends(next.ID, client.RunApplied))
	site.Wants(t, logs, "was cut off. Collecting its results", "which the plan changes, was added", left.ID,
		"so it plans again")
	if n := len(s.Objects()); n != 1 || s.Begun("create") != 1 {
		t.Errorf("the cloud has %d machines, made by %d creations", n, s.Begun("create"))
	}
	state, err := v.Client.StateVersions.ReadCurrent(t.Context(), w.ID)
	if err != nil {
		t.Fatal(err)
	}
	text, err := v.Client.StateVersions.Download(context.WithoutCancel(t.Context()), state.DownloadURL)
	if err != nil {
		t.Fatal(err)
	}
	site.Wants(t, string(text), `"fleet_machine"`)
}
