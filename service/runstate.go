package service

import (
	"bytes"
	"context"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// runState gives a run access to the state of its workspace.
type runState struct {
	*shared
	outlines *outlines
	run      record.Run
	// changer is set for a change of objects in a workspace where the run is, or was, in progress: it is the ID of the
	// user or team that makes the change.
	changer string
}

func (t *runState) Read(context.Context) (data []byte, err error) {
	v, err := t.current()
	if err != nil || v == nil {
		return nil, err
	}
	return t.store.ReadAll(tables.StateFile(v.ID))
}

// Providers implements State.
func (t *runState) Providers(context.Context) ([]string, error) {
	v, err := t.current()
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		return []string{}, nil
	}
	return v.Providers, nil
}

// current returns the current version; nil if there is none.
func (t *runState) current() (v *record.StateVersion, err error) {
	err = t.store.View(func(tx *store.Tx) error {
		w, err := tables.Workspaces.Get(tx, t.run.Workspace)
		if err != nil || w.CurrentState == "" {
			return err
		}
		v, err = tables.StateVersions.Get(tx, w.CurrentState)
		return err
	})
	return v, err
}

// later returns ErrConflict for a version that is older than the current one, which a late request could bring.
func later(tx *store.Tx, ws *record.Workspace, v *record.StateVersion) error {
	current, err := tables.StateVersions.Get(tx, ws.CurrentState)
	if err != nil {
		return nil //nolint:nilerr // there is none yet
	}
	if current.Lineage == v.Lineage && v.Serial < current.Serial {
		return tables.Conflict("the current version of the state has the serial %d, and this one has %d", current.Serial,
			v.Serial)
	}
	return nil
}

// Write implements State.
func (t *runState) Write(_ context.Context, data []byte) error {
	v := &record.StateVersion{
		ID: tables.NewID("sv"), Workspace: t.run.Workspace, Run: t.run.ID, Status: record.StateFinalized,
		Secret:    tables.NewSecret(),
		CreatedAt: t.now().UTC(), CreatedBy: t.run.CreatedBy,
	}
	if t.changer != "" {
		v.Run, v.CreatedBy = "", t.changer
	}
	w, err := t.store.Write(tables.StateFile(v.ID), bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	v.MD5, v.Size = w.MD5, w.Size
	text, err := describe(v, bytes.NewReader(data))
	if err != nil {
		return err
	}
	v.Serial = text.serial
	return tables.Translated(t.store.Update(func(tx *store.Tx) error {
		ws, err := tables.Workspaces.Get(tx, t.run.Workspace)
		if err != nil {
			return err
		}
		mine := ws.Lock.ID == t.run.ID
		r, err := tables.Runs.Get(tx, t.run.ID)
		if !mine && ws.ObjectLocks { // the lock stands for all runs in progress
			mine = t.changer != "" || err == nil && r.Status.Computes()
		}
		if err == nil && t.changer == "" && r.Fence != t.run.Fence {
			return tables.Conflict("another attempt at this phase of the run %s has begun", t.run.ID)
		}
		if err := later(tx, ws, v); err != nil {
			return err
		}
		if ws.Lock.Kind != "run" || !mine {
			return tables.Conflict("the run %s has lost the lock of its workspace: %s", t.run.ID, tables.LockedBy(tx, ws))
		}
		ws.CurrentState, ws.UpdatedAt = v.ID, v.CreatedAt
		if err := tables.Workspaces.Put(tx, ws); err != nil {
			return err
		}
		tx.After(func() { t.outlines.enqueueStateOutline(v.ID) })
		t.tellAfter(tx, ws)
		return tables.StateVersions.Put(tx, v)
	}))
}
