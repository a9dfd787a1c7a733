package providers

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/millipede-iac/millipede/install/lock"
	"github.com/millipede-iac/millipede/internal/unpacking"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// install verifies a package and installs it in the data directory: an unpacked one by a symbolic link, a packed one by
// unpacking it. With a shared cache directory the package is put there in the same way, and linked from there. locked
// is the selection so far, or nil.
func (o Options) install(ctx context.Context, p addr.Provider, c candidate, constraints string, locked *lock.Provider) (
	*lock.Provider, diag.List) {
	version := c.version.String()
	out := &lock.Provider{Version: c.version, Constraints: constraints}
	if locked != nil && locked.Version.Same(c.version) {
		out.Hashes = slices.Clone(locked.Hashes)
	}
	t := &installation{options: o, provider: p, candidate: c, known: out.Hashes}
	hashes, err := t.put(ctx, o.installDir(p, version))
	if ctx.Err() != nil && err != nil {
		return nil, interrupted()
	}
	if err != nil {
		return nil, diag.Errors("Failed to install provider", fmt.Sprintf("Error while installing %s v%s: %s",
			p.Display(), version, err), nil)
	}
	out.Hashes = append(out.Hashes, hashes...)
	return out, nil
}

// installation is the installation of one package.
type installation struct {
	options   Options
	provider  addr.Provider
	candidate candidate
	known     []string // its hashes in the lock file
}

func (t *installation) report(kind EventKind, shared bool) {
	t.options.report(Event{Kind: kind, Provider: t.provider, Version: t.candidate.version.String(), Shared: shared})
}

// installed reports the completion, and returns the hashes for the lock file.
func (t *installation) installed(h1 string, auth *Authentication, shared bool) []string {
	local := []string{h1}
	var vouched []string
	if auth != nil {
		local, vouched = append(local, auth.verified...), auth.vouched
	}
	slices.Sort(local)
	t.options.report(Event{
		Kind: Installed, Provider: t.provider, Version: t.candidate.version.String(), Shared: shared,
		Authentication: auth,
		Incomplete:     len(vouched) == 0 && (len(t.known) == 0 || slices.Equal(slices.Compact(local), t.known)),
	})
	return append(local, vouched...)
}

// put makes the package available in target, and returns hashes of its content. Another process may be doing the
// same: the directory is locked meanwhile, and created atomically.
func (t *installation) put(ctx context.Context, target string) ([]string, error) {
	if t.options.CLI.CacheDir == "" {
		unlock, err := lockDir(target)
		if err != nil {
			return nil, err
		}
		defer unlock()
		return t.fill(ctx, target, false)
	}
	shared := t.options.sharedDir(t.provider, t.candidate.version.String())
	hashes, err := t.share(ctx, shared)
	if err != nil {
		return nil, err
	}
	unlock, err := lockDir(target)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := link(shared, target); err != nil {
		return nil, err
	}
	t.report(Linked, true)
	return hashes, nil
}

// fill puts the package into a directory, which the caller has locked.
func (t *installation) fill(ctx context.Context, dir string, shared bool) ([]string, error) {
	if t.candidate.dir != "" {
		return t.link(dir, shared)
	}
	return t.unpack(ctx, dir, shared)
}

// link makes an unpacked package of a mirror available. It is already on this machine, so it is not copied.
func (t *installation) link(target string, shared bool) ([]string, error) {
	t.report(Installing, shared)
	dir := t.candidate.dir
	h1, err := t.options.Hashes.of(dir)
	if err != nil {
		return nil, err
	}
	if len(t.known) > 0 && !slices.Contains(t.known, h1) {
		return nil, fmt.Errorf("the local package for %s %s doesn't match any of the checksums previously recorded "+
			"in the dependency lock file (this might be because the recorded ones are those of packages for other "+
			"platforms)", t.provider, t.candidate.version)
	}
	if executable(dir, t.provider) == "" {
		return nil, noExecutable(dir, t.provider)
	}
	if !same(dir, target) {
		if err := link(dir, target); err != nil {
			return nil, err
		}
	}
	return t.installed(h1, nil, shared), nil
}

// same reports whether two names are those of one directory: the cache may be the mirror.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// unpack downloads a packed package if necessary, verifies it, and unpacks it.
func (t *installation) unpack(ctx context.Context, dir string, shared bool) ([]string, error) {
	t.report(Installing, shared)
	archive, auth, remove, err := t.candidate.fetch(ctx, t.options.Env.TempDir())
	if err != nil {
		return nil, err
	}
	defer remove()
	h1, err := unpackVerified(t.provider, t.candidate, archive, dir, t.known)
	if err != nil {
		return nil, err
	}
	return t.installed(h1, auth, shared), nil
}

// share makes a package available in the shared cache directory, unless it is already there.
func (t *installation) share(ctx context.Context, shared string) ([]string, error) {
	slow := time.AfterFunc(reportAfter, func() { t.report(Waiting, true) })
	unlock, err := lockDir(shared)
	slow.Stop()
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Without a hash in the lock file, the content of the cache cannot be verified.
	if len(t.known) > 0 && t.options.verify(shared, t.provider, t.known) == nil ||
		len(t.known) == 0 && t.options.CLI.CacheMayBreakLockFile && executable(shared, t.provider) != "" {
		t.report(Present, true)
		h1, err := t.options.Hashes.of(shared)
		return []string{h1}, err
	}
	return t.fill(ctx, shared, true)
}

// reportAfter is how long another process may hold the lock of the cache before the user is told.
const reportAfter = 5 * time.Second

// lockDir locks a directory that is being created against other processes. The lock is a file beside it, which is
// not removed.
func lockDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	return lockedfile.MutexAt(dir + ".lock").Lock()
}

// unpackVerified unpacks an archive whose hash is one of the known ones, or any if none is known. An archive that
// does not match is not unpacked.
func unpackVerified(p addr.Provider, c candidate, archive, dir string, known []string) (h1 string, err error) {
	if h1, err = dirhash.HashZip(archive, dirhash.Hash1); err != nil {
		return "", err
	}
	if len(known) > 0 && !slices.Contains(known, h1) {
		zh, err := hashFile(archive)
		if err != nil {
			return "", err
		}
		if !slices.Contains(known, zh) {
			return "", fmt.Errorf("the current package for %s %s doesn't match any of the checksums previously "+
				"recorded in the dependency lock file", p, c.version)
		}
	}
	if whole, err := holds(dir, h1); err != nil || whole {
		return h1, err
	}
	if err := unpack(archive, dir); err != nil {
		return "", err
	}
	if executable(dir, p) == "" {
		return "", noExecutable(archive, p)
	}
	return h1, nil
}

// holds reports whether a directory has the content with this hash. A directory with other content is an error:
// someone has changed it, perhaps maliciously, and should look at it before it is replaced. A symbolic link is not
// an error, because its target is kept.
func holds(dir, h1 string) (bool, error) {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return false, nil //nolint:nilerr // placing the package reports what is wrong there
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) == 0 {
		return false, nil
	}
	have, err := (*Hashes)(nil).of(dir)
	if err != nil {
		return false, fmt.Errorf("the package that is installed in %s cannot be read: %w", dir, err)
	}
	if have != h1 {
		return false, fmt.Errorf("existing cached package at %s does not match the content of the downloaded "+
			"package; does it contain local modifications? When they are not wanted, remove this directory and run "+
			"the command again", dir)
	}
	return true, nil
}

func noExecutable(where string, p addr.Provider) error {
	return fmt.Errorf("provider binary not found: could not find executable file starting with "+
		"terraform-provider-%s in %s", p.Type, where)
}

// link replaces target by a symbolic link to an unpacked package. source is absolute.
func link(source, target string) error {
	if info, err := os.Lstat(target); err == nil && info.IsDir() {
		if err := os.RemoveAll(target); err != nil { // a link cannot be renamed over a directory
			return err
		}
	}
	tmp := target + ".link"
	if err := os.RemoveAll(tmp); err != nil { // left by a process that was killed
		return err
	}
	if err := os.Symlink(source, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, target)
}

// hashFile returns the zh hash of an archive.
func hashFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it is only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return "zh:" + hex.EncodeToString(h.Sum(nil)), nil
}

// unpack unpacks an archive into dir, replacing its content. Plugins that run from there are not affected.
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
	left := unpacking.Provider.Budget()
	for _, f := range z.File {
		if err := left.Entry(); err != nil {
			return err
		}
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("the archive has an entry %q, which leads out of it", f.Name)
		}
		if err := unpackEntry(f, filepath.Join(whole, f.Name), left); err != nil {
			return err
		}
	}
	if err := os.Rename(dir, filepath.Join(tmp, "old")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Rename(whole, dir)
}

func unpackEntry(f *zip.File, name string, left *unpacking.Budget) error {
	if f.FileInfo().IsDir() {
		return os.MkdirAll(name, 0o755)
	}
	if !f.Mode().IsRegular() {
		return fmt.Errorf("the archive has an entry %q that is not a regular file", f.Name)
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
	return errors.Join(left.Copy(w, r), w.Close())
}

// verify checks that an installed package is intact: its content has one of the hashes, if there are any. The error
// is errHash if it has not, and wraps os.ErrNotExist if there is no package.
func (o Options) verify(dir string, p addr.Provider, hashes []string) error {
	if executable(dir, p) == "" {
		return &os.PathError{Op: "open", Path: dir, Err: os.ErrNotExist}
	}
	if len(hashes) == 0 {
		return nil
	}
	h1, err := o.Hashes.of(dir)
	if err != nil {
		return err
	}
	if !slices.Contains(hashes, h1) {
		return errHash
	}
	return nil
}

var errHash = errors.New("the package does not match any of the checksums recorded in the dependency lock file")
