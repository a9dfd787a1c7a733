package service

import (
	"crypto/md5" //nolint:gosec // the protocol's checksum
	"encoding/base64"
	"encoding/hex"
	"io"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// ForeignState is a version of a state that a client of the http backend uploads.
type ForeignState struct {
	Lock string // the ID of the client's lock; empty if the client does not lock
	MD5  string // the checksum of the content in base64, if the client sends one
}

// PutForeign stores a version that a client of the http backend uploads; it is the current version when
// this returns. The content is read as a stream. size is the size that the client has announced, or -1 if it
// has announced none.
func (s *States) PutForeign(a *rights.Actor, workspace string, n ForeignState, data io.Reader, size int64) error {
	may := func(tx *store.Tx) (*record.Workspace, error) {
		w, err := a.Allowed(tx, workspace, rights.WriteState)
		if err != nil {
			return nil, err
		}
		return w, mayWriteForeign(tx, w, n.Lock)
	}
	err := s.store.View(func(tx *store.Tx) error { _, err := may(tx); return err }) // checked before the content is read
	if err == nil {
		err = fits(size, s.maxState)
	}
	if err != nil {
		return s.audit.Refuse(a, "state.create", workspace, tables.Translated(err))
	}
	v := &record.StateVersion{ID: tables.NewID("sv"), Workspace: workspace, Status: record.StateFinalized,
		Secret:    tables.NewSecret(),
		CreatedAt: s.now().UTC(), CreatedBy: a.ID()}
	written, text, wrong, err := s.keep(v, data)
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if kept {
			return
		}
		if err := s.store.Remove(tables.StateFile(v.ID)); err != nil {
			s.log.Warn("cannot remove the file of a refused state", "file", tables.StateFile(v.ID), "error", err)
		}
	}()
	v.MD5, v.Size = written.MD5, written.Size
	if n.MD5 != "" && n.MD5 != base64MD5(written.MD5) {
		return tables.Invalid("the checksum of the content differs from Content-MD5")
	}
	if wrong != nil {
		return tables.Invalid("the content is not a state: %v", wrong)
	}
	v.Serial = text.serial
	return s.audit.Change(a, "state.create", workspace, func(tx *store.Tx) error {
		kept = false
		w, err := may(tx)
		if err != nil {
			return err
		}
		same, err := s.follows(tx, w, v.Serial, v.Lineage, v.MD5, false)
		if err != nil || same != nil {
			return err
		}
		kept = true
		w.CurrentState, w.UpdatedAt = v.ID, s.now().UTC()
		if err := tables.Workspaces.Put(tx, w); err != nil {
			return err
		}
		tx.After(func() { s.outlines.enqueueStateOutline(v.ID) })
		s.tellAfter(tx, w)
		return tables.StateVersions.Put(tx, v)
	})
}

// mayWriteForeign checks that the workspace has the lock whose ID a client of the http backend sends.
func mayWriteForeign(tx *store.Tx, w *record.Workspace, lock string) error {
	switch l := w.Lock; {
	case !l.Held() && lock == "": // a client that does not lock
		return nil
	case l.Held() && l.ForeignID != "" && l.ForeignID == lock:
		return nil
	case l.Held():
		return &tables.Locked{Holder: holderInfo(tx, w)}
	}
	return tables.Conflict("lock the workspace before changing its state")
}

// base64MD5 converts a checksum from hexadecimal to base64, which the http backend uses.
func base64MD5(sum string) string {
	raw, err := hex.DecodeString(sum)
	if err != nil || len(raw) != md5.Size {
		return ""
	}
	return base64.StdEncoding.EncodeToString(raw)
}
