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

  Shows which modules of the configuration require which providers, and which providers the state needs.

Subcommands:
  lock                  Write checksums of providers to the lock file
  mirror                Copy the required providers into a directory
  schema                Show the schemas of the required providers

Options:
  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources depend on. May be given often.
  -test-directory=DIR   Where test files lie, beside those in the working directory. The default is tests.
` + textHelp

func runProviders(ctx context.Context, a *app, args []string) int {
	return a.withConfiguration(ctx, args, providersUsage, registerTestDir, func(s *screen, wd *estate.Configuration,
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

// testDirFlag is the option that has withTree load test files from a directory, too.
const testDirFlag = "test-directory"

func registerTestDir(f *flag.FlagSet) { f.String(testDirFlag, config.DefaultTestDir, "") }

const providersSchemaUsage = `
Usage: coordinator [global options] providers schema -json [options]

  Shows everything that the providers of the configuration and of the state declare.

Options:
  -json                 Required: there is no form for people.
  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources depend on. May be given often.
` + textHelp

func runProvidersSchema(ctx context.Context, a *app, args []string) int {
	json := false
	register := func(f *flag.FlagSet) { f.BoolVar(&json, "json", false, "") }
	return a.withConfiguration(ctx, args, providersSchemaUsage, register, func(s *screen, wd *estate.Configuration,
		prior *state.State, _ []string) diag.List {
		if !json {
			return diag.Errors("The -json flag is required", "Schemas have no form for people. Give the option -json.",
				nil)
		}
		s.Printer.Out = a.Stderr // standard output is the document's alone
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
// arguments. register adds the command's own flags; nil for none. The state is nil when there is none.
func (a *app) withConfiguration(ctx context.Context, args []string, usage string, register func(*flag.FlagSet),
	fn func(*screen, *estate.Configuration, *state.State, []string) diag.List) int {
	return a.withTree(args, usage, (*viewFlags).RegisterText, register, func(s *screen, wd *estate.Configuration,
		args []string) diag.List {
		prior, diags := a.Estate.Snapshot(ctx, wd.Tree.Root)
		if diags.HasErrors() {
			return diags
		}
		return diags.Append(fn(s, wd, prior, args))
	})
}

// withTree loads the configuration for a command about providers, and calls fn with it and the arguments. show adds the
// flags that say how problems are shown, register the command's own flags; nil for none.
func (a *app) withTree(args []string, usage string, show func(*viewFlags, *flag.FlagSet), register func(*flag.FlagSet),
	fn func(*screen, *estate.Configuration, []string) diag.List) int {
	var sf viewFlags
	var vars variableFlags
	f := a.NewFlags()
	show(&sf, f)
	vars.registerValues(f)
	if register != nil {
		register(f)
	}
	if code, done := a.Parse(f, usage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(sf, nil)
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
	if !wd.HasFiles() {
		return s.End(diag.Errors("No configuration files", "There is no configuration in this directory: no file "+
			"that ends in .tf, .tofu, .tf.json or .tofu.json.", nil))
	}
	if diags = diags.Append(wd.Load()); diags.HasErrors() {
		return s.End(diags)
	}
	return s.End(diags.Append(fn(s, wd, f.Args())))
}
