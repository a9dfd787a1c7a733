package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// probe is how much room a disk must have that is not full, in bytes.
const probe = 1 << 20

// NoRoom tells whether an error says that a disk is full, or that a quota is used up.
func NoRoom(err error) bool { return noRoom(err) }

// Refused returns how many changes have found no room on the disk since the store was opened, with the moments at which
// Watch has seen the disk full.
func (s *Store) Refused() int64 { return s.refused.Load() }

// noted counts a change that found no room, and returns its error.
func (s *Store) noted(err error) error {
	if noRoom(err) {
		s.refused.Add(1)
	}
	return err
}

// Room returns an error when the disk takes no file of a megabyte. NoRoom tells whether that is because it is full.
func (s *Store) Room() (err error) {
	dir := filepath.Join(s.dir, "scratch") // what a crash leaves there is removed with the next start
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "room-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if _, err := f.Write(make([]byte, probe)); err != nil {
		return err
	}
	return f.Sync() // some file systems find out only then
}

// glance is how often Watch looks at the disk.
const glance = 20 * time.Millisecond

// Watch looks at the disk until ctx ends, and notes when it is full: others write there too, whose errors the store
// does not see. Where the system does not tell how much room there is, it notes nothing.
func (s *Store) Watch(ctx context.Context) {
	again := time.NewTicker(glance)
	defer again.Stop()
	for {
		free, err := free(s.dir)
		if errors.Is(err, errors.ErrUnsupported) {
			return
		}
		if err == nil && free < probe {
			s.refused.Add(1)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}
