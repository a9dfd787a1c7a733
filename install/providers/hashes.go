package providers

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/dirhash"
)

// Hashes caches the hashes of installed packages for a process that needs them repeatedly: hashing a large provider
// takes seconds. An entry is valid while no file of the package has changed, according to metadata that programs
// cannot set. Safe for concurrent use. A nil Hashes caches nothing.
type Hashes struct {
	now func() time.Time

	mu    sync.Mutex // guards known
	known map[string]hashed
}

// hashed is the hash of a directory whose files had this footprint.
type hashed struct {
	print [sha256.Size]byte
	h1    string
}

// NewHashes returns an empty cache.
func NewHashes(now func() time.Time) *Hashes {
	return &Hashes{now: now, known: map[string]hashed{}}
}

const (
	// maxHashes bounds the number of cached hashes.
	maxHashes = 1000
	// settled is the minimum age of the last change of a package for its hash to be cached: another change might
	// have the same time.
	settled = 2 * time.Second
)

// of returns the h1 hash of a package, which may be a symbolic link.
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

// footprint returns a digest of the metadata of the files of a directory, and the time of the last change. ok is
// false if the metadata is not sufficient: on some systems, and if a file is a symbolic link.
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
