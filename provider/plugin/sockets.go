package plugin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/filelock"
)

const (
	// socketsName begins the names of the directories of sockets, and socketsLock names the file in each that its host
	// holds locked. The names are short, because systems bound the path of a socket to about a hundred bytes.
	socketsName = "mlp-"
	socketsLock = "lock"
	// longestBase is the longest name of a directory below which the path of a socket has room, with what go-plugin
	// puts behind it.
	longestBase = 60
	// beginsWithin is how long a host may take to lock a directory that it has made.
	beginsWithin = time.Minute
)

// sockets is the directory that the sockets of a host's processes are in, below the one for temporary files. Neither
// processes nor a host that are killed remove anything, so the next host removes the directories whose lock nobody
// holds.
type sockets struct {
	temp string // the directory for temporary files

	mu   sync.Mutex // guards what follows
	dir  string     // empty while there is none
	lock *os.File
}

// open returns the directory, made with the first call after another host's remains were removed. It is empty, which
// stands for the system's own, where the system's is so deep that one below it has no room for sockets.
func (s *sockets) open() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	base := s.temp
	if s.dir != "" || len(base) > longestBase-len(socketsName)-len("4294967295/") {
		return s.dir, nil
	}
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
		// Another host took the new directory for remains before it was locked.
	}
}

func lockSockets(dir string) (*os.File, error) {
	name := filepath.Join(dir, socketsLock)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = filelock.Try(f); err == nil {
		_, err = os.Stat(name) // else it was removed before it was locked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeRemains removes what hosts that were killed have left. What cannot be removed, or belongs to somebody else,
// stays: it is in nobody's way.
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

// close removes the directory. The processes have ended.
func (s *sockets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return
	}
	_ = os.RemoveAll(s.dir) // the next host does it otherwise
	_ = s.lock.Close()
	s.dir, s.lock = "", nil
}
