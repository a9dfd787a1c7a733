// Package packages is the cache of a worker's provider packages: found for its platform, verified, and unpacked on
// disk.
//
// A package comes from a directory that the coordinator shares with a worker in the same process, or as a blob. A
// blob is used only if it, or its content, has one of the hashes that the lock file accepts. This package downloads
// nothing from registries and starts no plugin.
package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/sync/singleflight"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// Blobs is the source of packages. wire.Blobs has these methods.
type Blobs interface {
	GetBlob(ctx context.Context, sha256 string) ([]byte, error)
	LookupBlob(ctx context.Context, name string) (string, error)
}

// Local finds packages that are already unpacked, in directories that were verified elsewhere.
type Local interface {
	// PackageDir returns the directory of the package, for the worker's platform.
	PackageDir(p wire.Package) (dir string, ok bool)
}

// Cache finds packages, and stores those that were received as blobs. Several processes may share its directory. It
// is safe for concurrent use.
type Cache struct {
	dir      string
	platform string
	local    Local
	blobs    Blobs

	flight singleflight.Group
	// mu guards verified: the directories of packages by their key and hashes.
	mu       sync.Mutex
	verified map[string]string
}

// New returns a cache in the directory, for packages of the platform (os_arch). local may be nil.
func New(dir, platform string, local Local, blobs Blobs) *Cache {
	return &Cache{dir: dir, platform: platform, local: local, blobs: blobs, verified: map[string]string{}}
}

// Find returns the directory of the unpacked package. Content on disk is verified once in the lifetime of the
// cache.
func (c *Cache) Find(ctx context.Context, p wire.Package) (string, diag.List) {
	key := p.Key() + " " + strings.Join(p.Hashes, " ")
	c.mu.Lock()
	dir, ok := c.verified[key]
	c.mu.Unlock()
	if ok {
		return dir, nil
	}
	found := c.flight.DoChan(key, func() (any, error) {
		// Waiting callers share this, so the end of one caller's context does not end it.
		dir, err := c.find(context.WithoutCancel(ctx), p)
		if err == nil {
			c.mu.Lock()
			c.verified[key] = dir
			c.mu.Unlock()
		}
		return dir, err
	})
	select {
	case r := <-found:
		if r.Err != nil {
			return "", c.explain(p, r.Err)
		}
		return r.Val.(string), nil
	case <-ctx.Done():
		return "", c.explain(p, context.Cause(ctx))
	}
}

// Internal conditions; explain converts them to messages for users.
var (
	errAbsent   = errors.New("there is no such package")
	errMismatch = errors.New("the content has none of the accepted hashes")
	errChanged  = errors.New("the cached content is not as it was unpacked")
)

func (c *Cache) find(ctx context.Context, p wire.Package) (string, error) {
	if c.local != nil {
		if dir, ok := c.local.PackageDir(p); ok {
			return dir, nil
		}
	}
	var sha256 string
	err := wire.Patiently(ctx, func() (err error) {
		sha256, err = c.blobs.LookupBlob(ctx, wire.PackageName(p, c.platform))
		return err
	})
	if errors.Is(err, wire.ErrNotFound) {
		return "", errAbsent
	}
	if err != nil {
		return "", fmt.Errorf("looking the package up: %w", err)
	}
	return c.unpacked(ctx, p, sha256)
}

// For each blob, the cache has a directory named by the blob's SHA-256: the unpacked content, and beside it the
// content's h1: hash, computed when it was unpacked. With it, changes on disk are detected even for a package that
// is locked only by zh: hashes, which are hashes of archives.
const (
	contentDir = "content"
	hashFile   = "h1"
)

// unpacked returns the cached content of a blob, which it fetches if it is missing or has been changed.
func (c *Cache) unpacked(ctx context.Context, p wire.Package, sha256 string) (string, error) {
	entry := filepath.Join(c.dir, sha256)
	content := filepath.Join(entry, contentDir)
	h1, err := intact(entry)
	if err == nil {
		return content, accept(h1, sha256, p.Hashes)
	}
	if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errChanged) {
		return "", err
	}
	var archive []byte
	err = wire.Patiently(ctx, func() (err error) {
		archive, err = c.blobs.GetBlob(ctx, sha256)
		return err
	})
	if errors.Is(err, wire.ErrNotFound) {
		return "", errAbsent
	}
	if err != nil {
		return "", fmt.Errorf("fetching the package: %w", err)
	}
	return content, c.put(archive, entry, sha256, p.Hashes)
}

// put unpacks an archive beside its final location, verifies it there, and moves it: it appears atomically.
func (c *Cache) put(archive []byte, entry, sha256 string, hashes []string) (err error) {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("making the package cache: %w", err)
	}
	temp, err := os.MkdirTemp(c.dir, ".unpacking-")
	if err != nil {
		return fmt.Errorf("unpacking into the package cache: %w", err)
	}
	defer func() {
		if left := os.RemoveAll(temp); err == nil && left != nil {
			err = fmt.Errorf("tidying the package cache: %w", left)
		}
	}()
	next := filepath.Join(temp, sha256)
	if err := unpack(archive, filepath.Join(next, contentDir)); err != nil {
		return fmt.Errorf("unpacking the package: %w", err)
	}
	h1, err := dirhash.HashDir(filepath.Join(next, contentDir), "", dirhash.Hash1)
	if err != nil {
		return fmt.Errorf("hashing the package: %w", err)
	}
	if err := accept(h1, sha256, hashes); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(next, hashFile), []byte(h1), 0o644); err != nil {
		return fmt.Errorf("noting the package's hash: %w", err)
	}
	return replace(next, entry, filepath.Join(temp, "old"))
}

// replace moves a complete entry to its location. An existing entry is either damaged, and removed, or was created
// by another process in the meantime, and kept.
func replace(next, entry, old string) error {
	err := os.Rename(next, entry)
	if err == nil {
		return nil
	}
	if _, fine := intact(entry); fine == nil {
		return nil
	}
	if err := os.Rename(entry, old); err != nil {
		return fmt.Errorf("removing a damaged package from the cache: %w", err)
	}
	if err := os.Rename(next, entry); err != nil {
		return fmt.Errorf("moving the package into the cache: %w", err)
	}
	return nil
}

// intact returns the h1: hash of an unchanged entry. The error is os.ErrNotExist if the entry does not exist, and
// errChanged if it has been changed.
func intact(entry string) (string, error) {
	want, err := os.ReadFile(filepath.Join(entry, hashFile))
	if err != nil {
		if _, there := os.Stat(entry); there == nil && errors.Is(err, os.ErrNotExist) {
			return "", errChanged
		}
		return "", err
	}
	got, err := dirhash.HashDir(filepath.Join(entry, contentDir), "", dirhash.Hash1)
	if err != nil || got != string(want) {
		return "", errChanged
	}
	return got, nil
}

// accept compares the hashes of a package, of its content and of its archive, with the accepted ones. A package
// without locked hashes is trusted like its blob.
func accept(h1, sha256 string, hashes []string) error {
	if len(hashes) == 0 || slices.Contains(hashes, h1) || slices.Contains(hashes, "zh:"+sha256) {
		return nil
	}
	return errMismatch
}

func (c *Cache) explain(p wire.Package, err error) diag.List {
	name := p.Source
	if p.Version != "" {
		name += " " + p.Version
	}
	switch {
	case errors.Is(err, errAbsent):
		return diag.Errors("Provider package not available",
			fmt.Sprintf("This worker runs on %s, and the coordinator has shared no package of provider %s for that "+
				"platform. Run \""+diag.Program()+" init\" with the platform of the worker, or \""+diag.Program()+
				" providers lock -platform=%s\".", c.platform, name, c.platform), nil)
	case errors.Is(err, errMismatch):
		return diag.Errors("Provider package does not match the lock file",
			fmt.Sprintf("The package of provider %s for %s has none of the hashes that .terraform.lock.hcl accepts, "+
				"so it is not used.", name, c.platform), nil)
	default:
		return diag.Errors("Failed to obtain provider package",
			fmt.Sprintf("The package of provider %s for %s cannot be made ready on this worker: %s.", name,
				c.platform, err), nil)
	}
}
