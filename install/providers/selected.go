package providers

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/install/lock"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Package is a provider that is ready to be started.
type Package struct {
	Version string
	// Dir is the unpacked package; Executable the plugin in it.
	Dir, Executable string
	// Hashes are the hashes in the lock file; Unlocked identifies a package that the lock file does not cover.
	Hashes   []string
	Unlocked string
}

// Selected returns the installed packages of all required providers. If they do not match the configuration, the
// diagnostics say to run init.
func Selected(o Options) (map[addr.Provider]Package, diag.List) {
	providers := sortedProviders(o.Required)
	packages := make([]*Package, len(providers))
	inconsistent, missing := make([]string, len(providers)), make([]string, len(providers))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0)) // hashing keeps a processor busy
	for i, p := range providers {
		if p.IsBuiltin() || o.Managed[p] {
			continue
		}
		group.Go(func() error {
			packages[i], inconsistent[i], missing[i] = o.selected(p)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		panic("install: verifying returns no errors")
	}
	out := map[addr.Provider]Package{}
	for i, p := range providers {
		if packages[i] != nil {
			out[p] = *packages[i]
		}
	}
	var diags diag.List
	if o.AnyVersion {
		diags = diags.Append(unavailable(providers, inconsistent))
	} else if list := listed(inconsistent); list != "" {
		diags = diags.Append(diag.New(diag.Error, "Inconsistent dependency lock file",
			"The selections in the dependency lock file do not fit the configuration:"+list+
				"\n\nTo bring the selections in line with the configuration, run:\n  "+diag.Program()+" init", nil))
	}
	if list := listed(missing); list != "" {
		diags = diags.Append(diag.New(diag.Error, "Required plugins are not installed",
			"The packages that the dependency lock file selects are not installed:"+list+
				"\n\nTo install them, run:\n  "+diag.Program()+" init", nil))
	}
	return out, diags
}

// ErrUnavailable is the Extra of a diagnostic about a provider that has no package, from Selected with AnyVersion.
var ErrUnavailable = errors.New("provider not available")

// unavailable returns a diagnostic for each provider with a problem. Commands that accept any version ignore the
// selections of the dependency lock file, so for them the provider itself is missing.
func unavailable(providers []addr.Provider, problems []string) diag.List {
	var out diag.List
	for i, p := range providers {
		if problems[i] == "" {
			continue
		}
		d := diag.New(diag.Error, "Missing required provider", fmt.Sprintf("The configuration needs the provider "+
			"%s, and it is not installed. Where a registry has it, this installs it:\n  %s init", p,
			diag.Program()), nil)
		d.Extra = ErrUnavailable
		out = append(out, d)
	}
	return out
}

// listed returns the non-empty texts, one per line.
func listed(texts []string) string {
	var b strings.Builder
	for _, t := range texts {
		if t != "" {
			b.WriteString("\n  - " + t)
		}
	}
	return b.String()
}

// selected returns the package of one provider, or why there is none: the selection does not match, or is not
// installed.
func (o Options) selected(p addr.Provider) (pkg *Package, inconsistent, missing string) {
	if dir, ok := o.CLI.DevOverrides[p]; ok {
		pkg, err := overridden(dir, p)
		if err != nil {
			return nil, "", fmt.Sprintf("%s: %s", p, err)
		}
		return &pkg, "", ""
	}
	locked := o.Locks.Get(p)
	if locked == nil {
		return nil, fmt.Sprintf("provider %s: required by this configuration but no version is selected", p), ""
	}
	if problem := meets(locked, o.Required[p]); problem != "" && !o.AnyVersion {
		return nil, fmt.Sprintf("provider %s: %s", p, problem), ""
	}
	dir := o.installDir(p, locked.Version.String())
	switch err := o.verify(dir, p, locked.Hashes); {
	case err == nil:
		return &Package{Version: locked.Version.String(), Dir: dir, Executable: executable(dir, p),
			Hashes: locked.Hashes}, "", ""
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", fmt.Sprintf("%s: there is no package for %s %s cached in %s", p, p, locked.Version, o.DataDir)
	case errors.Is(err, errHash):
		return nil, "", fmt.Sprintf("%s: the cached package for %s %s (in %s) does not match any of the checksums "+
			"recorded in the dependency lock file", p, p, locked.Version, o.DataDir)
	default:
		return nil, "", fmt.Sprintf("%s: %s", p, err)
	}
}

// meets says why a selection does not meet constraints; empty if it does.
func meets(l *lock.Provider, texts []string) string {
	normal, allowed, err := allowedVersions(texts)
	switch {
	case err != nil:
		return err.Error()
	case normal != "" && !allowed.Has(l.Version):
		return fmt.Sprintf("locked version selection %s doesn't match the updated version constraints %q",
			l.Version, normal)
	}
	return ""
}

// overridden returns the package in the directory of a development override. Its content may change at any time, so
// it is identified by the current content of the executable.
func overridden(dir string, p addr.Provider) (Package, error) {
	exe := executable(dir, p)
	if exe == "" {
		return Package{}, fmt.Errorf("the development override directory %s has no executable that starts with "+
			"terraform-provider-%s", dir, p.Type)
	}
	info, err := os.Stat(exe)
	if err != nil {
		return Package{}, err
	}
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s %d %d", exe, info.Size(), info.ModTime().UnixNano())))
	return Package{Dir: dir, Executable: exe, Unlocked: "dev-" + hex.EncodeToString(sum[:8])}, nil
}
