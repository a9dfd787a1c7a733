package bolt

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/state/recorded"
)

// Several runs can change a workspace at the same time if they have requested locks of objects. Their changes are
// in the data immediately; the former contents are stored separately for each request, until its version ends. Then
// they become the undo records of that version, as if all of it had happened at that moment. The locks ensure that
// no one else has changed the same keys in between.
var (
	requestsBucket = []byte("requests") // number -> locks.Request, compressed JSON
	openBucket     = []byte("open")     // ID of a request -> bucket: key of data -> content before, as in undo
)

// readRequests loads the requests from the file, in their order, so that the same ones are granted as before.
func (s *Store) readRequests(tx *recorded.Tx) error {
	all := tx.Bucket(workspacesBucket)
	if all == nil {
		return nil
	}
	return all.ForEachBucket(func(name []byte) error {
		b := all.Bucket(name).Bucket(requestsBucket)
		if b == nil {
			return nil
		}
		return b.ForEach(func(_, v []byte) error {
			r, err := decodeRequest(v)
			if err != nil {
				return damaged(s.path, "a request for locks: "+err.Error())
			}
			s.requests.Ask(string(name), r)
			return nil
		})
	})
}

func encodeRequest(r locks.Request) ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return compress(data), nil
}

func decodeRequest(data []byte) (r locks.Request, err error) {
	plain, err := decompress(data)
	if err == nil {
		err = json.Unmarshal(plain, &r)
	}
	return r, err
}

// asked returns the holder of object locks that prevent a lock of the whole workspace; nil if there is none.
func (s *Store) asked(name string) *journal.LockInfo {
	all := s.requests.Requests(name)
	if len(all) == 0 {
		return nil
	}
	r := all[0]
	return &journal.LockInfo{ID: r.ID, Operation: r.Operation, Who: r.Who, Created: r.At, Path: name}
}

// shared reports whether others than the holder of this lock change parts of the workspace.
func (s *Store) shared(w *workspace, lockID string) bool {
	_, _, own := s.requests.Get(w.name, lockID)
	return !own && len(s.requests.Requests(w.name)) > 0
}

// findRequest returns the key of a request; nil if there is none.
func (w *workspace) findRequest(id string) ([]byte, error) {
	b := w.b.Bucket(requestsBucket)
	if b == nil {
		return nil, nil
	}
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		r, err := decodeRequest(v)
		if err != nil {
			return nil, err
		}
		if r.ID == id {
			return k, nil
		}
	}
	return nil, nil
}

// AskLocks records a request for locks of objects.
func (s *Store) AskLocks(ctx context.Context, name string, r locks.Request) error {
	if err := s.unlockForWriting(ctx); err != nil {
		return err
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	if had, _, is := s.requests.Get(name, r.ID); is {
		if maps.Equal(had.Set, r.Set) {
			return nil
		}
		if err := s.leave(ctx, name, r.ID); err != nil {
			return err
		}
	}
	data, err := encodeRequest(r)
	if err != nil {
		return err
	}
	err = s.write(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		if held := s.lock(w); held != nil {
			return &journal.Held{Holder: *held}
		}
		// Changes that were left under the lock of the whole workspace must not become part of another run's
		// version.
		if e, err := s.edit(tx, w, nil); err != nil {
			return err
		} else if err := s.endVersion(e, journal.Commit{EndUnfinished: true, Cause: "interrupted"}); err != nil {
			return err
		}
		b, err := w.b.CreateBucketIfNotExists(requestsBucket)
		if err != nil {
			return err
		}
		number, err := b.NextSequence()
		if err != nil {
			return err
		}
		if err := b.Put(binary.BigEndian.AppendUint64(nil, number), data); err != nil {
			return err
		}
		return fixFormat(tx)
	})
	if err == nil {
		s.requests.Ask(name, r)
	}
	return err
}

// AwaitLocks returns when a request is granted.
func (s *Store) AwaitLocks(ctx context.Context, name, id string) error {
	return s.requests.Await(ctx, name, id)
}

// LeaveLocks withdraws a request.
func (s *Store) LeaveLocks(ctx context.Context, name, id string) error {
	if err := s.unlock(ctx); err != nil {
		return err
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	if _, _, is := s.requests.Get(name, id); !is {
		return nil
	}
	return s.leave(ctx, name, id)
}

// leave is LeaveLocks for callers that hold s.asking.
func (s *Store) leave(ctx context.Context, name, id string) error {
	err := s.write(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		if box := w.open(id); box.b != nil {
			r, _, _ := s.requests.Get(name, id)
			e, err := s.edit(tx, w, &r)
			if err != nil {
				return err
			}
			t := journal.Commit{EndUnfinished: true, Cause: "interrupted", Run: r.Run}
			if err := s.endVersion(e, t); err != nil {
				return err
			}
		}
		key, err := w.findRequest(id)
		if err != nil || key == nil {
			return err
		}
		if err := w.b.Bucket(requestsBucket).Delete(key); err != nil {
			return err
		}
		return fixFormat(tx)
	})
	if err == nil {
		s.requests.Leave(name, id)
	}
	return err
}

// begun records the run of a request.
func (s *Store) begun(w *workspace, r *locks.Request, run string) error {
	key, err := w.findRequest(r.ID)
	if err != nil || key == nil {
		return err
	}
	now := *r
	now.Run = run
	data, err := encodeRequest(now)
	if err != nil {
		return err
	}
	if err := w.b.Bucket(requestsBucket).Put(slices.Clone(key), data); err != nil {
		return err
	}
	// If the transaction fails, the recorded run has not begun, which does no harm.
	s.requests.Begun(w.name, r.ID, run)
	return nil
}

// LockRequests returns the requests.
func (s *Store) LockRequests(ctx context.Context, name string) ([]locks.Request, error) {
	return s.requests.Requests(name), ctx.Err()
}

// LockBlockers returns the requests that a request waits for.
func (s *Store) LockBlockers(ctx context.Context, name, id string, most int) ([]locks.Blocker, error) {
	return s.requests.Blockers(name, id, most), ctx.Err()
}

// opened returns the bucket of former contents of a request, creating it if necessary.
func (w *workspace) opened(request string) (box, error) {
	if b := w.open(request); b.b != nil {
		return b, nil
	}
	all, err := w.b.CreateBucketIfNotExists(openBucket)
	if err == nil {
		_, err = all.CreateBucketIfNotExists([]byte(request))
	}
	return w.open(request), err
}

// eachOpen calls f with the former content of every key that has changed under requests since their versions began.
func (w *workspace) eachOpen(f func(request string, key, before []byte) error) error {
	all := w.b.Bucket(openBucket)
	if all == nil {
		return nil
	}
	return all.ForEachBucket(func(id []byte) error {
		own := w.open(string(id))
		return own.b.ForEach(func(k, v []byte) error {
			before, err := undone(own, k, v)
			if err != nil {
				return err
			}
			return f(string(id), k, before)
		})
	})
}

// gather turns the former contents of the request into the undo records of the version in progress, and removes
// them from the request.
func (e *edit) gather() error {
	if e.request == nil {
		return nil
	}
	own := e.w.open(e.request.ID)
	if own.b == nil {
		return nil
	}
	err := own.b.ForEach(func(k, v []byte) error {
		record, err := own.open(k, v)
		if err != nil {
			return err
		}
		return e.w.undo.put(append(binary.BigEndian.AppendUint64(nil, e.making), k...), record)
	})
	if err != nil {
		return err
	}
	return e.w.b.Bucket(openBucket).DeleteBucket([]byte(e.request.ID))
}

// mayPut rejects changes of keys that the request does not lock.
func (e *edit) mayPut(key []byte) error {
	if e.request == nil {
		return nil
	}
	var o locks.Object
	switch name := string(key[1:]); key[0] {
	case instanceKind:
		o = locks.Instance(name)
	case resourceKind:
		o = locks.Resource(name)
	case outputKind:
		o = locks.Output(name)
	default: // of check results each is one: see mergeChecks
		return nil
	}
	return e.mayWrite(o)
}

func (e *edit) mayWrite(o locks.Object) error {
	if e.request == nil || e.request.Set.Writes(o) {
		return nil
	}
	what := o.String()
	if o == locks.Resource(what) {
		what = "the resource " + what
	}
	return fmt.Errorf("%w: the run %s has not locked %s, which it changes", journal.ErrFenced, e.request.Run, what)
}

// mergeChecks merges the check results of a run with those of others. A run that has locked only some of them does
// so when its version ends.
func (e *edit) mergeChecks(c state.MergeChecks) error {
	if e.request != nil && !e.ending {
		return fmt.Errorf("%w: check results of the run %s come with its end", journal.ErrFenced, e.request.Run)
	}
	for _, config := range c.Owned {
		if err := e.mayWrite(locks.Check(config)); err != nil {
			return err
		}
	}
	data, err := e.w.data.get([]byte{checksKind})
	if err != nil {
		return err
	}
	var stored []state.CheckResult
	if data != nil {
		if err := json.Unmarshal(data, &stored); err != nil {
			return err
		}
	}
	return e.putChecks(c.Onto(stored))
}

// setChecks replaces all check results.
func (e *edit) setChecks(c state.SetChecks) error {
	if e.request != nil && !e.request.Set.Whole() {
		return fmt.Errorf("%w: the run %s has not locked all check results, which it changes", journal.ErrFenced,
			e.request.Run)
	}
	return e.putChecks(c.Checks)
}
