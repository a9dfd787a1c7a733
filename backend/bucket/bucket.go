// Package bucket stores snapshots as objects in a bucket, for every kind of object store.
//
// The requests, the configuration and the identities of a kind of store belong to its own package.
package bucket

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// Driver sends the requests of a kind of store. Safe for concurrent use.
type Driver interface {
	// List returns a page of the names of the objects that begin with prefix, and where the next page begins: empty
	// after the last one. page is empty for the first one.
	List(ctx context.Context, prefix, page string) (names []string, next string, err error)
	// Get reads an object; nil if there is none. An object without content is an empty slice.
	Get(ctx context.Context, object string) ([]byte, error)
	// Put stores an object.
	Put(ctx context.Context, object string, data []byte) error
	// Delete deletes an object. If there is none, that is not an error.
	Delete(ctx context.Context, object string) error
	// Where returns the address of an object, for messages and as its identity.
	Where(object string) string
	// Close closes the connections.
	Close()
}

// Creator is a Driver that stores an object only if there is none: the store compares. New workspaces are then never
// stored over those that others create at the same time.
type Creator interface {
	Driver
	// Create stores an object; ErrExists if there is one.
	Create(ctx context.Context, object string, data []byte) error
}

// Locks are the locks of a kind of store, each for an object. Safe for concurrent use.
type Locks interface {
	// Lock takes a lock, and returns its ID. It tries once. The error is *journal.Held if it is taken.
	Lock(ctx context.Context, object string, info journal.LockInfo) (id string, err error)
	// Holds reports whether the lock with this ID is still held; an error means that this is unknown.
	Holds(ctx context.Context, object, id string) (bool, error)
	// Unlock releases the lock with this ID; backend.ErrNotLocked if there is no such lock.
	Unlock(ctx context.Context, object, id string) error
}

// ErrExists means that an object, or the record of a lock, was not created because there is one.
var ErrExists = errors.New("it already exists")

// Store is a backend whose snapshots are objects. Its fields do not change after it is opened.
type Store struct {
	Driver Driver
	Names  Names
	// EmptyIsNone is set if an object without content is no snapshot.
	EmptyIsNone bool
	// Table contains the digests of the snapshots; nil if there are none.
	Table *Table
	// Locks are nil if nothing is locked. LockCheck is the interval of checks whether a lock is still held.
	Locks     Locks
	LockCheck time.Duration

	checks backend.LockChecks
}

// Describe implements backend.Backend.
func (s *Store) Describe(workspace string) backend.Description {
	return backend.Description{
		Where: s.Driver.Where(s.Names.Object(workspace)), Form: tfstate.Compact, Unlockable: s.Locks == nil,
	}
}

// Close closes the connections. Locks are kept.
func (s *Store) Close() error {
	s.checks.Close()
	s.Driver.Close()
	return nil
}

// Read implements backend.Backend. If a table has digests, a snapshot that does not match its digest yet is read
// again for a while.
func (s *Store) Read(ctx context.Context, workspace string) ([]byte, error) {
	data, err := s.get(ctx, s.Names.Object(workspace))
	if err != nil || s.EmptyIsNone && len(data) == 0 {
		return nil, err
	}
	return data, nil
}

func (s *Store) get(ctx context.Context, object string) ([]byte, error) {
	if s.Table == nil {
		return s.Driver.Get(ctx, object)
	}
	return s.Table.matching(ctx, s.Driver, object)
}

// Write implements backend.Backend.
func (s *Store) Write(ctx context.Context, workspace string, data []byte) error {
	object := s.Names.Object(workspace)
	if err := s.Driver.Put(ctx, object, data); err != nil || s.Table == nil {
		return err
	}
	return s.Table.putDigest(ctx, object, data)
}

// Lock implements backend.Backend.
func (s *Store) Lock(ctx context.Context, workspace string, info journal.LockInfo) (backend.Lock, error) {
	if s.Locks == nil {
		return backend.Lock{ID: info.ID}, nil
	}
	object := s.Names.Object(workspace)
	id, err := s.Locks.Lock(ctx, object, info)
	if err != nil {
		return backend.Lock{}, err
	}
	return s.checks.Start(ctx, s.LockCheck, workspace, id, func(ctx context.Context) (bool, error) {
		return s.Locks.Holds(ctx, object, id)
	}), nil
}

// Unlock implements backend.Backend.
func (s *Store) Unlock(ctx context.Context, workspace, lockID string) error {
	if s.Locks == nil {
		return nil
	}
	s.checks.Stop(workspace, lockID)
	return s.Locks.Unlock(ctx, s.Names.Object(workspace), lockID)
}

// Workspaces implements backend.Backend.
func (s *Store) Workspaces(ctx context.Context) ([]string, error) {
	workspaces := []string{journal.DefaultWorkspace}
	for page := ""; ; {
		objects, next, err := s.Driver.List(ctx, s.Names.Prefix, page)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if name, ok := s.Names.workspace(object); ok {
				workspaces = append(workspaces, name)
			}
		}
		if next == "" || next == page {
			break
		}
		page = next
	}
	slices.Sort(workspaces[1:])
	return slices.Compact(workspaces), nil
}

// Create implements backend.Backend. It stores an empty state, as OpenTofu does. The default workspace exists in any
// case.
func (s *Store) Create(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace {
		return nil
	}
	creator, compares := s.Driver.(Creator)
	if !compares {
		if data, err := s.Read(ctx, workspace); err != nil || data != nil {
			return err
		}
	}
	data, err := backend.EmptyState()
	switch {
	case err != nil:
		return err
	case !compares:
		return s.Write(ctx, workspace, data)
	}
	if err = creator.Create(ctx, s.Names.Object(workspace), data); errors.Is(err, ErrExists) {
		return nil
	}
	return err
}

// Delete implements backend.Backend. A workspace that does not exist is not an error.
func (s *Store) Delete(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace || workspace == "" {
		return backend.ErrDefault
	}
	object := s.Names.Object(workspace)
	err := s.Driver.Delete(ctx, object)
	if s.Table != nil {
		err = errors.Join(err, s.Table.deleteDigest(ctx, object))
	}
	return err
}

// Names are the names of the objects of workspaces.
type Names struct {
	// Object returns the name of a workspace's object.
	Object func(workspace string) string
	// Prefix and Suffix come before and after the name of each workspace, except the default one, in lists of objects.
	Prefix, Suffix string
}

// Folders are file names that each workspace has in a folder of its own, except the default one: PREFIX/WORKSPACE/KEY.
func Folders(first, prefix, key string) Names {
	n := Names{Prefix: prefix, Suffix: "/" + key, Object: func(workspace string) string {
		if workspace == journal.DefaultWorkspace {
			return first
		}
		return path.Join(prefix, workspace, key)
	}}
	if prefix != "" {
		n.Prefix = strings.TrimRight(prefix, "/") + "/"
	}
	return n
}

// workspace returns the workspace whose object has a name in a list. The default one is not in lists: it exists in
// any case.
func (n Names) workspace(object string) (string, bool) {
	rest, begins := strings.CutPrefix(object, n.Prefix)
	name, ends := strings.CutSuffix(rest, n.Suffix)
	return name, begins && ends && name != "" && name != journal.DefaultWorkspace && !strings.Contains(name, "/")
}
