package plugin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/internal/filelock"
)

const (
	// socketsName is the prefix of the names of socket directories, and socketsLock is the name of the file in each
	// that its host keeps locked. The names are short: see longestPath.
	socketsName = "mlp-"
	socketsLock = "lock"
	// socketName is the longest name that go-plugin gives to a socket.
	socketName = "/plugin4294967295"
	// longestPath is the length of the path of a socket on systems with the lowest limit. Linux has 107.
	longestPath = 103
	// longestBase is the length of a directory in which the path of a socket directory and of a socket in it fit;
	// longestPlain is that of one in which only the socket itself fits.
	longestBase  = longestPath - len("/"+socketsName+"4294967295") - len(socketName)
	longestPlain = longestPath - len(socketName)
	// shortBase is used where not even the socket fits into the directory for temporary files.
	shortBase = "/tmp"
	// beginsWithin is how long a host may take to lock a directory that it has created.
	beginsWithin = time.Minute
)

// sockets is the directory of the sockets of a host's processes, below the one for temporary files. Processes and
// hosts that are killed do not remove their files, so the next host removes directories that are not locked.
type sockets struct {
	temp string // the directory for temporary files

	mu   sync.Mutex // guards the fields below
	dir  string     // empty if there is none
	lock *os.File
}

// open returns the directory for sockets. The first call removes the remains of other hosts and creates it. If the path
// of the directory for temporary files is too long for a directory below it, the sockets are in that directory itself,
// as those of OpenTofu are, and if even that is too long, below shortBase.
func (s *sockets) open() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" {
		return s.dir, nil
	}
	switch {
	case len(s.temp) <= longestBase:
		return s.create(s.temp)
	case len(s.temp) > longestPlain:
		if dir, err := s.create(shortBase); err == nil {
			return dir, nil
		}
	}
	return s.temp, nil
}

// create creates the directory below base.
func (s *sockets) create(base string) (string, error) {
	removeRemains(base, time.Now())
	for {
		dir, err := os.MkdirTemp(base, socketsName+"*")
		if err != nil {
			return "", err
		}
		lock, err := lockSockets(dir)
		if err == nil {
			s.dir, s.lock = dir, lock
			return dir, nil
		}
		if !errors.Is(err, filelock.ErrLocked) && !errors.Is(err, fs.ErrNotExist) {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
		// Another host considered the new directory as remains before it was locked.
	}
}

func lockSockets(dir string) (*os.File, error) {
	name := filepath.Join(dir, socketsLock)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = filelock.Try(f); err == nil {
		_, err = os.Stat(name) // otherwise it was removed before it was locked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeRemains removes the remains of hosts that were killed. Errors are ignored: directories that cannot be
// removed, or belong to other users, do no harm.
func removeRemains(base string, now time.Time) {
	dirs, err := filepath.Glob(filepath.Join(base, socketsName+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, socketsLock), os.O_RDWR, 0)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if now.Sub(info.ModTime()) > beginsWithin {
				_ = os.RemoveAll(dir) // as said above
			}
		case err == nil:
			if filelock.Try(lock) == nil {
				_ = os.RemoveAll(dir) // as said above
			}
			_ = lock.Close() // nothing was written
		}
	}
}

// close removes the directory, after the processes have ended.
func (s *sockets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return
	}
	_ = os.RemoveAll(s.dir) // otherwise the next host does it
	_ = s.lock.Close()
	s.dir, s.lock = "", nil
}
