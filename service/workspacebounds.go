package service

import (
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// The least bounds of a workspace: a plan needs so much in any case.
const (
	leastPlanTime   = time.Second
	LeastPlanMemory = 128 // MiB
)

// Bounds returns the bounds on the plans of a workspace: its own, and those of the service, which hold as well.
func (s *Workspaces) Bounds(a *rights.Actor, id string) (own, all record.Bounds, err error) {
	v, err := s.Find(a, id)
	if err != nil {
		return own, all, err
	}
	return v.Bounds, s.bounds, nil
}

// Bound replaces the own bounds of a workspace. They can only be lower than those of the service. They hold for plans
// that begin from then on.
func (s *Workspaces) Bound(a *rights.Actor, id string, b record.Bounds) error {
	return s.audit.Change(a, "workspace.bound", id, func(tx *store.Tx) error {
		w, err := a.Allowed(tx, id, rights.Administer)
		if err != nil {
			return err
		}
		if err := s.check(w, b); err != nil {
			return err
		}
		w.Bounds, w.UpdatedAt = b, s.now().UTC()
		return tables.Workspaces.Put(tx, w)
	})
}

// check checks bounds for a workspace.
func (s *Workspaces) check(w *record.Workspace, b record.Bounds) error {
	above := func(own, of int64) bool { return of != 0 && own > of }
	switch {
	case b.PlanTime != 0 && b.PlanTime < leastPlanTime:
		return tables.Invalid("The time of plans must be at least %v, or 0 for that of the service", leastPlanTime)
	case b.PlanMemory != 0 && b.PlanMemory < LeastPlanMemory:
		return tables.Invalid("The memory of plans must be at least %d MiB, or 0 for that of the service", LeastPlanMemory)
	case b.PlanSize < 0:
		return tables.Invalid("The size of plans must be a number of MiB, or 0 for that of the service")
	case above(int64(b.PlanTime), int64(s.bounds.PlanTime)):
		return tables.Invalid("The time of plans can be at most that of the service, %s", PeriodText(s.bounds.PlanTime))
	case above(b.PlanMemory, s.bounds.PlanMemory):
		return tables.Invalid("The memory of plans can be at most that of the service, %d MiB", s.bounds.PlanMemory)
	case above(b.PlanSize, s.bounds.PlanSize):
		return tables.Invalid("The size of plans can be at most that of the service, %d MiB", s.bounds.PlanSize)
	case b.PlanMemory != 0 && !s.apart:
		return tables.Invalid("The memory of plans cannot be bounded: this service evaluates configurations in its own " +
			"process (-engines=0)")
	case b.PlanMemory != 0 && w.ObjectLocks:
		return errSharedStore
	}
	return nil
}

// errSharedStore refuses a combination of settings.
var errSharedStore = tables.Invalid("The memory of plans cannot be bounded while runs lock objects: all runs of the " +
	"workspace share a process then. Use locks of the whole state, or have the operator bound all engines " +
	"(-engine-memory)")

// ParsePlanTime parses the time of plans, such as 30m or 2h; 0 and the empty text mean that of the service.
func ParsePlanTime(text string) (time.Duration, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	most, err := time.ParseDuration(text)
	if err != nil {
		return 0, tables.Invalid("The time of plans must be a time with its unit, as in 30m or 2h, or 0 for that of the " +
			"service")
	}
	return most, nil
}
