package system

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/process"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// cluster is a cluster, and what is in it: nodes of a provider that is configured from the cluster, and users, of which
// there is one for each node's ID, three modules deep. Four rounds make 1 + 2 + 2 + 2 machines.
const cluster = site.FleetOnly + `
provider "fleet" {
  alias    = "cluster"
  endpoint = fleet_machine.cluster.ip
}
resource "fleet_machine" "cluster" {
  name      = "cluster"
  create_ms = 300
}
resource "fleet_machine" "node" {
  provider  = fleet.cluster
  count     = 2
  name      = "node-${count.index}"
  create_ms = 300
}
module "one" {
  source   = "./one"
  for_each = toset(fleet_machine.node[*].id)
  name     = each.key
}
output "users" {
  value = length(flatten([for m in module.one : m.users]))
}
`

// within writes the modules of cluster: each calls the next one for objects that it makes itself.
func within(s *site.Site) {
	s.Write("one/main.tf", site.FleetOnly+`
variable "name" {}
module "two" {
  source = "../two"
  name   = var.name
}
output "users" { value = module.two.users }
`)
	s.Write("two/main.tf", site.FleetOnly+`
variable "name" {}
resource "fleet_machine" "user" {
  name      = "user-of-${var.name}"
  create_ms = 300
}
module "three" {
  source = "../three"
  count  = fleet_machine.user.id != "" ? 1 : 0
  name   = var.name
}
output "users" { value = module.three[*].user }
`)
	s.Write("three/main.tf", site.FleetOnly+`
variable "name" {}
resource "fleet_machine" "key" {
  name      = "key-of-${var.name}"
  create_ms = 300
}
output "user" { value = fleet_machine.key.name }
`)
}

func TestOneApplyGoesOnUntilNothingIsDeferred(t *testing.T) {
	t.Parallel()
	s := site.New(t, cluster)
	within(s)
	s.Must("init")
	without := s.Run("apply", "-auto-approve", "-no-color")
	if without.Code != 1 {
		t.Errorf("without -allow-deferral the exit status is %d", without.Code)
	}
	site.Wants(t, without.Text, "Error: Invalid for_each argument")
	made := s.Must("apply", "-allow-deferral", "-auto-approve", "-no-color")
	site.Wants(t, made, "# fleet_machine.node[1] is deferred\n  # (the configuration of its provider is not known yet; "+
		"it waits for fleet_machine.cluster)", "Round 2:", "Round 3:", "Round 4:", "users = 2")
	if strings.Contains(made, "Round 5:") || strings.Contains(made, "Enter a value") {
		t.Error("there was another round, or a question")
	}
	s.CreatedOnce(7)
	s.Agree()
	s.Unchanged()
}

func TestEachRoundIsApprovedOnce(t *testing.T) {
	t.Parallel()
	s := site.New(t, cluster)
	within(s)
	s.Must("init")
	answers := func(line string, args ...string) site.Result {
		c := s.Command(args...)
		c.Stdin = strings.NewReader(line)
		p := site.Started(t, strings.Join(args, " "), c)
		return site.Result{Code: site.Exit(t, p), Text: p.Output()}
	}
	r := answers("yes\nyes\nno\n", "apply", "-allow-deferral", "-no-color")
	if n := strings.Count(r.Text, "Enter a value:"); r.Code != 1 || n != 3 {
		t.Errorf("exit status %d after %d questions:\n%s", r.Code, n, r.Text)
	}
	s.CreatedOnce(3)
	// The round that was not approved is planned again, with what was deferred after it.
	r = answers("yes\nyes\n", "runs", "resume", "-no-color")
	if n := strings.Count(r.Text, "Enter a value:"); r.Code != 0 || n != 2 {
		t.Errorf("exit status %d after %d questions:\n%s", r.Code, n, r.Text)
	}
	s.CreatedOnce(7)
	s.Unchanged()
	site.Wants(t, s.Run("runs", "resume", "-no-color").Text, "Nothing to resume")
}

func TestARunThatIsKilledInAnyRoundGoesOnInIt(t *testing.T) {
	t.Parallel()
	s := site.New(t, cluster)
	within(s)
	s.Server()
	s.Worker("default")
	s.Must("init")
	p := s.Start("apply", "-allow-deferral", "-auto-approve", "-no-color")
	resume := func() { p = s.Start("runs", "resume", "-auto-approve", "-no-color") }
	for _, begun := range []int{1, 2, 4, 6} { // in the apply of each round
		site.Eventually(t, fmt.Sprintf("%d creations have begun", begun), func() bool {
			ended(t, p)
			return s.Begun("create") >= begun
		})
		kill(t, p)
		resume()
	}
	site.Succeeds(t, p, "the resumed run")
	s.CreatedOnce(7)
	s.Agree()
	s.Unchanged()
}

func TestARunThatIsKilledWhileARoundIsPlannedGoesOnInIt(t *testing.T) {
	t.Parallel()
	s := site.New(t, cluster)
	within(s)
	s.Must("init")
	p := s.Start("apply", "-allow-deferral", "-auto-approve", "-no-color")
	for range 3 {
		if _, err := p.Await(site.Waiting(t), "Round 2:"); err != nil {
			t.Fatal(err)
		}
		kill(t, p)
		p = s.Start("runs", "resume", "-auto-approve", "-no-color")
	}
	site.Succeeds(t, p, "the resumed run")
	s.CreatedOnce(7)
	s.Unchanged()
}

func TestARoundThatBringsNothingNewSaysWhatWaitsForWhat(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.FleetOnly+`
resource "fleet_machine" "a" {
  name = "a"
}
resource "fleet_follower" "f" {
  name  = "f"
  after = "b-after-${fleet_machine.a.name}"
}
resource "fleet_machine" "c" {
  name = fleet_follower.f.id
}
`)
	s.Must("init")
	r := s.Run("apply", "-allow-deferral", "-auto-approve", "-no-color")
	if r.Code != 1 || strings.Contains(r.Text, "Round 3:") {
		t.Errorf("exit status %d:\n%s", r.Code, r.Text)
	}
	site.Wants(t, r.Text, "Error: Deferred changes cannot be planned",
		"- fleet_follower.f: its provider needs something that does not exist yet",
		"- fleet_machine.c: it depends on something that is deferred; it waits for fleet_follower.f")
	s.CreatedOnce(1)

	// Later, there is such a machine.
	s.Write("b.tf", `resource "fleet_machine" "b" { name = "b-after-a" }`)
	s.Must("apply", "-allow-deferral", "-auto-approve", "-no-color")
	s.CreatedOnce(4)
	s.Unchanged()
}

// Actions were invoked in the round that deferred what triggers them, and once more in the round of the change.
func TestAnActionIsInvokedOnceInTheRoundOfItsChange(t *testing.T) {
	t.Parallel()
	triggers := func(action string) string {
		return "lifecycle {\naction_trigger {\nevents = [before_create, after_create]\nactions = [action." + action +
			"]\n}\n}"
	}
	s := site.New(t, site.FleetOnly+`
resource "fleet_machine" "a" { name = "a" }
resource "fleet_machine" "b" {
  for_each = toset([fleet_machine.a.id])
  name     = "b"
}
resource "fleet_machine" "behind" { # waits for what is deferred
  name = "behind-${length(fleet_machine.b)}"
  `+triggers("fleet_notify.known")+`
}
resource "fleet_machine" "put" { # its action is put off
  name = "put"
  `+triggers("fleet_notify.unknown")+`
}
action "fleet_notify" "known" {
  config { message = "known" }
}
action "fleet_notify" "unknown" {
  config { message = "of ${fleet_machine.a.id}" }
}
`)
	s.Must("init")
	made := s.Must("apply", "-allow-deferral", "-auto-approve", "-no-color")
	site.Wants(t, made, "# fleet_machine.put is deferred", "it waits for action.fleet_notify.unknown", "Round 2:")
	s.CreatedOnce(4)
	said := map[string]int{}
	for _, c := range s.Calls("invoke") {
		said[c.Name]++
	}
	if len(said) != 2 || said["known"] != 2 {
		t.Errorf("the invocations are %v", said)
	}
	for name, n := range said {
		if n != 2 { // before and after the creation
			t.Errorf("%s was invoked %d times", name, n)
		}
	}
	s.Unchanged()
}

func TestASavedPlanIsAppliedWithoutWhatItHasDeferred(t *testing.T) {
	t.Parallel()
	s := site.New(t, cluster)
	within(s)
	s.Must("init")
	s.Write("millipede.hcl", "allow_deferral = true\n")
	if r := s.Run("plan", "-allow-deferral=false", "-no-color"); r.Code != 1 {
		t.Errorf("with -allow-deferral=false the exit status is %d", r.Code)
	}
	s.Must("plan", "-out=plan", "-no-color")
	document := s.Must("show", "-json", "plan")
	site.Wants(t, document, `"deferred_changes":[`, `"reason":"instance_count_unknown"`, `"applyable":true`,
		`"complete":false`)
	site.Wants(t, s.Must("apply", "-no-color", "plan"), "Warning: Deferred changes remain", "fleet_machine.node[0]",
		"coordinator runs resume")
	s.CreatedOnce(1)
	s.Must("runs", "resume", "-auto-approve", "-no-color")
	s.CreatedOnce(7)
	s.Unchanged()
}

// kill kills a process that is still running.
func kill(t *testing.T, p *process.Process) {
	t.Helper()
	ended(t, p)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

// ended fails the test if a process has ended by itself.
func ended(t *testing.T, p *process.Process) {
	t.Helper()
	select {
	case <-p.Done():
		t.Fatalf("the coordinator has ended by itself:\n%s", site.Tail(p.Output()))
	default:
	}
}
