package providers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/apparentlymart/go-versions/versions"

	"github.com/millipede-iac/millipede/lang/addr"
)

// candidate is one package that a source offers.
type candidate struct {
	version  versions.Version
	platform string // os_arch
	// dir is an unpacked package, archive a packed one, download a remote one; exactly one is set.
	dir, archive string
	download     *download
}

// filesystemMirror is a directory of packages, as a source.
type filesystemMirror struct {
	dir string
	// name is the directory as the user has written it.
	name string
	// mayMiss allows that the directory does not exist.
	mayMiss bool
}

func (f filesystemMirror) available(_ context.Context, p addr.Provider) ([]versions.Version, []string, error) {
	if _, err := os.Stat(f.dir); err != nil && !f.mayMiss {
		return nil, nil, fmt.Errorf("cannot search %s: %w", f.name, err)
	}
	var out []versions.Version
	for _, c := range inMirror(f.dir, p) {
		out = append(out, c.version)
	}
	if len(out) == 0 {
		return nil, nil, &absentError{provider: p}
	}
	return out, nil, nil
}

func (f filesystemMirror) locate(_ context.Context, p addr.Provider, v versions.Version, platform string) (
	candidate, error) {
	for _, c := range inMirror(f.dir, p) {
		if c.platform == platform && c.version.Same(v) {
			return c, nil
		}
	}
	return candidate{}, &platformError{provider: p, version: v, platform: platform}
}

func (f filesystemMirror) where(addr.Provider) string { return f.name }

// providersIn returns the providers that have packages in a filesystem mirror.
func providersIn(dir string) []addr.Provider {
	var out []addr.Provider
	for _, host := range subdirs(dir, false) {
		for _, ns := range subdirs(filepath.Join(dir, host), false) {
			for _, name := range subdirs(filepath.Join(dir, host, ns), false) {
				if p := (addr.Provider{Host: host, Namespace: ns, Type: name}); len(inMirror(dir, p)) > 0 {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

// subdirs returns the directories in a directory and, if linked is set, the symbolic links to directories.
func subdirs(dir string, linked bool) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // a directory that cannot be read has no packages
	}
	var out []string
	for _, e := range entries {
		is := e.IsDir()
		if linked && !is {
			info, err := os.Stat(filepath.Join(dir, e.Name()))
			is = err == nil && info.IsDir()
		}
		if is {
			out = append(out, e.Name())
		}
	}
	return out
}

// providerDir returns the directory of a provider in a filesystem mirror, or "" if there is none. As in OpenTofu, the
// mirror itself and the unpacked packages may be symbolic links, but no directories between them.
func providerDir(dir string, p addr.Provider) string {
	for _, name := range []string{p.Host, p.Namespace, p.Type} {
		dir = filepath.Join(dir, name)
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return ""
		}
	}
	return dir
}

// inMirror returns the packages of a provider in a filesystem mirror: unpacked HOST/NAMESPACE/TYPE/VERSION/PLATFORM
// directories, packed terraform-provider-TYPE_VERSION_PLATFORM.zip files. If a version exists in both forms, the
// unpacked one comes first.
func inMirror(dir string, p addr.Provider) []candidate {
	base := providerDir(dir, p)
	if base == "" {
		return nil
	}
	var out []candidate
	for _, name := range subdirs(base, false) {
		v, err := versions.ParseVersion(name)
		if err != nil {
			continue
		}
		for _, platform := range subdirs(filepath.Join(base, name), true) {
			out = append(out, candidate{version: v, platform: platform, dir: filepath.Join(base, name, platform)})
		}
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil // a directory that cannot be read has no packages
	}
	prefix := "terraform-provider-" + p.Type + "_"
	for _, e := range entries {
		stem, isZip := strings.CutSuffix(e.Name(), ".zip")
		stem, ours := strings.CutPrefix(stem, prefix)
		text, platform, split := strings.Cut(stem, "_")
		if v, err := versions.ParseVersion(text); isZip && ours && split && err == nil {
			out = append(out, candidate{version: v, platform: platform, archive: filepath.Join(base, e.Name())})
		}
	}
	return out
}

// executable returns the plugin in an unpacked package, or "" if there is none.
func executable(dir string, p addr.Provider) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	prefix := "terraform-provider-" + p.Type
	for _, e := range entries {
		name := e.Name()
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok || (rest != "" && rest[0] != '_' && rest[0] != '.') {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return filepath.Join(dir, name)
		}
	}
	return ""
}
