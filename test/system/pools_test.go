package system

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// requirements is the beginning of a configuration that needs several test providers.
const requirements = `
terraform {
  required_providers {
    fleet  = { source = "millipede/fleet" }
    fleet5 = { source = "millipede/fleet5" }
    time   = { source = "hashicorp/time" }
  }
}
`

// estate is a configuration of 300 resources that together use every way of placement.
const estate = requirements + `
provider "fleet" {
  alias  = "west"
  region = "us-west"
}

# No rule applies to these: default.
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

// estatePools has the expected pool of each resource of estate.
var estatePools = map[string]string{
	"fleet_machine.plain": "default", "fleet_machine.eu": "eu", "fleet_machine.us": "us", "fleet_machine.west": "us",
	"fleet_identity.home": "default", "module.inside.fleet_machine.inside": "eu",
	"module.inside.time_offset.inside": "eu",
	"time_static.plain":                "default",
}

// fourWorkers starts a server and four workers for a site. It returns their names, with the pool of each.
func fourWorkers(s *site.Site) map[string]string {
	s.T.Helper()
	s.Server()
	pools := map[string]string{}
	for _, pool := range []string{"default", "default", "eu", "us"} {
		pools[s.Worker(pool).ID] = pool
	}
	return pools
}

func TestEveryVertexRunsInItsPool(t *testing.T) {
	t.Parallel()
	s := site.New(t, estate)
	s.Write("inside/inside.tf", estateInside)
	s.Write("millipede.hcl", estateRules)
	workers := fourWorkers(s)
	s.Must("init")
	text := s.Must("apply", "-auto-approve", "-no-color", "-parallelism=8")
	site.Wants(t, text, "Resources: 300 added, 0 changed, 0 destroyed.")

	if n := len(s.State().Objects); n != 300 {
		t.Errorf("the state holds %d objects", n)
	}
	s.OnceEach("create")
	s.Agree()
	used := map[string]bool{}
	for _, c := range s.Calls("create") {
		kind, _, _ := strings.Cut(c.Name, "-")
		want := map[string]string{"plain": "default", "eu": "eu", "us": "us", "west": "us", "inside": "eu",
			"home": "default"}[kind]
		if c.Pool != want {
			t.Errorf("%s was created in the pool %s", c.Name, c.Pool)
		}
		used[c.Worker] = true
	}
	if len(used) != 4 {
		t.Errorf("only these workers have executed operations: %v", used)
	}
	if most := s.Most(); most > 8 {
		t.Errorf("%d operations ran at the same time, with -parallelism=8", most)
	}
	placed(s, estatePools, workers)

	s.Unchanged()
	s.Must("destroy", "-auto-approve", "-no-color")
	if left := s.Objects(); len(left) > 0 {
		t.Errorf("destroy has left %v in the cloud", left)
	}
	if left := s.State().Objects; len(left) > 0 {
		t.Errorf("destroy has left %v in the state", left)
	}
	if most := s.Most("-ops=delete"); most > 8 {
		t.Errorf("%d deletions ran at the same time, with -parallelism=8", most)
	}
	s.OnceEach("delete")
}

// placed checks that "runs show" of the last run lists each resource with its pool and with a worker of that pool.
func placed(s *site.Site, pools, workers map[string]string) {
	s.T.Helper()
	listed := strings.Split(s.Must("runs", "list"), "\n")
	run, _, _ := strings.Cut(listed[1], " ") // the first line is the heading, the second one the newest run
	_, table, found := strings.Cut(s.Must("runs", "show", run), "\nDone:\n")
	if !found {
		s.T.Fatal("the output for the run has no list of operations")
	}
	shown := 0
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) != 6 || f[0] == "ADDRESS" {
			continue
		}
		shown++
		resource, _, _ := strings.Cut(f[0], "[")
		if want := pools[resource]; f[2] != want || workers[f[3]] != want {
			s.T.Errorf("%s ran on the worker %s of the pool %s, not in the pool %s", f[0], f[3], f[2], want)
		}
	}
	if shown != 300 {
		s.T.Errorf("the output for the run lists %d of 300 resources", shown)
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
	one := site.New(t, strings.ReplaceAll(crowd, "NAME", "one"))
	fourWorkers(one)
	two := one.Neighbour(strings.ReplaceAll(crowd, "NAME", "two"))
	for _, s := range []*site.Site{one, two} {
		s.Write("millipede.hcl", crowdRules)
		s.Must("init")
	}
	first := one.Start("apply", "-auto-approve", "-no-color")
	second := two.Start("apply", "-auto-approve", "-no-color")
	if a, b := site.Exit(t, first), site.Exit(t, second); a != 0 || b != 0 {
		t.Fatalf("exit statuses %d and %d", a, b)
	}
	one.CreatedOnce(160)
	// Whether two runs reach a limit depends on the speed of the machine, so only exceeding it is an error.
	if most := one.Most(); most > 6 {
		t.Errorf("%d operations ran at the same time, with a limit of 6 for all", most)
	}
	if most := one.Most("-providers=fleet"); most > 3 {
		t.Errorf("%d operations of fleet ran at the same time, with a limit of 3 for it", most)
	}
	one.Unchanged()
	two.Unchanged()
	one.Must("destroy", "-auto-approve", "-no-color")
	for id := range one.Objects() {
		if strings.HasPrefix(id, "one-") {
			t.Errorf("destroy has left %s", id)
		}
	}
	two.Unchanged()
	two.Must("destroy", "-auto-approve", "-no-color")
	if left := two.Objects(); len(left) > 0 {
		t.Errorf("destroy has left %v in the cloud", left)
	}
}

func TestAVertexWaitsVisiblyForItsPool(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.FleetOnly+`
resource "fleet_machine" "a" {
  name = "a"
}
module "far" {
  source = "./far"
}
`)
	s.Write("far/far.tf", strings.Replace(estateInside, "25", "3", 2))
	s.Write("millipede.hcl", `
pool "mars" {
  modules = ["module.far"]
}
`)
	s.Server()
	s.Worker("default")
	s.Must("init")
	p := s.Start("apply", "-auto-approve", "-no-color")
	if _, err := p.Await(site.Waiting(t), "Waiting for a worker of the pool \"mars\""); err != nil {
		t.Fatal(err)
	}
	s.Worker("mars")
	if code := site.Exit(t, p); code != 0 {
		t.Errorf("exit status %d", code)
	}
	for _, c := range s.Calls("create") {
		if want := map[bool]string{true: "default", false: "mars"}[c.Name == "a"]; c.Pool != want {
			t.Errorf("%s was created in the pool %s", c.Name, c.Pool)
		}
	}
	s.Unchanged()
}

func TestAPlanNeedsNoWorkerOfTheDefaultPool(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.FleetOnly+`
resource "fleet_machine" "m" {
  count  = 2
  name   = "m-${count.index}"
  region = "eu"
}
`)
	s.Server()
	s.Worker("eu")
	s.Must("init")
	s.Must("apply", "-auto-approve")
	s.Unchanged()
}

// Where no worker served the pool "default", any pool was asked about a provider: here the first one, in which none of
// its objects is placed.
func TestARegionThatARunDoesNotUseIsAskedNothing(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.FleetOnly+`
resource "fleet_machine" "m" {
  name   = "m"
  region = "us"
}
`)
	s.Server()
	eu := s.Worker("eu")
	s.Worker("us")
	s.Must("init")
	s.Must("apply", "-auto-approve")
	s.Must("providers", "schema", "-json", "-refresh")
	s.Unchanged()
	if _, err := os.Stat(filepath.Join(eu.Dir, "packages")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the worker of the other pool has packages of providers: %v", err)
	}
}
