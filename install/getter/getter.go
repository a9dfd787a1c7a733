// Package getter downloads packages of modules: from git and Mercurial repositories, archives on web servers and
// local disks, directories, OCI registries, buckets of Amazon S3 and Google Cloud Storage.
//
// It knows no registries and parses no configuration. Repositories are read by the programs git and hg, so that
// users' keys, proxies and settings for these apply.
package getter

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/config"
)

// Getter downloads packages. It downloads each once, and copies it for later requests; so it lives as long as one
// installation. It is safe for concurrent use, and handles one package at a time.
type Getter struct {
	services *services.Services
	// env is the environment of the operation: git and hg run in it, and it names the user's .netrc file.
	env environ.Variables
	// remoteOnly refuses packages on this machine's disks.
	remoteOnly bool

	mu       sync.Mutex // guards previous; held while a package is handled
	previous map[string]string
}

// New returns a getter that uses services for HTTP, for an operation with this environment. With remoteOnly, it refuses
// packages on this machine's disks, regardless of who names them: a configuration, a server, or a repository with
// submodules.
func New(s *services.Services, env environ.Variables, remoteOnly bool) *Getter {
	if remoteOnly {
		env = env.With("GIT_ALLOW_PROTOCOL=git:http:https:ssh")
	}
	return &Getter{services: s, env: env, remoteOnly: remoteOnly, previous: map[string]string{}}
}

// errNotRemote refuses a package on this machine's disks.
var errNotRemote = errors.New("it is on a disk of the machine that executes the run, and a run in a service reads " +
	"only the files of its own configuration")

// Get puts a package into a directory that does not exist yet, given by its absolute path. The address has the
// normalized form of config.ModuleSource.Package.
func (g *Getter) Get(ctx context.Context, address, into string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(into), 0o755); err != nil {
		return err
	}
	if have, ok := g.previous[address]; ok {
		return duplicate(have, into)
	}
	if err := g.get(ctx, address, into, maxRedirections); err != nil {
		return err
	}
	g.previous[address] = into
	return nil
}

// maxRedirections bounds chains of servers that refer to other sources.
const maxRedirections = 10

// get gets a package that has not been downloaded before; hops is the number of further references to other sources
// that are allowed.
func (g *Getter) get(ctx context.Context, address, into string, hops int) error {
	forced, rest, isForced := strings.Cut(address, "::")
	if !isForced || strings.ContainsAny(forced, ":/") {
		rest = address
	}
	u, err := url.Parse(rest)
	if err != nil {
		return err
	}
	scheme := u.Scheme
	if rest != address {
		scheme = forced
	}
	if g.remoteOnly && !remote(scheme, u) {
		return errNotRemote
	}
	switch scheme {
	case "git":
		return g.clone(ctx, u, into)
	case "hg":
		return g.cloneMercurial(ctx, u, into)
	case "http", "https":
		return g.http(ctx, u, into, hops)
	case "file":
		return link(u, into)
	case "s3":
		return g.amazon(ctx, u, into)
	case "gcs":
		return g.google(ctx, u, into)
	case "oci":
		return g.oci(ctx, u, into)
	default:
		return fmt.Errorf("download not supported for scheme %q", scheme)
	}
}

// remote reports whether a package is on another machine, as far as its address tells.
func remote(scheme string, u *url.URL) bool {
	if scheme == "file" || u.Scheme == "file" || u.Host == "" { // file:///dir, file://localhost/dir, git::/dir
		return false
	}
	return scheme != "hg" || u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "ssh"
}

// getSource gets the source to which a server refers: a package, or a directory in one.
func (g *Getter) getSource(ctx context.Context, text, into string, hops int) error {
	source, err := config.ParseModuleSource(text, false)
	if err != nil || source.Kind != config.RemoteSource {
		return fmt.Errorf("the server refers to the source %q, which is not a package address", text)
	}
	if source.Subdir == "" {
		return g.get(ctx, source.Package, into, hops)
	}
	tmp, err := os.MkdirTemp(g.env.TempDir(), "module-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	whole := filepath.Join(tmp, "package")
	if err := g.get(ctx, source.Package, whole, hops); err != nil {
		return err
	}
	dir, err := Subdir(whole, source.Subdir)
	if err != nil {
		return err
	}
	return duplicate(dir, into)
}

// Subdir returns a directory in a package, which may be given as a pattern that matches exactly one directory.
func Subdir(dir, sub string) (string, error) {
	if sub == "" {
		return dir, nil
	}
	pattern := filepath.Join(dir, filepath.FromSlash(sub))
	if !strings.ContainsAny(sub, "*?[") {
		return pattern, nil
	}
	matches, err := filepath.Glob(pattern)
	switch {
	case err != nil:
		return "", err
	case len(matches) == 0:
		return "", fmt.Errorf("subdir %q not found", sub)
	case len(matches) > 1:
		return "", fmt.Errorf("subdir %q matches multiple paths", sub)
	}
	return matches[0], nil
}

// duplicate copies a directory. If it is a symbolic link, the copy is a link to the same target.
func duplicate(from, into string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := filepath.EvalSymlinks(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, into)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", from)
	}
	return os.CopyFS(into, os.DirFS(from))
}

// link gets a local directory by a symbolic link, or a local archive by unpacking it.
func link(u *url.URL, into string) error {
	q, kind := archiveKind(u)
	path := filepath.FromSlash(u.Path)
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("source path error: %w", err)
	}
	if kind == "" {
		if !info.IsDir() {
			return errors.New("source path must be a directory")
		}
		return os.Symlink(path, into)
	}
	if err := checkSum(path, q.Get("checksum")); err != nil {
		return err
	}
	return unpack(path, kind, into)
}
