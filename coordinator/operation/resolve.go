package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// CutOff returns a run of the workspace that was cut off while operations were under way, or nil. They may still go on,
// or their results wait: until those are recorded the state does not say what there is, and what is planned by it could
// be done twice. Only the run itself, resumed, can take them.
func CutOff(ctx context.Context, store journal.Store, workspace string) (*journal.Run, error) {
	runs, err := store.Runs(ctx, workspace)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		if r.Over() {
			continue
		}
		events, err := store.Events(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		statuses, _, err := journal.Fold(r.Vertices, events)
		if err != nil {
			return nil, fmt.Errorf("the journal of the run %s: %w", r.ID, err)
		}
		if slices.Contains(statuses, journal.Dispatched) {
			return &r, nil
		}
	}
	return nil, nil
}

// Resolve returns what ends the doubt about the current object at an address, as who says what became of it: id names the
// object that there is now, which is read; empty means that the operation never took place. The transaction tells the
// run too, if it is not over, so that it goes on behind the operation when it is resumed, or begins it anew. prior is
// the stored state.
func (s *Session) Resolve(ctx context.Context, prior *state.State, at addr.Instance, id, who string) (journal.Tx, diag.List) {
	o := prior.Object(at, state.CurrentObject)
	if o == nil || o.Status != state.InDoubt || o.Doubt == nil {
		return journal.Tx{}, diag.Errors("Nothing is in doubt", fmt.Sprintf("No operation on %s is in doubt.", at), nil)
	}
	set := state.SetObject{Addr: at, Provider: prior.ProviderOf(at)}
	switch {
	case id != "":
		imported, diags := s.Import(ctx, at, set.Provider, id)
		if diags.HasErrors() {
			return journal.Tx{}, diags
		}
		set.Object = imported
	case o.Doubt.Operation != "create":
		back := *o
		back.Doubt, back.Status = nil, o.Doubt.Before
		if back.Status == 0 {
			back.Status = state.Ready
		}
		set.Object = &back
	}
	tx, err := s.verdict(ctx, o.Doubt, id != "", who)
	if err != nil {
		return tx, diag.Errors("Failed to read the run", err.Error()+".", nil)
	}
	tx.Changes, tx.EndVersion = []state.Change{set}, true
	return tx, nil
}

// verdict returns what the journal of the run is told when a doubt is resolved: that the operation is done, or that it
// never took place. Nothing is told of a run that is over.
func (s *Session) verdict(ctx context.Context, d *state.Doubt, done bool, who string) (journal.Tx, error) {
	r, _, err := s.Store.RunPlan(ctx, d.Run)
	if errors.Is(err, journal.ErrNoRun) || err == nil && r.Over() {
		return journal.Tx{}, nil
	}
	if err != nil {
		return journal.Tx{}, err
	}
	events, err := s.Store.Events(ctx, d.Run)
	if err != nil {
		return journal.Tx{}, err
	}
	statuses, open, err := journal.Fold(r.Vertices, events)
	if err != nil {
		return journal.Tx{}, err
	}
	for v, e := range open {
		if e.Attempt != d.Attempt || statuses[v] != journal.Doubt {
			continue
		}
		e.Kind, e.At, e.Worker, e.Permits, e.Detail = journal.Retract, s.Now().UTC(), d.Worker, nil, "resolved by "+who
		if done {
			e.Kind = journal.Finish
		}
		return journal.Tx{Run: d.Run, Events: []journal.Event{e}}, nil
	}
	return journal.Tx{}, nil
}
