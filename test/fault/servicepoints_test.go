package fault

import (
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/internal/failpoint"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// When a service died after the end of an apply was recorded in the state, and before it was recorded in the run, it
// applied the plan again after its restart. The plan was stale then, so a run that had made all changes ended as
// failed. The same must not happen when an engine dies at that moment.
func TestAServiceOrAnEngineThatDiesAtTheEndOfAnApplyEndsTheRunAsApplied(t *testing.T) {
	t.Parallel()
	for who, continues := range map[string]string{
		"service": "The service was restarted, and continues the run.",
		"engine":  "has ended unexpectedly. The run continues with another one.",
	} {
		for _, point := range some([]failpoint.Point{failpoint.PlanSaved, failpoint.RunEnded,
			failpoint.RunPurged}, failpoint.RunEnded) {
			t.Run(who+"/"+string(point), func(t *testing.T) {
				t.Parallel()
				diesAt(t, who == "engine", point, continues)
			})
		}
	}
}

func diesAt(t *testing.T, engine bool, point failpoint.Point, continues string) {
	t.Helper()
	s := site.New(t, "")
	engines := "-engines=0"
	if engine {
		engines = "-engines=1"
	}
	v := s.Service(engines)
	space := v.Workspace("one")
	if err := v.Kill(); err != nil {
		t.Fatal(err)
	}
	v.Env = []string{at(point, "")}
	v.Start()
	r := v.Apply(space, machines("one", 2, 50, "small"))
	if !engine {
		killed(t, v, site.Exit(t, v.Process))
		v.Env = nil
		v.Start()
	}
	ended := v.Ends(r.ID, client.RunApplied)
	site.Wants(t, v.Logs(ended), continues, "Apply complete! Resources: 2 added, 0 changed, 0 destroyed.")
	if a, err := v.Client.Applies.Read(t.Context(), ended.Apply.ID); err != nil || a.ResourceAdditions != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	s.CreatedOnce(2)
	v.Ends(v.Apply(space, machines("one", 2, 50, "small")).ID, client.RunPlannedAndFinished)
}
