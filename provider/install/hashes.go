package install

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/dirhash"
)

// Hashes remembers the hashes of installed packages for a process that needs them again and again: the package of a
// large provider takes seconds to hash. What it remembers counts while no file of the package has changed, by what the
// system keeps of a file that nobody can set. Safe for concurrent use. Nil remembers nothing.
type Hashes struct {
	now func() time.Time

	mu    sync.Mutex // guards known
	known map[string]hashed
}

// hashed is the hash of a directory whose files had this print.
type hashed struct {
	print [sha256.Size]byte
	h1    string
}

// NewHashes returns an empty memory.
func NewHashes(now func() time.Time) *Hashes {
	return &Hashes{now: now, known: map[string]hashed{}}
}

const (
	// maxHashes bounds how many hashes are remembered.
	maxHashes = 1000
	// settled is how old the last change of a package is at least for its hash to be remembered: another change might
	// have the same time.
	settled = 2 * time.Second
)

// of returns the h1 hash of a package, which may be a link.
func (h *Hashes) of(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	if h == nil {
		return dirhash.HashDir(real, "", dirhash.Hash1)
	}
	began := h.now()
	print, changed, ok := footprint(real)
	h.mu.Lock()
	known, is := h.known[real]
	h.mu.Unlock()
	if ok && is && known.print == print {
		return known.h1, nil
	}
	h1, err := dirhash.HashDir(real, "", dirhash.Hash1)
	if err != nil || !ok || began.Sub(changed) < settled {
		return h1, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.known) >= maxHashes {
		clear(h.known)
	}
	h.known[real] = hashed{print, h1}
	return h1, nil
}

// footprint returns a digest of what the system says of the files of a directory, and when one of them changed last. ok
// is false where that says too little: on some systems, and where a file is a link.
func footprint(dir string) (print [sha256.Size]byte, changed time.Time, ok bool) {
	digest := sha256.New()
	ok = true
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		at, identity, known := changeOf(info)
		if !known || !info.Mode().IsRegular() && !info.IsDir() {
			ok = false
			return fs.SkipAll
		}
		if at.After(changed) {
			changed = at
		}
		_, err = fmt.Fprintf(digest, "%q %s %d %d %d %s\n", path, info.Mode(), info.Size(), info.ModTime().UnixNano(),
			at.UnixNano(), identity)
		return err
	})
	return [sha256.Size]byte(digest.Sum(nil)), changed, ok && err == nil
}
