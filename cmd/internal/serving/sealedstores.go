package serving

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/millipede-iac/millipede/cmd/internal/adapters"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/seal"
)

// sealedStores opens the stores of workspaces in bbolt, and copies all of them for a backup. The keys of the stores are
// encrypted with the key of the service. This is independent of the encryption that the configuration of a workspace
// sets up, which applies to the states that clients read.
type sealedStores struct {
	adapters.Stores
	key *seal.Key
	dir string // of the service
	// program is the version of the service, level the level of features of its stores.
	program string
	level   func() int
	// group is the log that the stores' commits go through; nil for none.
	group *groupLog

	// maintaining is held by a backup, and by alone, so that neither opens what the other has open.
	maintaining sync.Mutex

	// gate is held for reading while a store is opened or closed, and for writing at the moment of a backup. It is not
	// held while Open waits for another process's lock on a store.
	gate sync.RWMutex
	mu   sync.Mutex // guards the fields below
	open map[string]copied
	// copying has the closed stores that a backup is about to copy. Open waits until the channel of its store is
	// closed.
	copying map[string]chan struct{}
}

var _ store.Homes = (*sealedStores)(nil)

func newSealedStores(dir string, key *seal.Key) *sealedStores {
	return &sealedStores{key: key, dir: dir, level: func() int { return 0 }, open: map[string]copied{},
		copying: map[string]chan struct{}{}}
}

// copied is an open store that can be copied: one of this process, or of an engine.
type copied interface {
	CopyTo(ctx context.Context, to string) error
	CopyOf(ctx context.Context, to string, settled func()) error
}

// heldStore is an open store; closing it also removes it from sealedStores.open.
type heldStore struct {
	*bolt.Store
	close func() error
}

// Close implements estate.Store.
func (h heldStore) Close() error { return h.close() }

// enter waits until a store may be opened. Until leave is called, no backup begins.
func (s *sealedStores) enter(path string) (leave func()) {
	for {
		s.gate.RLock()
		s.mu.Lock()
		copied := s.copying[path]
		s.mu.Unlock()
		if copied == nil {
			return s.gate.RUnlock
		}
		s.gate.RUnlock()
		<-copied
	}
}

// register records that a store is open. enter was called, and leave was not.
func (s *sealedStores) register(path string, opened copied) {
	if s.group != nil {
		s.group.level.opened(path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[path] = opened
}

// unregister records that a store is going to be closed.
func (s *sealedStores) unregister(path string, opened copied) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[path] == opened {
		delete(s.open, path)
	}
}

// unregisterAll records that stores were closed.
func (s *sealedStores) unregisterAll(which func(copied) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.open, func(_ string, opened copied) bool { return which(opened) })
}

// Open implements estate.Stores.
func (s *sealedStores) Open(path string, info journal.LockInfo, timeout time.Duration, o estate.StoreOptions) (
	estate.Store, error) {
	defer s.enter(path)()
	opened, err := bolt.OpenOptions(path, info, timeout, bolt.Options{NewID: uuid.NewString, NoSync: o.Volatile,
		Wrapper: keyWrapper{s.key}, SealNew: true, Workspace: o.Workspace, Unannounced: true, Log: s.openerOf(path),
		Program: s.program, Level: s.level()})
	if err != nil {
		return nil, err // not a nil store in an interface
	}
	s.register(path, opened)
	return heldStore{opened, sync.OnceValue(func() error {
		s.unregister(path, opened)
		return opened.Close()
	})}, nil
}

// openerOf returns what opens the log of a store; nil for one that is in none, as a copy in another directory.
func (s *sealedStores) openerOf(path string) recorded.Opener {
	name, err := filepath.Rel(filepath.Join(s.dir, "workspaces"), path)
	if err != nil || !filepath.IsLocal(name) {
		return nil
	}
	return s.group.openerOf()
}

// Copy implements estate.Stores, also for stores that are open in this process.
func (s *sealedStores) Copy(path, to string) error {
	s.mu.Lock()
	held := s.open[path]
	s.mu.Unlock()
	if held == nil {
		if s.group != nil {
			if err := s.group.level.bring(path, s); err != nil {
				return err
			}
		}
		return s.Stores.Copy(path, to)
	}
	err := held.CopyTo(context.Background(), to)
	if errors.Is(err, journal.ErrClosed) { // it has been closed in the meantime
		return s.Stores.Copy(path, to)
	}
	return err
}

// frozen is a store that is copied for a backup.
type frozen struct {
	name, path, copy string
	held             copied        // nil if the store is not open
	done             chan error    // if the store is open: receives the error of copying, or nil
	free             chan struct{} // if the store is not open: closed when it may be opened
}

// alone calls f while nobody has a store open, and reports whether it did: not if the store is open, nor during a
// backup. Whoever opens the store meanwhile waits.
func (s *sealedStores) alone(path string, f func() error) (did bool, err error) {
	if !s.maintaining.TryLock() {
		return false, nil
	}
	defer s.maintaining.Unlock()
	free := make(chan struct{})
	s.gate.Lock()
	s.mu.Lock()
	open := s.open[path] != nil
	if !open {
		s.copying[path] = free
	}
	s.mu.Unlock()
	s.gate.Unlock()
	if open {
		return false, nil
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.release(&frozen{path: path, free: free})
	}()
	return true, f()
}

// Remove implements store.Homes. In a group the directories stay: the log is purged up to the snapshots of their
// stores. A directory gets another name first, so that nobody has to wait until it is removed; a process that dies
// meanwhile leaves it to the next call.
func (s *sealedStores) Remove(workspace string) (gone bool, err error) {
	if s.group != nil || !s.maintaining.TryLock() {
		return false, nil
	}
	defer s.maintaining.Unlock()
	dir := filepath.Join(s.dir, "workspaces", workspace)
	removed := filepath.Join(s.dir, "workspaces", store.RemovedHome+workspace)
	if err := os.RemoveAll(removed); err != nil {
		return false, err
	}
	s.gate.Lock() // no store is opened or closed
	s.mu.Lock()
	for path := range s.open {
		if strings.HasPrefix(path, dir+string(filepath.Separator)) {
			s.mu.Unlock()
			s.gate.Unlock()
			return false, nil
		}
	}
	s.mu.Unlock()
	err = os.Rename(dir, removed)
	s.gate.Unlock()
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil, errors.Join(err, os.RemoveAll(removed))
}

// Freeze implements store.Homes. Closed stores are copied before they can be opened again. Open stores are read
// immediately after cut: a copy may contain more of a run than the records of the service do, as after a crash, but
// never less.
func (s *sealedStores) Freeze(ctx context.Context, temp string, cut func() error,
	each func(name, file string) error) error {
	if s.group != nil {
		if err := s.group.level.bringAll(s); err != nil {
			return err
		}
	}
	s.maintaining.Lock()
	defer s.maintaining.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []*frozen
	var copies sync.WaitGroup
	defer copies.Wait()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, f := range all {
			s.release(f)
		}
	}()
	if err := s.cut(ctx, temp, cut, &all, &copies); err != nil {
		return err
	}
	for _, f := range all {
		var err error
		if f.held != nil {
			err = <-f.done
		} else {
			err = bolt.Copy(f.path, f.copy)
			s.mu.Lock()
			s.release(f)
			s.mu.Unlock()
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is empty, or was deleted
		}
		if err == nil {
			err = each(f.name, f.copy)
		}
		if e := os.Remove(f.copy); err == nil && !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// release allows a store to be opened again. s.mu is held.
func (s *sealedStores) release(f *frozen) {
	if f.free != nil && s.copying[f.path] == f.free {
		delete(s.copying, f.path)
		close(f.free)
	}
}

// cut calls the function cut, and determines the versions that the copies will contain. Meanwhile no store is opened or
// closed.
func (s *sealedStores) cut(ctx context.Context, temp string, cut func() error, all *[]*frozen,
	copies *sync.WaitGroup) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	err := filepath.WalkDir(filepath.Join(s.dir, "workspaces"), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && d.Name() != "state.db" {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(s.dir, path)
		*all = append(*all, &frozen{name: filepath.ToSlash(name), path: path,
			copy: filepath.Join(temp, strconv.Itoa(len(*all)))})
		return err
	})
	if err != nil {
		return err
	}
	if err := cut(); err != nil {
		return err
	}
	s.mu.Lock()
	var begun sync.WaitGroup
	for _, f := range *all {
		if f.held = s.open[f.path]; f.held == nil {
			f.free = make(chan struct{})
			s.copying[f.path] = f.free
			continue
		}
		f.done = make(chan error, 1)
		begun.Add(1)
		copies.Go(func() {
			settled := sync.OnceFunc(begun.Done)
			err := f.held.CopyOf(ctx, f.copy, settled)
			settled() // in case the store could not be read
			f.done <- err
		})
	}
	s.mu.Unlock()
	begun.Wait()
	return nil
}
