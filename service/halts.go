package service

import (
	"errors"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// Halt has nothing new start in a workspace, or with an empty workspace in the whole service, until Lift. What is under
// way goes on (a drain); with h.Emergency it is stopped, as by an interrupt, and goes on after Lift: a plan is made
// again, an apply is resumed. Another halt takes the place of the one before.
func (s *Service) Halt(a *Actor, workspace string, h record.Halt) error {
	if h.Reason = strings.TrimSpace(h.Reason); h.Reason == "" || len(h.Reason) > 1000 {
		return invalid("Reason must have between 1 and 1000 bytes: it is what people read whose runs wait")
	}
	action := "halt.drain"
	if h.Emergency {
		action = "halt.emergency"
	}
	return s.audited(a, action, workspace, func(tx *store.Tx) error {
		if err := a.mayHalt(tx, workspace); err != nil {
			return err
		}
		h.On, h.By, h.At = place(workspace), a.Name(), s.now().UTC()
		tx.After(func() {
			if h.Emergency {
				s.queue.suspend(workspace)
			}
			s.queue.wake()
		})
		return halts.Put(tx, &h)
	})
}

// Lift takes a halt away. The error is ErrNotFound where there is none.
func (s *Service) Lift(a *Actor, workspace string) error {
	return s.audited(a, "halt.lift", workspace, func(tx *store.Tx) error {
		if err := a.mayHalt(tx, workspace); err != nil {
			return err
		}
		if _, err := halts.Get(tx, place(workspace)); err != nil {
			return notFound("nothing is halted there")
		}
		tx.After(s.queue.wake)
		return halts.Delete(tx, place(workspace))
	})
}

// Halted returns the halt of a workspace, or that of the whole service; nil where runs start.
func (s *Service) Halted(a *Actor, workspace string) (h *record.Halt, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if workspace != "" {
			if _, err := a.allowed(tx, workspace, needReadRuns); err != nil {
				return err
			}
		}
		h, err = haltOf(tx, workspace)
		return err
	})
	return h, told(err)
}

// mayHalt checks the right to halt: that of an administrator of the workspace, or of the service.
func (a *Actor) mayHalt(tx *store.Tx, workspace string) error {
	if workspace != "" {
		_, err := a.allowed(tx, workspace, needAdmin)
		return err
	}
	if !a.admin() {
		return forbidden("only administrators of the service halt it as a whole")
	}
	return nil
}

// place is the key of a halt.
func place(workspace string) string {
	if workspace == "" {
		return "service"
	}
	return workspace
}

// haltOf returns what keeps runs of a workspace from starting; nil for nothing. An emergency counts before a drain, the
// service before the workspace.
func haltOf(tx *store.Tx, workspace string) (found *record.Halt, err error) {
	for _, on := range []string{place(""), place(workspace)} {
		h, err := halts.Get(tx, on)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, err
		case found == nil || h.Emergency && !found.Emergency:
			found = h
		}
	}
	return found, nil
}

// suspend stops what is under way in a workspace, "" for all.
func (q *queue) suspend(workspace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, j := range q.running {
		if r := q.active[id]; r != nil && (workspace == "" || r.Workspace == workspace) {
			j.suspended = true
			j.stop(ErrSuspended)
		}
	}
}

// goOn goes on with the applies that nothing carries out: the service, or somebody, has stopped them in their midst.
func (q *queue) goOn(b *board) (due []*record.Run) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.unsure || q.stopped {
		return nil
	}
	for _, o := range b.runs {
		r := q.active[o.ID] // the board may be older: what has ended meanwhile is not begun again
		if r != nil && r.Status == record.Applying && q.running[r.ID] == nil &&
			(!b.emergency(r) || !r.CancelAsked.IsZero()) {
			due = append(due, r)
		}
	}
	return due
}
