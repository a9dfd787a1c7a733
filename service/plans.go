package service

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/millipede-iac/millipede/service/outline"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// Plans are the plans of runs, for people and programs.
type Plans struct {
	*shared
	runs      *Runs
	outlines  *outlines
	documents sync.Mutex // held while the document of a plan is made, because these documents are large
	engine    work.Engine
}

// JSON returns the JSON document of a plan. The error is ErrNotFound if there is none; ready is false if
// there is none yet.
func (s *Plans) JSON(ctx context.Context, a *rights.Actor, phase string, redacted bool) (data []byte, ready bool,
	err error) {
	v, err := s.runs.OfPhase(a, phase)
	if err != nil {
		return nil, false, err
	}
	if v.Plan.Status != record.PhaseFinished {
		return nil, false, nil
	}
	switch {
	case redacted:
		data, err = s.store.ReadAll(tables.PlanRedactedFile(&v.Run))
	case !rights.ReadState.Has(v.Permissions):
		return nil, true, tables.NotFound("there is no such document, or you have no access to it")
	default:
		data, err = s.wholeJSON(ctx, &v.Run)
	}
	return data, true, tables.Translated(err)
}

// dataDir returns the directory in which the engine keeps the state of a workspace.
func (s *shared) dataDir(workspace string) string {
	return filepath.Join(s.store.Dir(), "workspaces", workspace)
}

// wholeJSON returns the complete JSON document of a plan. The document is made at the first request, not by
// the run, because it is as large as the state and rarely requested.
func (s *Plans) wholeJSON(ctx context.Context, r *record.Run) ([]byte, error) {
	s.documents.Lock()
	defer s.documents.Unlock()
	data, missing := s.store.ReadAll(tables.PlanJSONFile(r))
	if missing == nil {
		return data, nil
	}
	shape, err := s.store.ReadAll(tables.PlanShapeFile(r))
	if errors.Is(err, store.ErrNotFound) {
		return nil, missing // the run is from a version that did not keep it
	}
	if err != nil {
		return nil, err
	}
	text, err := s.store.ReadAll(tables.PlanFile(r))
	if err != nil {
		return nil, err
	}
	if data, err = s.engine.PlanJSON(ctx, r.Workspace, s.dataDir(r.Workspace), text, shape); err != nil {
		return nil, fmt.Errorf("making the document of the plan %s: %w", r.Plan.ID, err)
	}
	if err := s.store.Cache(tables.PlanJSONFile(r), data); err != nil {
		s.log.Warn("cannot store the document of a plan; it will be made again at the next request", "plan", r.Plan.ID,
			"error", err)
	}
	return data, nil
}

// Outline returns the changes of a run's plan, without values. The error is ErrNotFound until there is a
// plan.
func (s *Plans) Outline(a *rights.Actor, run string) (*outline.Plan, error) {
	v, err := s.runs.Find(a, run)
	if err != nil {
		return nil, err
	}
	if v.Plan.Status != record.PhaseFinished {
		return nil, tables.NotFound("the run %s has no plan", run)
	}
	p, err := s.outlines.Plan(&v.Run)
	return p, tables.Translated(err)
}

// Change returns the JSON of one change of a plan, from the redacted document. o is an object of the plan's
// outline.
func (s *Plans) Change(a *rights.Actor, run string, o *outline.Object) ([]byte, error) {
	v, err := s.runs.Find(a, run)
	if err != nil {
		return nil, err
	}
	data, err := s.store.ReadPart(tables.PlanRedactedFile(&v.Run), o.Start, o.Size)
	return data, tables.Translated(err)
}
