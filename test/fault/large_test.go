package fault

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/site"
)

var large = flag.Bool("large", false, "apply 2,000 resources under kills, which takes minutes")

const (
	many             = 2000
	coordinatorKills = 5
	workerKills      = 10
)

// The coordinator is killed five times and workers ten times while 2,000 machines are created.
func TestALargeApplyUnderKillsEndsAsAnUndisturbedOne(t *testing.T) {
	if !*large {
		t.Skip("takes minutes; make fault-large runs it")
	}
	was := site.Timeout
	site.Timeout = 20 * time.Minute
	t.Cleanup(func() { site.Timeout = was })
	undisturbed := newTrial(t, many, 10)
	undisturbed.Must("init")
	began := time.Now()
	undisturbed.Must("apply", "-auto-approve", "-no-color", "-concise")
	t.Logf("undisturbed, in one process: %s", time.Since(began).Round(time.Millisecond))

	s := newTrial(t, many, 10)
	s.Server()
	workers := []*site.Worker{s.Worker("default"), s.Worker("default")}
	s.Must("init")
	began = time.Now()
	p := s.Start("apply", "-auto-approve", "-no-color", "-concise")
	const all = coordinatorKills + workerKills
	for n := range all {
		site.Eventually(t, "more machines were created",
			func() bool { return s.Finished("create") >= (n+1)*many/(all+2) })
		if n%3 == 2 {
			must(t, p.Kill())
			p = s.Start("runs", "resume", "-no-color")
			continue
		}
		w := workers[n%2]
		must(t, w.Kill())
		w.Start()
	}
	r := site.Result{Code: site.Exit(t, p), Text: p.Output()}
	disturbed := time.Since(began)
	s.awaitProviders()
	created, doubts := s.Finished("create"), s.State().Doubts
	if r.Code != 0 && len(doubts) == 0 {
		t.Errorf("the resumed run has exit status %d, although nothing is in doubt:\n%s", r.Code, site.Tail(r.Text))
	}
	s.holds()
	if n := len(s.State().Objects) + len(doubts); n != many {
		t.Errorf("%d machines are in the state and %d in doubt, of %d", len(s.State().Objects), len(doubts), many)
	}
	s.goOn(apply)
	s.complete(many)
	if want, got := undisturbed.shape(), s.shape(); !slices.Equal(want, got) {
		t.Errorf("the state (%d instances) differs from that of an undisturbed apply (%d instances)", len(got), len(want))
	}
	t.Logf("%d kills of the coordinator and %d of workers: %s; %d creations ended, %d were started, %d were in doubt, "+
		"%d of which had not happened",
		coordinatorKills, workerKills, disturbed.Round(time.Millisecond), created, s.Begun("create"), len(doubts),
		len(s.forgiven))
}

// shape returns a text for each instance in the state, with those attributes that the configuration determines.
func (s *trial) shape() []string {
	s.T.Helper()
	var file struct {
		Resources []struct {
			Type, Name string
			Instances  []struct {
				Key        json.RawMessage `json:"index_key"`
				Status     string
				Attributes map[string]any
			}
		}
	}
	must(s.T, json.Unmarshal([]byte(s.Read("terraform.tfstate")), &file))
	var out []string
	for _, r := range file.Resources {
		for _, i := range r.Instances {
			for _, chance := range []string{"id", "ip", "serial", "password", "revision"} {
				delete(i.Attributes, chance)
			}
			out = append(out, fmt.Sprintf("%s.%s[%s] %s %v", r.Type, r.Name, i.Key, i.Status, i.Attributes))
		}
	}
	slices.Sort(out)
	return out
}
