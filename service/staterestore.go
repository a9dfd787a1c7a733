package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Restore makes the content of an earlier state version current again: as a new version with the next
// serial. It changes no real object; the next plan shows the differences. The error is ErrConflict if another
// actor or a run has locked the workspace.
func (s *States) Restore(a *rights.Actor, id string) (out *record.StateVersion, err error) {
	var old, current *record.StateVersion
	check := func(tx *store.Tx) (*record.Workspace, error) {
		if old, err = a.StateVersion(tx, id, rights.ReadState); err != nil {
			return nil, err
		}
		w, err := a.Allowed(tx, old.Workspace, rights.WriteState)
		if err != nil {
			return nil, err
		}
		switch {
		case old.Status != record.StateFinalized:
			return nil, tables.Conflict("the state version %s was never completed", id)
		case old.Encrypted:
			return nil, tables.Invalid("The state version %s was encrypted by the configuration, so the service cannot give "+
				"it a new serial. Download it, and push it with the command line", id)
		case w.CurrentState == id:
			return nil, tables.Conflict("the state version %s is the current one", id)
		case w.Lock.Held() && (w.Lock.Kind != a.LockKind() || w.Lock.ID != a.ID()):
			return nil, tables.Conflict("%s", tables.LockedBy(tx, w))
		}
		current, err = tables.StateVersions.Get(tx, w.CurrentState)
		return w, err
	}
	if err := s.store.View(func(tx *store.Tx) error { _, err := check(tx); return err }); err != nil {
		return nil, s.audit.Refuse(a, "state.restore", id, tables.Translated(err))
	}
	text, err := s.store.ReadAll(tables.StateFile(id))
	if err != nil {
		return nil, tables.Translated(err)
	}
	serial := current.Serial + 1
	if text, err = withSerial(text, serial); err != nil {
		return nil, err
	}
	out = &record.StateVersion{ID: tables.NewID("sv"), Workspace: old.Workspace, Serial: serial, Lineage: old.Lineage,
		Status: record.StateFinalized, Secret: tables.NewSecret(), CreatedAt: s.now().UTC(), CreatedBy: a.ID()}
	w, err := s.store.Write(tables.StateFile(out.ID), bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return nil, err
	}
	out.MD5, out.Size = w.MD5, w.Size
	if _, err := describe(out, bytes.NewReader(text)); err != nil {
		return nil, err
	}
	seen := current.ID
	err = s.audit.Change(a, "state.restore", id, func(tx *store.Tx) error {
		ws, err := check(tx)
		if err != nil {
			return err
		}
		if ws.CurrentState != seen {
			return tables.Conflict("the state of the workspace has changed meanwhile")
		}
		ws.CurrentState, ws.UpdatedAt = out.ID, out.CreatedAt
		tx.After(func() { s.outlines.enqueueStateOutline(out.ID) })
		s.tellAfter(tx, ws)
		if err := tables.Workspaces.Put(tx, ws); err != nil {
			return err
		}
		return tables.StateVersions.Put(tx, out)
	})
	if err != nil {
		return nil, errors.Join(err, s.store.Remove(tables.StateFile(out.ID)))
	}
	return out, nil
}

// withSerial returns the text of a state with another serial, and every other byte unchanged.
func withSerial(text []byte, serial uint64) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("reading the state: %w", err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("reading the state: %w", err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, fmt.Errorf("reading the state: %w", err)
		}
		if key == "serial" {
			end := int(d.InputOffset())
			out := append([]byte(nil), text[:end-len(raw)]...)
			out = strconv.AppendUint(out, serial, 10)
			return append(out, text[end:]...), nil
		}
	}
	return nil, tables.Invalid("The state has no serial")
}
