package install

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/rogpeppe/go-internal/lockedfile"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/lock"
)

// place verifies a package and puts it into the data directory: an unpacked one by a link, a packed one by unpacking
// it there, or into the shared cache directory with a link from here. locked is the selection so far, or nil.
func (o Options) place(p addr.Provider, c candidate, constraints string, locked *lock.Provider) (*lock.Provider, diag.List) {
	version := c.version.String()
	out := &lock.Provider{Version: c.version, Constraints: constraints}
	if locked != nil && locked.Version.Same(c.version) {
		if o.Upgrade && o.present(p, locked) {
			out.Hashes = locked.Hashes
			return out, nil
		}
		out.Hashes = slices.Clone(locked.Hashes)
	}
	target := InstallDir(o.DataDir, p, version, o.Platform)
	h1, err := o.put(p, c, target, out.Hashes)
	if err != nil {
		return nil, diag.Errors("Failed to install provider", fmt.Sprintf("Error while installing %s v%s: %s", p.Display(), version, err), nil)
	}
	out.Hashes = append(out.Hashes, h1)
	return out, nil
}

// put makes the package available in target, and returns the hash of its content. Another process may be doing the
// same: what is being made is locked, and appears whole or not at all.
func (o Options) put(p addr.Provider, c candidate, target string, known []string) (h1 string, err error) {
	version := c.version.String()
	unlock, err := lockDir(target)
	if err != nil {
		return "", err
	}
	defer unlock()
	if c.archive == "" {
		// An unpacked mirror is on this machine already; a copy in the cache would save nothing.
		o.report(Event{Kind: Installing, Provider: p, Version: version})
		if h1, err = hashDir(c.dir); err != nil {
			return "", err
		}
		if len(known) > 0 && !slices.Contains(known, h1) {
			return "", fmt.Errorf("the local package for %s %s doesn't match any of the checksums previously recorded in the dependency lock file (this might be because the recorded ones are those of packages for other platforms)", p, version)
		}
		if executable(c.dir, p) == "" {
			return "", noExecutable(c.dir, p)
		}
		if err := link(c.dir, target); err != nil {
			return "", err
		}
		o.report(Event{Kind: Installed, Provider: p, Version: version})
		return h1, nil
	}
	if o.CLI.CacheDir == "" {
		o.report(Event{Kind: Installing, Provider: p, Version: version})
		if h1, err = unpackVerified(p, c, target, known); err != nil {
			return "", err
		}
		o.report(Event{Kind: Installed, Provider: p, Version: version})
		return h1, nil
	}
	shared := packageDir(o.CLI.CacheDir, p, version, o.Platform)
	if h1, err = o.share(p, c, shared, known); err != nil {
		return "", err
	}
	if err := link(shared, target); err != nil {
		return "", err
	}
	o.report(Event{Kind: Linked, Provider: p, Version: version, Shared: true})
	return h1, nil
}

// share makes a packed package available in the shared cache directory, unless it is there.
func (o Options) share(p addr.Provider, c candidate, shared string, known []string) (h1 string, err error) {
	version := c.version.String()
	unlock, err := lockDir(shared)
	if err != nil {
		return "", err
	}
	defer unlock()
	// Without a hash that the lock file vouches for nobody knows what lies in the cache.
	if len(known) > 0 && verify(shared, p, known) == nil {
		o.report(Event{Kind: Present, Provider: p, Version: version, Shared: true})
		return hashDir(shared)
	}
	o.report(Event{Kind: Installing, Provider: p, Version: version, Shared: true})
	if h1, err = unpackVerified(p, c, shared, known); err != nil {
		return "", err
	}
	o.report(Event{Kind: Installed, Provider: p, Version: version, Shared: true})
	return h1, nil
}

// lockDir keeps other processes from making the same directory. The lock is a file beside it, which stays.
func lockDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	return lockedfile.MutexAt(dir + ".lock").Lock()
}

// unpackVerified unpacks an archive whose hash is one of those that are known, or any when none is known. What does
// not match is never written.
func unpackVerified(p addr.Provider, c candidate, dir string, known []string) (h1 string, err error) {
	if h1, err = dirhash.HashZip(c.archive, dirhash.Hash1); err != nil {
		return "", err
	}
	if len(known) > 0 && !slices.Contains(known, h1) {
		zh, err := hashFile(c.archive)
		if err != nil {
			return "", err
		}
		if !slices.Contains(known, zh) {
			return "", fmt.Errorf("the current package for %s %s doesn't match any of the checksums previously recorded in the dependency lock file", p, c.version)
		}
	}
	if err := unpack(c.archive, dir); err != nil {
		return "", err
	}
	if executable(dir, p) == "" {
		return "", noExecutable(c.archive, p)
	}
	return h1, nil
}

func noExecutable(where string, p addr.Provider) error {
	return fmt.Errorf("provider binary not found: could not find executable file starting with terraform-provider-%s in %s", p.Type, where)
}

// link makes target a link to an unpacked package, in the place of what is there.
func link(source, target string) error {
	abs, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(target); err == nil && info.IsDir() {
		if err := os.RemoveAll(target); err != nil { // a link cannot be renamed over a directory
			return err
		}
	}
	tmp := target + ".link"
	if err := os.RemoveAll(tmp); err != nil { // of a process that died
		return err
	}
	if err := os.Symlink(abs, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, target)
}

// hashDir returns the h1 hash of a package, which may be a link.
func hashDir(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	return dirhash.HashDir(real, "", dirhash.Hash1)
}

// hashFile returns the zh hash of an archive.
func hashFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return "zh:" + hex.EncodeToString(h.Sum(nil)), nil
}

// unpack unpacks an archive into dir, in the place of what is there. Plugins that run from there go on.
func unpack(archive, dir string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer z.Close()
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".unpack-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	whole := filepath.Join(tmp, "new")
	if err := os.Mkdir(whole, 0o755); err != nil {
		return err
	}
	for _, f := range z.File {
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("the archive has an entry %q, which leads out of it", f.Name)
		}
		if err := unpackEntry(f, filepath.Join(whole, f.Name)); err != nil {
			return err
		}
	}
	if err := os.Rename(dir, filepath.Join(tmp, "old")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Rename(whole, dir)
}

func unpackEntry(f *zip.File, name string) error {
	if f.FileInfo().IsDir() {
		return os.MkdirAll(name, 0o755)
	}
	if !f.Mode().IsRegular() {
		return fmt.Errorf("the archive has an entry %q that is no regular file", f.Name)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, f.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// verify checks that an installed package is whole: its content has one of the hashes, where there are any. The error
// is errHash when it has not, and wraps os.ErrNotExist when there is no package.
func verify(dir string, p addr.Provider, hashes []string) error {
	if executable(dir, p) == "" {
		return &os.PathError{Op: "open", Path: dir, Err: os.ErrNotExist}
	}
	if len(hashes) == 0 {
		return nil
	}
	h1, err := hashDir(dir)
	if err != nil {
		return err
	}
	if !slices.Contains(hashes, h1) {
		return errHash
	}
	return nil
}

var errHash = errors.New("the package does not match any of the checksums recorded in the dependency lock file")
