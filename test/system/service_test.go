package system

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// When a run of the service ended with an operation in doubt, its workspace could not be used any more: each plan told
// the user to call "runs resolve", which needed a directory that only the service has.
func TestADoubtIsResolvedThroughTheService(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	w := s.Worker("default")
	v := s.Service()
	space := v.Workspace("one")
	r := v.Apply(space, site.Slow(1, 600_000))
	site.Eventually(t, "the creation has begun", func() bool { return s.Begun("create") == 1 })
	if err := w.Kill(); err != nil {
		t.Fatal(err)
	}
	v.Ends(r.ID, client.RunErrored)
	s.Worker("default")
	stuck := v.Apply(space, site.Slow(1, 10))
	site.Wants(t, v.Logs(v.Ends(stuck.ID, client.RunErrored)), "fleet_machine.a[0]", "in doubt")

	doubts := "workspaces/" + space.ID + "/doubts"
	if code, text := v.Ask(http.MethodGet, doubts, nil); code != http.StatusOK ||
		!strings.Contains(text, `"address":"fleet_machine.a[0]","operation":"create"`) {
		t.Errorf("%d: %s", code, text)
	}
	if code, text := v.Ask(http.MethodPost, doubts, map[string]any{"address": "fleet_machine.a[1]",
		"not-created": true}); code != http.StatusConflict || !strings.Contains(text, "Nothing is in doubt") {
		t.Errorf("resolving an object that is not in doubt: %d: %s", code, text)
	}
	if code, text := v.Ask(http.MethodPost, doubts, map[string]any{"address": "fleet_machine.a[0]",
		"created": "nosuch"}); code != http.StatusConflict ||
		!strings.HasPrefix(text, `{"error":"Error: The import failed`) {
		t.Errorf("resolving with an object that does not exist: %d: %s", code, text)
	}
	// The command sends the resolution to the service.
	s.Write("main.tf", `
terraform {
  cloud {
    hostname     = "`+strings.TrimPrefix(v.Address, "https://")+`"
    organization = "main"
    workspaces { name = "one" }
  }
}
`)
	s.Env = v.Environ()
	s.NATS = ""
	s.Must("init")
	site.Wants(t, s.Must("runs", "resolve", "fleet_machine.a[0]", "-not-created"), "fleet_machine.a[0] is resolved")
	if code, text := v.Ask(http.MethodGet, doubts, nil); code != http.StatusOK || !strings.Contains(text, `"doubts":[]`) {
		t.Errorf("%d: %s", code, text)
	}
	v.Ends(v.Apply(space, site.Slow(1, 10)).ID, client.RunApplied)
	if n := len(s.Objects()); n != 1 {
		t.Errorf("the cloud has %d machines", n)
	}
}

// A run that began while the NATS server was unreachable for a moment failed immediately.
func TestARunWaitsUntilTheServerIsReachable(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	server := s.Server()
	s.Worker("default")
	v := s.Service()
	space := v.Workspace("one")
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	r := v.Apply(space, site.Slow(2, 10))
	site.Eventually(t, "the plan has begun", func() bool {
		now, err := v.Client.Runs.Read(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		return now.Status == client.RunPlanning
	})
	if err := server.Restart(site.Waiting(t)); err != nil {
		t.Fatal(err)
	}
	v.Ends(r.ID, client.RunApplied)
}

// A service that was told to stop ended with the exit status of a failure, so systemd started it again.
func TestAStoppedServiceFinishesItsOperationsAndContinuesTheRunWhenItIsStarted(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	v := s.Service("-parallelism=2")
	space := v.Workspace("one")
	r := v.Apply(space, site.Slow(6, 1500))
	site.Eventually(t, "the first machines are being created", func() bool { return s.Begun("create") == 2 })
	if err := v.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	site.Succeeds(t, v.Process, "the service that was stopped")
	t.Log(v.Output())
	if begun, ended := s.Begun("create"), s.Finished("create"); begun != ended || begun > 4 {
		t.Errorf("%d creations were started, and %d ended", begun, ended)
	}
	v.Start()
	text := v.Logs(v.Ends(r.ID, client.RunApplied))
	t.Log(text)
	site.Wants(t, text, "The service was restarted, and continues the run.", "Apply complete!")
	s.CreatedOnce(6)
}
