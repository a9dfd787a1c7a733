package estate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/lock"
	"github.com/millipede-iac/millipede/install/providers"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// Providers are the packages that a configuration and a state need.
type Providers struct {
	packages   map[addr.Provider]providers.Package
	reattached map[addr.Provider]string
}

// LockFile is the file with the selected providers.
func (e *packages) LockFile() string { return e.path(lock.FileName) }

// ProvidersOf returns the providers of a state's objects; none for nil.
func ProvidersOf(st *state.State) []addr.Provider {
	return slices.SortedFunc(maps.Keys(RequiredProviders(nil, st)), CompareProviders)
}

// installOptions returns the common options of init and of operations that need providers. used are the providers
// of the state's objects.
func (e *packages) installOptions(tree *config.Tree, used []addr.Provider) (providers.Options,
	map[addr.Provider]string, diag.List) {
	reattached, err := e.Reattached()
	if err != nil {
		return providers.Options{}, nil, diag.Errors("Invalid TF_REATTACH_PROVIDERS", err.Error()+".", nil)
	}
	locks, diags := lock.Read(e.LockFile())
	required := map[addr.Provider][]string{}
	if tree != nil {
		for p, c := range tree.Requirements() {
			required[p] = c
		}
	}
	for _, p := range used {
		if required[p] == nil {
			required[p] = []string{}
		}
	}
	managed := map[addr.Provider]bool{}
	for p := range reattached {
		managed[p] = true
	}
	return providers.Options{
		Required: required, Locks: locks, CLI: e.CLI, Hashes: e.Hashes, Services: e.Services,
		WorkDir: e.Dir, DataDir: e.dataDir(),
		Platform: e.Platform,
		Env:      e.Environ, Managed: managed,
	}, reattached, diags
}

// ChangingOptions returns the options of operations that write the lock file. Selections of OpenTofu's predecessor
// are adopted.
func (e *packages) ChangingOptions(tree *config.Tree, used []addr.Provider) (providers.Options, diag.List) {
	o, _, diags := e.installOptions(tree, used)
	if diags.HasErrors() {
		return o, diags
	}
	adopted := o.Locks.AdoptPredecessors()
	if len(adopted) == 0 {
		return o, diags
	}
	var lines []string
	for _, p := range adopted {
		lines = append(lines, fmt.Sprintf("\n  - %s => %s", p, addr.DefaultProvider(p.Type)))
	}
	return o, diags.Append(diag.New(diag.Warning, "Dependency lock file entries automatically updated",
		"The lock file has selections of providers that OpenTofu's registry has, too. Their versions were taken "+
			"over, and their checksums not, because the packages are others:"+strings.Join(lines, ""), nil))
}

// selectProviders finds the installed packages; with anyVersion also those that do not meet the constraints of the
// configuration.
func (e *packages) selectProviders(tree *config.Tree, prior *state.State, anyVersion bool) (*Providers, diag.List) {
	o, reattached, diags := e.installOptions(tree, ProvidersOf(prior))
	if diags.HasErrors() {
		return nil, diags
	}
	if w := overridesWarning(o.CLI, "What they do may differ from every released version, and a state that they have "+
		"written may not be readable for one."); w != nil {
		diags = diags.Append(w)
	}
	o.AnyVersion = anyVersion
	packages, more := providers.Selected(o)
	return &Providers{packages: packages, reattached: reattached}, diags.Append(more)
}

// missingPackages returns an error if packages that the dependency lock file selects are not installed, regardless of
// what the configuration requires.
func (e *packages) missingPackages() diag.List {
	o, _, diags := e.installOptions(nil, nil)
	if diags.HasErrors() {
		return diags
	}
	for _, p := range o.Locks.Sorted() {
		o.Required[p] = []string{}
	}
	_, more := providers.Selected(o)
	return diags.Append(more)
}

// wirePackage returns a selected provider's package for workers.
func (p *Providers) wirePackage(source addr.Provider) wire.Package {
	out := wire.Package{Source: source.String()}
	if name := p.reattached[source]; name != "" {
		out.Unlocked = name
		return out
	}
	pkg := p.packages[source]
	out.Version, out.Hashes, out.Unlocked = pkg.Version, pkg.Hashes, pkg.Unlocked
	return out
}

// selections returns the packages as a plan records them.
func (p *Providers) selections() []plan.ProviderSelection {
	var out []plan.ProviderSelection
	for source, pkg := range p.packages {
		out = append(out, plan.ProviderSelection{Source: source, Version: pkg.Version, Hashes: pkg.Hashes})
	}
	return out
}

// share uploads the packages for remote workers, each once.
func (p *Providers) share(ctx context.Context, blobs wire.Blobs, platform string) diag.List {
	var diags diag.List
	for source := range p.reattached {
		diags = diags.Append(diag.New(diag.Error, "Reattached provider with remote workers",
			fmt.Sprintf("TF_REATTACH_PROVIDERS names a process of %s on this machine, which workers elsewhere cannot "+
				"reach. Run without -nats (and MILLIPEDE_NATS).", source.Display()), nil))
	}
	for source, pkg := range p.packages {
		if err := wire.Patiently(ctx, func() error {
			return sharePackage(ctx, blobs, wire.PackageName(p.wirePackage(source), platform), pkg.Dir)
		}); err != nil {
			diags = diags.Append(diag.New(diag.Error, "Failed to share a provider package with the workers",
				fmt.Sprintf("Uploading %s %s: %s.", source.Display(), pkg.Version, err), nil))
		}
	}
	return diags
}

// succession returns the changes that adopt a state that Terraform has written; see state.Succession. The
// environment can disable it.
func (e *packages) succession(tree *config.Tree, st *state.State) []state.Change {
	if st == nil || e.keepsProviders() {
		return nil
	}
	return state.Succession(st, named(tree))
}

// adopted adopts a state in place that is only shown. Without a tree, a provider of Terraform's registry stays if its
// successor is not available or if it is available itself: the configuration that requires it by its full name is
// then in use, although it was not given here.
func (e *packages) adopted(tree *config.Tree, st *state.State) diag.List {
	if tree != nil {
		e.succeeded(tree, st)
		return nil
	}
	changes := e.succession(nil, st)
	if len(changes) == 0 {
		return nil
	}
	o, _, diags := e.installOptions(nil, nil)
	if diags.HasErrors() {
		return diags
	}
	available := func(p addr.Provider) bool {
		_, overridden := o.CLI.DevOverrides[p]
		return o.Locks.Providers[p] != nil || o.Managed[p] || overridden
	}
	st.Apply(state.Succession(st, func(old addr.Provider) bool {
		return available(old) || !available(state.Successor(old, named(nil)))
	})...)
	return diags
}

// keepsProviders reports whether the environment disables succession.
func (e *packages) keepsProviders() bool {
	return e.Environ.Get("OPENTOFU_STATEFILE_PROVIDER_ADDRESS_TRANSLATION") == "0"
}

// named returns a function that reports whether a configuration names a provider; nil names none.
func named(tree *config.Tree) func(addr.Provider) bool {
	var required map[addr.Provider][]string
	if tree != nil {
		required = tree.Requirements()
	}
	return func(p addr.Provider) bool { _, is := required[p]; return is }
}

// succeeded returns a state after these changes; it is changed in place.
func (e *packages) succeeded(tree *config.Tree, st *state.State) *state.State {
	if changes := e.succession(tree, st); len(changes) > 0 {
		st.Apply(changes...)
	}
	return st
}

// overridesWarning warns about development overrides; nil if there are none.
func overridesWarning(cli *cliconfig.Config, advice string) *diag.Diagnostic {
	if len(cli.DevOverrides) == 0 {
		return nil
	}
	var lines []string
	for p, dir := range cli.DevOverrides {
		lines = append(lines, fmt.Sprintf("\n - %s in %s", p.Display(), dir))
	}
	slices.Sort(lines)
	return diag.New(diag.Warning, "Provider development overrides are in effect",
		"The CLI configuration takes these providers from other directories than their installed packages:"+
			strings.Join(lines, "")+"\n\n"+advice, nil)
}

// InstallOptions are the options of installing providers.
type InstallOptions struct {
	// Upgrade selects the newest versions that the constraints allow, whatever the lock file says.
	Upgrade bool
	// Dirs, if set, are the only sources of packages.
	Dirs []string
	// ReadOnly: the lock file may not change.
	ReadOnly bool
	// Begin is called before anything is installed, even if nothing is required; Report is called with each event.
	Begin  func()
	Report func(providers.Event)
}

// Installed is the effect on the lock file.
type Installed struct {
	// Written is set if the lock file was written, Fresh if there was none before.
	Written, Fresh bool
}

// InstallProviders installs the providers that the configuration requires, and those of the state's objects, and
// writes the lock file.
func (e *packages) InstallProviders(ctx context.Context, tree *config.Tree, used []addr.Provider, how InstallOptions) (
	Installed, diag.List) {
	if !e.keepsProviders() {
		used = slices.Clone(used)
		for i, p := range used {
			used[i] = state.Successor(p, named(tree))
		}
	}
	o, diags := e.ChangingOptions(tree, used)
	if diags = diags.Append(conflicting(o.Required)); diags.HasErrors() {
		return Installed{}, diags
	}
	o.Upgrade, o.Methods = how.Upgrade, providers.Directories(how.Dirs)
	if err := e.rememberPluginDirs(how.Dirs); err != nil {
		return Installed{}, diags.Append(diag.New(diag.Error, "Error saving -plugin-dir values", err.Error()+".", nil))
	}
	how.Begin()
	var incomplete []string // those whose checksums in the lock file are only for this platform
	o.Report = func(event providers.Event) {
		if event.Kind == providers.Installed && event.Incomplete {
			incomplete = append(incomplete, event.Provider.Display())
		}
		how.Report(event)
	}
	o.Inferred = func(p addr.Provider) diag.List { return inferred(tree, p) }
	locks, more := providers.Install(ctx, o)
	diags = diags.Append(more)
	if w := overridesWarning(o.CLI, "Leave init out while overrides are in effect: they do not need it. It installs "+
		"the released versions, and fails when there are none."); w != nil {
		diags = diags.Append(w)
	}
	if diags.HasErrors() {
		return Installed{}, diags
	}
	out, more := e.writeLocks(o.Locks, locks, how.ReadOnly)
	if diags = diags.Append(more); out.Written {
		diags = diags.Append(incompleteLocks(incomplete, o.Platform))
	}
	return out, diags
}

// writeLocks writes the selections when they changed.
func (e *packages) writeLocks(old, now *lock.Locks, readOnly bool) (Installed, diag.List) {
	switch {
	case string(old.Encode()) == string(now.Encode()) || len(now.Providers) == 0 && !exists(e.LockFile()):
		return Installed{}, nil
	case readOnly && !slices.Equal(old.Sorted(), now.Sorted()):
		return Installed{}, diag.Errors("Provider dependency changes detected",
			"The configuration requires other providers than the lock file has, and with -lockfile=readonly it may "+
				"not change. To record the requirements, run init without that option.", nil)
	case readOnly:
		return Installed{}, diag.List{diag.New(diag.Warning, "Provider lock file not updated",
			"The lock file lacks something that is known now, and with -lockfile=readonly it may not change. To "+
				"record it, run init without that option.", nil)}
	}
	if err := now.Write(e.LockFile()); err != nil {
		return Installed{}, diag.Errors("Failed to save dependency lock file", err.Error()+".", nil)
	}
	return Installed{Written: true, Fresh: len(old.Providers) == 0}, nil
}

// incompleteLocks warns about new selections whose hashes were computed here: they are valid only for this
// platform.
func incompleteLocks(names []string, platform string) diag.List {
	if names == nil {
		return nil
	}
	slices.Sort(names)
	return diag.List{diag.New(diag.Warning, "Incomplete lock file information for providers", fmt.Sprintf(
		"The sources of these packages provide no checksums, so those were computed here:\n  - "+
			"%s\n\nThe lock file holds checksums for %s alone, and init will fail on other platforms. To add those "+
			"of another platform, run:\n  "+diag.Program()+" providers lock -platform=OS_ARCH",
		strings.Join(names, "\n  - "), platform), nil)}
}

// rememberPluginDirs records the directories of -plugin-dir in OpenTofu's file and format, where other programs
// find them. A single empty directory removes the file. As in OpenTofu, the next init does not read it.
func (e *packages) rememberPluginDirs(dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	name := filepath.Join(e.dataDir(), "plugin_path")
	if len(dirs) == 1 && dirs[0] == "" {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.MarshalIndent(dirs, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return wholefile.Write(name, wholefile.Public, wholefile.Bytes(text))
}

// inferred warns that a provider was only inferred.
func inferred(tree *config.Tree, p addr.Provider) diag.List {
	r := tree.Inferred(p)
	if r == nil {
		return nil
	}
	return diag.List{diag.New(diag.Warning, "Automatically-inferred provider dependency", fmt.Sprintf(
		"The type of %s begins with %q, and the module does not say in required_providers which provider that is, so "+
			"%s was taken for it.\n\nEither name the right provider there, or in the argument \"provider\" of the "+
			"resource; or its type has another name.",
		r.Addr, r.Provider.Name, p.Display()), &r.Range)}
}

// conflicting warns about providers of one name from several registries, and reports those of state files so old
// that they contain no namespace.
func conflicting(required map[addr.Provider][]string) diag.List {
	var diags diag.List
	byType := map[string][]string{}
	for _, p := range slices.SortedFunc(maps.Keys(required), CompareProviders) {
		if p.Namespace == "hashicorp" || p.Namespace == "opentofu" {
			byType[p.Type] = append(byType[p.Type], p.Display())
		}
		if p.Namespace == "-" {
			diags = diags.Append(diag.New(diag.Error, "Invalid legacy provider address", fmt.Sprintf(
				"The configuration or the state refers to the provider %q without a namespace, as Terraform did "+
					"before version 0.13. Go through the steps to that version first.", p.Type), nil))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		if len(byType[name]) > 1 {
			diags = diags.Append(diag.New(diag.Warning, "Potential provider misconfiguration", fmt.Sprintf(
				"There are several providers of the type %s (%s), which may be a mistake: a module that says nothing "+
					"in required_providers means the one of the namespace hashicorp.", name,
				strings.Join(byType[name], ", ")), nil))
		}
	}
	return diags
}

// CompareProviders orders providers by their addresses.
func CompareProviders(a, b addr.Provider) int { return strings.Compare(a.String(), b.String()) }
