package coordinator

import (
	"context"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// Records reads the state and the journal of earlier runs; journal.Store implements it.
type Records interface {
	Load(ctx context.Context, workspace string) (*state.State, error)
	Events(ctx context.Context, run string) ([]journal.Event, error)
	RunPlan(ctx context.Context, run string) (journal.Run, []byte, error)
}

// findBlockers finds the operations in doubt of earlier runs on the state that hold permits of a limit.
func (x *executor) findBlockers(limit string) {
	found, err := x.blockers(limit)
	if err == nil { // otherwise the loop asks again
		x.inbox.put(loop.Blocked{Limit: limit, Addresses: found})
	}
}

func (x *executor) blockers(limit string) (addresses []string, err error) {
	limits, err := x.Hub.Limits(x.ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(limits, func(s wire.LimitStatus) bool { return s.Name == limit })
	if at < 0 {
		return nil, nil
	}
	stored, err := x.Earlier.Load(x.ctx, x.Workspace)
	if err != nil {
		return nil, err
	}
	doubts := map[string]bool{}
	for d := range stored.Doubts() {
		doubts[d.Attempt] = true
	}
	memories := map[string]loop.Past{}
	for _, r := range limits[at].Held {
		if r.Run == x.RunID || strings.HasPrefix(r.Run, readOnly) {
			continue
		}
		past, known := memories[r.Run]
		if !known {
			if _, past, err = remember(x.ctx, x.Earlier, r.Run); err != nil {
				past = nil // another coordinator's run
			}
			memories[r.Run] = past
		}
		o, found := past.UnderPermit(journal.PermitName(limit, r.ID))
		if found && o.Doubtful && !o.Over && doubts[o.Dispatch.Attempt] {
			addresses = append(addresses, o.Dispatch.Address)
		}
	}
	slices.Sort(addresses)
	return addresses, nil
}

// remember reads the journal of a run.
func remember(ctx context.Context, from Records, id string) (journal.Run, loop.Past, error) {
	run, _, err := from.RunPlan(ctx, id)
	if err != nil {
		return run, nil, err
	}
	events, err := from.Events(ctx, id)
	if err != nil {
		return run, nil, err
	}
	past, err := loop.PastOf(run.Vertices, events)
	return run, past, err
}
