package main

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

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/install"
	"github.com/millipede-iac/millipede/provider/lock"
	"github.com/millipede-iac/millipede/state"
)

// providers installs what the configuration and the state require, and writes the lock file.
func (i *initialisation) providers(ctx context.Context, prior *state.State) diag.List {
	o, diags := i.app.changingOptions(i.wd.tree, prior)
	if diags = diags.Append(conflicting(o.Required)); diags.HasErrors() {
		return diags
	}
	o.Upgrade, o.Methods = i.options.upgrade, install.Directories(i.options.pluginDirs)
	if err := i.rememberPluginDirs(); err != nil {
		return diags.Append(diag.New(diag.Error, "Error saving -plugin-dir values", err.Error()+".", nil))
	}
	if len(o.Required) > 0 {
		i.heading("Initializing provider plugins...")
	}
	o.Report, o.Inferred = i.installing, i.inferred
	locks, more := install.Install(ctx, o)
	diags = diags.Append(more)
	if i.signed {
		i.print("\n")
		i.say("Signed providers are signed by their developers. What that means is said at\nhttps://opentofu.org/docs/cli/plugins/signing/")
	}
	if w := overridesWarning(o.CLI, "Leave init out while overrides are in effect: they do not need it. It installs the released versions, and fails when there are none."); w != nil {
		diags = diags.Append(w)
	}
	if diags.HasErrors() {
		return diags
	}
	return diags.Append(i.lockFile(o.Locks, locks, o.Platform))
}

// rememberPluginDirs writes the directories of -plugin-dir down, in the file and the form of OpenTofu, where other programs
// find them. A single empty directory removes the file. The next init does not read it, as with OpenTofu.
func (i *initialisation) rememberPluginDirs() error {
	dirs := i.options.pluginDirs
	if len(dirs) == 0 {
		return nil
	}
	name := filepath.Join(i.app.dataDir(), "plugin_path")
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
	return os.WriteFile(name, text, 0o644)
}

// inferred warns that a provider was only guessed.
func (i *initialisation) inferred(p addr.Provider) diag.List {
	r := i.wd.tree.Inferred(p)
	if r == nil {
		return nil
	}
	return diag.List{diag.New(diag.Warning, "Automatically-inferred provider dependency", fmt.Sprintf(
		"The type of %s begins with %q, and the module does not say in required_providers which provider that is, so %s was taken for it.\n\nEither name the right provider there, or in the argument \"provider\" of the resource; or its type has another name.",
		r.Addr, r.Provider.Name, p.Display()), &r.Range)}
}

// conflicting warns about providers of one name from several registries, and complains about those of state files so
// old that they name no namespace.
func conflicting(required map[addr.Provider][]string) diag.List {
	var diags diag.List
	byType := map[string][]string{}
	for _, p := range slices.SortedFunc(maps.Keys(required), compareProviders) {
		if p.Namespace == "hashicorp" || p.Namespace == "opentofu" {
			byType[p.Type] = append(byType[p.Type], p.Display())
		}
		if p.Namespace == "-" {
			diags = diags.Append(diag.New(diag.Error, "Invalid legacy provider address", fmt.Sprintf(
				"The configuration or the state refers to the provider %q without a namespace, as Terraform did before version 0.13. Go through the steps to that version first.", p.Type), nil))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		if len(byType[name]) > 1 {
			diags = diags.Append(diag.New(diag.Warning, "Potential provider misconfiguration", fmt.Sprintf(
				"There are several providers of the type %s (%s), which may be a mistake: a module that says nothing in required_providers means the one of the namespace hashicorp.", name, strings.Join(byType[name], ", ")), nil))
		}
	}
	return diags
}

// changingOptions are the options of commands that write the lock file. Selections of OpenTofu's predecessor are taken
// over.
func (a *app) changingOptions(tree *config.Tree, prior *state.State) (install.Options, diag.List) {
	o, _, diags := a.installOptions(tree, prior)
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
		"The lock file has selections of providers that OpenTofu's registry has, too. Their versions were taken over, and their checksums not, because the packages are others:"+strings.Join(lines, ""), nil))
}

// installing shows what the installer does.
func (i *initialisation) installing(e install.Event) {
	name := e.Provider.Display()
	switch e.Kind {
	case install.Finding:
		if e.Constraints == "" {
			i.item("Finding latest version of %s...", name)
		} else {
			i.item("Finding %s versions matching %q...", name, e.Constraints)
		}
	case install.Reusing:
		i.item("Reusing previous version of %s from the dependency lock file", name)
	case install.Present:
		if e.Shared {
			i.item("Detected previously-installed %s v%s in the shared cache directory", name, e.Version)
		} else {
			i.item("Using previously-installed %s v%s", name, e.Version)
		}
	case install.Installing:
		where := ""
		if e.Shared {
			where = " to the shared cache directory"
		}
		i.item("Installing %s v%s%s...", name, e.Version, where)
	case install.Installed:
		i.installed(e)
	case install.Linked:
		i.item("Using %s v%s from the shared cache directory", name, e.Version)
	case install.Builtin:
		i.item("%s is built in to Millipede", e.Provider)
	case install.Waiting:
		i.item("Waiting for lock on the shared cache directory of %s v%s", name, e.Version)
	}
}

// installed shows that a package is there, and who vouches for it.
func (i *initialisation) installed(e install.Event) {
	if e.Incomplete {
		i.incomplete = append(i.incomplete, e.Provider.Display())
	}
	auth := e.Authentication
	if auth != nil && auth.SigningSkipped {
		i.item("Installed %s v%s. Signature validation was skipped due to the registry not containing GPG keys for this provider", e.Provider.Display(), e.Version)
		return
	}
	i.item("Installed %s v%s (%s)", e.Provider.Display(), e.Version, authenticated(auth))
	if auth != nil && auth.KeyID != "" {
		i.signed = true
		if auth.KeyExpired {
			i.item("The key that %s is signed with has expired", e.Provider.Display())
		}
	}
}

// authenticated says who vouches for a package.
func authenticated(auth *install.Authentication) string {
	text := auth.String()
	if auth != nil && auth.KeyID != "" {
		text += ", key ID " + auth.KeyID
	}
	return text
}

// lockFile writes the selections when they changed.
func (i *initialisation) lockFile(old, now *lock.Locks, platform string) diag.List {
	if string(old.Encode()) == string(now.Encode()) || len(now.Providers) == 0 && !exists(lock.FileName) {
		return nil
	}
	if i.options.lockfile == "readonly" {
		if !slices.Equal(old.Sorted(), now.Sorted()) {
			return diag.Errors("Provider dependency changes detected",
				"The configuration requires other providers than the lock file has, and with -lockfile=readonly it may not change. To record the requirements, run init without that option.", nil)
		}
		return diag.List{diag.New(diag.Warning, "Provider lock file not updated",
			"The lock file lacks something that is known now, and with -lockfile=readonly it may not change. To record it, run init without that option.", nil)}
	}
	fresh := len(old.Providers) == 0
	if err := now.Write(lock.FileName); err != nil {
		return diag.Errors("Failed to save dependency lock file", err.Error()+".", nil)
	}
	i.print("\n")
	if fresh {
		i.say(fmt.Sprintf("Millipede has created a lock file %s with the provider selections\nmade above. Keep it in version control, so that the same selections are made\nwherever the configuration is initialized.", i.app.ink(i.flags.viewFlags).Bold(lock.FileName)))
	} else {
		i.say(fmt.Sprintf("Millipede has changed provider selections in the lock file %s.\nReview the changes, and commit them if they are what you wanted.", lock.FileName))
	}
	return i.incompleteLocks(platform)
}

// incompleteLocks warns about new selections whose hashes were computed here: they hold for this platform alone.
func (i *initialisation) incompleteLocks(platform string) diag.List {
	if i.incomplete == nil {
		return nil
	}
	slices.Sort(i.incomplete)
	return diag.List{diag.New(diag.Warning, "Incomplete lock file information for providers", fmt.Sprintf(
		"Where these packages came from nobody vouches for their checksums, so those were computed here:\n  - %s\n\nThe lock file holds checksums for %s alone, and init will fail on other platforms. To add those of another platform, run:\n  "+diag.Program()+" providers lock -platform=OS_ARCH",
		strings.Join(i.incomplete, "\n  - "), platform), nil)}
}
