package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// probe is how many bytes must be writable for the disk not to count as full.
const probe = 1 << 20

// NoRoom reports whether an error means that a disk is full or a quota is exceeded.
func NoRoom(err error) bool { return noRoom(err) }

// Refused returns how many writes have failed because the disk was full since the store was opened, plus how
// often Watch has found the disk full.
func (s *Store) Refused() int64 { return s.refused.Load() }

// noted counts a write that failed because the disk was full, and returns its error.
func (s *Store) noted(err error) error {
	if noRoom(err) {
		s.refused.Add(1)
	}
	return err
}

// Room returns an error if a file of one megabyte cannot be written. NoRoom reports whether the reason is a
// full disk.
func (s *Store) Room() (err error) {
	dir := filepath.Join(s.dir, "scratch") // the next start removes what a crash leaves there
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
	return f.Sync() // some file systems report a full disk only here
}

// glance is the interval at which Watch checks the disk.
const glance = 20 * time.Millisecond

// Watch checks until ctx ends whether the disk is full, and counts it in Refused: other processes write to the
// disk too, and the store does not see their errors. On systems that do not report free space, it does nothing.
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
