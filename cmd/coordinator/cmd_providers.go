package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

const providersUsage = `
Usage: coordinator [global options] providers [options]

  Shows the providers that the modules of the configuration and the state require.

Subcommands:
  lock                  Write checksums of providers to the lock file
  mirror                Copy the required providers into a directory
  schema                Show the schemas of the required providers

Options:
  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources depend on. May be given several times.
  -test-directory=DIR   The directory of test files besides the working directory. The default is tests.
` + textHelp

func runProviders(ctx context.Context, a *app, args []string) int {
	c := treeCommand{usage: providersUsage, show: (*viewFlags).RegisterText, register: registerTestDir}
	return a.withConfiguration(ctx, args, c, func(s *screen, wd *estate.Configuration,
		prior *state.State, args []string) diag.List {
		if len(args) > 0 {
			return unexpected(args[0])
		}
		s.Print("\nProviders required by configuration:\n.\n")
		s.Print(view.RequirementsText(wd.Tree) + "\n")
		if prior != nil && len(prior.Resources) > 0 {
			s.Print("Providers required by state:\n\n")
			for _, p := range slices.SortedFunc(maps.Keys(estate.RequiredProviders(nil, prior)),
				estate.CompareProviders) {
				s.Print(fmt.Sprintf("    provider[%s]\n\n", p))
			}
		}
		return nil
	})
}

// testDirFlag is the option with which withTree loads test files from a directory, too.
const testDirFlag = "test-directory"

func registerTestDir(f *flag.FlagSet) { f.String(testDirFlag, config.DefaultTestDir, "") }

const providersSchemaUsage = `
Usage: coordinator [global options] providers schema -json [options]

  Shows the schemas of the providers of the configuration and of the state.

Options:
  -json                 Required: there is no text form.
  -refresh              Make this and later commands ask the workers again for schemas that are stored with the state.
  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources depend on. May be given several times.
` + textHelp

func runProvidersSchema(ctx context.Context, a *app, args []string) int {
	json, refresh := false, false
	c := treeCommand{usage: providersSchemaUsage, show: (*viewFlags).RegisterText, empty: true}
	c.register = func(f *flag.FlagSet) {
		f.BoolVar(&json, "json", false, "")
		f.BoolVar(&refresh, "refresh", false, "")
	}
	c.check = func(args []string) diag.List {
		var diags diag.List
		if len(args) > 0 {
			diags = diag.Errors("Too many command line arguments", fmt.Sprintf("The command takes no arguments, and "+
				"%q is one.", args[0]), nil)
		}
		if !json {
			diags = diags.Append(diag.New(diag.Error, "Output only in json is allowed", "Schemas have no text "+
				"form. Give the option -json.", nil))
		}
		return diags
	}
	return a.withConfiguration(ctx, args, c, func(s *screen, wd *estate.Configuration,
		prior *state.State, _ []string) diag.List {
		s.Printer.Out = a.Stderr // standard output is reserved for the document
		if refresh {
			if diags := a.Estate.RefreshSchemas(ctx, wd.Tree, wd.Loader, prior,
				estate.StateOptions{Lock: true}); diags.HasErrors() {
				return diags
			}
		}
		schemas, diags := a.Estate.AllSchemas(ctx, wd.Tree, wd.Loader, prior)
		if diags.HasErrors() {
			return diags
		}
		text, err := document.ProviderSchemasJSON(schemas)
		if err != nil {
			return diags.Append(err)
		}
		s.Write(a.Stdout, text)
		return diags
	})
}

// withConfiguration loads the configuration and the state for a command about providers, and calls fn with them and the
// arguments. The state is nil if there is none.
func (a *app) withConfiguration(ctx context.Context, args []string, c treeCommand,
	fn func(*screen, *estate.Configuration, *state.State, []string) diag.List) int {
	return a.withTree(args, c, func(s *screen, wd *estate.Configuration,
		args []string) diag.List {
		prior, diags := a.Estate.Snapshot(ctx, wd.Tree.Root)
		if diags.HasErrors() {
			return diags
		}
		return diags.Append(fn(s, wd, prior, args))
	})
}

// treeCommand is a command about providers.
type treeCommand struct {
	usage string
	// show registers the flags about output.
	show func(*viewFlags, *flag.FlagSet)
	// register registers the command's own flags; nil for none.
	register func(*flag.FlagSet)
	// check validates the options and the arguments before anything is loaded; nil if all are valid.
	check func(args []string) diag.List
	// empty is set if the command also works in a directory without configuration.
	empty bool
}

// withTree loads the configuration for a command about providers, and calls fn with it and the arguments.
func (a *app) withTree(args []string, c treeCommand, fn func(*screen, *estate.Configuration, []string) diag.List) int {
	var sf viewFlags
	var vars variableFlags
	f := a.NewFlags()
	c.show(&sf, f)
	vars.registerValues(f)
	if c.register != nil {
		c.register(f)
	}
	if code, done := a.Parse(f, c.usage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(sf, nil)
	if c.check != nil {
		diags = diags.Append(c.check(f.Args()))
	}
	if diags.HasErrors() {
		return s.End(diags)
	}
	wd, more := a.Estate.Configuration(vars.Variables)
	if dir := f.Lookup(testDirFlag); dir != nil {
		wd.TestDir = dir.Value.String()
	}
	s.From(wd.Sources)
	if diags = diags.Append(more); diags.HasErrors() {
		return s.End(diags)
	}
	if !wd.HasFiles() && !c.empty {
		return s.End(diag.Errors("No configuration files", "There is no configuration in this directory: no file "+
			"that ends in .tf, .tofu, .tf.json or .tofu.json.", nil))
	}
	if diags = diags.Append(wd.Load()); diags.HasErrors() {
		return s.End(diags)
	}
	return s.End(diags.Append(fn(s, wd, f.Args())))
}
