package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/millipede-iac/millipede/cmd/internal/running"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/edit"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

const showUsage = `
Usage: coordinator [global options] show [options] [FILE]

  Shows the state of the workspace, or the content of a file: a saved plan or a state. With -json it can also show the
  configuration.

What to show:
  -state                The state of the workspace. This is the default.
  -plan=FILE            The plan in a file.
  -config               The configuration in this directory with all of its modules. Only as JSON.
  -module=DIR           The declarations of the module in a directory. Neither the modules that it calls nor
                        its providers need be installed. Only as JSON.

Options:
  -dependencies         With -json, also show the objects that must not change before the plan is applied.
  -show-sensitive       Show sensitive values too.
` + variablesHelp + documentHelp

func runShow(ctx context.Context, a *app, args []string) int {
	var sf viewFlags
	var vars variableFlags
	f := a.NewFlags()
	sf.RegisterJSON(f)
	vars.registerValues(f)
	reveal := f.Bool("show-sensitive", false, "")
	dependencies := f.Bool("dependencies", false, "")
	current := f.Bool("state", false, "")
	planFile := f.String("plan", "", "")
	configuration := f.Bool("config", false, "")
	module := f.String("module", "", "")
	if code, done := a.Parse(f, showUsage, args); done {
		return code
	}
	s, diags := a.newScreen(sf, nil)
	if diags.HasErrors() {
		return s.End(diags)
	}
	selected := 0
	for _, is := range []bool{*current, *planFile != "", *configuration, *module != ""} {
		if is {
			selected++
		}
	}
	shown := &shown{screen: s, options: s.Options(), vars: vars, dependencies: *dependencies}
	shown.options.Reveal = *reveal
	switch {
	case *configuration && !sf.JSON:
		return s.WrongUsage("JSON output required for configuration", "The -config option has no text form: "+
			"give -json too.")
	case *module != "" && !sf.JSON:
		return s.WrongUsage("JSON output required for module", "The -module option has no text form: "+
			"give -json too.")
	case selected > 1:
		return s.WrongUsage("Conflicting object types to show", "The options -state, -plan, -config and -module "+
			"exclude each other.")
	case selected == 1 && f.NArg() > 0:
		return s.WrongUsage("Unexpected command line arguments", "An option that selects what to show excludes an "+
			"argument.")
	case f.NArg() > 1:
		return s.WrongUsage("Too many command line arguments", "The show command shows only one of these at a time: "+
			"the state, a plan, or a file.")
	case *planFile != "":
		if done, diags := shown.atService(ctx, *planFile); done || diags.HasErrors() {
			return s.End(diags)
		}
		saved, diags := a.Estate.OpenPlan(ctx, *planFile, vars.Variables)
		if diags.HasErrors() {
			return s.End(diags)
		}
		return s.End(shown.plan(ctx, saved))
	case *configuration:
		return s.End(shown.configuration(ctx))
	case *module != "":
		return s.End(shown.module(*module))
	case f.NArg() == 1:
		return s.End(shown.file(ctx, f.Arg(0)))
	}
	s.StorageOnly = true
	return s.WithState(ctx, vars.Variables, estate.StateOptions{}, "", func(at estate.Changeable) diag.List {
		st, diags := at.Load(ctx)
		if diags.HasErrors() {
			return diags
		}
		return diags.Append(shown.state(ctx, st))
	})
}

// shown is the screen and the options of the show command.
type shown struct {
	*screen
	options view.TextOptions
	vars    variableFlags
	// dependencies adds the plan's dependencies to its document.
	dependencies bool
}

// file shows the plan or the state in a file.
func (s *shown) file(ctx context.Context, name string) diag.List {
	if done, diags := s.atService(ctx, name); done || diags.HasErrors() {
		return diags
	}
	saved, st, diags := s.App.Estate.ReadFile(ctx, name, s.vars.Variables)
	switch {
	case diags.HasErrors():
		return diags
	case saved != nil:
		return s.plan(ctx, saved)
	}
	return diags.Append(s.state(ctx, st))
}

// atService shows a plan that a service keeps, if the file refers to one.
func (s *shown) atService(ctx context.Context, name string) (done bool, diags diag.List) {
	d, r, diags := s.App.Estate.DelegatedRun(ctx, name, s.Finding(s.vars.Variables))
	if d == nil || diags.HasErrors() {
		return false, diags
	}
	if s.WantsDocument() {
		text, err := d.Client.PlanJSON(ctx, r.Plan, false)
		if err == nil && text == nil {
			err = errors.New("the service has none, or the token has no right to see it")
		}
		if diags = diags.Append(s.WriteDocument(append(bytes.TrimRight(text, "\n"), '\n'), err)); diags.HasErrors() {
			return true, diags
		}
	}
	if !s.ForPeople() {
		return true, diags
	}
	p, schemas, more := running.ServicePlan(ctx, d.Client, r)
	switch diags = diags.Append(more); {
	case diags.HasErrors():
	case p == nil:
		diags = diags.Append(diag.New(diag.Error, "The plan cannot be shown", fmt.Sprintf("The service has no form "+
			"of the plan that can be shown here. See the run:\n  %s", d.URL(r.ID)), nil))
	default:
		s.Printed(func(w io.Writer) error { return view.PlanText(w, p, schemas, s.options) })
	}
	return true, diags
}

// state shows a state; nil if there is none.
func (s *shown) state(ctx context.Context, st *state.State) diag.List {
	if st == nil || edit.IsNone(st) {
		text, err := document.NoStateJSON()
		s.Print("No state.\n")
		return s.WriteDocument(text, err)
	}
	s.WholeConfig = true
	if _, diags := s.App.Estate.FindRoot(s.Finding(s.vars.Variables)); diags.HasErrors() {
		return diags
	}
	schemas, diags := s.App.Estate.Schemas(ctx, nil, nil, st)
	if !diags.HasErrors() {
		diags = diags.Append(document.SameSchemas(st, schemas))
	}
	if diags.HasErrors() {
		return diags
	}
	if s.WantsDocument() {
		text, err := document.StateJSON(st, schemas, engineVersion)
		diags = diags.Append(s.WriteDocument(text, err))
	}
	s.Printed(func(w io.Writer) error { return view.StateText(w, st, schemas, s.options) })
	return diags
}

// plan shows a saved plan, with the configuration from which it was made.
func (s *shown) plan(ctx context.Context, saved *planfile.Saved) diag.List {
	wd, diags := s.App.Estate.SavedConfiguration(saved, nil)
	s.Printer.Sources = wd.Sources
	if diags.HasErrors() {
		return diags
	}
	schemas, more := s.App.Estate.Schemas(ctx, wd.Tree, wd.Loader, saved.Plan.Prior)
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	return diags.Append(s.planned(saved, wd.Tree, schemas))
}

func (s *shown) planned(saved *planfile.Saved, tree *config.Tree, schemas *values.Schemas) diag.List {
	var diags diag.List
	if s.WantsDocument() {
		form := document.PlanJSON
		if s.dependencies {
			form = document.PlanWithDependenciesJSON
		}
		text, err := form(saved.Plan, tree, schemas)
		diags = s.WriteDocument(text, err)
	}
	s.Printed(func(w io.Writer) error { return view.PlanText(w, saved.Plan, schemas, s.options) })
	return diags
}

// configuration shows the configuration in this directory.
func (s *shown) configuration(ctx context.Context) diag.List {
	wd, diags := s.App.Estate.Configuration(s.vars.Variables)
	if diags.HasErrors() {
		return diags
	}
	s.From(wd.Sources)
	if !wd.HasFiles() {
		return diag.Errors("No configuration files", "There is no file in this directory that ends in .tf, .tofu, "+
			".tf.json or .tofu.json.", nil)
	}
	if diags = diags.Append(wd.Load()); diags.HasErrors() {
		return diags
	}
	schemas, more := s.App.Estate.Schemas(ctx, wd.Tree, wd.Loader, nil)
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	text, err := document.ConfigJSON(wd.Tree, schemas)
	return diags.Append(s.WriteDocument(text, err))
}

// module shows the module in a directory.
func (s *shown) module(dir string) diag.List {
	c, diags := s.App.Estate.Configuration(estate.Variables{})
	s.From(c.Sources)
	if !diags.HasErrors() {
		diags = diags.Append(c.LoadModule(dir))
	}
	if diags.HasErrors() {
		return diags
	}
	text, err := document.ModuleJSON(c.Tree)
	return diags.Append(s.WriteDocument(text, err))
}
