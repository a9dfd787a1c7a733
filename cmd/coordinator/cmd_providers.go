package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/cmd/coordinator/view"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/lock"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/snapshot"
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
` + textHelp

func runProviders(ctx context.Context, a *app, args []string) int {
	return a.withConfiguration(ctx, args, providersUsage, nil, func(s *screen, wd *workdir, prior *state.State, _ []string) diag.List {
		s.print("\nProviders required by configuration:\n.\n")
		s.print(requirementsTree(wd.tree.Root, "") + "\n")
		if prior != nil && len(prior.Resources) > 0 {
			s.print("Providers required by state:\n\n")
			for _, p := range slices.SortedFunc(maps.Keys(requiredProviders(nil, prior)), compareProviders) {
				s.print(fmt.Sprintf("    provider[%s]\n", p))
			}
			s.print("\n")
		}
		return nil
	})
}

func compareProviders(a, b addr.Provider) int { return strings.Compare(a.String(), b.String()) }

// requirementsTree writes what a module requires, and below it the modules that it calls.
func requirementsTree(n *config.Node, indent string) string {
	requirements := n.Module.Requirements()
	var lines []string
	for _, p := range slices.SortedFunc(maps.Keys(requirements), compareProviders) {
		line := fmt.Sprintf("provider[%s]", p)
		// A constraint that cannot be read is a problem of loading.
		if constraints, err := lock.Constraints(requirements[p]); err == nil && constraints != "" {
			line += " " + constraints
		}
		lines = append(lines, line)
	}
	children := slices.Sorted(maps.Keys(n.Children))
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(indent + branch(i+1 == len(lines)+len(children)) + line + "\n")
	}
	for i, name := range children {
		last := i+1 == len(children)
		below := "│   "
		if last {
			below = "    "
		}
		b.WriteString(indent + branch(last) + "module." + name + "\n" + requirementsTree(n.Children[name], indent+below))
	}
	return b.String()
}

func branch(last bool) string {
	if last {
		return "└── "
	}
	return "├── "
}

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
	return a.withConfiguration(ctx, args, providersSchemaUsage, register, func(s *screen, wd *workdir, prior *state.State, _ []string) diag.List {
		if !json {
			return diag.Errors("The -json flag is required", "Schemas have no form for people. Give the option -json.", nil)
		}
		s.printer.Out = a.stderr // standard output is the document's alone
		schemas, diags := a.allSchemas(ctx, wd.tree, wd.loader, prior)
		if diags.HasErrors() {
			return diags
		}
		text, err := view.ProviderSchemasJSON(schemas)
		if err != nil {
			return diags.Append(err)
		}
		s.write(a.stdout, text)
		return diags
	})
}

// withConfiguration loads the configuration and the state for a command about providers, and calls fn with them and the
// arguments. register adds the command's own flags; nil for none. The state is nil when there is none.
func (a *app) withConfiguration(ctx context.Context, args []string, usage string, register func(*flag.FlagSet), fn func(*screen, *workdir, *state.State, []string) diag.List) int {
	return a.withTree(args, usage, (*showFlags).registerText, register, func(s *screen, wd *workdir, args []string) diag.List {
		backend, diags := a.openBackend(wd.tree.Root, stateFlags{})
		if diags.HasErrors() {
			return diags
		}
		prior, more := snapshot.State(ctx, backend, a.workspace())
		if diags = diags.Append(more); diags.HasErrors() {
			return diags
		}
		return diags.Append(fn(s, wd, prior, args))
	})
}

// withTree loads the configuration for a command about providers, and calls fn with it and the arguments. show adds the
// flags that say how problems are shown, register the command's own flags; nil for none.
func (a *app) withTree(args []string, usage string, show func(*showFlags, *flag.FlagSet), register func(*flag.FlagSet), fn func(*screen, *workdir, []string) diag.List) int {
	var sf showFlags
	var vars variableFlags
	f := a.newFlags()
	show(&sf, f)
	vars.registerValues(f)
	if register != nil {
		register(f)
	}
	if code, done := a.parse(f, usage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(sf, nil)
	if diags.HasErrors() {
		return s.end(diags)
	}
	wd, more := a.newWorkdir(vars)
	s.from(wd.loader.Sources)
	if diags = diags.Append(more, a.checkWorkspace()); diags.HasErrors() {
		return s.end(diags)
	}
	if !wd.loader.HasConfig(".") {
		return s.end(diag.Errors("No configuration files", "There is no configuration in this directory: no file that ends in .tf, .tofu, .tf.json or .tofu.json.", nil))
	}
	if diags = diags.Append(wd.load()); diags.HasErrors() {
		return s.end(diags)
	}
	return s.end(diags.Append(fn(s, wd, f.Args())))
}
