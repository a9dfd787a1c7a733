package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/lock"
	"github.com/millipede-iac/millipede/state"
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
		s.print("\nProviders required by configuration:\n.\n")
		s.print(requirementsOf(wd.Tree.Root, testBranches(wd.Tree)).text("") + "\n")
		if prior != nil && len(prior.Resources) > 0 {
			s.print("Providers required by state:\n\n")
			for _, p := range slices.SortedFunc(maps.Keys(estate.RequiredProviders(nil, prior)),
				estate.CompareProviders) {
				s.print(fmt.Sprintf("    provider[%s]\n\n", p))
			}
		}
		return nil
	})
}

// testDirFlag is the option that has withTree load test files from a directory, too.
const testDirFlag = "test-directory"

func registerTestDir(f *flag.FlagSet) { f.String(testDirFlag, config.DefaultTestDir, "") }

// requirements is what a part of the configuration requires, and what its own parts do.
type requirements struct {
	name      string
	providers map[addr.Provider][]string
	parts     []requirements
}

// requirementsOf are those of a module and of the modules that it calls, with more parts behind these.
func requirementsOf(n *config.Node, more []requirements) requirements {
	out := requirements{providers: n.Module.Requirements()}
	for _, name := range slices.Sorted(maps.Keys(n.Children)) {
		child := requirementsOf(n.Children[name], nil)
		child.name = "module." + name
		out.parts = append(out.parts, child)
	}
	out.parts = append(out.parts, more...)
	return out
}

// testBranches are what the test files require.
func testBranches(tree *config.Tree) []requirements {
	var out []requirements
	for _, f := range tree.Tests {
		file := requirements{name: "test." + strings.ReplaceAll(strings.TrimSuffix(f.Name, ".tftest.hcl"), "/", "."),
			providers: tree.TestProviders(f)}
		for _, r := range f.Runs {
			if r.Tree != nil {
				run := requirementsOf(r.Tree.Root, nil)
				run.name = "run." + r.Name
				file.parts = append(file.parts, run)
			}
		}
		out = append(out, file)
	}
	return out
}

// text writes the requirements as a tree.
func (r requirements) text(indent string) string {
	var lines []string
	for _, p := range slices.SortedFunc(maps.Keys(r.providers), estate.CompareProviders) {
		line := fmt.Sprintf("provider[%s]", p)
		// A constraint that cannot be read is a problem of loading.
		if constraints, err := lock.Constraints(r.providers[p]); err == nil && constraints != "" {
			line += " " + constraints
		}
		lines = append(lines, line)
	}
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(indent + branch(i+1 == len(lines)+len(r.parts)) + line + "\n")
	}
	for i, part := range r.parts {
		last := i+1 == len(r.parts)
		below := "│   "
		if last {
			below = "    "
		}
		b.WriteString(indent + branch(last) + part.name + "\n" + part.text(indent+below))
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
	return a.withConfiguration(ctx, args, providersSchemaUsage, register, func(s *screen, wd *estate.Configuration,
		prior *state.State, _ []string) diag.List {
		if !json {
			return diag.Errors("The -json flag is required", "Schemas have no form for people. Give the option -json.",
				nil)
		}
		s.printer.Out = a.stderr // standard output is the document's alone
		schemas, diags := a.estate.AllSchemas(ctx, wd.Tree, wd.Loader, prior)
		if diags.HasErrors() {
			return diags
		}
		text, err := document.ProviderSchemasJSON(schemas)
		if err != nil {
			return diags.Append(err)
		}
		s.write(a.stdout, text)
		return diags
	})
}

// withConfiguration loads the configuration and the state for a command about providers, and calls fn with them and the
// arguments. register adds the command's own flags; nil for none. The state is nil when there is none.
func (a *app) withConfiguration(ctx context.Context, args []string, usage string, register func(*flag.FlagSet),
	fn func(*screen, *estate.Configuration, *state.State, []string) diag.List) int {
	return a.withTree(args, usage, (*showFlags).registerText, register, func(s *screen, wd *estate.Configuration,
		args []string) diag.List {
		prior, diags := a.estate.Snapshot(ctx, wd.Tree.Root)
		if diags.HasErrors() {
			return diags
		}
		return diags.Append(fn(s, wd, prior, args))
	})
}

// withTree loads the configuration for a command about providers, and calls fn with it and the arguments. show adds the
// flags that say how problems are shown, register the command's own flags; nil for none.
func (a *app) withTree(args []string, usage string, show func(*showFlags, *flag.FlagSet), register func(*flag.FlagSet),
	fn func(*screen, *estate.Configuration, []string) diag.List) int {
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
	wd, more := a.estate.Configuration(vars.Variables)
	if dir := f.Lookup(testDirFlag); dir != nil {
		wd.TestDir = dir.Value.String()
	}
	s.from(wd.Sources)
	if diags = diags.Append(more); diags.HasErrors() {
		return s.end(diags)
	}
	if !wd.HasFiles() {
		return s.end(diag.Errors("No configuration files", "There is no configuration in this directory: no file "+
			"that ends in .tf, .tofu, .tf.json or .tofu.json.", nil))
	}
	if diags = diags.Append(wd.Load()); diags.HasErrors() {
		return s.end(diags)
	}
	return s.end(diags.Append(fn(s, wd, f.Args())))
}
