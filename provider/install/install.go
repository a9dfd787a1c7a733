// Package install makes the provider packages that a configuration and a state require available: it selects
// versions, finds packages in mirrors, verifies them against the lock file, links or unpacks them into the working
// directory.
//
// It starts no plugin. Workers do not use it: they get packages from the coordinator, by hash.
package install

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/apparentlymart/go-versions/versions"
	"golang.org/x/sync/errgroup"

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
	// Report, when set, is told what happens; one call at a time.
	Report func(Event)
}

// Event is what the installer does at the moment.
type Event struct {
	Kind        EventKind
	Provider    addr.Provider
	Version     string
	Constraints string // of Finding; empty when any version will do
	Platform    string // of Installing and Installed while packages are copied for several platforms
	// Shared tells that the shared cache directory is meant, not that of the configuration.
	Shared bool
}

// EventKind is the kind of an Event.
type EventKind byte

// The kinds.
const (
	Finding    EventKind = iota + 1 // looking for versions that meet Constraints
	Reusing                         // the version of the lock file
	Present                         // installed already
	Installing                      // Installed follows, or a problem
	Installed
	Linked // made available from the shared cache directory
	Builtin
)

// InstallDir returns where a package lies in the data directory.
func InstallDir(dataDir string, p addr.Provider, version, platform string) string {
	return packageDir(filepath.Join(dataDir, "providers"), p, version, platform)
}

// packageDir returns where a package lies below a directory of unpacked packages.
func packageDir(base string, p addr.Provider, version, platform string) string {
	return filepath.Join(base, p.Host, p.Namespace, p.Type, version, platform)
}

// Install makes all required providers available and returns the selections to write to the lock file. Providers that
// could not be installed are all reported.
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
	selections := make([]*lock.Provider, len(providers))
	problems := make([]diag.List, len(providers))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0)) // hashing and unpacking keep a processor busy
	for i, p := range providers {
		if p.IsBuiltin() {
			problems[i] = o.builtin(p)
		}
	}
	for i, p := range providers {
		switch _, overridden := o.CLI.DevOverrides[p]; {
		case p.IsBuiltin():
		case overridden || o.Managed[p]:
			selections[i] = o.Locks.Get(p)
		default:
			group.Go(func() error {
				if ctx.Err() != nil {
					problems[i] = diag.Errors("Provider installation was canceled", "The installation was interrupted.", nil)
					return nil
				}
				selections[i], problems[i] = o.one(p)
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
	return slices.SortedFunc(maps.Keys(required), func(a, b addr.Provider) int { return strings.Compare(a.String(), b.String()) })
}

func (o Options) report(e Event) {
	if o.Report != nil {
		o.Report(e)
	}
}

// builtin checks a provider that needs no package.
func (o Options) builtin(p addr.Provider) diag.List {
	if p != addr.BuiltinTerraform {
		return diag.Errors("Invalid provider address",
			fmt.Sprintf("There is no built-in provider %s; the only one is %s.", p, addr.BuiltinTerraform), nil)
	}
	if c := strings.Join(o.Required[p], ""); c != "" {
		return diag.Errors("Invalid provider version constraint",
			fmt.Sprintf("The provider %s is built in: it has the version of the engine, so its version cannot be constrained.", p), nil)
	}
	o.report(Event{Kind: Builtin, Provider: p})
	return nil
}

// one installs one provider.
func (o Options) one(p addr.Provider) (*lock.Provider, diag.List) {
	constraints, allowed, err := allowedVersions(o.Required[p])
	if err != nil {
		return nil, diag.Errors("Invalid version constraint", fmt.Sprintf("The version constraints on %s cannot be read: %s.", p, err), nil)
	}
	locked := o.Locks.Get(p)
	switch {
	case locked == nil || o.Upgrade:
		o.report(Event{Kind: Finding, Provider: p, Constraints: constraints})
	case !allowed.Has(locked.Version):
		o.report(Event{Kind: Reusing, Provider: p})
		return nil, unresolved(p, fmt.Sprintf("the lock file has %s %s, which does not meet the version constraint %s that the configuration has now; run init -upgrade to allow the selection of another version", p, locked.Version, constraints))
	default:
		o.report(Event{Kind: Reusing, Provider: p})
		if o.present(p, locked) {
			return &lock.Provider{Version: locked.Version, Constraints: constraints, Hashes: locked.Hashes}, nil
		}
		allowed = versions.Only(locked.Version)
	}
	found, diags := o.find(p, allowed)
	switch {
	case diags.HasErrors():
		return nil, diags
	case found.best != nil:
		return o.place(p, *found.best, constraints, locked)
	case found.elsewhere != nil:
		return nil, diag.Errors("Incompatible provider version", fmt.Sprintf(
			"Of the provider %s v%s there is no package for this platform, %s.\n\nNot every provider is made for every platform, and other versions of it may be made for other platforms.",
			p, *found.elsewhere, o.Platform), nil)
	case !found.known:
		where := "No place is configured where it could be found."
		if len(found.looked) > 0 {
			where = "It was searched for in:\n  - " + strings.Join(found.looked, "\n  - ")
		}
		return nil, diag.Errors("Failed to query available provider packages", fmt.Sprintf(
			"Could not retrieve the list of available versions for provider %s: there is no package of %s.\n\n%s", p.Display(), p, where), nil)
	case locked != nil && !o.Upgrade:
		return nil, unresolved(p, fmt.Sprintf("the previously selected version %s is not available any more", locked.Version))
	default:
		return nil, unresolved(p, "no available releases match the given constraints "+constraints)
	}
}

func unresolved(p addr.Provider, why string) diag.List {
	return diag.Errors("Failed to resolve provider packages", fmt.Sprintf("Could not resolve provider %s: %s", p.Display(), why), nil)
}

// allowedVersions returns the normal form of constraints, and what meets them. Where nothing is said, releases are
// allowed and pre-releases are not.
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

// present tells whether the selected package is installed and whole.
func (o Options) present(p addr.Provider, l *lock.Provider) bool {
	if len(l.Hashes) == 0 {
		return false
	}
	if verify(InstallDir(o.DataDir, p, l.Version.String(), o.Platform), p, l.Hashes) != nil {
		return false
	}
	o.report(Event{Kind: Present, Provider: p, Version: l.Version.String()})
	return true
}

// findings are what a search for a provider came to.
type findings struct {
	best *candidate
	// elsewhere is the newest allowed version that has packages, but none for the platform.
	elsewhere *versions.Version
	// known tells that some version was found; looked are the places.
	known  bool
	looked []string
}

// find looks for the newest allowed package.
func (o Options) find(p addr.Provider, allowed versions.Set) (findings, diag.List) {
	methods := o.CLI.methods(o.WorkDir, o.Getenv)
	if len(o.PluginDirs) > 0 {
		methods = nil
		for _, d := range o.PluginDirs {
			methods = append(methods, Method{Kind: FilesystemMirror, Location: d})
		}
	}
	var out findings
	unavailable := ""
	for _, m := range methods {
		if !m.Covers(p) {
			continue
		}
		switch m.Kind {
		case FilesystemMirror:
			out.looked = append(out.looked, m.Location)
			for _, c := range inMirror(m.Location, p) {
				out.known = true
				switch {
				case !allowed.Has(c.version):
				case c.platform != o.Platform:
					if out.elsewhere == nil || out.elsewhere.LessThan(c.version) {
						out.elsewhere = &c.version
					}
				case out.best == nil || out.best.version.LessThan(c.version):
					out.best = &c
				}
			}
		case NetworkMirror:
			unavailable = "the network mirror " + m.Location
		case Direct:
			unavailable = "the provider registry " + p.Host
		}
	}
	if out.best == nil && unavailable != "" {
		return out, unresolved(p, fmt.Sprintf("it has to come from %s, and this version of Millipede installs from local directories only.\n\nPut the package into a filesystem mirror (\"tofu providers mirror DIR\" makes one), and name that in a filesystem_mirror block of the CLI configuration, or in init -plugin-dir=DIR.", unavailable))
	}
	return out, nil
}
