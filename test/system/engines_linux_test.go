package system

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// killEngines kills the engines of a service.
func killEngines(t *testing.T, v *site.Service) {
	t.Helper()
	for _, pid := range v.Engines() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// A configuration that ended the process that evaluates it ended the service with it, and the runs of everybody.
func TestTheRunsOfAKilledEngineGoOnAndTheServiceDoesNotNotice(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	s.Worker("default")
	v := s.Service("-parallelism=2")
	space, other := v.Workspace("one"), v.Workspace("two")
	r := v.Apply(space, site.Slow(6, 700))
	site.Eventually(t, "the first machines are being created", func() bool { return s.Begun("create") >= 2 })
	planning := v.Apply(other, site.FleetOnly+`
resource "fleet_machine" "b" {
  name    = "b"
  plan_ms = 1500
}
`)
	site.Eventually(t, "the other run is planning", func() bool {
		now, err := v.Client.Runs.Read(t.Context(), planning.ID)
		return err == nil && now.Status == client.RunPlanning
	})
	killEngines(t, v)
	killed := time.Now()
	if code, _ := v.Ask(http.MethodGet, "workspaces/"+space.ID+"/doubts", nil); code != http.StatusOK {
		t.Errorf("the service answers %d", code)
	}
	begun := s.Begun("create")
	site.Eventually(t, "the apply goes on", func() bool { return s.Begun("create") > begun })
	t.Logf("the apply went on %v after its engine was killed", time.Since(killed).Round(time.Millisecond))
	text := v.Logs(v.Ends(r.ID, client.RunApplied))
	site.Wants(t, text, "has ended unexpectedly. The run continues", "Apply complete!")
	if strings.Contains(text, "The service was restarted") {
		t.Errorf("the log says that the service was restarted:\n%s", text)
	}
	v.Ends(planning.ID, client.RunApplied)
	s.CreatedOnce(7)
}

// A plan that ended the service was begun again after each restart.
func TestAPlanThatEndsItsEngineIsNotBegunForEverAndOthersAreBegunAgainOnce(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	s.Worker("default")
	v := s.Service()
	space := v.Workspace("one")
	r := v.Apply(space, site.FleetOnly+`
resource "fleet_machine" "a" {
  name    = "a"
  plan_ms = 60000
}
`)
	engines := v.Engines()
	for death := range 3 {
		planning := s.Begun("plan")
		site.Eventually(t, fmt.Sprintf("attempt %d is planning", death+1), func() bool {
			return s.Begun("plan") > planning || death == 0 && planning > 0
		})
		all := v.Engines()
		if death == 0 {
			all = engines
		}
		for _, pid := range all {
			if death > 0 && pid == engines[0] {
				continue // the plan is in a process of its own
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		if death == 0 {
			site.Eventually(t, "there is another engine", func() bool {
				now := v.Engines()
				return len(now) > 0 && now[0] != engines[0]
			})
			engines = v.Engines()[:1]
		}
	}
	text := v.Logs(v.Ends(r.ID, client.RunErrored))
	site.Wants(t, text, "has died 3 times, and the phase is not begun again")
	if now := v.Engines(); len(now) != 1 || now[0] != engines[0] {
		t.Errorf("the engines are %v: that of the others was %v", now, engines)
	}
	v.Ends(v.Apply(space, site.Slow(1, 10)).ID, client.RunApplied)
}

// A configuration that took all memory of a machine ended what the kernel chose.
func TestAPlanThatNeedsTooMuchMemoryEndsAloneAndAsErrored(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	v := s.Service("-engine-memory=160")
	space, other := v.Workspace("one"), v.Workspace("two")
	r := v.Apply(space, `
locals { big = [for i in range(600) : [for j in range(500) : { number = i, text = "text ${j}", list = [i, j, 2] }]] }
output "size" { value = length(jsonencode(local.big)) }
`)
	slow := v.Apply(other, site.Slow(3, 1500))
	text := v.Logs(v.Ends(r.ID, client.RunErrored))
	site.Wants(t, text, "has died 3 times, and the phase is not begun again")
	v.Ends(slow.ID, client.RunApplied)
	s.CreatedOnce(3)
	v.Ends(v.Apply(space, site.Slow(1, 10)).ID, client.RunApplied)
}

// A plan that needed much memory ended its engine, with the plans of others, before it had a process of its own.
func TestAPlanOfAWorkspaceWithABoundOnMemoryEndsAlone(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	v := s.Service()
	space := v.Workspace("one")
	bounds := "workspaces/" + space.ID + "/bounds"
	if code, text := v.Ask(http.MethodPut, bounds, map[string]any{"plan-memory": 160}); code != http.StatusOK {
		t.Fatalf("%d: %s", code, text)
	}
	engines := v.Engines()
	r := v.Apply(space, `
locals { big = [for i in range(600) : [for j in range(500) : { number = i, text = "text ${j}", list = [i, j, 2] }]] }
output "size" { value = length(jsonencode(local.big)) }
`)
	text := v.Logs(v.Ends(r.ID, client.RunErrored))
	site.Wants(t, text, "has died 3 times", "the memory of plans in the settings of the workspace")
	v.Ends(v.Apply(space, site.Slow(1, 10)).ID, client.RunApplied)
	if now := v.Engines(); len(now) != 1 || now[0] != engines[0] {
		t.Errorf("the engines are %v, and were %v", now, engines)
	}
}

// The embedded worker was a part of the service: what ended it, ended the service.
func TestTheEmbeddedWorkerIsReplacedAndWhatItDidIsInDoubt(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	v := s.Service()
	space := v.Workspace("one")
	r := v.Apply(space, site.Slow(1, 4000))
	site.Eventually(t, "the machine is being created", func() bool { return s.Begun("create") == 1 })
	before := v.EmbeddedWorkers()
	if len(before) != 1 {
		t.Fatalf("the embedded workers are %v", before)
	}
	if err := syscall.Kill(before[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	v.Ends(r.ID, client.RunErrored)
	doubts := "workspaces/" + space.ID + "/doubts"
	if code, text := v.Ask(http.MethodGet, doubts, nil); code != http.StatusOK ||
		!strings.Contains(text, "fleet_machine.a[0]") {
		t.Errorf("%d: %s", code, text)
	}
	if code, text := v.Ask(http.MethodPost, doubts, map[string]any{"address": "fleet_machine.a[0]",
		"not-created": true}); code != http.StatusOK {
		t.Errorf("resolving it: %d: %s", code, text)
	}
	v.Ends(v.Apply(space, site.Slow(2, 10)).ID, client.RunApplied)
	if now := v.EmbeddedWorkers(); len(now) != 1 || now[0] == before[0] {
		t.Errorf("the embedded workers are %v, and were %v", now, before)
	}
}

// secrets are files of a service that no run may read, below its home.
var secrets = []string{".config/millipede/service.key", ".local/share/millipede/service.db",
	".local/share/millipede/admin.token", ".local/share/millipede/tls/ca.pem"}

// spying is a configuration whose provisioner tries what its run may not do.
func spying(home, elsewhere string) string {
	var try strings.Builder
	for _, file := range secrets {
		fmt.Fprintf(&try, "cat %s && echo READ-%s; ", filepath.Join(home, file), filepath.Base(file))
	}
	fmt.Fprintf(&try, "ls %s/.local/share/millipede && echo LISTED; echo x > %s/out && echo WROTE; "+
		"cat /proc/$PPID/environ && echo ENVIRON; kill -9 $PPID && echo KILLED; "+
		"mktemp && echo TEMPORARY; echo x > here && cat here && echo HERE; true", home, elsewhere)
	return fmt.Sprintf(`
resource "terraform_data" "spy" {
  provisioner "local-exec" { command = %q }
}
`, try.String())
}

// Whoever might only plan or apply read the key of the service with a program that the run started.
func TestTheProgramsOfARunReachTheirOwnFilesAlone(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	v := s.Service()
	elsewhere := t.TempDir()
	text := v.Logs(v.Ends(v.Apply(v.Workspace("one"), spying(v.Home, elsewhere)).ID, client.RunApplied))
	for _, bad := range []string{"READ-", "LISTED", "WROTE", "ENVIRON", "KILLED"} {
		if strings.Contains(strings.ReplaceAll(text, "echo "+bad, ""), bad) {
			t.Errorf("the provisioner could do what it may not: %s\n%s", bad, text)
		}
	}
	site.Wants(t, text, "TEMPORARY", "HERE", "Permission denied")
	if code, facts := v.Ready(); code != http.StatusOK || !strings.Contains(facts, "Landlock (version") {
		t.Errorf("/readyz says %d: %s", code, facts)
	}
}

// A provisioner wrote a file until the disk of the service was full.
func TestTheFilesOfTheProgramsOfARunAreLimited(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	v := s.Service("-program-file-size=1")
	text := v.Logs(v.Ends(v.Apply(v.Workspace("one"), `
resource "terraform_data" "large" {
  provisioner "local-exec" { command = "head -c 3000000 /dev/zero > large; echo it has $(wc -c < large) bytes" }
}
`).ID, client.RunApplied))
	site.Wants(t, text, "it has 1048576 bytes")
	if code, facts := v.Ready(); code != http.StatusOK || !strings.Contains(facts, "has at most 1 MiB") {
		t.Errorf("/readyz says %d: %s", code, facts)
	}
}

// Where the system call fails, a service works as well as elsewhere, and says what it lacks.
func TestAServiceWithoutLandlockWorksAndSaysSo(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	v := s.NewService()
	v.Alter = func(c *exec.Cmd) {
		c.Env = append(c.Env, withoutLandlock+"="+c.Path)
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c.Path = self
	}
	v.Start()
	v.Ends(v.Apply(v.Workspace("one"), site.Slow(2, 10)).ID, client.RunApplied)
	if code, facts := v.Ready(); code != http.StatusOK || !strings.Contains(facts, "This system has no Landlock") {
		t.Errorf("/readyz says %d: %s", code, facts)
	}
	site.Wants(t, v.Output(), "This system has no Landlock")
}
