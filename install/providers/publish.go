package providers

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/apparentlymart/go-versions/versions"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/millipede-iac/millipede/install/lock"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Checksums adds the hashes of packages for several platforms to the selections, which it returns. Existing
// selections are kept. Nothing is installed.
func Checksums(ctx context.Context, o Options, platforms []string) (*lock.Locks, diag.List) {
	out := &lock.Locks{}
	for p, l := range o.Locks.Providers {
		copied := *l
		out.Set(p, &copied)
	}
	diags := o.eachPackage(ctx, platforms, checksumSummaries, func(p addr.Provider, constraints string,
		c candidate) (*Authentication, error) {
		archive, auth, remove, err := c.fetch(ctx, o.Env.TempDir())
		if err != nil {
			return nil, err
		}
		defer remove()
		var h1 string
		if archive != "" {
			h1, err = dirhash.HashZip(archive, dirhash.Hash1)
		} else {
			h1, err = (*Hashes)(nil).of(c.dir)
		}
		if err != nil {
			return nil, err
		}
		selection := &lock.Provider{Version: c.version, Constraints: constraints, Hashes: []string{h1}}
		if auth != nil {
			selection.Hashes = append(append(selection.Hashes, auth.verified...), auth.vouched...)
		}
		if old := out.Get(p); old != nil && old.Version.Same(c.version) {
			selection.Hashes = append(selection.Hashes, old.Hashes...)
		}
		out.Set(p, selection)
		return auth, nil
	})
	return out, diags
}

// Mirror copies the packages of all required providers, for several platforms, into a directory that can serve as a
// filesystem mirror and, over HTTP, as a network mirror.
func Mirror(ctx context.Context, o Options, dir string, platforms []string) diag.List {
	diags := o.eachPackage(ctx, platforms, mirrorSummaries, func(p addr.Provider, _ string, c candidate) (*Authentication,
		error) {
		base := filepath.Join(environ.Path(o.WorkDir, dir), p.Host, p.Namespace, p.Type)
		if err := os.MkdirAll(base, 0o755); err != nil {
			return nil, err
		}
		archive, auth, remove, err := c.fetch(ctx, o.Env.TempDir())
		if err != nil {
			return nil, err
		}
		defer remove()
		name := fmt.Sprintf("terraform-provider-%s_%s_%s.zip", p.Type, c.version, c.platform)
		return auth, publish(archive, c.dir, filepath.Join(base, name))
	})
	if diags.HasErrors() {
		return diags
	}
	for _, p := range sortedProviders(o.Required) {
		if p.IsBuiltin() {
			continue
		}
		if err := index(environ.Path(o.WorkDir, dir), p); err != nil {
			diags = diags.Append(diag.New(diag.Error, "Failed to update indexes",
				fmt.Sprintf("Writing the index of %s: %s.", p, err), nil))
		}
	}
	return diags
}

// errorSummaries has the summaries of errors about packages for several platforms: a selection that does not meet the
// constraints, one that is missing from the lock file (empty if that is allowed), failures of listing versions,
// finding and fetching packages.
type errorSummaries struct{ locked, missing, versions, located, fetched string }

var (
	checksumSummaries = errorSummaries{retrieve, "", retrieve, retrieve, retrieve}
	mirrorSummaries   = errorSummaries{
		"Inconsistent dependency lock file", "Provider not found in lockfile",
		"Provider not available", "Provider release not available", "Cannot download provider release",
	}
)

const retrieve = "Could not retrieve providers for locking"

// eachPackage calls fn with one package of each required provider for each platform, all of one version.
func (o Options) eachPackage(ctx context.Context, platforms []string, t errorSummaries,
	fn func(p addr.Provider, constraints string, c candidate) (*Authentication, error)) diag.List {
	places := o.sources()
	var diags diag.List
	for _, p := range sortedProviders(o.Required) {
		if p.IsBuiltin() {
			continue
		}
		constraints, allowed, err := allowedVersions(o.Required[p])
		if err != nil {
			diags = diags.Append(diag.New(diag.Error, "Invalid version constraint", fmt.Sprintf("The version "+
				"constraints on %s cannot be read: %s.", p, err), nil))
			continue
		}
		if locked := o.Locks.Get(p); locked != nil {
			if problem := meets(locked, o.Required[p]); problem != "" {
				diags = diags.Append(diag.New(diag.Error, t.locked, fmt.Sprintf("For the provider %s, %s. To select "+
					"another version, run:\n  "+diag.Program()+" init -upgrade", p, problem), nil))
				continue
			}
			allowed = versions.Only(locked.Version)
		} else if t.missing != "" && len(o.Locks.Sorted()) > 0 {
			diags = diags.Append(diag.New(diag.Error, t.missing, fmt.Sprintf("The lock file selects no version of "+
				"the provider %s, which is required. To select one, run:\n  "+diag.Program()+" init", p), nil))
			continue
		}
		found, _, err := places.available(ctx, p)
		version, ok := newest(found, allowed)
		if err == nil && !ok {
			err = fmt.Errorf("no releases match the given constraints %s", constraints)
		}
		if err != nil {
			diags = diags.Append(diag.New(diag.Error, t.versions,
				fmt.Sprintf("Finding the versions of %s: %s.", p, err), nil))
			continue
		}
		for _, platform := range platforms {
			if ctx.Err() != nil {
				return diags.Append(interrupted())
			}
			failed := func(summary string, err error) {
				diags = diags.Append(diag.New(diag.Error, summary, fmt.Sprintf("The package of %s v%s for %s: %s.", p,
					version, platform, err), nil))
			}
			c, err := places.locate(ctx, p, version, platform)
			if err != nil {
				failed(t.located, err)
				continue
			}
			o.report(Event{Kind: Installing, Provider: p, Version: version.String(), Platform: platform})
			auth, err := fn(p, constraints, c)
			if err != nil {
				failed(t.fetched, err)
				continue
			}
			o.report(Event{Kind: Installed, Provider: p, Version: version.String(), Platform: platform,
				Authentication: auth})
		}
	}
	return diags
}

// publish writes a package, packed or in a directory, as an archive, atomically.
func publish(archive, dir, name string) error {
	return wholefile.Write(name, wholefile.Public, func(w io.Writer) error {
		if archive != "" {
			return copyFile(w, archive)
		}
		return Pack(w, dir, flate.DefaultCompression)
	})
}

func copyFile(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	_, err = io.Copy(w, f)
	return err
}

// Pack writes a zip archive of a directory, compressed at a level of compress/flate. The archive depends only on
// names, modes and contents, so the same package has the same archive everywhere.
func Pack(w io.Writer, dir string, level int) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, level) })
	err = filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(real, path)
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: filepath.ToSlash(rel), Method: zip.Deflate}
		h.SetMode(info.Mode())
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		return copyFile(f, path)
	})
	return errors.Join(err, z.Close())
}

// index writes the index files of a network mirror for a provider: all its archives in the directory.
func index(dir string, p addr.Provider) error {
	type archive struct {
		Hashes []string `json:"hashes"`
		URL    string   `json:"url"`
	}
	all := map[string]struct{}{}
	byVersion := map[string]map[string]archive{}
	for _, c := range inMirror(dir, p) {
		if c.archive == "" {
			continue
		}
		h1, err := dirhash.HashZip(c.archive, dirhash.Hash1)
		if err != nil {
			return err
		}
		zh, err := hashFile(c.archive)
		if err != nil {
			return err
		}
		v := c.version.String()
		all[v] = struct{}{}
		if byVersion[v] == nil {
			byVersion[v] = map[string]archive{}
		}
		byVersion[v][c.platform] = archive{[]string{h1, zh}, filepath.Base(c.archive)}
	}
	base := filepath.Join(dir, p.Host, p.Namespace, p.Type)
	for v, archives := range byVersion {
		if err := writeJSON(filepath.Join(base, v+".json"), map[string]any{"archives": archives}); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(base, "index.json"), map[string]any{"versions": all})
}

func writeJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return wholefile.Write(name, wholefile.Public, wholefile.Bytes(text))
}
