package service

import (
	"strings"

	"github.com/millipede-iac/millipede/service/queue"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Halts keep runs from starting: in a workspace, or in the whole service.
type Halts struct {
	*shared
	queue *queue.Queue
}

// Halt prevents runs from starting in a workspace, or in the whole service if workspace is empty, until Lift is
// called. Runs in progress continue (a drain). With h.Emergency they start no further operation, and continue after
// Lift: a plan starts again, an apply is resumed. A new halt replaces the previous one.
func (s *Halts) Halt(a *rights.Actor, workspace string, h record.Halt) error {
	reason, err := haltReason(h.Reason)
	if err != nil {
		return err
	}
	h.Reason = reason
	action := "halt.drain"
	if h.Emergency {
		action = "halt.emergency"
	}
	return s.audit.Change(a, action, workspace, func(tx *store.Tx) error {
		if err := a.MayHalt(tx, workspace); err != nil {
			return err
		}
		h.On, h.By, h.At = record.HaltOn(workspace), a.Name(), s.now().UTC()
		tx.After(func() {
			if h.Emergency {
				s.queue.Suspend(workspace)
			}
			s.queue.Wake()
		})
		return tables.Halts.Put(tx, &h)
	})
}

// haltReason checks the reason of a halt.
func haltReason(text string) (string, error) {
	if text = strings.TrimSpace(text); text == "" || len(text) > 1000 {
		return "", tables.Invalid("Reason must have between 1 and 1000 bytes: it is shown to people whose runs wait")
	}
	return text, nil
}

// Lift ends a halt. The error is ErrNotFound if there is none.
func (s *Halts) Lift(a *rights.Actor, workspace string) error {
	return s.audit.Change(a, "halt.lift", workspace, func(tx *store.Tx) error {
		if err := a.MayHalt(tx, workspace); err != nil {
			return err
		}
		if _, err := tables.Halts.Get(tx, record.HaltOn(workspace)); err != nil {
			return tables.NotFound("nothing is halted there")
		}
		tx.After(s.queue.Wake)
		return tables.Halts.Delete(tx, record.HaltOn(workspace))
	})
}

// Find returns the halt of a workspace, or that of the whole service; nil if runs can start.
func (s *Halts) Find(a *rights.Actor, workspace string) (h *record.Halt, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if workspace != "" {
			if _, err := a.Allowed(tx, workspace, rights.ReadRuns); err != nil {
				return err
			}
		}
		h, err = tables.HaltOf(tx, workspace)
		return err
	})
	return h, tables.Translated(err)
}
