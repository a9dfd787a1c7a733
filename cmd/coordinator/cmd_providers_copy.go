package main

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"slices"

	"github.com/millipede-iac/millipede/cmd/hosting"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/install"
	"github.com/millipede-iac/millipede/provider/lock"
	"github.com/millipede-iac/millipede/state"
)

const providersLockUsage = `
Usage: coordinator [global options] providers lock [options] [PROVIDER]...

  Writes checksums of provider packages to the lock file, so that init works on other platforms too: of the providers
  that are named, or of all that the configuration requires. Nothing is installed.

Options:
  -fs-mirror=DIR        Take the packages from this directory. Registries are not available yet, so it is required.
  -platform=OS_ARCH     A platform to write checksums for, such as linux_amd64. May be given often. Default: this one.
  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources depend on. May be given often.
` + textHelp

func runProvidersLock(ctx context.Context, a *app, args []string) int {
	var mirror string
	var platforms []string
	register := func(f *flag.FlagSet) {
		f.StringVar(&mirror, "fs-mirror", "", "")
		registerPlatforms(f, &platforms)
	}
	return a.withConfiguration(ctx, args, providersLockUsage, register, func(s *screen, wd *workdir, prior *state.State, names []string) diag.List {
		if mirror == "" {
			return diag.Errors("Provider registries are not available yet",
				"Without -fs-mirror the packages would come from the registries of the providers, and this version of Millipede cannot ask those. Give -fs-mirror=DIR.", nil)
		}
		o, _, diags := a.installOptions(wd.tree, prior)
		if diags.HasErrors() {
			return diags
		}
		o.PluginDirs = []string{mirror}
		if diags = diags.Append(onlyNamed(&o, names)); diags.HasErrors() {
			return diags
		}
		o.Report = s.copying("Fetching", "Retrieved")
		locks, more := install.Checksums(ctx, o, orThis(platforms))
		if diags = diags.Append(more); diags.HasErrors() {
			return diags
		}
		if string(locks.Encode()) == string(o.Locks.Encode()) {
			s.say("\nSuccess! The lock file holds all these checksums already.")
			return diags
		}
		if err := locks.Write(lock.FileName); err != nil {
			return diags.Append(diag.New(diag.Error, "Failed to save dependency lock file", err.Error()+".", nil))
		}
		s.say("\nSuccess! The checksums are in the lock file now. Review the changes and commit them.")
		return diags
	})
}

const providersMirrorUsage = `
Usage: coordinator [global options] providers mirror [options] DIR

  Copies the packages of the required providers into a directory, which can then be a filesystem mirror, or a network
  mirror when a web server shows it. The packages come from the local directories that the CLI configuration names;
  registries are not available yet.

Options:
  -platform=OS_ARCH     A platform to copy packages for, such as linux_amd64. May be given often. Default: this one.
  -lock-file=false      Copy the newest packages that the constraints allow, whatever the lock file says.
  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources depend on. May be given often.
` + textHelp

func runProvidersMirror(ctx context.Context, a *app, args []string) int {
	var platforms []string
	useLocks := true
	register := func(f *flag.FlagSet) {
		registerPlatforms(f, &platforms)
		f.BoolVar(&useLocks, "lock-file", true, "")
	}
	return a.withConfiguration(ctx, args, providersMirrorUsage, register, func(s *screen, wd *workdir, prior *state.State, names []string) diag.List {
		if len(names) != 1 {
			return diag.Errors("No output directory specified", "The command takes one argument: the directory to copy to.", nil)
		}
		o, _, diags := a.installOptions(wd.tree, prior)
		if diags.HasErrors() {
			return diags
		}
		if !useLocks {
			o.Locks = &lock.Locks{}
		}
		o.Report = s.copying("Mirroring", "Mirrored")
		return diags.Append(install.Mirror(ctx, o, names[0], orThis(platforms)))
	})
}

// platformName is how a platform is written.
var platformName = regexp.MustCompile(`^[a-z0-9]+_[a-z0-9]+$`)

func registerPlatforms(f *flag.FlagSet, to *[]string) {
	f.Func("platform", "", func(s string) error {
		if !platformName.MatchString(s) {
			return fmt.Errorf("%q is no platform: write the operating system and the processor, such as linux_amd64", s)
		}
		if !slices.Contains(*to, s) {
			*to = append(*to, s)
		}
		return nil
	})
}

// orThis returns the platforms, or this one when none was given.
func orThis(platforms []string) []string {
	if len(platforms) == 0 {
		return []string{hosting.Platform}
	}
	return platforms
}

// onlyNamed leaves only the named providers required.
func onlyNamed(o *install.Options, names []string) diag.List {
	if len(names) == 0 {
		return nil
	}
	named := map[addr.Provider][]string{}
	var diags diag.List
	for _, name := range names {
		p, more := addr.ParseProviderSource(name)
		if diags = diags.Append(more); more.HasErrors() {
			continue
		}
		constraints, ok := o.Required[p]
		if !ok {
			diags = diags.Append(diag.New(diag.Error, "Invalid provider argument", fmt.Sprintf("The provider %s is not required by the configuration.", p), nil))
			continue
		}
		named[p] = constraints
	}
	o.Required = named
	return diags
}

// copying tells of each package.
func (s *screen) copying(begin, end string) func(install.Event) {
	return func(e install.Event) {
		switch e.Kind {
		case install.Installing:
			s.say(fmt.Sprintf("- %s %s %s for %s...", begin, e.Provider.Display(), e.Version, e.Platform))
		case install.Installed:
			s.say(fmt.Sprintf("- %s %s %s for %s", end, e.Provider.Display(), e.Version, e.Platform))
		}
	}
}
