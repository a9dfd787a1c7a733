// Package wholefile writes files that exist completely or not at all: it writes a temporary file first, and then
// renames it over the previous file.
//
// It does not know the content of the files, and makes no directories.
package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
)

// Private is the mode of files that only the user reads; Public that of files that everybody may read.
const (
	Private os.FileMode = 0o600
	Public  os.FileMode = 0o644
)

// Write replaces a file by the output of write. After an error, which may be the error of write, the previous file is
// unchanged. A crash of the machine may undo the replacement; see Durable.
func Write(path string, mode os.FileMode, write func(io.Writer) error) error {
	return replace(path, mode, false, write)
}

// Durable is Write, but the file is on the disk under its name when Durable returns.
func Durable(path string, mode os.FileMode, write func(io.Writer) error) error {
	if err := replace(path, mode, true, write); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Syncer makes files durable for concurrent callers: callers that wait for a sync of the same directory share the next
// one. The zero value is ready. Safe for concurrent use.
type Syncer struct {
	mu   sync.Mutex // guards all
	dirs map[string]*dirSync
}

// dirSync is the state of a directory while somebody waits for a sync of it.
type dirSync struct {
	turn    chan struct{} // holds a token during a sync
	next    *shared       // the sync that new callers join; nil if there is none
	callers int
}

// shared is a sync for several callers. err is set before done is closed.
type shared struct {
	done chan struct{}
	err  error
}

// Durable is the function Durable, with a shared sync of the directory.
func (s *Syncer) Durable(path string, mode os.FileMode, write func(io.Writer) error) error {
	if err := replace(path, mode, true, write); err != nil {
		return err
	}
	return s.sync(filepath.Dir(path))
}

func (s *Syncer) sync(dir string) error {
	s.mu.Lock()
	d := s.dirs[dir]
	if d == nil {
		if s.dirs == nil {
			s.dirs = map[string]*dirSync{}
		}
		d = &dirSync{turn: make(chan struct{}, 1)}
		s.dirs[dir] = d
	}
	d.callers++
	one, first := d.next, d.next == nil
	if first {
		one = &shared{done: make(chan struct{})}
		d.next = one
	}
	s.mu.Unlock()
	if first {
		d.turn <- struct{}{}
		s.mu.Lock()
		d.next = nil // whoever comes from here on may have a file that this sync misses
		s.mu.Unlock()
		one.err = SyncDir(dir)
		close(one.done)
		<-d.turn
	}
	<-one.done
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.callers--; d.callers == 0 {
		delete(s.dirs, dir)
	}
	return one.err
}

// Bytes returns a function that writes a text, for Write and Durable.
func Bytes(text []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
}

func replace(path string, mode os.FileMode, sync bool, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // with mode 0600
	if err != nil {
		return err
	}
	if err = write(f); err == nil && mode != Private {
		err = f.Chmod(mode)
	}
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// SyncDir makes names in a directory durable, where directories can be opened.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
