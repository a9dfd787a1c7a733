package system

import (
	"strings"
	"testing"
)

// fleetOnly begins a configuration that needs one test provider, requirements one that needs several.
const fleetOnly = `
terraform {
  required_providers {
    fleet = { source = "millipede/fleet" }
  }
}
`

const requirements = `
terraform {
  required_providers {
    fleet  = { source = "millipede/fleet" }
    fleet5 = { source = "millipede/fleet5" }
    time   = { source = "hashicorp/time" }
  }
}
`

// estate is 300 resources, placed in each way that there is.
const estate = requirements + `
provider "fleet" {
  alias  = "west"
  region = "us-west"
}

# Nothing places these: default.
resource "fleet_machine" "plain" {
  count     = 50
  name      = "plain-${count.index}"
  create_ms = 40
  delete_ms = 10
}

# Their own region is the name of a pool.
resource "fleet_machine" "eu" {
  count     = 50
  name      = "eu-${count.index}"
  region    = "eu"
  create_ms = 40
}
resource "fleet_machine" "us" {
  count     = 50
  name      = "us-${count.index}"
  region    = "us"
  create_ms = 40
  labels    = { behind = fleet_machine.eu[count.index].id }
}

# A rule on the provider's configuration: us.
resource "fleet_machine" "west" {
  provider  = fleet.west
  count     = 25
  name      = "west-${count.index}"
  create_ms = 40
}

# A rule on the module: eu.
module "inside" {
  source = "./inside"
}

# Nothing places these: default.
resource "time_static" "plain" {
  count    = 50
  triggers = { machine = fleet_machine.plain[count.index].id }
}

# A rule on the resource type, which comes before their region: default.
resource "fleet_identity" "home" {
  count     = 25
  name      = "home-${count.index}"
  region    = "us"
  create_ms = 40
}
`

const estateInside = `
terraform {
  required_providers {
    fleet = { source = "millipede/fleet" }
    time  = { source = "hashicorp/time" }
  }
}
resource "fleet_machine" "inside" {
  count     = 25
  name      = "inside-${count.index}"
  create_ms = 40
}
resource "time_offset" "inside" {
  count       = 25
  offset_days = count.index
}
`

const estateRules = `
pool "us" {
  providers       = ["millipede/fleet"]
  provider_config = { region = "us-*" }
}
pool "eu" {
  modules = ["module.inside"]
}
pool "default" {
  resource_types = ["fleet_identity"]
}
`

// estatePools is where each resource of the estate belongs.
var estatePools = map[string]string{
	"fleet_machine.plain": "default", "fleet_machine.eu": "eu", "fleet_machine.us": "us", "fleet_machine.west": "us",
	"fleet_identity.home": "default", "module.inside.fleet_machine.inside": "eu", "module.inside.time_offset.inside": "eu",
	"time_static.plain": "default",
}

// fourWorkers starts a server and four workers for a site. It returns their names, with the pool of each.
func (s *site) fourWorkers() map[string]string {
	s.t.Helper()
	s.server()
	pools := map[string]string{}
	for _, pool := range []string{"default", "default", "eu", "us"} {
		pools[s.worker(pool).id] = pool
	}
	return pools
}

func TestEveryVertexRunsInItsPool(t *testing.T) {
	t.Parallel()
	s := newSite(t, estate)
	s.write("inside/inside.tf", estateInside)
	s.write("millipede.hcl", estateRules)
	workers := s.fourWorkers()
	s.must("init")
	text := s.must("apply", "-auto-approve", "-no-color", "-parallelism=8")
	wants(t, text, "Resources: 300 added, 0 changed, 0 destroyed.")

	if n := len(s.state().objects); n != 300 {
		t.Errorf("the state holds %d objects", n)
	}
	s.onceEach("create")
	s.agree()
	used := map[string]bool{}
	for _, c := range s.calls("create") {
		kind, _, _ := strings.Cut(c.Name, "-")
		want := map[string]string{"plain": "default", "eu": "eu", "us": "us", "west": "us", "inside": "eu", "home": "default"}[kind]
		if c.Pool != want {
			t.Errorf("%s was created in the pool %s", c.Name, c.Pool)
		}
		used[c.Worker] = true
	}
	if len(used) != 4 {
		t.Errorf("only these workers were given work: %v", used)
	}
	if most := s.most(); most != 8 {
		t.Errorf("%d operations ran at a time, with -parallelism=8", most)
	}
	s.placed(estatePools, workers)

	s.unchanged()
	s.must("destroy", "-auto-approve", "-no-color")
	if left := s.objects(); len(left) > 0 {
		t.Errorf("destroy has left %v", left)
	}
	if left := s.state().objects; len(left) > 0 {
		t.Errorf("destroy has left %v in the state", left)
	}
	if most := s.most("-ops=delete"); most > 8 {
		t.Errorf("%d deletions ran at a time, with -parallelism=8", most)
	}
	s.onceEach("delete")
}

// placed claims that the last run shows for every resource that it ran in its pool, on one of that pool's workers.
func (s *site) placed(pools, workers map[string]string) {
	s.t.Helper()
	listed := strings.Split(s.must("runs", "list"), "\n")
	run, _, _ := strings.Cut(listed[1], " ") // below the heading; the newest comes first
	_, table, found := strings.Cut(s.must("runs", "show", run), "\nDone:\n")
	if !found {
		s.t.Fatal("the run shows nothing that was done")
	}
	shown := 0
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) != 5 || f[0] == "ADDRESS" {
			continue
		}
		shown++
		resource, _, _ := strings.Cut(f[0], "[")
		if want := pools[resource]; f[2] != want || workers[f[3]] != want {
			s.t.Errorf("%s ran on worker %s of the pool %s, and belongs into %s", f[0], f[3], f[2], want)
		}
	}
	if shown != 300 {
		s.t.Errorf("the run shows %d of 300 resources", shown)
	}
}

const crowd = requirements + `
resource "fleet_machine" "a" {
  count     = 40
  name      = "NAME-a-${count.index}"
  create_ms = 60
}
resource "fleet5_machine" "b" {
  count     = 40
  name      = "NAME-b-${count.index}"
  create_ms = 60
}
resource "time_static" "c" {
  count = 20
}
`

const crowdRules = `
parallelism = 6
limit "fleet" {
  max       = 3
  providers = ["millipede/fleet"]
}
`

func TestLimitsHoldOverTwoRunsAtOnce(t *testing.T) {
	t.Parallel()
	one := newSite(t, strings.ReplaceAll(crowd, "NAME", "one"))
	one.fourWorkers()
	two := one.neighbour(strings.ReplaceAll(crowd, "NAME", "two"))
	for _, s := range []*site{one, two} {
		s.write("millipede.hcl", crowdRules)
		s.must("init")
	}
	first := one.start("apply", "-auto-approve", "-no-color")
	second := two.start("apply", "-auto-approve", "-no-color")
	if a, b := exit(t, first), exit(t, second); a != 0 || b != 0 {
		t.Fatalf("exit statuses %d and %d", a, b)
	}
	if n := one.finished("create"); n != 160 {
		t.Errorf("%d creations were finished", n)
	}
	one.onceEach("create")
	if most := one.most(); most != 6 {
		t.Errorf("%d operations ran at a time, with a limit of 6 for all", most)
	}
	if most := one.most("-providers=fleet"); most != 3 {
		t.Errorf("%d operations of fleet ran at a time, with a limit of 3 for it", most)
	}
	one.unchanged()
	two.unchanged()
	one.must("destroy", "-auto-approve", "-no-color")
	for id := range one.objects() {
		if strings.HasPrefix(id, "one-") {
			t.Errorf("destroy has left %s", id)
		}
	}
	two.unchanged()
	two.must("destroy", "-auto-approve", "-no-color")
	if left := two.objects(); len(left) > 0 {
		t.Errorf("destroy has left %v", left)
	}
}

func TestAVertexWaitsVisiblyForItsPool(t *testing.T) {
	t.Parallel()
	s := newSite(t, fleetOnly+`
resource "fleet_machine" "a" {
  name = "a"
}
module "far" {
  source = "./far"
}
`)
	s.write("far/far.tf", strings.Replace(estateInside, "25", "3", 2))
	s.write("millipede.hcl", `
pool "mars" {
  modules = ["module.far"]
}
`)
	s.server()
	s.worker("default")
	s.must("init")
	p := s.start("apply", "-auto-approve", "-no-color")
	if _, err := p.Await(waiting(t), "Waiting for a worker of the pool \"mars\""); err != nil {
		t.Fatal(err)
	}
	s.worker("mars")
	if code := exit(t, p); code != 0 {
		t.Errorf("exit status %d", code)
	}
	for _, c := range s.calls("create") {
		if want := map[bool]string{true: "default", false: "mars"}[c.Name == "a"]; c.Pool != want {
			t.Errorf("%s was created in the pool %s", c.Name, c.Pool)
		}
	}
	s.unchanged()
}
