package system

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// set sets an attribute of a workspace that the client library does not know; value is JSON.
func set(t *testing.T, v *site.Service, w *client.Workspace, attribute, value string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, v.Address+"/api/v2/workspaces/"+w.ID,
		strings.NewReader(fmt.Sprintf(`{"data": {"type": "workspaces", "attributes": {%q: %s}}}`, attribute, value)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/vnd.api+json")
	r.Header.Set("Authorization", "Bearer "+v.Token)
	answer, err := v.HTTP.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status, err)
	}
}

// drift is the service's response about drift.
type drift struct {
	Objects   int
	Ended     string
	Failure   string
	Unwatched string
	Drifted   []struct {
		Address    string
		Gone       bool
		Attributes []string
	}
}

func driftOf(t *testing.T, v *site.Service, w *client.Workspace) (d drift) {
	t.Helper()
	status, text := v.Ask(http.MethodGet, "workspaces/"+w.ID+"/drift", nil)
	if err := json.Unmarshal([]byte(text), &d); err != nil || status != http.StatusOK {
		t.Fatal(status, text, err)
	}
	return d
}

// behind changes the IP addresses of machines in the cloud without a run, and removes one machine.
func behind(t *testing.T, s *site.Site, changed []string, removed string) {
	t.Helper()
	for id, kind := range s.Objects() {
		path := filepath.Join(s.Cloud, kind, id+".json")
		switch name := site.NameOf(id); {
		case name == removed:
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		case slices.Contains(changed, name):
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var o map[string]any
			if err := json.Unmarshal(text, &o); err != nil {
				t.Fatal(err)
			}
			o["ip"] = "192.0.2.1"
			if text, err = json.Marshal(o); err == nil {
				err = os.WriteFile(path, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func serial(t *testing.T, v *site.Service, w *client.Workspace) int64 {
	t.Helper()
	state, err := v.Client.StateVersions.ReadCurrent(t.Context(), w.ID)
	if err != nil {
		t.Fatal(err)
	}
	return state.Serial
}

// If watching for drift held the lock of the state, or occupied the only slot of a worker, a run would have to wait
// until all objects were read.
func TestRunsDoNotWaitForWatching(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	s.Worker("default")
	v := s.Service("-watch-reads=1")
	w := v.Workspace("one")
	machines := site.FleetOnly + `
resource "fleet_machine" "a" {
  count   = 12
  name    = "a-${count.index}"
  read_ms = 3000
}
`
	v.Ends(v.Apply(w, machines).ID, client.RunApplied)
	behind(t, s, []string{"a-2", "a-11"}, "a-5")
	set(t, v, w, "drift-period", `"1m"`)
	site.Eventually(t, "reading has begun", func() bool { return s.Begun("read") > 0 })

	yes, no := true, false
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(machines+`
resource "fleet_machine" "b" {
  name = "b"
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := v.Upload(t.Context(), w, dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := v.Client.Runs.Create(t.Context(), client.RunCreateOptions{Workspace: w, ConfigurationVersion: c,
		AutoApply: &yes, Refresh: &no})
	if err != nil {
		t.Fatal(err)
	}
	v.Ends(r.ID, client.RunApplied)
	if d := driftOf(t, v, w); d.Ended != "" || s.Finished("read") >= 12 {
		t.Errorf("when the run ended, %d machines had been read: %+v", s.Finished("read"), d)
	}
	before := serial(t, v, w)

	var found drift
	site.Eventually(t, "everything was read", func() bool {
		found = driftOf(t, v, w)
		return found.Ended != ""
	})
	const want = "[{Address:fleet_machine.a[11] Gone:false Attributes:[ip]} " +
		"{Address:fleet_machine.a[2] Gone:false Attributes:[ip]} {Address:fleet_machine.a[5] Gone:true Attributes:[]}]"
	if got := fmt.Sprintf("%+v", found.Drifted); got != want || found.Failure != "" {
		t.Errorf("the drift is %s, not %s; %s", got, want, found.Failure)
	}
	if n := s.Most("-ops=read"); n > 1 {
		t.Errorf("%d machines were read at the same time", n)
	}
	if after := serial(t, v, w); after != before {
		t.Errorf("reading has changed the serial from %d to %d", before, after)
	}

	// One request queues a run that takes the drift over into the state.
	status, text := v.Ask(http.MethodPost, "workspaces/"+w.ID+"/drift/refresh", nil)
	var made struct{ Run string }
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusOK {
		t.Fatal(status, text, err)
	}
	site.Eventually(t, "the plan waits for approval", func() bool {
		r, err := v.Client.Runs.Read(t.Context(), made.Run)
		return err == nil && r.Status == client.RunPlanned
	})
	if err := v.Client.Runs.Apply(t.Context(), made.Run, client.RunApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	v.Ends(made.Run, client.RunApplied)
	site.Eventually(t, "nothing is left of the drift", func() bool { return len(driftOf(t, v, w).Drifted) == 0 })
}
