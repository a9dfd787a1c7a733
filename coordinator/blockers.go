package coordinator

import (
	"cmp"
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

// findBlockers finds the runs that hold permits of a limit, and the operations in doubt of earlier runs on the state
// among them.
func (x *executor) findBlockers(limit string) {
	addresses, holders, err := x.blockers(limit)
	if err == nil { // otherwise the loop asks again
		x.inbox.put(loop.Blocked{Limit: limit, Addresses: addresses, Holders: holders})
	}
}

func (x *executor) blockers(limit string) (addresses []string, holders []loop.Holder, err error) {
	limits, err := x.Hub.Limits(x.ctx)
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(limits, func(s wire.LimitStatus) bool { return s.Name == limit })
	if at < 0 {
		return nil, nil, nil
	}
	stored, err := x.Earlier.Load(x.ctx, x.Workspace)
	if err != nil {
		return nil, nil, err
	}
	doubts := map[string]bool{}
	for d := range stored.Doubts() {
		doubts[d.Attempt] = true
	}
	memories := map[string]memory{}
	for _, r := range limits[at].Held {
		if r.Run == x.RunID || r.Run == x.asker() {
			continue
		}
		m, known := memories[r.Run]
		if !known {
			m = x.recall(r, limits[at].Silent)
			memories[r.Run] = m
		}
		o, found := m.past.UnderPermit(journal.PermitName(limit, r.ID))
		if found && o.Doubtful && !o.Over && doubts[o.Dispatch.Attempt] {
			addresses = append(addresses, o.Dispatch.Address)
			continue
		}
		use := limits[at].Uses[r.ID]
		if found {
			use.Pool = o.Dispatch.Pool
		}
		holders = holding(holders, m.holder, r, use)
	}
	slices.Sort(addresses)
	return addresses, holders, nil
}

// memory has the known facts about a run that holds permits.
type memory struct {
	past   loop.Past
	holder loop.Holder
}

// recall collects the known facts about the run of a permit. The journal of another coordinator's run is not available
// here.
func (x *executor) recall(r wire.PermitRequest, silent map[string]wire.Silence) memory {
	m := memory{holder: loop.Holder{Run: r.Run, Coordinator: r.Coordinator}}
	switch silent[r.Coordinator] {
	case wire.Gone:
		m.holder.State = loop.HolderGone
	case wire.Mute:
		m.holder.State = loop.HolderMute
	}
	if strings.HasPrefix(r.Run, readOnly) {
		return m
	}
	run, past, err := remember(x.ctx, x.Earlier, r.Run)
	if err != nil {
		return m
	}
	m.past, m.holder.By = past, run.Who
	if run.Over() {
		m.holder.State = loop.HolderEnded
	}
	return m
}

// holding adds a permit to the run that holds it.
func holding(list []loop.Holder, of loop.Holder, r wire.PermitRequest, use wire.PermitUse) []loop.Holder {
	i := slices.IndexFunc(list, func(h loop.Holder) bool { return h.Run == r.Run && h.Coordinator == r.Coordinator })
	if i < 0 {
		of.Since, of.Pool = r.At, use.Pool
		of.By = cmp.Or(of.By, use.By)
		list = append(list, of)
		i = len(list) - 1
	}
	list[i].Permits++
	if use.InDoubt {
		list[i].InDoubt++
	}
	if r.At.Before(list[i].Since) {
		list[i].Since = r.At
	}
	return list
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
