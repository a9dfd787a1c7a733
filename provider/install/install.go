// Package install makes the provider packages that a configuration and a state require available: it selects
// versions, finds packages in mirrors, verifies them against the lock file, links or unpacks them into the working
// directory.
//
// It starts no plugin. Workers do not use it: they get packages from the coordinator, by hash.
package install

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
	"strings"

	"github.com/apparentlymart/go-versions/versions"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/lock"
)

// Options say how to install.
type Options struct {
	// Required are the version constraints on each provider.
	Required map[addr.Provider][]string
	// Locks are the selections so far; Install returns the new ones.
	Locks *lock.Locks
	CLI   *CLIConfig
	// WorkDir is the directory of the configuration; DataDir holds what is installed (.terraform).
	WorkDir, DataDir string
	// PluginDirs take the place of all configured methods (init -plugin-dir).
	PluginDirs []string
	Platform   string // os_arch
	Upgrade    bool
	Getenv     func(string) string
	// Managed are the providers that need no package: reattached ones.
	Managed map[addr.Provider]bool
	// Report, when set, is told what happens.
	Report func(Event)
}

// Event is what the installer does at the moment.
type Event struct {
	Kind        EventKind
	Provider    addr.Provider
	Version     string
	Constraints string
	From        string
}

// EventKind is the kind of an Event.
type EventKind byte

// The kinds.
const (
	Finding    EventKind = iota + 1 // looking for versions that meet Constraints
	Reusing                         // the version of the lock file
	Present                         // installed already
	Installing
	Installed
	Builtin
)

// InstallDir returns where a package lies in the data directory.
func InstallDir(dataDir string, p addr.Provider, version, platform string) string {
	return filepath.Join(dataDir, "providers", p.Host, p.Namespace, p.Type, version, platform)
}

// Install makes all required providers available and returns the selections to write to the lock file. Providers that
// could not be installed are all reported.
func Install(ctx context.Context, o Options) (*lock.Locks, diag.List) {
	out := &lock.Locks{}
	var diags diag.List
	providers := make([]addr.Provider, 0, len(o.Required))
	for p := range o.Required {
		providers = append(providers, p)
	}
	slices.SortFunc(providers, func(a, b addr.Provider) int { return strings.Compare(a.String(), b.String()) })
	for _, p := range providers {
		if err := ctx.Err(); err != nil {
			return out, diags.Append(diag.New(diag.Error, "Provider installation was canceled", "The installation was interrupted.", nil))
		}
		if p.IsBuiltin() {
			diags = diags.Append(o.builtin(p))
			continue
		}
		if _, overridden := o.CLI.DevOverrides[p]; overridden || o.Managed[p] {
			if old := o.Locks.Get(p); old != nil {
				out.Set(p, old)
			}
			continue
		}
		selection, more := o.one(p)
		diags = diags.Append(more)
		if selection != nil {
			out.Set(p, selection)
		}
	}
	return out, diags
}

func (o Options) report(e Event) {
	if o.Report != nil {
		o.Report(e)
	}
}

// builtin checks a provider that needs no package.
func (o Options) builtin(p addr.Provider) diag.List {
	if p != addr.BuiltinTerraform {
		return diag.Errors("Failed to query available provider packages",
			fmt.Sprintf("There is no built-in provider %s; the only one is %s.", p, addr.BuiltinTerraform), nil)
	}
	if c := strings.Join(o.Required[p], ""); c != "" {
		return diag.Errors("Invalid version constraint on built-in provider", "The built-in provider has the version of the engine: its version cannot be constrained.", nil)
	}
	o.report(Event{Kind: Builtin, Provider: p})
	return nil
}

// one installs one provider.
func (o Options) one(p addr.Provider) (*lock.Provider, diag.List) {
	constraints, err := lock.Constraints(o.Required[p])
	if err != nil {
		return nil, diag.Errors("Invalid version constraint", fmt.Sprintf("The version constraints on %s cannot be read: %s.", p, err), nil)
	}
	allowed, err := versions.MeetingConstraintsStringRuby(constraints)
	if constraints == "" {
		allowed, err = versions.All, nil
	}
	if err != nil {
		return nil, diag.Errors("Invalid version constraint", fmt.Sprintf("The version constraints on %s cannot be read: %s.", p, err), nil)
	}
	locked := o.Locks.Get(p)
	if locked != nil && !o.Upgrade {
		if !allowed.Has(locked.Version) {
			return nil, diag.Errors("Failed to query available provider packages",
				fmt.Sprintf("Could not retrieve the list of available versions for provider %s: locked provider %s %s does not match configured version constraint %s; must use tofu init -upgrade to allow selection of new versions", p.Display(), p, locked.Version, constraints), nil)
		}
		o.report(Event{Kind: Reusing, Provider: p})
		allowed = versions.Only(locked.Version)
		dir := InstallDir(o.DataDir, p, locked.Version.String(), o.Platform)
		if _, err := verify(dir, p, locked.Hashes); err == nil {
			o.report(Event{Kind: Present, Provider: p, Version: locked.Version.String()})
			return &lock.Provider{Version: locked.Version, Constraints: constraints, Hashes: locked.Hashes}, nil
		}
	} else {
		o.report(Event{Kind: Finding, Provider: p, Constraints: constraints})
	}
	chosen, looked, diags := o.find(p, allowed)
	if diags.HasErrors() {
		return nil, diags
	}
	if chosen == nil {
		return nil, o.notFound(p, constraints, looked)
	}
	return o.place(p, *chosen, constraints, locked)
}

// find returns the newest allowed package, and the places that were looked in.
func (o Options) find(p addr.Provider, allowed versions.Set) (best *candidate, looked []string, diags diag.List) {
	methods := o.CLI.methods(o.WorkDir, o.Getenv)
	if len(o.PluginDirs) > 0 {
		methods = nil
		for _, d := range o.PluginDirs {
			methods = append(methods, Method{Kind: FilesystemMirror, Location: d})
		}
	}
	unavailable := ""
	for _, m := range methods {
		if !m.Covers(p) {
			continue
		}
		switch m.Kind {
		case FilesystemMirror:
			looked = append(looked, m.Location)
			for _, c := range inMirror(m.Location, p, o.Platform) {
				if allowed.Has(c.version) && (best == nil || best.version.LessThan(c.version)) {
					best = &c
				}
			}
		case NetworkMirror:
			unavailable = "the network mirror " + m.Location
		case Direct:
			unavailable = "the provider registry " + p.Host
		}
	}
	if best == nil && unavailable != "" {
		diags = diag.Errors("Failed to query available provider packages",
			fmt.Sprintf("Could not retrieve the list of available versions for provider %s: %s is needed, and this version of Millipede installs from local directories only. Put the package into a filesystem mirror (tofu providers mirror DIR makes one) and name that in a filesystem_mirror block of the CLI configuration, or in init -plugin-dir=DIR.",
				p.Display(), unavailable), nil)
	}
	return best, looked, diags
}

func (o Options) notFound(p addr.Provider, constraints string, looked []string) diag.List {
	where := "no place is configured to look for it"
	if len(looked) > 0 {
		where = "it was searched for in:\n  - " + strings.Join(looked, "\n  - ")
	}
	what := "no version of it is available for " + o.Platform
	if constraints != "" {
		what = fmt.Sprintf("no available releases match the given constraints %s", constraints)
	}
	return diag.Errors("Failed to query available provider packages",
		fmt.Sprintf("Could not retrieve the list of available versions for provider %s: %s; %s", p.Display(), what, where), nil)
}

// place verifies a package and puts it into the data directory: an unpacked one by a link, a packed one by unpacking,
// into the shared cache first where there is one.
func (o Options) place(p addr.Provider, c candidate, constraints string, locked *lock.Provider) (*lock.Provider, diag.List) {
	version := c.version.String()
	o.report(Event{Kind: Installing, Provider: p, Version: version})
	fail := func(err error) (*lock.Provider, diag.List) {
		return nil, diag.Errors("Failed to install provider", fmt.Sprintf("Error while installing %s v%s: %s", p.Display(), version, err), nil)
	}
	target := InstallDir(o.DataDir, p, version, o.Platform)
	source := c.dir
	var hashes []string
	if c.archive != "" {
		zh, err := hashFile(c.archive)
		if err != nil {
			return fail(err)
		}
		hashes = append(hashes, "zh:"+zh)
		source = target
		if o.CLI.CacheDir != "" {
			source = filepath.Join(o.CLI.CacheDir, p.Host, p.Namespace, p.Type, version, o.Platform)
		}
		if err := unpack(c.archive, source); err != nil {
			return fail(err)
		}
	}
	h1, err := dirhash.HashDir(resolved(source), "", dirhash.Hash1)
	if err != nil {
		return fail(err)
	}
	hashes = append(hashes, h1)
	if locked != nil && locked.Version.Same(c.version) && len(locked.Hashes) > 0 && !intersects(locked.Hashes, hashes) {
		return fail(errors.New("the current package for " + p.String() + " " + version + " doesn't match any of the checksums previously recorded in the dependency lock file; for more information: https://opentofu.org/docs/language/files/dependency-lock/#checksum-verification"))
	}
	if executable(source, p) == "" {
		return fail(fmt.Errorf("provider binary not found: could not find executable file starting with terraform-provider-%s in %s", p.Type, source))
	}
	if source != target {
		if err := link(source, target); err != nil {
			return fail(err)
		}
	}
	out := &lock.Provider{Version: c.version, Constraints: constraints, Hashes: hashes}
	if locked != nil && locked.Version.Same(c.version) {
		out.Hashes = append(out.Hashes, locked.Hashes...)
	}
	o.report(Event{Kind: Installed, Provider: p, Version: version})
	return out, nil
}

func resolved(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

func intersects(a, b []string) bool {
	return slices.ContainsFunc(a, func(h string) bool { return slices.Contains(b, h) })
}

// link makes target a link to an unpacked package, replacing what is there.
func link(source, target string) error {
	abs, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return os.Symlink(abs, target)
}

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
	return hex.EncodeToString(h.Sum(nil)), nil
}

// unpack unpacks an archive into dir, which another process may be doing at the same time: the directory appears
// whole or not at all.
func unpack(archive, dir string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer z.Close()
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".unpack-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // does nothing after the rename
	for _, f := range z.File {
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("the archive has an entry %q, which leads out of it", f.Name)
		}
		if err := unpackEntry(f, filepath.Join(tmp, f.Name)); err != nil {
			return err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
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
	if _, err := io.Copy(w, r); err != nil {
		w.Close()
		return err
	}
	return w.Close()
}

// verify checks that an installed package is whole: its content has one of the hashes. Without h1 hashes (a lock file
// with hashes of archives alone) there is nothing to compare the content with. It returns the content's hash.
func verify(dir string, p addr.Provider, hashes []string) (string, error) {
	if executable(dir, p) == "" {
		return "", &os.PathError{Op: "open", Path: dir, Err: os.ErrNotExist}
	}
	h1, err := dirhash.HashDir(resolved(dir), "", dirhash.Hash1)
	if err != nil {
		return "", err
	}
	if len(hashes) > 0 && !slices.Contains(hashes, h1) {
		return h1, errHash
	}
	return h1, nil
}

var errHash = errors.New("the package does not match any of the checksums recorded in the dependency lock file")

