package system

import (
	"net/http"
	"strings"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// A run of a service has operations in two pools when one of them is drained. In one case the service is killed then,
// and resumes the run.
func TestARunOfAServiceWaitsForADrainedPoolAndContinuesInOthers(t *testing.T) {
	for _, kill := range []bool{false, true} {
		t.Run(map[bool]string{false: "running", true: "resumed"}[kill], func(t *testing.T) {
			t.Parallel()
			s := site.New(t, "")
			s.Server()
			s.Worker("eu")
			s.Worker("us")
			v := s.Service("-parallelism=4")
			r := v.Apply(v.Workspace("both"), site.FleetOnly+`
resource "fleet_machine" "m" {
  for_each  = { for i in range(40) : format("%02d", i) => i % 2 == 0 ? "eu" : "us" } # in this order
  name      = each.key
  region    = each.value
  create_ms = 400
}
`)
			created := func(pool string) (n int) {
				for _, c := range s.Calls("create") {
					if c.Pool == pool && c.Ended {
						n++
					}
				}
				return n
			}
			site.Eventually(t, "machines are created in both pools", func() bool {
				return created("eu") > 0 && created("us") > 0
			})
			if code, text := v.Ask(http.MethodPut, "pools/eu/halt", map[string]any{"reason": "it moves"}); code !=
				http.StatusOK {
				t.Fatalf("draining the pool: %d, %s", code, text)
			}
			if kill {
				if err := v.Kill(); err != nil {
					t.Fatal(err)
				}
				v.Start()
			}
			site.Eventually(t, "all machines of the other pool are created", func() bool { return created("us") == 20 })
			site.Eventually(t, "the run waits for the pool", func() bool {
				if now, err := v.Client.Runs.Read(t.Context(), r.ID); err != nil || site.Over(now.Status) {
					t.Fatalf("%d machines were created in the drained pool, %v:\n%s", created("eu"), err, v.Logs(now))
				}
				_, text := v.Ask(http.MethodGet, "runs/"+r.ID+"/wait", nil)
				return strings.Contains(text, "the pool eu, which was drained by ")
			})
			if code, text := v.Ask(http.MethodDelete, "pools/eu/halt", nil); code >= 300 {
				t.Fatalf("lifting the drain: %d, %s", code, text)
			}
			v.Ends(r.ID, client.RunApplied)
			s.CreatedOnce(40)
		})
	}
}

// A plan asks the workers for schemas before it has operations, and thus a timeline. It waited without a reason.
func TestAPlanWithoutAWorkerNamesThePoolThatHasNone(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	v := s.Service()
	r := v.Apply(v.Workspace("w"), site.FleetOnly+"resource \"fleet_machine\" \"m\" { name = \"m\" }\n")
	var text string
	site.Eventually(t, "the run waits for a worker", func() bool {
		_, text = v.Ask(http.MethodGet, "runs/"+r.ID+"/wait", nil)
		return strings.Contains(text, `"kind":"worker"`)
	})
	if !strings.Contains(text, `"on":"default"`) || !strings.Contains(text, "a worker of the pool default, which has none") ||
		!strings.Contains(text, `"since":"20`) {
		t.Errorf("the wait is %s", text)
	}
	s.Worker("default")
	v.Ends(r.ID, client.RunApplied)
}
