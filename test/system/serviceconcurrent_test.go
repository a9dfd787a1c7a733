package system

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/site"
)

// objectLocks has the runs of a workspace lock objects.
func objectLocks(t *testing.T, v *site.Service, w *client.Workspace) {
	t.Helper()
	set(t, v, w, "object-locks", "true")
}

// waitsForObjects tells whether a run waits for objects of others, and how it says so.
func waitsForObjects(v *site.Service, run string) (string, bool) {
	_, text := v.Ask(http.MethodGet, "runs/"+run+"/wait", nil)
	return text, strings.Contains(text, `"kind":"objects"`)
}

// Locks that end with the process would let somebody else change what a run has under way; a run that is resumed finds
// what others have done meanwhile beside its own.
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
	// Nobody has ended a version with either yet.
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

// A run that is left by force has its locks still, and a worker may go on with what it has begun. Whoever waits for these
// objects waits for that, too, takes the result, and plans by it: or it would make the same object again.
func TestARunThatWaitsForOneThatWasLeftTakesWhatTheWorkerStillDoes(t *testing.T) {
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
	// It may leave by itself what does not stop, about when people may leave it.
	site.Eventually(t, "the first run is left, while the worker goes on", func() bool {
		now, err := v.Client.Runs.Read(t.Context(), left.ID)
		if err != nil {
			t.Fatal(err)
		}
		if !site.Over(now.Status) {
			_ = v.Client.Runs.ForceCancel(t.Context(), left.ID, client.RunForceCancelOptions{}) // too early at first
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
