package adapters

import (
	"time"

	"github.com/google/uuid"

	"github.com/millipede-iac/millipede/cmd/internal/build"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
)

// Stores implements estate.Stores with bbolt.
type Stores struct {
	// Level is the level of features to which a store is raised that is opened. 0 leaves that of an existing one, and
	// gives a new one the newest.
	Level int
}

// Open implements estate.Stores.
func (s Stores) Open(path string, info journal.LockInfo, timeout time.Duration, o estate.StoreOptions) (
	estate.Store, error) {
	options := bolt.Options{NewID: uuid.NewString, NoSync: o.Volatile, Workspace: o.Workspace,
		Program: build.Version(), Level: s.Level}
	if o.Target != nil {
		options.Wrapper = o.Target
	}
	return opened(bolt.OpenOptions(path, info, timeout, options))
}

// Copy implements estate.Stores.
func (Stores) Copy(path, to string) error { return bolt.Copy(path, to) }

// opened turns a nil *bolt.Store into a nil interface.
func opened(s *bolt.Store, err error) (estate.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
