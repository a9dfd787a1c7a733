package service

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the API's checksum of states
	"encoding/hex"
	"errors"
	"io"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// NewState is a state version to be created.
type NewState struct {
	Serial  uint64
	Lineage string
	MD5     string
	Force   bool
	Run     string
	// Outputs has the outputs as JSON, decoded from base64; nil if they must be read from the state itself.
	Outputs []byte
	// State and JSON have the content if it was sent with the request; nil if it is uploaded later.
	State, JSON []byte
}

// States are the versions of the states of workspaces.
type States struct {
	*shared
	users    *accounts.Users
	maxState int64
	outlines *outlines
	uploads  *queues
}

// Create creates a version of a state, which becomes the current one when its content has arrived. The
// error is ErrConflict if the actor does not hold the lock of the workspace, or if the version does not follow
// the current one.
func (s *States) Create(a *rights.Actor, workspace string, n NewState) (*record.StateVersion, error) {
	var out *record.StateVersion
	err := s.audit.Change(a, "state.create", workspace, func(tx *store.Tx) error {
		w, err := a.Allowed(tx, workspace, rights.WriteState)
		if err != nil {
			return err
		}
		if err := s.mayWrite(tx, a, w, n.Run); err != nil {
			return err
		}
		same, err := s.follows(tx, w, n.Serial, n.Lineage, n.MD5, n.Force)
		if err != nil {
			return err
		}
		if same != nil {
			out = same
			return nil
		}
		for _, id := range tables.StateVersions.Newest(tx, "workspace", 1, w.ID) {
			last, err := tables.StateVersions.Get(tx, id)
			if err != nil {
				return err
			}
			if last.Status == record.UploadPending && last.Serial == n.Serial && last.MD5 == n.MD5 &&
				last.CreatedBy == a.ID() && sameHolder(last.Under, w.Lock) {
				out = last // a repeated request
				return nil
			}
		}
		out = &record.StateVersion{
			ID: tables.NewID("sv"), Workspace: w.ID, Run: n.Run, Serial: n.Serial, Lineage: n.Lineage, MD5: n.MD5,
			Force: n.Force, Under: record.Lock{Kind: w.Lock.Kind, ID: w.Lock.ID, ForeignID: w.Lock.ForeignID},
			Status: record.UploadPending, Secret: tables.NewSecret(), CreatedAt: s.now().UTC(), CreatedBy: a.ID(),
		}
		out.Outputs = readOutputs(n.Outputs)
		return tables.StateVersions.Put(tx, out)
	})
	if err != nil || n.State == nil || out.Status == record.StateFinalized {
		return out, err
	}
	if n.JSON != nil {
		if err := s.UploadJSON(out.Secret, bytes.NewReader(n.JSON), int64(len(n.JSON))); err != nil {
			return nil, err
		}
	}
	if err := s.Upload(out.Secret, bytes.NewReader(n.State), int64(len(n.State))); err != nil {
		return nil, err
	}
	return s.Find(a, out.ID)
}

// MayCreate checks that the actor may write the state of a workspace.
func (s *States) MayCreate(a *rights.Actor, workspace string) error {
	return tables.Translated(s.store.View(func(tx *store.Tx) error {
		_, err := a.Allowed(tx, workspace, rights.WriteState)
		return err
	}))
}

// mayWrite checks that the workspace is locked by the actor, or by the given run.
func (s *States) mayWrite(tx *store.Tx, a *rights.Actor, w *record.Workspace, run string) error {
	l := w.Lock
	switch {
	case !l.Held():
		return tables.Conflict("lock the workspace before changing its state")
	case l.Kind == "run" && (a.Run != nil && a.Run.ID == l.ID || run == l.ID):
		return nil
	case l.Kind == a.LockKind() && l.ID == a.ID():
		return nil
	}
	return tables.Conflict("%s", tables.LockedBy(tx, w))
}

// sameHolder reports whether two locks have the same holder.
func sameHolder(then, now record.Lock) bool {
	return then.Kind == now.Kind && then.ID == now.ID && then.ForeignID == now.ForeignID
}

// follows checks that a version may follow the current one. If both are the same version, it returns the
// current one.
func (s *States) follows(tx *store.Tx, w *record.Workspace, serial uint64, lineage, sum string,
	force bool) (*record.StateVersion, error) {
	if w.CurrentState == "" {
		return nil, nil //nolint:nilnil // a different version, which is allowed
	}
	current, err := tables.StateVersions.Get(tx, w.CurrentState)
	switch {
	case err != nil:
		return nil, err
	case current.Serial == serial && current.MD5 == sum && current.Lineage == lineage:
		return current, nil
	case force:
		return nil, nil //nolint:nilnil // as above
	case current.Lineage != "" && lineage != "" && current.Lineage != lineage:
		return nil, tables.Conflict("the state has the lineage %s, and the current one has %s", lineage, current.Lineage)
	case serial < current.Serial:
		return nil, tables.Conflict("the state has the serial %d, and the current one has %d", serial, current.Serial)
	case serial == current.Serial:
		return nil, tables.Conflict("the state has the serial %d of the current one, but different content", serial)
	}
	return nil, nil //nolint:nilnil // as above
}

// Upload stores the content of a version, which is found by the secret of its upload address. The version
// is the current one when this returns. size is the size that the client has announced, or -1 if it has
// announced none.
func (s *States) Upload(secret string, data io.Reader, size int64) error {
	defer s.uploads.take(tables.Hash(secret))()
	v, err := s.uploaded(secret)
	if err != nil {
		return err
	}
	if v.Status == record.StateFinalized {
		return repeats(data, size, s.maxState, v.MD5,
			tables.Conflict("the state version %s is complete, with different content", v.ID))
	}
	if err := fits(size, s.maxState); err != nil {
		return err
	}
	described := *v
	w, _, _, err := s.keep(&described, data)
	if err != nil {
		return err
	}
	return tables.Translated(s.store.Update(func(tx *store.Tx) error {
		v, err := tables.StateVersions.Get(tx, v.ID)
		if err != nil || v.Status == record.StateFinalized {
			return err
		}
		ws, err := tables.Workspaces.Get(tx, v.Workspace)
		if err != nil {
			return err
		}
		refuse := func(problem error) error {
			v.Status = record.StateDiscarded
			if err := tables.StateVersions.Put(tx, v); err != nil {
				return err
			}
			tx.Fail(problem)
			return nil
		}
		if v.MD5 != "" && v.MD5 != w.MD5 {
			return refuse(tables.Invalid("the checksum of what was uploaded is %s, not %s", w.MD5, v.MD5))
		}
		switch {
		case sameHolder(v.Under, ws.Lock):
		case ws.Lock.Held():
			return refuse(tables.Conflict("%s", tables.LockedBy(tx, ws)))
		default:
			return refuse(tables.Conflict("the workspace is no longer locked"))
		}
		if _, err := s.follows(tx, ws, v.Serial, v.Lineage, v.MD5, v.Force); err != nil {
			return refuse(err)
		}
		described.MD5, described.Size, described.Status, described.JSON = w.MD5, w.Size, record.StateFinalized, v.JSON
		v = &described
		ws.CurrentState, ws.UpdatedAt = v.ID, s.now().UTC()
		if err := tables.Workspaces.Put(tx, ws); err != nil {
			return err
		}
		tx.After(func() { s.outlines.enqueueStateOutline(v.ID) })
		s.tellAfter(tx, ws)
		return tables.StateVersions.Put(tx, v)
	}))
}

// keep stores the content of a version while it arrives, and extracts the properties that are recorded
// with it. wrong says why the content is not a state.
func (s *States) keep(v *record.StateVersion, data io.Reader) (w store.Written, text stateText, wrong,
	err error) {
	type outcome struct {
		store.Written
		err error
	}
	read, write := io.Pipe()
	kept := make(chan outcome, 1)
	go func() { // the code below waits for it
		w, err := s.store.Write(tables.StateFile(v.ID), io.TeeReader(data, write), s.maxState)
		_ = write.CloseWithError(err) // never fails
		kept <- outcome{w, err}
	}()
	defer func() {
		_ = read.Close() // never fails
		o := <-kept
		if w, err = o.Written, tables.Translated(o.err); errors.Is(err, tables.ErrTooLarge) {
			err = &problem413{s.maxState}
		}
	}()
	text, wrong = describe(v, read)
	_, _ = io.Copy(io.Discard, read) // a read error is returned by the other side
	return
}

// UploadJSON stores the JSON form of a version; size is as for UploadState.
func (s *States) UploadJSON(secret string, data io.Reader, size int64) error {
	defer s.uploads.take(tables.Hash(secret) + " json")()
	v, err := s.uploaded(secret)
	if err != nil {
		return err
	}
	if err := fits(size, s.maxState); err != nil {
		return err
	}
	if _, err := s.store.Write(tables.StateJSONFile(v.ID), data, s.maxState); err != nil {
		if errors.Is(err, store.ErrTooLarge) {
			return &problem413{s.maxState}
		}
		return tables.Translated(err)
	}
	return tables.Translated(s.store.Update(func(tx *store.Tx) error {
		v, err := tables.StateVersions.Get(tx, v.ID)
		if err != nil {
			return err
		}
		v.JSON = true
		return tables.StateVersions.Put(tx, v)
	}))
}

func (s *States) uploaded(secret string) (v *record.StateVersion, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if v, err = tables.StateVersions.Find(tx, "secret", tables.Hash(secret)); err != nil ||
			s.now().Sub(v.CreatedAt) >= record.UploadTerm {
			return tables.NotFound("there is nothing to upload at this address")
		}
		if v.Status == record.StateDiscarded {
			return tables.Conflict("the state version %s was discarded", v.ID)
		}
		return nil
	})
	return v, tables.Translated(err)
}

// Find returns a version of a state.
func (s *States) Find(a *rights.Actor, id string) (v *record.StateVersion, err error) {
	err = s.store.View(func(tx *store.Tx) error { v, err = a.StateVersion(tx, id, rights.ReadOutputs); return err })
	return v, tables.Translated(err)
}

// Current returns the current version of a workspace's state. The error is ErrNotFound if there is none.
func (s *States) Current(a *rights.Actor, workspace string) (v *record.StateVersion, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		w, err := a.Allowed(tx, workspace, rights.ReadOutputs)
		if err != nil {
			return err
		}
		if w.CurrentState == "" {
			return tables.NotFound("the workspace %s has no state yet", w.Name)
		}
		v, err = tables.StateVersions.Get(tx, w.CurrentState)
		return err
	})
	return v, tables.Translated(err)
}

// List returns the versions of a workspace's state, newest first.
func (s *States) List(a *rights.Actor, workspace string) (out []*record.StateVersion, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if _, err := a.Allowed(tx, workspace, rights.ReadOutputs); err != nil {
			return err
		}
		for _, id := range tables.StateVersions.Newest(tx, "workspace", 10_000, workspace) {
			v, err := tables.StateVersions.Get(tx, id)
			if err != nil {
				return err
			}
			if v.Status == record.StateFinalized {
				out = append(out, v)
			}
		}
		return nil
	})
	return out, tables.Translated(err)
}

// Output returns an output of a state version, with its value.
func (s *States) Output(a *rights.Actor, id string) (o *record.Output, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		for _, sv := range tables.StateVersions.List(tx, "output", id) {
			v, err := a.StateVersion(tx, sv, rights.ReadOutputs)
			if err != nil {
				return err
			}
			for i := range v.Outputs {
				if v.Outputs[i].ID == id {
					o = &v.Outputs[i]
					return nil
				}
			}
		}
		return tables.NotFound("there is no output %q, or you have no access to it", id)
	})
	return o, tables.Translated(err)
}

// Download returns a reader of the exact content of a version. The caller closes it. The content is
// complete when Read returns io.EOF.
func (s *States) Download(a *rights.Actor, id string) (data io.ReadCloser, v *record.StateVersion, err error) {
	err = s.store.View(func(tx *store.Tx) error { v, err = a.StateVersion(tx, id, rights.ReadState); return err })
	if err != nil {
		return nil, nil, tables.Translated(err)
	}
	data, err = s.store.Read(tables.StateFile(v.ID))
	return data, v, tables.Translated(err)
}

// DownloadJSON returns the JSON form of a version.
func (s *States) DownloadJSON(a *rights.Actor, id string) (data []byte, err error) {
	var v *record.StateVersion
	err = s.store.View(func(tx *store.Tx) error { v, err = a.StateVersion(tx, id, rights.ReadState); return err })
	if err != nil {
		return nil, tables.Translated(err)
	}
	data, err = s.store.ReadAll(tables.StateJSONFile(v.ID))
	return data, tables.Translated(err)
}

// Sum returns the checksum of a state's content in the form that the API uses.
func Sum(data []byte) string {
	sum := md5.Sum(data) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}
