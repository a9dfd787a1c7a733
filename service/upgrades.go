package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/state/features"
)

// Upgrades say what an upgrade of the service depends on, and finish one.
type Upgrades struct {
	*shared
	version  string
	capacity Capacity
	members  *Members
}

// Upgrade is what a program of another version needs to know about a service before it takes its place.
type Upgrade struct {
	// Program is the version of Millipede that serves; Levels are the levels of features that it knows.
	Program string          `json:"program"`
	Levels  features.Levels `json:"levels"`
	// Features is the level of the service's stores.
	Features features.Record `json:"features"`
	// Workers are those that are alive.
	Workers []UpgradeWorker `json:"workers"`
	// Runs are those under way whose plan is saved.
	Runs []UpgradeRun `json:"runs"`
}

// UpgradeWorker is a live worker of a pool, with the versions of the protocol that it speaks.
type UpgradeWorker struct {
	Name    string `json:"name"`
	Pool    string `json:"pool"`
	Version string `json:"version"`
	Lowest  int    `json:"lowest"`
	Highest int    `json:"highest"`
}

// UpgradeRun is a run under way, with the format of its plan and the version of Millipede that saved that.
type UpgradeRun struct {
	Run    string           `json:"run"`
	Status record.RunStatus `json:"status"`
	Format int              `json:"format"` // 0 for a plan that is none of Millipede's
	By     string           `json:"by"`
}

// Facts returns what an upgrade depends on. Only administrators of the service may ask.
func (s *Upgrades) Facts(ctx context.Context, a *rights.Actor) (*Upgrade, error) {
	if !a.Admin() {
		return nil, tables.Forbidden("only administrators of the service may ask what an upgrade depends on")
	}
	u := &Upgrade{Program: s.version, Levels: features.Own(), Features: s.store.Features()}
	if s.capacity != nil {
		workers, err := s.capacity.Workers(ctx)
		if err != nil {
			return nil, fmt.Errorf("asking for the workers: %w", err)
		}
		for _, w := range workers {
			if !w.Silent {
				u.Workers = append(u.Workers, UpgradeWorker{w.Name, w.Pool, w.Version, w.Speaks.Lowest, w.Speaks.Highest})
			}
		}
	}
	var runs []*record.Run
	err := s.store.View(func(tx *store.Tx) error {
		for _, id := range tables.Runs.List(tx, "active", tables.Everywhere) {
			r, err := tables.Runs.Get(tx, id)
			if err != nil {
				return err
			}
			runs = append(runs, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		data, err := s.store.ReadAll(tables.PlanFile(r))
		if errors.Is(err, store.ErrNotFound) {
			continue // it is still being planned, or will be
		}
		if err != nil {
			return nil, err
		}
		of := UpgradeRun{Run: r.ID, Status: r.Status}
		if of.Format, of.By, err = planfile.Format(data); err != nil && !errors.Is(err, planfile.ErrNoPlan) {
			return nil, fmt.Errorf("reading the plan of %s: %w", r.ID, err)
		}
		u.Runs = append(u.Runs, of)
	}
	return u, nil
}

// Finish raises the stores of the service to the newest level of this program: from then on the version before cannot
// take its place any more. It is refused while workers are alive that lack a version of the protocol that this program
// has.
func (s *Upgrades) Finish(ctx context.Context, a *rights.Actor) (*Upgrade, error) {
	u, err := s.Facts(ctx, a)
	if err != nil {
		return nil, err
	}
	if s.capacity != nil {
		workers, err := s.capacity.Workers(ctx)
		if err != nil {
			return nil, fmt.Errorf("asking for the workers: %w", err)
		}
		var older []string
		for _, w := range workers {
			if !w.Silent && w.Older {
				older = append(older, fmt.Sprintf("%s of pool %s (Millipede %s)", w.Name, w.Pool, w.Version))
			}
		}
		if len(older) > 0 {
			return nil, tables.Conflict("the upgrade is not finished, because workers of an earlier version are alive: %s. "+
				"Replace them, or stop them", strings.Join(older, ", "))
		}
	}
	older, err := s.members.older(features.Own().Newest)
	if err != nil {
		return nil, err
	}
	if len(older) > 0 {
		return nil, tables.Conflict("the upgrade is not finished, because not all members of the group are known to have "+
			"this version: %s", strings.Join(older, ", "))
	}
	if err := s.audit.Change(a, "upgrade.finish", "", func(*store.Tx) error { return nil }); err != nil {
		return nil, err
	}
	u.Features, err = s.store.Raise()
	return u, err
}
