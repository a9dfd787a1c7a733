package simservice

import (
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// guard is a rule of the service that a simulation can leave out.
type guard string

const (
	// guardResumed: an engine that goes on with an apply is told that it was begun.
	guardResumed guard = "resumed"
	// guardStarted: that an apply begins is durable before it does.
	guardStarted guard = "started"
	// guardReleased: the lock of a workspace ends in the transaction in which its run does.
	guardReleased guard = "released"
	// guardConfirmed: a service that starts takes in the runs that were approved and had not begun to apply.
	guardConfirmed guard = "confirmed"
	// guardAgain: a service that starts takes in the runs that it was planning.
	guardAgain guard = "again"
)

var guards = []guard{guardResumed, guardStarted, guardReleased, guardConfirmed, guardAgain}

// write changes what the store holds of a run, but for what its indexes have.
func write(s *store.Store, r *record.Run) {
	if err := s.Update(func(tx *store.Tx) error { return runs.Put(tx, r) }); err != nil {
		panic(err)
	}
}

// hide changes what a service finds that starts. show takes it back once it runs.
func (w *world) hide(s *store.Store) {
	hidden := map[guard]record.RunStatus{guardConfirmed: record.Confirmed, guardAgain: record.Planning}[w.without]
	for _, r := range w.active() {
		changed := *r
		switch {
		case r.Status == hidden: // the service does not take it in
			w.hidden = append(w.hidden, *r)
			changed.Status = record.Discarded
		case w.without == guardStarted && r.Status == record.Applying: // that it begins was not durable
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

// keepLocks has the locks of runs outlive them, where the guard is away that forbids it.
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
