package service

import (
	"cmp"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/drift"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Attention is the reason why a workspace needs a person, in ascending order of urgency.
type Attention byte

// The reasons for attention.
const (
	NoAttention Attention = iota
	// UnderWay: a run is in progress.
	UnderWay
	// HasDrifted: objects differ from the state.
	HasDrifted
	// LastFailed: the last run that may apply failed, or was canceled while it applied.
	LastFailed
	// LockedByPerson: nobody else can change anything until the lock is released.
	LockedByPerson
	// NeedsApproval: a plan waits to be approved or discarded.
	NeedsApproval
	// HasDoubts: a run has left operations whose outcome is unknown.
	HasDoubts
)

// Overview is a workspace with the information that people need first.
type Overview struct {
	*WorkspaceView
	// Run is the current run, or the last one; nil if there is none, or the actor may not see it.
	Run       *record.Run
	Attention Attention
	// Holder is the holder of the lock; empty if the workspace is not locked.
	Holder string
	// Halt is the halt that prevents runs from starting; nil if there is none.
	Halt *record.Halt
	// Drifted is the number of objects that are known to differ from the state; 0 if the actor may not read the
	// state.
	Drifted int
}

// Overviews returns the workspaces of an organization that the actor may see and that match the filter. The
// ones that need a person come first; the others are sorted by name.
func (s *Workspaces) Overviews(a *rights.Actor, organization string, f WorkspaceFilter) (out []*Overview, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.Organization(tx, organization)
		if err != nil {
			return err
		}
		all, err := tables.Workspaces.Select(tx, "organization", strings.ToLower(o.Name))
		if err != nil {
			return err
		}
		for _, w := range all {
			if !f.matches(w) {
				continue
			}
			p, err := a.Permissions(tx, w)
			if err != nil {
				return err
			}
			if !p.Any() {
				continue
			}
			v, err := overview(tx, &WorkspaceView{*w, p})
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		return nil
	})
	slices.SortStableFunc(out, func(x, y *Overview) int { return cmp.Compare(y.Attention, x.Attention) })
	return out, tables.Translated(err)
}

// OverviewOf returns the overview of one workspace.
func (s *Workspaces) OverviewOf(a *rights.Actor, id string) (v *Overview, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		w, p, err := a.Workspace(tx, id)
		if err == nil {
			v, err = overview(tx, &WorkspaceView{*w, p})
		}
		return err
	})
	return v, tables.Translated(err)
}

func overview(tx *store.Tx, w *WorkspaceView) (*Overview, error) {
	halt, err := tables.HaltOf(tx, w.ID)
	if err != nil {
		return nil, err
	}
	v := &Overview{WorkspaceView: w, Halt: halt}
	if w.Lock.Held() {
		v.Holder = strings.TrimPrefix(tables.LockedBy(tx, &w.Workspace), "the workspace is locked by ")
		if w.Lock.Kind != "run" {
			v.Attention = LockedByPerson
		}
	}
	if rights.ReadState.Has(w.Permissions) {
		if v.Drifted, err = drift.Count(tx, &w.Workspace); err != nil {
			return nil, err
		}
		if v.Drifted > 0 {
			v.Attention = max(v.Attention, HasDrifted)
		}
	}
	if !rights.ReadRuns.Has(w.Permissions) {
		return v, nil
	}
	id := w.CurrentRun
	if id == "" {
		for _, id = range tables.Runs.Newest(tx, "workspace", 1, w.ID) {
			break
		}
	}
	if id == "" {
		return v, nil
	}
	r, err := tables.Runs.Get(tx, id)
	if err != nil {
		return nil, err
	}
	v.Run = r
	v.Attention = max(v.Attention, attentionOf(r, &w.Workspace))
	return v, nil
}

func attentionOf(r *record.Run, w *record.Workspace) Attention {
	switch {
	case len(w.Doubts) > 0, left(r, w):
		return HasDoubts
	case r.Status == record.Planned && !r.AutoApply, r.Status == record.PlannedAndSaved:
		return NeedsApproval
	case r.Status == record.Errored && !r.PlanOnly, r.Status == record.Canceled && !r.Apply.Started.IsZero():
		return LastFailed
	case !r.Status.Final():
		return UnderWay
	}
	return NoAttention
}
