package service

import (
	"context"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// Tally returns the number of unfinished runs by status.
func (s *Runs) Tally() map[record.RunStatus]int {
	return s.queue.Tally()
}

// Changed waits until any run has changed after the change with the number since, or ctx ends. It returns the
// number of the latest change.
func (s *Runs) Changed(ctx context.Context, since uint64) uint64 {
	return s.queue.AwaitChange(ctx, since)
}

// Seen records that a client has looked at a run.
func (s *Runs) Seen(id string) { s.queue.NoteRead(id) }

// Waits returns the reason why a run waits, with the runs that hold what it waits for.
func (s *Runs) Waits(ctx context.Context, a *rights.Actor, id string) (Wait, error) {
	v, err := s.Find(a, id)
	if err != nil {
		return Wait{}, err
	}
	w, err := s.WaitsFor(&v.Run)
	if err != nil {
		return Wait{}, err
	}
	return w, s.pools.addHolders(ctx, a, &w)
}

// WaitsFor is Waits for a run that was just read, without the holders.
func (s *Runs) WaitsFor(r *record.Run) (Wait, error) {
	b, err := s.queue.Snapshot(func(o *record.Run) bool { return o.Workspace == r.Workspace })
	if err != nil {
		return Wait{}, err
	}
	w := b.Waits(r)
	if w.Kind == "" && r.Status.Computes() {
		list, err := s.pools.shortages(r)
		return shortageWait(list), err
	}
	if w.Kind == work.ForWorker {
		err = s.pools.sayDrained(&w)
	}
	return Wait{Wait: w}, err
}

// Queue returns the unfinished runs of an organization that the actor may see, by creation time.
func (s *Runs) Queue(a *rights.Actor, organization string) (out []*RunView, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.Organization(tx, organization)
		if err != nil {
			return err
		}
		for _, id := range tables.Runs.List(tx, "active", tables.Everywhere) {
			v, err := runView(tx, a, id)
			if err == nil && v.Organization == o.Name {
				out = append(out, v)
			}
		}
		return nil
	})
	return out, tables.Translated(err)
}
