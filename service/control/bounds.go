package control

import (
	"net/http"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
)

// boundsDocument has the bounds on plans: a time with its unit, and sizes in MiB. Zero is no bound.
type boundsDocument struct {
	PlanTime   string `json:"plan-time"`
	PlanMemory int64  `json:"plan-memory"`
	PlanSize   int64  `json:"plan-size"`
}

func boundsOf(b record.Bounds) boundsDocument {
	return boundsDocument{service.PeriodText(b.PlanTime), b.PlanMemory, b.PlanSize}
}

// bounds returns the bounds on the plans of a workspace, with those of the service.
func (s *server) bounds(r *http.Request, a *rights.Actor) (any, error) {
	own, all, err := s.svc.Workspaces.Bounds(a, r.PathValue("workspace"))
	if err != nil {
		return nil, err
	}
	return map[string]any{"bounds": boundsOf(own), "service": boundsOf(all)}, nil
}

// bound replaces the bounds on the plans of a workspace. Those that are not given become those of the service.
func (s *server) bound(r *http.Request, a *rights.Actor) (any, error) {
	var asked boundsDocument
	if err := decode(r, &asked); err != nil {
		return nil, err
	}
	most, err := service.ParsePlanTime(asked.PlanTime)
	if err != nil {
		return nil, err
	}
	if err := s.svc.Workspaces.Bound(a, r.PathValue("workspace"), record.Bounds{PlanTime: most,
		PlanMemory: asked.PlanMemory, PlanSize: asked.PlanSize}); err != nil {
		return nil, err
	}
	return s.bounds(r, a)
}
