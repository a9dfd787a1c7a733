package main

import (
	"context"
	"errors"
	"time"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// verdict returns what the journal of the run is told when a doubt is resolved: that the operation is done, or that it
// never took place, so that the run, resumed, goes on behind it or begins it anew. Nothing is told of a run that is over.
func (s *openState) verdict(ctx context.Context, d *state.Doubt, done bool) (journal.Tx, error) {
	r, _, err := s.store.RunPlan(ctx, d.Run)
	if errors.Is(err, journal.ErrNoRun) || err == nil && r.Over() {
		return journal.Tx{}, nil
	}
	if err != nil {
		return journal.Tx{}, err
	}
	events, err := s.store.Events(ctx, d.Run)
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
		e.Kind, e.At, e.Worker, e.Permits, e.Detail = journal.Retract, time.Now().UTC(), d.Worker, nil, "resolved by "+s.info.Who
		if done {
			e.Kind = journal.Finish
		}
		return journal.Tx{Run: d.Run, Events: []journal.Event{e}}, nil
	}
	return journal.Tx{}, nil
}
