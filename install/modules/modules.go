// Package modules installs the modules that a configuration calls.
//
// It finds or downloads each module, and records its location in the manifest, which has OpenTofu's format. It does
// not parse configuration, and does not install providers.
package modules

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/reach"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Source installs modules with one kind of source address.
type Source interface {
	// Fetch makes the module available, and returns its location. into is a directory for this module that does not
	// exist yet; sources that copy nothing do not create it. Diagnostics point to the call of the module.
	Fetch(ctx context.Context, r config.ModuleRequest, into string) (config.Installed, diag.List)
}

// Options are the options of an installation.
type Options struct {
	// Loader reads the configuration. Its names are relative to Base.
	Loader *config.Loader
	// Base is the absolute directory to which relative names refer.
	Base string
	// Env is the environment of the operation.
	Env environ.Variables
	// Files are the files that may be read; nil is all of them.
	Files *reach.Files
	// DataDir is the directory of installed modules: .terraform, or TF_DATA_DIR. Empty is .terraform.
	DataDir string
	// Upgrade reinstalls modules that are already installed.
	Upgrade bool
	// Variable and Workspace provide values on which module sources can depend: see config.TreeOptions.
	Variable  func(*config.Variable) (cty.Value, diag.List)
	Workspace string
	// TestDir is the directory of test files, whose modules are installed too; empty installs none for tests.
	TestDir string
	// Sources installs modules by the kind of their source: see Network. Local directories need none; modules of a
	// missing kind can be used only if they are already installed.
	Sources map[config.SourceKind]Source
	// Done, if set, is called for each module that was newly installed.
	Done func(addr.Module, config.Installed)
}

// Result is the result of an installation.
type Result struct {
	// Tree is the configuration with all modules that could be loaded.
	Tree     *config.Tree
	Manifest config.Manifest
}

// Install loads the configuration in dir, installs the modules that it calls, at every depth, and writes the
// manifest. The diagnostics are those of the whole configuration. If the installation itself fails, the manifest is
// not changed.
func Install(ctx context.Context, dir string, o Options) (Result, diag.List) {
	if o.DataDir == "" {
		o.DataDir = ".terraform"
	}
	if dir == "" {
		dir = "."
	}
	old, diags := config.ReadManifest(config.OS{Base: o.Base, Files: o.Files}, o.DataDir)
	if diags.HasErrors() {
		return Result{}, diags
	}
	i := &installer{ctx: ctx, options: o, old: old, now: maps.Clone(old)}
	i.now[addr.RootModule] = config.Installed{Dir: dir}
	tree, more := o.Loader.LoadTree(config.TreeOptions{Dir: dir, Variable: o.Variable, Workspace: o.Workspace,
		Locator: i, TestDir: o.TestDir, Base: o.Base, Env: o.Env, Files: o.Files,
		Queries: true}) // which may name further providers
	diags = append(diags, more...)
	if tree.Root == nil || i.failed {
		return Result{tree, old}, diags
	}
	if len(i.now) > 1 || len(old) > 0 {
		diags = append(diags, i.write()...)
	}
	return Result{tree, i.now}, diags
}

// installer is the locator that installs the modules it is asked for.
type installer struct {
	ctx     context.Context
	options Options
	// now starts as a copy of old: entries that OpenTofu recorded for other purposes (tests) are kept.
	old, now config.Manifest
	failed   bool
}

// Locate implements config.Locator.
func (i *installer) Locate(r config.ModuleRequest) (config.Installed, diag.List) {
	if err := i.ctx.Err(); err != nil {
		i.failed = true
		return config.Installed{}, diag.Errors("Module installation was interrupted",
			fmt.Sprintf("Stopped before the module %q was installed.", r.Path), &r.Call.Range)
	}
	at, diags := i.find(r)
	if diags.HasErrors() {
		i.failed = true
		return config.Installed{}, diags
	}
	if at != i.old[r.Path] {
		maps.DeleteFunc(i.now, func(m addr.Module, _ config.Installed) bool { return r.Path.Contains(m) })
	}
	i.now[r.Path] = at
	return at, diags
}

// find returns the installed module if it matches the request, and otherwise installs it.
func (i *installer) find(r config.ModuleRequest) (config.Installed, diag.List) {
	have, recorded := i.old[r.Path]
	current := recorded && have.Source == config.Shown(r.Source.Text) && r.Accepts(have.Version) && i.isDir(have.Dir)
	if current && !i.options.Upgrade && r.Source.Kind != config.LocalSource {
		return have, nil
	}
	var at config.Installed
	var diags diag.List
	if r.Source.Kind == config.LocalSource {
		at, diags = i.local(r)
	} else if source := i.options.Sources[r.Source.Kind]; source != nil {
		at, diags = i.fetch(source, r)
	} else if current {
		return have, nil // there is no source to fetch it again
	} else {
		return at, notAvailable(r)
	}
	if !diags.HasErrors() && i.options.Done != nil && (!current || i.options.Upgrade || at != have) {
		i.options.Done(r.Path, at)
	}
	return at, diags
}

// local finds a module in a local directory.
func (i *installer) local(r config.ModuleRequest) (config.Installed, diag.List) {
	dir := filepath.Join(r.Parent.SourceDir, filepath.FromSlash(r.Source.Text))
	if _, err := i.options.Files.Stat(i.path(dir)); errors.Is(err, reach.ErrOutside) {
		return config.Installed{}, diag.Errors("Unreadable module directory",
			fmt.Sprintf("The directory %s of the module %q cannot be read: %s.", dir, r.Call.Name, reason(err)),
			&r.Call.Range)
	}
	real, err := resolve(i.options.Base, dir)
	if err != nil && escapes(r) {
		return config.Installed{}, diag.Errors("Local module path escapes module package", fmt.Sprintf(
			"The source %s of the module %q leads out of the package that its caller came in, and nothing else of "+
				"where that came from is here.", r.Source.Text, r.Path), &r.Call.Range)
	}
	if err != nil {
		return config.Installed{}, diag.Errors("Unreadable module directory",
			fmt.Sprintf("The directory %s of the module %q cannot be read: %s.", dir, r.Call.Name, reason(err)),
			&r.Call.Range)
	}
	return config.Installed{Source: r.Source.Text, Dir: real}, nil
}

// escapes reports whether a local directory is outside of the package that contains its callers.
func escapes(r config.ModuleRequest) bool {
	at := r.Source.Text
	for n := r.Parent; n != nil && n.Call != nil; n = n.Parent {
		source, err := config.ParseModuleSource(n.Call.Source, n.Call.Version != "")
		switch {
		case err != nil:
			return false
		case source.Kind == config.LocalSource:
			at = path.Join(source.Text, at)
		case source.Kind == config.RegistrySource:
			return !filepath.IsLocal(filepath.Join(source.Registry.Subdir, at))
		default:
			return !filepath.IsLocal(filepath.Join(source.Subdir, at))
		}
	}
	return false
}

// reason returns an error without the path, which the surrounding message contains already.
func reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// fetch installs into a new directory below the data directory.
func (i *installer) fetch(source Source, r config.ModuleRequest) (config.Installed, diag.List) {
	into := filepath.Join(i.options.DataDir, "modules", string(r.Path))
	if err := os.RemoveAll(i.path(into)); err != nil {
		return config.Installed{}, diag.Errors("Failed to remove local module cache",
			fmt.Sprintf("The module %q cannot be installed again while %s is there: %s.", r.Path, into, reason(err)),
			&r.Call.Range)
	}
	at, diags := source.Fetch(i.ctx, r, into)
	at.Source = config.Shown(r.Source.Text)
	return at, diags
}

func notAvailable(r config.ModuleRequest) diag.List {
	return diag.Errors("Remote module sources not supported", fmt.Sprintf(
		"The module %q comes from %s, and only modules in local directories can be used here.", r.Call.Name,
		config.Shown(r.Source.Text)), r.Call.SourceRange.Ptr())
}

// write replaces the manifest atomically.
func (i *installer) write() diag.List {
	name := i.path(config.ManifestPath(i.options.DataDir))
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = wholefile.Write(name, wholefile.Public, wholefile.Bytes(i.now.Encode()))
	}
	if err != nil {
		return diag.Errors("Failed to update module manifest",
			fmt.Sprintf("The list of installed modules cannot be written to %s: %s.", name, reason(err)), nil)
	}
	return nil
}

func (i *installer) isDir(dir string) bool {
	info, err := i.options.Files.Stat(i.path(dir))
	return err == nil && info.IsDir()
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func (i *installer) path(name string) string {
	return environ.Path(i.options.Base, name)
}
