package install

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/apparentlymart/go-versions/versions"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/lock"
)

// Package is a provider that is ready to be started.
type Package struct {
	Version string
	// Dir is the unpacked package; Executable the plugin in it.
	Dir, Executable string
	// Hashes are the acceptable ones of the lock file; Unlocked identifies a package that the lock file does not cover.
	Hashes   []string
	Unlocked string
}

// Selected returns the packages of all required providers, as a former installation left them. A configuration that
// asks for something else than what is installed is told to run init.
func Selected(o Options) (map[addr.Provider]Package, diag.List) {
	out := map[addr.Provider]Package{}
	var inconsistent, missing []string
	var diags diag.List
	providers := make([]addr.Provider, 0, len(o.Required))
	for p := range o.Required {
		providers = append(providers, p)
	}
	slices.SortFunc(providers, func(a, b addr.Provider) int { return strings.Compare(a.String(), b.String()) })
	for _, p := range providers {
		if p.IsBuiltin() || o.Managed[p] {
			continue
		}
		if dir, ok := o.CLI.DevOverrides[p]; ok {
			pkg, err := overridden(dir, p)
			if err != nil {
				missing = append(missing, fmt.Sprintf("%s: %s", p, err))
				continue
			}
			out[p] = pkg
			continue
		}
		locked := o.Locks.Get(p)
		if locked == nil {
			inconsistent = append(inconsistent, fmt.Sprintf("provider %s: required by this configuration but no version is selected", p))
			continue
		}
		if problem := meets(locked, o.Required[p]); problem != "" {
			inconsistent = append(inconsistent, fmt.Sprintf("provider %s: %s", p, problem))
			continue
		}
		dir := InstallDir(o.DataDir, p, locked.Version.String(), o.Platform)
		switch _, err := verify(dir, p, locked.Hashes); {
		case err == nil:
			out[p] = Package{Version: locked.Version.String(), Dir: dir, Executable: executable(dir, p), Hashes: locked.Hashes}
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, fmt.Sprintf("%s: there is no package for %s %s cached in %s", p, p, locked.Version, o.DataDir))
		case errors.Is(err, errHash):
			missing = append(missing, fmt.Sprintf("%s: the cached package for %s %s (in %s) does not match any of the checksums recorded in the dependency lock file", p, p, locked.Version, o.DataDir))
		default:
			missing = append(missing, fmt.Sprintf("%s: %s", p, err))
		}
	}
	if len(inconsistent) > 0 {
		diags = diags.Append(diag.New(diag.Error, "Inconsistent dependency lock file",
			"The following dependency selections recorded in the lock file are inconsistent with the current configuration:\n  - "+
				strings.Join(inconsistent, "\n  - ")+"\n\nTo update the locked dependency selections to match a changed configuration, run:\n  coordinator init", nil))
	}
	if len(missing) > 0 {
		diags = diags.Append(diag.New(diag.Error, "Required plugins are not installed",
			"The installed provider plugins are not consistent with the packages selected in the dependency lock file:\n  - "+
				strings.Join(missing, "\n  - ")+"\n\nTo install them, run:\n  coordinator init", nil))
	}
	return out, diags
}

// meets says why a selection does not meet constraints; empty when it does.
func meets(l *lock.Provider, texts []string) string {
	normal, err := lock.Constraints(texts)
	if err != nil {
		return err.Error()
	}
	if normal == "" {
		return ""
	}
	allowed, err := versions.MeetingConstraintsStringRuby(normal)
	if err != nil {
		return err.Error()
	}
	if !allowed.Has(l.Version) {
		return fmt.Sprintf("locked version selection %s doesn't match the updated version constraints %q", l.Version, normal)
	}
	return ""
}

// overridden returns the package in a directory of a development override. Its content may change at any time, so it
// is identified by the executable as it is now.
func overridden(dir string, p addr.Provider) (Package, error) {
	exe := executable(dir, p)
	if exe == "" {
		return Package{}, fmt.Errorf("the development override directory %s has no executable that starts with terraform-provider-%s", dir, p.Type)
	}
	info, err := os.Stat(exe)
	if err != nil {
		return Package{}, err
	}
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s %d %d", exe, info.Size(), info.ModTime().UnixNano())))
	return Package{Dir: dir, Executable: exe, Unlocked: "dev-" + hex.EncodeToString(sum[:8])}, nil
}
