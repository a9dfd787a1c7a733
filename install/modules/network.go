package modules

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/millipede-iac/millipede/install/getter"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// NetworkOptions are the options of Network.
type NetworkOptions struct {
	Services *services.Services
	// Base is the absolute directory to which relative names refer. Env is the environment of the operation.
	Base string
	Env  environ.Variables
	// RemoteOnly refuses packages on this machine's disks.
	RemoteOnly bool
	// Downloading, if set, is called with the address and the version (if any) of each module that is downloaded.
	Downloading func(r config.ModuleRequest, from, version string)
}

// Network returns the sources of remote modules: packages, and modules of registries. The sources live as long as one
// installation.
func Network(o NetworkOptions) map[config.SourceKind]Source {
	if o.Downloading == nil {
		o.Downloading = func(config.ModuleRequest, string, string) {}
	}
	s := o.Services
	n := network{getter.New(s, o.Env, o.RemoteOnly), o.Base, o.Downloading}
	return map[config.SourceKind]Source{
		config.RemoteSource:   packages{n},
		config.RegistrySource: &published{network: n, services: s, versions: map[string][]string{}},
	}
}

// network has the fields that all sources share.
type network struct {
	getter      *getter.Getter
	base        string
	downloading func(r config.ModuleRequest, from, version string)
}

// path returns the path of a directory for the operating system.
func (n network) path(dir string) string {
	return environ.Path(n.base, dir)
}

// packages installs modules from packages.
type packages struct{ network }

// Fetch implements Source.
func (p packages) Fetch(ctx context.Context, r config.ModuleRequest, into string) (config.Installed, diag.List) {
	p.downloading(r, config.Shown(r.Source.Package), "")
	if err := p.getter.Get(ctx, r.Source.Package, p.path(into)); err != nil {
		return config.Installed{}, notDownloaded(ctx, r, r.Source.Package, err)
	}
	return p.installed(r, into, r.Source.Subdir, "")
}

// expanded is the summary of errors about the directory within a package that a source names. If a registry names
// it, the summary differs, as in OpenTofu.
const expanded = "Failed to expand subdir globs"

// installed finds the module in a package that has been downloaded.
func (n network) installed(r config.ModuleRequest, into, subdir, version string) (config.Installed, diag.List) {
	dir, err := getter.Subdir(n.path(into), subdir)
	if err != nil {
		return config.Installed{}, diag.Errors(expanded,
			fmt.Sprintf("In the package of the module %q: %s.", r.Call.Name, err), r.Call.SourceRange.Ptr())
	}
	if !isDir(dir) {
		summary := expanded
		if r.Source.Kind == config.RegistrySource {
			summary = "Module subdirectory not found"
		}
		return config.Installed{}, diag.Errors(summary,
			fmt.Sprintf("The package of the module %q, in %s, has no directory %q.", r.Call.Name, into, subdir),
			&r.Call.Range)
	}
	rel, err := filepath.Rel(n.path(into), dir)
	if err != nil {
		panic(err) // into is below base
	}
	return config.Installed{Version: version, Dir: filepath.Join(into, rel)}, nil
}

// notDownloaded reports why a package was not downloaded.
func notDownloaded(ctx context.Context, r config.ModuleRequest, from string, err error) diag.List {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return diag.Errors("Module download was interrupted", fmt.Sprintf("Stopped while the module %q was downloaded.",
			r.Path), &r.Call.Range)
	}
	return diag.Errors("Failed to download module", fmt.Sprintf("Could not download module %q from %q: %s",
		r.Call.Name, config.Shown(from), config.Conceal(err.Error(), from)), &r.Call.Range)
}
