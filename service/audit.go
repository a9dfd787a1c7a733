package service

import (
	"fmt"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// audited makes a change that an actor requested, and records both the change and the actor in one transaction.
// A refused request is recorded too.
func (s *shared) audited(a *rights.Actor, action, object string, change func(*store.Tx) error) error {
	err := tables.Translated(s.store.Update(func(tx *store.Tx) error {
		if err := change(tx); err != nil {
			return err
		}
		return s.note(tx, a, action, object, "done")
	}))
	if err == nil {
		return nil
	}
	if noteErr := s.store.Update(func(tx *store.Tx) error {
		return s.note(tx, a, action, object,
			"refused: "+err.Error())
	}); noteErr != nil {
		return fmt.Errorf("%w (and the audit log could not be written: %w)", err, noteErr)
	}
	return err
}

func (s *shared) note(tx *store.Tx, a *rights.Actor, action, object, outcome string) error {
	n, err := tx.Next("audit")
	if err != nil {
		return err
	}
	return tables.AuditLog.Put(tx, &tables.AuditEntry{Number: n, Audit: record.Audit{
		At: s.now().UTC(), Actor: a.Name(), Token: a.Token.ID, From: a.From, Action: action, Object: object,
		Outcome: outcome,
	}})
}

// AuditLog has an entry for each change that an actor requested, and for each request that was refused.
type AuditLog struct {
	*shared
}

// Latest returns the latest entries of the audit log, newest first. Only administrators may read it.
func (s *AuditLog) Latest(a *rights.Actor, limit int) (out []record.Audit, err error) {
	if !a.Admin() {
		return nil, tables.Forbidden("only administrators of the service may read the audit log")
	}
	err = s.store.View(func(tx *store.Tx) error {
		for e, err := range tables.AuditLog.Backward(tx) {
			if err != nil || len(out) == limit {
				return err
			}
			out = append(out, e.Audit)
		}
		return nil
	})
	return out, err
}
