package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"slices"

	"github.com/millipede-iac/millipede/cmd/internal/hosting"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/lock"
	"github.com/millipede-iac/millipede/install/providers"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
)

const providersLockUsage = `
Usage: coordinator [global options] providers lock [options] [PROVIDER]...

  Writes checksums of provider packages to the lock file, so that init works on other platforms too: for the named
  providers, or for all that the configuration requires. Nothing is installed.

  The packages come from the registries of the providers, regardless of the CLI configuration: so the content of a
  mirror can be compared with them.

Options:
  -fs-mirror=DIR        Use the packages from this directory, which is a filesystem mirror.
  -net-mirror=URL       Use the packages from the network mirror at this URL.
  -platform=OS_ARCH     A platform to write checksums for, such as linux_amd64. May be given several times. Default: this one.
  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources depend on. May be given several times.
` + jsonHelp

func runProvidersLock(ctx context.Context, a *app, args []string) int {
	var directory, mirror string
	var platforms []string
	c := treeCommand{usage: providersLockUsage, show: (*viewFlags).RegisterJSON, empty: true}
	c.register = func(f *flag.FlagSet) {
		f.StringVar(&directory, "fs-mirror", "", "")
		f.StringVar(&mirror, "net-mirror", "", "")
		registerPlatforms(f, &platforms)
	}
	var method cliconfig.Method
	c.check = func([]string) (diags diag.List) {
		method, diags = lockMethod(directory, mirror)
		return diags
	}
	return a.withTree(args, c,
		func(s *screen, wd *estate.Configuration, names []string) diag.List {
			if diags := providers.CheckPlatforms(platforms); diags.HasErrors() {
				return diags
			}
			o, diags := a.Estate.ChangingOptions(wd.Tree, nil)
			if diags.HasErrors() {
				return diags
			}
			o.Methods = []cliconfig.Method{method}
			if diags = diags.Append(o.Only(names)); diags.HasErrors() {
				return diags
			}
			o.Report = s.steps(view.LockingText)
			locks, more := providers.Checksums(ctx, o, orThis(platforms))
			if diags = diags.Append(more); diags.HasErrors() {
				return diags
			}
			if string(locks.Encode()) == string(o.Locks.Encode()) {
				s.Say("\nSuccess! Millipede has validated the lock file, which already has all of these\nchecksums.")
				return diags
			}
			if err := locks.Write(a.Estate.LockFile()); err != nil {
				return diags.Append(diag.New(diag.Error, "Failed to save dependency lock file", err.Error()+".", nil))
			}
			s.Say("\nSuccess! Millipede has updated the lock file.\n\n" +
				"Review the changes in .terraform.lock.hcl and commit them.")
			return diags
		})
}

// lockMethod returns where to get the packages whose checksums are locked.
func lockMethod(directory, mirror string) (cliconfig.Method, diag.List) {
	switch {
	case directory != "" && mirror != "":
		return cliconfig.Method{}, diag.Errors("Invalid installation method options", "The -fs-mirror and "+
			"-net-mirror options exclude each other.", nil)
	case directory != "":
		return cliconfig.Method{Kind: cliconfig.FilesystemMirror, Location: directory}, nil
	case mirror != "":
		if u, err := url.Parse(mirror); err != nil || u.Scheme != "https" || u.Host == "" {
			return cliconfig.Method{}, diag.Errors("Invalid network mirror URL", fmt.Sprintf("The URL of -net-mirror "+
				"must begin with https://, and %q does not.", mirror), nil)
		}
		return cliconfig.Method{Kind: cliconfig.NetworkMirror, Location: mirror}, nil
	default:
		return cliconfig.Method{Kind: cliconfig.Direct}, nil
	}
}

const providersMirrorUsage = `
Usage: coordinator [global options] providers mirror [options] DIR

  Copies the packages of the required providers into a directory, which can then be a filesystem mirror, or a network
  mirror if a web server serves it. The packages come from the registries of the providers, regardless of the CLI
  configuration says.

Options:
  -platform=OS_ARCH     A platform to copy packages for, such as linux_amd64. May be given several times. Default: this one.
  -lock-file=false      Copy the newest packages that the constraints allow, regardless of the lock file.
  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources depend on. May be given several times.
` + jsonHelp

func runProvidersMirror(ctx context.Context, a *app, args []string) int {
	var platforms []string
	useLocks := true
	c := treeCommand{usage: providersMirrorUsage, show: (*viewFlags).RegisterJSON}
	c.register = func(f *flag.FlagSet) {
		registerPlatforms(f, &platforms)
		f.BoolVar(&useLocks, "lock-file", true, "")
	}
	c.check = func(names []string) diag.List {
		if len(names) == 1 {
			return nil
		}
		return diag.Errors("Wrong number of arguments", "The command takes one argument: the directory to copy to.", nil)
	}
	return a.withTree(args, c,
		func(s *screen, wd *estate.Configuration, names []string) diag.List {
			o, diags := a.Estate.ChangingOptions(wd.Tree, nil)
			if diags = diags.Append(providers.CheckPlatforms(platforms)); diags.HasErrors() {
				return diags
			}
			if !useLocks {
				o.Locks = &lock.Locks{}
			}
			o.Methods, o.Report = []cliconfig.Method{{Kind: cliconfig.Direct}}, s.steps(view.MirroringText)
			return diags.Append(providers.Mirror(ctx, o, names[0], orThis(platforms)))
		})
}

func registerPlatforms(f *flag.FlagSet, to *[]string) {
	f.Func("platform", "", func(s string) error {
		if !slices.Contains(*to, s) {
			*to = append(*to, s)
		}
		return nil
	})
}

// orThis returns the platforms, or the present platform if there are none.
func orThis(platforms []string) []string {
	if len(platforms) == 0 {
		return []string{hosting.Platform}
	}
	return platforms
}

// step reports a step: for people, as an item of a list.
func (s *screen) step(text string) {
	s.Print("- " + text + "\n")
	if s.Stream != nil {
		s.Stream.Info(text)
	}
}

// steps returns a function that reports each step of an installation.
func (s *screen) steps(text func(providers.Event) []string) func(providers.Event) {
	return func(e providers.Event) {
		for _, step := range text(e) {
			s.step(step)
		}
	}
}
