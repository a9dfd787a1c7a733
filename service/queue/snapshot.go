package queue

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/turn"
)

// snapshot returns a snapshot of the queue, with the workspaces of all runs that wait for them.
func (q *Queue) snapshot() (*turn.State, error) {
	return q.Snapshot(func(r *record.Run) bool {
		switch r.Status {
		case record.Pending, record.Planned, record.PlannedAndSaved, record.Confirmed:
			return true
		}
		return false
	})
}

// Snapshot returns a snapshot of the queue with the workspaces of the runs for which looks returns true. It
// must stay cheap: it is made after each change, and whenever a client asks for the position of a run.
func (q *Queue) Snapshot(looks func(*record.Run) bool) (*turn.State, error) {
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
