package simservice

import (
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// guard is a rule of the service that a simulation can leave out.
type guard string

const (
	// guardResumed: an engine that continues an apply learns that the apply had begun.
	guardResumed guard = "resumed"
	// guardStarted: the beginning of an apply is durable before the apply begins.
	guardStarted guard = "started"
	// guardReleased: the transaction that ends a run also releases the run's lock of the workspace.
	guardReleased guard = "released"
	// guardConfirmed: when a service starts, it queues the approved runs whose applies had not begun.
	guardConfirmed guard = "confirmed"
	// guardAgain: when a service starts, it queues the runs that were being planned.
	guardAgain guard = "again"
	// guardFence: what an engine sends that has lost its seat is refused.
	guardFence guard = "fence"
)

var guards = []guard{guardResumed, guardStarted, guardReleased, guardConfirmed, guardAgain, guardFence}

// write changes a run in the store without changing its keys in the indexes.
func write(s *store.Store, r *record.Run) {
	if err := s.Update(func(tx *store.Tx) error { return runs.Put(tx, r) }); err != nil {
		panic(err)
	}
}

// hide changes the store before a service starts, so that the service misses runs. show restores the runs afterwards.
func (w *world) hide(s *store.Store) {
	hidden := map[guard]record.RunStatus{guardConfirmed: record.Confirmed, guardAgain: record.Planning}[w.without]
	for _, r := range w.active() {
		changed := *r
		switch {
		case r.Status == hidden: // the service does not queue it
			w.hidden = append(w.hidden, *r)
			changed.Status = record.Discarded
		case w.without == guardStarted && r.Status == record.Applying: // as if its beginning had not been durable
			changed.Status = record.ApplyQueued
			w.mu.Lock()
			w.known[r.ID] = &changed
			w.mu.Unlock()
		default:
			continue
		}
		write(s, &changed)
	}
}

func (w *world) show(s *store.Store) {
	for _, r := range w.hidden {
		write(s, &r)
	}
	w.hidden = nil
}

// keepLocks keeps the locks of ended runs if guardReleased is left out.
func (w *world) keepLocks(s *store.Store) {
	if w.without != guardReleased {
		return
	}
	err := s.Update(func(tx *store.Tx) error {
		for _, sp := range w.spaces {
			on, err := workspaces.Get(tx, sp.id)
			if err != nil {
				return err
			}
			if last := w.locks[sp.id]; last.Kind == "run" && !on.Lock.Held() {
				on.Lock = last
				if err := workspaces.Put(tx, on); err != nil {
					return err
				}
			}
			w.locks[sp.id] = on.Lock
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
}
