// Package providers makes the provider packages that a configuration and a state require available: it selects
// versions, finds packages in registries and mirrors, verifies them by checksums, signatures and the lock file, and
// links or unpacks them into the working directory.
//
// It starts no plugin. Workers do not use it: they get packages from the coordinator, by hash.
package providers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/apparentlymart/go-versions/versions"
	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/lock"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Options are the options of an installation.
type Options struct {
	// Required are the version constraints on each provider.
	Required map[addr.Provider][]string
	// Locks are the current selections; Install returns the new ones.
	Locks *lock.Locks
	CLI   *cliconfig.Config
	// Hashes caches the hashes of packages; may be nil.
	Hashes *Hashes
	// Services are used for registries and mirrors.
	Services *services.Services
	// WorkDir is the absolute directory of the configuration, to which relative file names refer. DataDir contains
	// the installed packages (.terraform).
	WorkDir, DataDir string
	// Methods, if set, replaces all configured methods (init -plugin-dir, providers lock).
	Methods  []cliconfig.Method
	Platform string // os_arch
	Upgrade  bool
	// AnyVersion makes Selected return the locked and installed packages, whatever versions the configuration
	// requires. Each missing provider then has a diagnostic of its own, with ErrUnavailable.
	AnyVersion bool
	// Env is the environment of the operation.
	Env environ.Variables
	// Managed are the providers that need no package: those that are attached to running processes.
	Managed map[addr.Provider]bool
	// Inferred, if set, returns additional diagnostics for a provider that its registry does not have: for one that
	// was only inferred from the type of a resource.
	Inferred func(addr.Provider) diag.List
	// Report, if set, is called with each event; one call at a time.
	Report func(Event)
}

// Event is a step of the installer.
type Event struct {
	Kind        EventKind
	Provider    addr.Provider
	Version     string
	Constraints string // of Finding; empty when any version will do
	Platform    string // of Installing and Installed while packages are copied for several platforms
	// Shared is set if the event concerns the shared cache directory, not that of the configuration.
	Shared bool
	// Authentication is set for Installed packages.
	Authentication *Authentication
	// Incomplete is set for an Installed package whose hashes on other platforms are unknown, so that the lock file
	// covers only this platform.
	Incomplete bool
}

// EventKind is the kind of an Event.
type EventKind byte

// The kinds.
const (
	Finding    EventKind = iota + 1 // looking for versions that meet Constraints
	Reusing                         // the version of the lock file
	Present                         // already installed
	Installing                      // followed by Installed, or by a problem
	Installed
	Linked // made available from the shared cache directory
	Builtin
	Waiting // for another process that uses the shared cache directory
)

// InstallDir returns the directory of a package in the data directory.
func InstallDir(dataDir string, p addr.Provider, version, platform string) string {
	return packageDir(filepath.Join(dataDir, "providers"), p, version, platform)
}

// packageDir returns the directory of a package below a directory of unpacked packages.
func packageDir(base string, p addr.Provider, version, platform string) string {
	return filepath.Join(base, p.Host, p.Namespace, p.Type, version, platform)
}

// installDir returns the directory of a package, as the process can open it.
func (o Options) installDir(p addr.Provider, version string) string {
	return InstallDir(environ.Path(o.WorkDir, o.DataDir), p, version, o.Platform)
}

// sharedDir returns the directory of a package in the shared cache directory, as the process can open it.
func (o Options) sharedDir(p addr.Provider, version string) string {
	return packageDir(environ.Path(o.WorkDir, o.CLI.CacheDir), p, version, o.Platform)
}

// downloads is the maximum number of concurrent downloads. Waiting for servers takes no processor time.
const downloads = 10

// Install makes all required providers available and returns the selections to write to the lock file. All
// providers that could not be installed are reported.
func Install(ctx context.Context, o Options) (*lock.Locks, diag.List) {
	if report := o.Report; report != nil {
		var mu sync.Mutex // serialises report
		o.Report = func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			report(e)
		}
	}
	providers := sortedProviders(o.Required)
	if slices.ContainsFunc(providers, func(p addr.Provider) bool { return !p.IsBuiltin() && !o.Managed[p] }) {
		if diags := o.unclear(); diags.HasErrors() {
			return o.Locks, diags
		}
	}
	selections := make([]*lock.Provider, len(providers))
	problems := make([]diag.List, len(providers))
	var group errgroup.Group
	group.SetLimit(max(runtime.GOMAXPROCS(0), downloads))
	places := o.sources()
	for i, p := range providers {
		if p.IsBuiltin() {
			problems[i] = o.builtin(p)
		}
	}
	for i, p := range providers {
		switch {
		case p.IsBuiltin():
		case o.Managed[p]:
			selections[i] = o.Locks.Get(p)
		default:
			group.Go(func() error {
				if ctx.Err() != nil {
					problems[i] = diag.Errors("Provider installation was canceled", "The installation was interrupted.",
						nil)
					return nil //nolint:nilerr // the cancellation is a diagnostic
				}
				selections[i], problems[i] = o.one(ctx, places, p)
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		panic("install: the installations return no errors")
	}
	out := &lock.Locks{}
	var diags diag.List
	for i, p := range providers {
		diags = diags.Append(problems[i])
		if selections[i] != nil {
			out.Set(p, selections[i])
		}
	}
	return out, diags
}

func sortedProviders(required map[addr.Provider][]string) []addr.Provider {
	return slices.SortedFunc(maps.Keys(required),
		func(a, b addr.Provider) int { return strings.Compare(a.String(), b.String()) })
}

func (o Options) report(e Event) {
	if o.Report != nil {
		o.Report(e)
	}
}

// builtin checks a provider that needs no package.
func (o Options) builtin(p addr.Provider) diag.List {
	problem := ""
	if p != addr.BuiltinTerraform {
		problem = "there is no built-in provider of that name; the only one is " + addr.BuiltinTerraform.String()
	} else if strings.Join(o.Required[p], "") != "" {
		problem = "it has the version of the engine, so its version cannot be constrained"
	}
	if problem != "" {
		return diag.Errors("Invalid dependency on built-in provider", fmt.Sprintf("Cannot use %s: %s.", p, problem),
			nil)
	}
	o.report(Event{Kind: Builtin, Provider: p})
	return nil
}

// one installs one provider.
func (o Options) one(ctx context.Context, places sources, p addr.Provider) (*lock.Provider, diag.List) {
	constraints, allowed, err := allowedVersions(o.Required[p])
	if err != nil {
		return nil, diag.Errors("Invalid version constraint", fmt.Sprintf("The version constraints on %s cannot be "+
			"read: %s.", p, err), nil)
	}
	locked := o.Locks.Get(p)
	switch {
	case locked == nil || o.Upgrade:
		o.report(Event{Kind: Finding, Provider: p, Constraints: constraints})
	case !allowed.Has(locked.Version):
		o.report(Event{Kind: Reusing, Provider: p})
		return nil, unresolved(p, fmt.Errorf("the lock file has %s %s, which does not meet the version constraint %s "+
			"that the configuration has now; run init -upgrade to allow the selection of another version", p,
			locked.Version, constraints))
	default:
		o.report(Event{Kind: Reusing, Provider: p})
		if !o.mirrored(p) && (o.present(p, locked) || o.cached(p, locked)) {
			return &lock.Provider{Version: locked.Version, Constraints: constraints, Hashes: locked.Hashes}, nil
		}
		allowed = versions.Only(locked.Version)
	}
	version, diags := o.selectVersion(ctx, places, p, allowed, constraints)
	if diags.HasErrors() {
		return nil, diags
	}
	if locked != nil && locked.Version.Same(version) && (o.Upgrade || o.mirrored(p)) &&
		(o.present(p, locked) || o.cached(p, locked)) {
		return &lock.Provider{Version: version, Constraints: constraints, Hashes: locked.Hashes}, diags
	}
	c, err := places.locate(ctx, p, version, o.Platform)
	if err != nil {
		return nil, diags.Append(o.notLocated(p, version, err))
	}
	selection, more := o.install(ctx, p, c, constraints, locked)
	return selection, diags.Append(more)
}

// mirrored reports whether the user has configured a mirror for a provider. The mirror is used even if the selected
// package is installed, because its operator decides which versions may be used.
func (o Options) mirrored(p addr.Provider) bool {
	methods := o.Methods
	if methods == nil {
		methods = o.CLI.Methods
	}
	return slices.ContainsFunc(methods, func(m cliconfig.Method) bool {
		return m.Kind != cliconfig.Direct &&
			m.Covers(p)
	})
}

// selectVersion returns the newest version that is allowed and available.
func (o Options) selectVersion(ctx context.Context, places sources, p addr.Provider, allowed versions.Set,
	constraints string) (versions.Version, diag.List) {
	if allowed.Exactly(versions.Unspecified) {
		return versions.Unspecified, unresolved(p, errors.New("0.0.0 is not a version that can be installed; to use a "+
			"provider that is not published, name its directory in a dev_overrides block of the CLI configuration"))
	}
	found, warnings, err := places.available(ctx, p)
	if err != nil {
		return versions.Unspecified, o.notQueried(p, err)
	}
	var diags diag.List
	if len(warnings) > 0 {
		diags = diags.Append(diag.New(diag.Warning, "Additional provider information from registry",
			fmt.Sprintf("The registry says about %s:\n- %s", p, strings.Join(warnings, "\n- ")), nil))
	}
	if version, ok := newest(found, allowed); ok {
		return version, diags
	}
	if locked := o.Locks.Get(p); locked != nil && !o.Upgrade {
		return versions.Unspecified, unresolved(p, fmt.Errorf("the previously selected version %s is not available "+
			"any more", locked.Version))
	}
	return versions.Unspecified,
		unresolved(p, errors.New("no available releases match the given constraints "+constraints))
}

// allowedVersions returns the normalised form of constraints, and the set of versions that meet them. Without
// constraints, releases are allowed and pre-releases are not.
func allowedVersions(texts []string) (string, versions.Set, error) {
	normal, err := lock.Constraints(texts)
	if err != nil {
		return "", versions.None, err
	}
	if normal == "" {
		return "", versions.Released, nil
	}
	allowed, err := versions.MeetingConstraintsStringRuby(normal)
	return normal, allowed, err
}

// present reports whether the selected package is installed and intact.
func (o Options) present(p addr.Provider, l *lock.Provider) bool {
	if len(l.Hashes) == 0 {
		return false
	}
	if o.verify(o.installDir(p, l.Version.String()), p, l.Hashes) != nil {
		return false
	}
	o.report(Event{Kind: Present, Provider: p, Version: l.Version.String()})
	return true
}

// cached links to the selected package if the shared cache directory has it, intact. Then no source is needed.
func (o Options) cached(p addr.Provider, l *lock.Provider) bool {
	if o.CLI.CacheDir == "" || len(l.Hashes) == 0 {
		return false
	}
	version := l.Version.String()
	shared := o.sharedDir(p, version)
	if o.verify(shared, p, l.Hashes) != nil {
		return false
	}
	target := o.installDir(p, version)
	unlock, err := lockDir(target)
	if err != nil {
		return false // the error is reported by the installation
	}
	defer unlock()
	if link(shared, target) != nil {
		return false
	}
	o.report(Event{Kind: Present, Provider: p, Version: version, Shared: true})
	o.report(Event{Kind: Linked, Provider: p, Version: version, Shared: true})
	return true
}
