package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/state/recorded"
)

// Commit commits state changes and events together. If it returns nil, they survive any crash; if it returns an
// error, none of them was made.
func (s *Store) Commit(ctx context.Context, t journal.Commit) error {
	prepare := s.unlock
	if len(t.Changes)+len(t.Events) > 0 {
		prepare = s.unlockForWriting
	}
	if err := prepare(ctx); err != nil {
		return err
	}
	if t.EndUnfinished && !t.EndVersion && len(t.Changes)+len(t.Events) == 0 {
		if open, err := s.unfinished(ctx, t.Workspace, t.Fence); err != nil || !open {
			return err
		}
	}
	return s.write(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, t.Workspace)
		if err != nil {
			return err
		}
		if idle := len(t.Changes)+len(t.Events) == 0 && !t.EndVersion; idle && s.shared(w, t.Fence) {
			return nil // only requests for locks have unfinished versions
		}
		request, err := s.fence(w, t.Fence)
		if err != nil {
			return err
		}
		e, err := s.edit(tx, w, request)
		if err != nil {
			return err
		}
		e.ending = t.EndVersion
		for _, c := range t.Changes {
			if err := e.apply(c); err != nil {
				return fmt.Errorf("storing the state of workspace %q: %w", t.Workspace, err)
			}
		}
		if t.EndVersion || t.EndUnfinished {
			if err := s.endVersion(e, t); err != nil {
				return err
			}
		}
		if err := s.appendEvents(tx, t.Run, t.Events); err != nil || t.End == nil {
			return err
		}
		return endRun(tx, t.Run, *t.End)
	})
}

// unfinished reports whether the version in progress may have changes. Each command asks it first, and nearly always
// there are none: that needs no transaction that writes.
func (s *Store) unfinished(ctx context.Context, name, lockID string) (may bool, err error) {
	err = s.read(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil || s.shared(w, lockID) {
			return err
		}
		request, err := s.fence(w, lockID)
		if err != nil {
			return err
		}
		e, err := s.edit(tx, w, request)
		if err != nil {
			return err
		}
		k, _ := w.undo.b.Cursor().Seek(e.undoKey)
		may = request != nil || bytes.HasPrefix(k, e.undoKey)
		return nil
	})
	return may, err
}

// Replace stores a whole state as a new version. It does not write unchanged content again.
func (s *Store) Replace(ctx context.Context, name, lockID string, st *state.State, cause journal.Cause) error {
	if err := s.unlockForWriting(ctx); err != nil {
		return err
	}
	return s.write(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		request, err := s.fence(w, lockID)
		if err == nil && request != nil {
			err = fmt.Errorf("%w: %s is for objects, and does not put a whole state", journal.ErrFenced, lockID)
		}
		if err != nil {
			return err
		}
		e, err := s.edit(tx, w, nil)
		if err != nil {
			return err
		}
		if err := s.endVersion(e, journal.Commit{EndUnfinished: true, Cause: "before " + cause.Text}); err != nil {
			return err
		}
		if e, err = s.edit(tx, w, nil); err != nil {
			return err
		}
		if err := e.replace(st); err != nil {
			return fmt.Errorf("storing the state of workspace %q: %w", name, err)
		}
		v := version{
			Serial: st.Serial, Lineage: st.Lineage, Engine: st.EngineVersion, At: s.opts.Now().UTC(), Cause: cause.Text,
		}
		if !cause.Elsewhere {
			v.Who = s.holder(w)
		}
		return e.end(v)
	})
}

// edit creates a version, within one transaction.
type edit struct {
	tx      *recorded.Tx
	w       *workspace
	names   *names
	making  uint64  // number of the version that is being made
	before  version // the one that ended last
	undoKey []byte  // begins with the number

	// request is the request for locks under which the changes are made; nil if the workspace is locked as a whole,
	// or not at all.
	request *locks.Request
	ending  bool // the version of the request ends with this transaction

	// placed is the resource whose provider was stored last, with that provider: objects of one resource often come
	// one after the other.
	placed   addr.AbsResource
	provider addr.ProviderConfig
}

// edit begins to create the version of a request for locks or, for nil, the workspace's common version.
func (s *Store) edit(tx *recorded.Tx, w *workspace, request *locks.Request) (*edit, error) {
	number, before, err := w.latest()
	if err != nil {
		return nil, damaged(s.path, err.Error())
	}
	making := number + 1
	return &edit{tx: tx, w: w, names: &s.names, making: making, before: before,
		undoKey: binary.BigEndian.AppendUint64(nil, making), request: request}, nil
}

// put sets the content of a key; nil removes it. Before the first change of a key in a version, it records the
// content in the last version, so that earlier versions stay readable.
func (e *edit) put(key, value []byte) error {
	old, err := e.w.data.get(key)
	if err != nil {
		return err
	}
	return e.replaceOne(key, old, value)
}

// replaceOne is put for a caller that knows the present content of the key.
func (e *edit) replaceOne(key, old, value []byte) error {
	if (old == nil) == (value == nil) && bytes.Equal(old, value) {
		return nil
	}
	if err := e.mayPut(key); err != nil {
		return err
	}
	note, at := e.w.undo, append(e.undoKey[:8], key...)
	if e.request != nil {
		var err error
		if note, err = e.w.opened(e.request.ID); err != nil {
			return err
		}
		at = key
	}
	if !note.has(at) {
		if err := note.put(bytes.Clone(at), undoRecord(old)); err != nil {
			return err
		}
	}
	switch {
	case value == nil:
		if key[0] == instanceKind {
			if err := e.w.forget(key[1:]); err != nil {
				return err
			}
		}
		if err := e.w.data.b.Delete(key); err != nil {
			return err
		}
		return e.w.data.b.SetSequence(e.w.data.b.Sequence() - 1)
	case old == nil:
		if err := e.w.data.b.SetSequence(e.w.data.b.Sequence() + 1); err != nil {
			return err
		}
	}
	return e.w.data.put(key, value)
}

// undoRecord encodes a former content, such that none differs from an empty one.
func undoRecord(old []byte) []byte {
	if old == nil {
		return []byte{0}
	}
	return append([]byte{1}, old...)
}

// undone is the inverse of undoRecord.
func undone(undo box, key, sealed []byte) ([]byte, error) {
	r, err := undo.open(key, sealed)
	switch {
	case err != nil:
		return nil, err
	case len(r) == 1 && r[0] == 0:
		return nil, nil
	case len(r) > 0 && r[0] == 1:
		return r[1:], nil
	}
	return nil, errors.New("an earlier content cannot be read")
}

// endVersion ends the version in progress, unless its changes cancel each other out. The first version ends even
// then, if that was requested.
func (s *Store) endVersion(e *edit, t journal.Commit) error {
	if err := e.gather(); err != nil {
		return err
	}
	changed, err := e.settle()
	if err != nil || !changed && !(t.EndVersion && e.making == 1) {
		return err
	}
	v := version{
		Serial: e.before.Serial + 1, Lineage: e.before.Lineage, Engine: s.opts.EngineVersion,
		At: s.opts.Now().UTC(), Cause: t.Cause, Run: t.Run,
	}
	switch { // the changes were made by another command
	case e.request != nil:
		v.Who = e.request.Who
	case t.EndVersion:
		v.Who = s.holder(e.w)
	}
	if v.Lineage == "" {
		v.Lineage = s.opts.NewID()
	}
	if v.Cause == "" && t.Run != "" {
		run, _, err := findRun(e.tx, t.Run)
		if err != nil {
			return err
		}
		v.Cause = run.Command
	}
	return e.end(v)
}

// settle reports whether anything differs from the last version. If nothing does, it removes the undo records.
func (e *edit) settle() (changed bool, err error) {
	prefix := e.undoKey[:8]
	c := e.w.undo.b.Cursor()
	var settled [][]byte
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		old, err := undone(e.w.undo, k, v)
		if err != nil {
			return false, err
		}
		now, err := e.w.data.get(k[8:])
		if err != nil {
			return false, err
		}
		if (old == nil) != (now == nil) || !bytes.Equal(old, now) {
			return true, nil
		}
		settled = append(settled, bytes.Clone(k))
	}
	for _, k := range settled {
		if err := e.w.undo.b.Delete(k); err != nil {
			return false, err
		}
	}
	return false, nil
}

// end records the version.
func (e *edit) end(v version) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	e.w.versions.GrowsAtItsEnd() // they only grow at the end
	return e.w.versions.Put(binary.BigEndian.AppendUint64(nil, e.making), data)
}
