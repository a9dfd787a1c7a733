package system

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// identities is a configuration of objects that can be listed, in three regions.
const identities = site.FleetOnly + `
resource "fleet_identity" "a" {
  count  = 60
  name   = "a-${count.index}"
  region = ["eu", "us", "ap"][count.index % 3]
}
`

func TestAQueryListsAllRegionsUnderOneLimit(t *testing.T) {
	t.Parallel()
	s := site.New(t, identities)
	s.Server()
	for _, pool := range []string{"eu", "us", "ap"} {
		s.Worker(pool)
	}
	s.Write("millipede.hcl", `
schemas = "eu"
limit "identities" {
  max            = 1
  resource_types = ["fleet_identity"]
}
`)
	s.Must("init")
	s.Must("apply", "-auto-approve", "-no-color")
	s.Write("all.tfquery.hcl", `
list "fleet_identity" "all" {
  provider = fleet
  for_each = toset(["eu", "us", "ap"])
  config {
    region  = each.key
    list_ms = 200
  }
}
`)
	listed := s.Must("query", "-no-color")
	for i := range 60 {
		region := []string{"eu", "us", "ap"}[i%3]
		line := fmt.Sprintf("list.fleet_identity.all[%q]   name=a-%d,region=%s   The object a-%d\n", region, i, region, i)
		if n := strings.Count(listed, line); n != 1 {
			t.Errorf("%d times: %s", n, line)
		}
	}
	var pools []string
	for _, c := range s.Calls("list") {
		pools = append(pools, c.Pool)
	}
	if slices.Sort(pools); !slices.Equal(pools, []string{"ap", "eu", "us"}) {
		t.Errorf("the lists ran in the pools %v", pools)
	}
	if most := mostLists(s); most != 1 {
		t.Errorf("%d lists ran at a time, with a limit of 1", most)
	}
	unmanaged := s.Must("query", "-unmanaged", "-no-color")
	site.Wants(t, unmanaged, `list.fleet_identity.all["us"]: 0 objects. 20 managed objects were left out.`)
}

// mostLists returns the largest number of concurrent lists in the record, whose lines are in the order of time.
func mostLists(s *site.Site) (most int) {
	s.T.Helper()
	text, err := os.ReadFile(s.Record)
	if err != nil {
		s.T.Fatal(err)
	}
	running := 0
	for line := range strings.Lines(string(text)) {
		switch {
		case !strings.Contains(line, `"op":"list",`):
		case strings.Contains(line, `"phase":"start"`):
			running++
			most = max(most, running)
		default:
			running--
		}
	}
	return most
}

// The worker of a list was killed. Another one listed from the beginning, and the first objects were shown twice.
func TestTheListOfAKilledWorkerIsRepeatedAndShowsNothingTwice(t *testing.T) {
	t.Parallel()
	s := site.New(t, identities)
	s.Server()
	workers := []*site.Worker{s.Worker("default"), s.Worker("default")}
	s.Must("init")
	s.Must("apply", "-auto-approve", "-no-color")
	s.Write("all.tfquery.hcl", `
list "fleet_identity" "all" {
  provider = fleet
  config {
    each_ms = 50
  }
}
`)
	p := s.Start("query", "-no-color")
	if _, err := p.Await(site.Waiting(t), "The object"); err != nil {
		t.Fatal(err)
	}
	first := s.Calls("list")[0]
	for _, w := range workers {
		if w.ID == first.Worker {
			if err := w.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	site.Succeeds(t, p, "the query")
	for i := range 60 {
		if n := strings.Count(p.Output(), fmt.Sprintf("The object a-%d\n", i)); n != 1 {
			t.Errorf("object a-%d was shown %d times", i, n)
		}
	}
	if calls := s.Calls("list"); len(calls) < 2 || calls[0].Worker == calls[len(calls)-1].Worker {
		t.Errorf("the lists were %+v", calls)
	}
}
