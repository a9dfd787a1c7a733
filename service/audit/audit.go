// Package audit makes changes that actors request, and records them in the audit log.
//
// It does not decide what an actor may do: the change itself does.
package audit

import (
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Log is the audit log. It has an entry for each change that an actor requested, and for each request that was refused.
type Log struct {
	Store *store.Store
	Now   func() time.Time
}

// Change makes a change that an actor requested, and records both the change and the actor in one transaction.
// A refused request is recorded too.
func (l *Log) Change(a *rights.Actor, action, object string, change func(*store.Tx) error) error {
	err := tables.Translated(l.Store.Update(func(tx *store.Tx) error {
		if err := change(tx); err != nil {
			return err
		}
		return l.Note(tx, a, action, object, "done")
	}))
	if err == nil {
		return nil
	}
	if noteErr := l.Store.Update(func(tx *store.Tx) error {
		return l.Note(tx, a, action, object, "refused: "+err.Error())
	}); noteErr != nil {
		return fmt.Errorf("%w (and the audit log could not be written: %w)", err, noteErr)
	}
	return err
}

// Refuse records that a request was refused before it took effect, and returns the reason.
func (l *Log) Refuse(a *rights.Actor, action, object string, reason error) error {
	return l.Change(a, action, object, func(*store.Tx) error { return reason })
}

// Note records an action in the transaction of the caller.
func (l *Log) Note(tx *store.Tx, a *rights.Actor, action, object, outcome string) error {
	n, err := tx.Next("audit")
	if err != nil {
		return err
	}
	return tables.AuditLog.Put(tx, &tables.AuditEntry{Number: n, Audit: record.Audit{
		At: l.Now().UTC(), Actor: a.Name(), Token: a.Token.ID, From: a.From, Action: action, Object: object,
		Outcome: outcome,
	}})
}

// Latest returns the latest entries, newest first, up to limit. Only administrators of the service may read them.
func (l *Log) Latest(a *rights.Actor, limit int) (out []record.Audit, err error) {
	if !a.Admin() {
		return nil, tables.Forbidden("only administrators of the service may read the audit log")
	}
	err = l.Store.View(func(tx *store.Tx) error {
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
