package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/cmd/internal/command"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

const workspaceUsage = `
Usage: coordinator [global options] workspace <subcommand> [options]

  Manages workspaces: several states for one configuration. terraform.workspace is the name of the selected one.

Subcommands:
  list                  List the workspaces
  show                  Show the name of the selected workspace
  new                   Create a workspace, and select it
  select                Select another workspace
  delete                Delete a workspace
`

// deprecatedEnv wraps a workspace command for its old name.
func deprecatedEnv(run func(context.Context, *app, []string) int) func(context.Context, *app, []string) int {
	return func(ctx context.Context, a *app, args []string) int {
		if !command.AsksHelp(args) {
			fmt.Fprintf(a.Stderr, "\nWarning: The \"%s env\" family of commands is deprecated\n\n"+
				"These commands are now called \"workspace\", and the old name will be removed.\n\n", diag.Program())
		}
		return run(ctx, a, args)
	}
}

const workspaceListUsage = `
Usage: coordinator [global options] workspace list [options]

  Lists the workspaces. The selected one is marked with a star.

Options:
` + variablesHelp + jsonHelp

func runWorkspaceList(ctx context.Context, a *app, args []string) int {
	var e editFlags
	f := a.NewFlags()
	e.register(f)
	if code, done := a.Parse(f, workspaceListUsage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(e.view, nil)
	if diags = diags.Append(noArguments(f)); diags.HasErrors() {
		return s.End(diags)
	}
	return s.withWorkspaces(ctx, e.vars, func(w *estate.Workspaces) diag.List {
		selected := a.Estate.Workspace()
		for _, name := range w.Names {
			sign := " "
			if name == selected {
				sign = "*"
			}
			s.Print(sign + " " + name + "\n")
		}
		s.Print("\n")
		s.Message("workspace_list", "list of workspaces", map[string]any{"current_workspace": selected,
			"workspaces": w.Names})
		if a.Getenv("TF_WORKSPACE") != "" {
			s.Print("\n\nThe active workspace is being overridden using the TF_WORKSPACE environment\nvariable.\n\n")
		}
		return nil
	})
}

const workspaceShowUsage = `
Usage: coordinator [global options] workspace show

  Shows the name of the selected workspace.

Options:
` + textHelp

func runWorkspaceShow(_ context.Context, a *app, args []string) int {
	var sf viewFlags
	f := a.NewFlags()
	sf.RegisterText(f)
	if code, done := a.Parse(f, workspaceShowUsage, args); done {
		return code
	}
	s, diags := a.newScreen(sf, nil)
	if diags.HasErrors() {
		return s.End(diag.Errors("Error getting the current workspace", diags[0].Detail, nil))
	}
	if diags = noArguments(f); diags.HasErrors() {
		return s.End(diags)
	}
	s.Print(a.Estate.Workspace() + "\n")
	return s.End(nil)
}

const workspaceNewUsage = `
Usage: coordinator [global options] workspace new [options] NAME

  Creates a workspace, and selects it.

Options:
  -state=FILE           Start with a copy of this state.
` + lockHelp + variablesHelp + jsonHelp

func runWorkspaceNew(ctx context.Context, a *app, args []string) int {
	var e editFlags
	f := a.NewFlags()
	e.registerLock(f)
	file := f.String("state", "", "")
	if code, done := a.Parse(f, workspaceNewUsage, args); done {
		return code
	}
	s, name, diags := a.workspaceName(f.Args(), e.view)
	if diags.HasErrors() {
		return s.End(diags)
	}
	if override := a.Getenv("TF_WORKSPACE"); override != "" && override != name {
		return s.End(diag.Errors("The workspace is overridden using the TF_WORKSPACE environment variable",
			"To create another workspace, unset the variable, or set it to the name of that workspace, and run the "+
				"command again.", nil))
	}
	return s.withWorkspaces(ctx, e.vars, func(w *estate.Workspaces) diag.List {
		var initial *state.State
		if *file != "" && !w.Has(name) {
			st, diags := a.readStateFile(*file)
			if diags.HasErrors() {
				return diags
			}
			initial = st
		}
		return s.createWorkspace(ctx, w, name, initial, e.state)
	})
}

const workspaceSelectUsage = `
Usage: coordinator [global options] workspace select [options] NAME

  Selects another workspace.

Options:
  -or-create            Create the workspace if it does not exist.
` + variablesHelp + jsonHelp

func runWorkspaceSelect(ctx context.Context, a *app, args []string) int {
	var e editFlags
	f := a.NewFlags()
	e.register(f)
	orCreate := f.Bool("or-create", false, "")
	if code, done := a.Parse(f, workspaceSelectUsage, args); done {
		return code
	}
	s, name, diags := a.workspaceName(f.Args(), e.view)
	if diags.HasErrors() {
		return s.End(diags)
	}
	if a.Getenv("TF_WORKSPACE") != "" {
		return s.End(diag.Errors("The selected workspace is overridden using the TF_WORKSPACE environment variable",
			"To select another workspace, change this variable, or unset it and run the command again.", nil))
	}
	return s.withWorkspaces(ctx, e.vars, func(w *estate.Workspaces) diag.List {
		if *orCreate && !w.Has(name) {
			return s.createWorkspace(ctx, w, name, nil, stateFlags{})
		}
		if missing := w.Find(name); missing.HasErrors() || name == a.Estate.Workspace() {
			return missing
		}
		if err := a.Estate.SelectWorkspace(name); err != nil {
			return diag.Errors("Failed to select the workspace", err.Error()+".", nil)
		}
		s.Say(fmt.Sprintf("Switched to workspace %q.", name))
		return nil
	})
}

const workspaceDeleteUsage = `
Usage: coordinator [global options] workspace delete [options] NAME

  Deletes a workspace with its state.

Options:
  -force                Delete it even if its state has objects, which continue to exist but are no longer managed.
` + lockHelp + variablesHelp + jsonHelp

func runWorkspaceDelete(ctx context.Context, a *app, args []string) int {
	var e editFlags
	f := a.NewFlags()
	e.registerLock(f)
	force := f.Bool("force", false, "")
	if code, done := a.Parse(f, workspaceDeleteUsage, args); done {
		return code
	}
	s, name, diags := a.workspaceName(f.Args(), e.view)
	if diags.HasErrors() {
		return s.End(diags)
	}
	return s.withWorkspaces(ctx, e.vars, func(w *estate.Workspaces) diag.List {
		diags := w.Delete(ctx, name, *force, e.state.StateOptions)
		if !diags.HasErrors() {
			s.Say(a.Ink(e.view).Success(fmt.Sprintf("Deleted workspace %q!", name)))
		}
		return diags
	})
}

// withWorkspaces calls fn with all workspaces.
func (s *screen) withWorkspaces(ctx context.Context, vars variableFlags, fn func(*estate.Workspaces) diag.List) int {
	root, diags := s.App.Estate.FindRoot(s.Finding(vars.Variables))
	if diags.HasErrors() {
		return s.End(diags)
	}
	w, more := s.App.Estate.Workspaces(ctx, root)
	if diags = diags.Append(more); diags.HasErrors() {
		return s.End(diags)
	}
	return s.End(diags.Append(fn(w), w.Close()))
}

// createWorkspace creates a workspace and selects it. initial is its state; nil for an empty one.
func (s *screen) createWorkspace(ctx context.Context, w *estate.Workspaces, name string, initial *state.State,
	lf stateFlags) diag.List {
	diags := w.Create(ctx, name, initial, lf.StateOptions)
	if !diags.HasErrors() {
		s.Say(s.App.Ink(s.Flags).Success(fmt.Sprintf("Created and switched to workspace %q!", name)) +
			"\n\nYou're now on a new, empty workspace. Workspaces isolate their state, so a plan\nhere does not see " +
			"what exists in the others.")
	}
	return diags
}

// workspaceName returns the one argument of a command, which names a workspace.
func (a *app) workspaceName(args []string, sf viewFlags) (*screen, string, diag.List) {
	s, diags := a.newStreamScreen(sf, nil)
	switch {
	case diags.HasErrors():
		return s, "", diags
	case len(args) != 1:
		return s, "", diag.Errors("Invalid arguments list", fmt.Sprintf("Expected a single argument: NAME.\n\nFor "+
			"the options of the command, run:\n  "+diag.Program()+" %s -help", a.Command), nil)
	}
	return s, args[0], estate.CheckWorkspaceName(args[0])
}
