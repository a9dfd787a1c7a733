package adapters

import (
	"os"
	"path/filepath"
	"time"

	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/internal/filelock"
)

const (
	// temporaryPrefix begins the names of the directories of embedded servers that belong to no store.
	temporaryPrefix = "millipede-"
	// locksWithin is how long a process may take to lock the message store in a directory that it has made.
	locksWithin = time.Minute
)

// temporaryHome is the home in the temporary directory of an embedded server.
func temporaryHome(dir string) layout.Home { return layout.At("", dir).Workspace("default") }

// removeRemains removes the directories of embedded servers whose process was killed: nobody holds the lock of their
// message store. Directories that cannot be removed, or belong to other users, remain; they do no harm.
func removeRemains(base string, now time.Time) {
	dirs, err := filepath.Glob(filepath.Join(base, temporaryPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || now.Sub(info.ModTime()) < locksWithin {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(temporaryHome(dir).Messages(), "lock"), os.O_RDWR, 0)
		if err != nil {
			continue // not a message store
		}
		if filelock.Try(lock) == nil {
			_ = os.RemoveAll(dir) // as said above
		}
		_ = lock.Close() // nothing was written
	}
}
