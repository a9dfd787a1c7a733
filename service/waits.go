package service

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/turn"
)

// state returns a snapshot of the queue, with the workspaces of all runs that wait for them.
func (q *queue) state() (*turn.State, error) {
	return q.stateWith(func(r *record.Run) bool {
		switch r.Status {
		case record.Pending, record.Planned, record.PlannedAndSaved, record.Confirmed:
			return true
		}
		return false
	})
}

// stateWith returns a snapshot of the queue with the workspaces of the runs for which looks returns true. It
// must stay cheap: it is made after each change, and whenever a client asks for the position of a run.
func (q *queue) stateWith(looks func(*record.Run) bool) (*turn.State, error) {
	q.mu.Lock()
	if q.ordered == nil {
		q.ordered = slices.SortedFunc(maps.Values(q.active), func(x, y *record.Run) int {
			return cmp.Compare(x.Number, y.Number)
		})
	}
	b := &turn.State{
		Now: q.now(), Plans: q.plans, Applies: q.applies, Stopped: q.stopped, Runs: q.ordered,
		Workspaces: map[string]*record.Workspace{}, Served: map[string]time.Time{}, Seen: map[string]turn.ClientReads{},
		Halts: map[string]*record.Halt{}, Waiting: map[string]turn.Wait{},
	}
	for id, j := range q.running {
		if j.waits.Kind != "" {
			b.Waiting[id] = j.waits
		}
	}
	for _, r := range b.Runs {
		if at, known := q.served[r.Workspace]; known {
			b.Served[r.Workspace] = at
		}
		if look, known := q.seen[r.ID]; known {
			b.Seen[r.ID] = look
		}
	}
	q.mu.Unlock()
	err := q.store.View(func(tx *store.Tx) error {
		for _, r := range b.Runs {
			if _, known := b.Workspaces[r.Workspace]; known || !looks(r) {
				continue
			}
			w, err := tables.Workspaces.Look(tx, r.Workspace)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			b.Workspaces[r.Workspace] = w // nil if it was deleted
		}
		for _, err := range tables.Halts.All(tx) { // usually there is none
			if err != nil {
				return err
			}
			return readHalts(tx, b)
		}
		return nil
	})
	return b, err
}

// readHalts reads the halts that apply to the workspaces of the queue.
func readHalts(tx *store.Tx, b *turn.State) error {
	for _, r := range b.Runs {
		if b.Halts[r.Workspace] != nil {
			continue
		}
		h, err := tables.HaltOf(tx, r.Workspace)
		if err != nil {
			return err
		}
		if h != nil {
			b.Halts[r.Workspace] = h
		}
	}
	return nil
}

// Tally returns the number of unfinished runs by status.
func (s *Runs) Tally() map[record.RunStatus]int {
	return s.queue.tally()
}

// Changed waits until any run has changed after the change with the number since, or ctx ends. It returns the
// number of the latest change.
func (s *Runs) Changed(ctx context.Context, since uint64) uint64 {
	return s.queue.awaitChange(ctx, since)
}

// Seen records that a client has looked at a run.
func (s *Runs) Seen(id string) { s.queue.noteRead(id) }

// tally returns the number of unfinished runs by status.
func (q *queue) tally() map[record.RunStatus]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := map[record.RunStatus]int{}
	for _, r := range q.active {
		out[r.Status]++
	}
	return out
}

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
	b, err := s.queue.stateWith(func(o *record.Run) bool { return o.Workspace == r.Workspace })
	if err != nil {
		return Wait{}, err
	}
	w := b.Waits(r)
	if w.Kind == "" && r.Status.Computes() {
		list, err := s.pools.shortages(r)
		return shortageWait(list), err
	}
	return Wait{Wait: w}, nil
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
