package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/snapshot"
)

const workspaceUsage = `
Usage: coordinator [global options] workspace <subcommand> [options]

  Several states for one configuration. The name of the selected one is terraform.workspace.

Subcommands:
  list                  List the workspaces
  show                  Show the name of the selected workspace
  new                   Make a workspace, and select it
  select                Select another workspace
  delete                Delete a workspace
`

// deprecatedEnv is an old name of a workspace command.
func deprecatedEnv(run func(context.Context, *app, []string) int) func(context.Context, *app, []string) int {
	return func(ctx context.Context, a *app, args []string) int {
		fmt.Fprintf(a.stderr, "\nWarning: The \"env\" family of commands is deprecated\n\nThese commands are called \"workspace\" now, and the old name will go.\n\n")
		return run(ctx, a, args)
	}
}

// validWorkspace tells whether a workspace may have this name: what a URL and a path hold as it is.
func validWorkspace(name string) bool {
	return name != "" && name == url.PathEscape(name) && name != "." && name != ".."
}

// workspaces is what the workspace commands work with: the store, and the backend that other engines see.
type workspaces struct {
	*screen
	store   *bolt.Store
	backend snapshot.Backend
	names   []string
}

// withWorkspaces parses what the workspace commands have in common: at most one name. It calls fn with the name, and
// with all workspaces.
func (s *screen) withWorkspaces(ctx context.Context, vars variableFlags, fn func(*workspaces) diag.List) int {
	root, diags := s.loadRoot(vars)
	if diags.HasErrors() {
		return s.end(diags)
	}
	backend, more := s.app.openBackend(root, stateFlags{})
	if diags = diags.Append(more); diags.HasErrors() {
		return s.end(diags)
	}
	store, more := openStore(s.app.lockInfo("workspace"), 0)
	if diags = diags.Append(more); diags.HasErrors() {
		return s.end(diags)
	}
	w := &workspaces{screen: s, store: store, backend: backend}
	if err := w.list(ctx); err != nil {
		diags = diags.Append(diag.New(diag.Error, "Failed to list the workspaces", err.Error()+".", nil))
	} else {
		diags = diags.Append(fn(w))
	}
	return s.end(diags.Append(closing(store.Close())))
}

// list collects the workspaces that the store or the backend has, the default one first.
func (w *workspaces) list(ctx context.Context) error {
	ours, err := w.store.Workspaces(ctx)
	if err != nil {
		return err
	}
	theirs, err := w.backend.Workspaces(ctx)
	if err != nil {
		return err
	}
	all := slices.Concat(ours, theirs)
	slices.SortFunc(all, func(a, b string) int {
		switch {
		case a == b:
			return 0
		case a == journal.DefaultWorkspace:
			return -1
		case b == journal.DefaultWorkspace:
			return 1
		}
		return strings.Compare(a, b)
	})
	w.names = slices.Compact(all)
	return nil
}

const workspaceListUsage = `
Usage: coordinator [global options] workspace list [options]

  Lists the workspaces. The selected one has a star.

Options:
` + variablesHelp + jsonHelp

func runWorkspaceList(ctx context.Context, a *app, args []string) int {
	var sf showFlags
	var vars variableFlags
	f := a.newFlags()
	sf.register(f)
	vars.registerValues(f)
	if code, done := a.parse(f, workspaceListUsage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(sf, nil)
	if diags = diags.Append(noArguments(f), a.checkWorkspace()); diags.HasErrors() {
		return s.end(diags)
	}
	return s.withWorkspaces(ctx, vars, func(w *workspaces) diag.List {
		selected := a.workspace()
		for _, name := range w.names {
			sign := " "
			if name == selected {
				sign = "*"
			}
			s.print(sign + " " + name + "\n")
		}
		s.print("\n")
		s.message("workspace_list", "list of workspaces", map[string]any{"current_workspace": selected, "workspaces": w.names})
		if a.getenv("TF_WORKSPACE") != "" {
			s.print("\n\nThe active workspace is being overridden using the TF_WORKSPACE environment\nvariable.\n\n")
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
	var sf showFlags
	f := a.newFlags()
	sf.registerText(f)
	if code, done := a.parse(f, workspaceShowUsage, args); done {
		return code
	}
	s, diags := a.newScreen(sf, nil)
	if diags = diags.Append(noArguments(f), a.checkWorkspace()); diags.HasErrors() {
		return s.end(diags)
	}
	s.print(a.workspace() + "\n")
	return s.end(nil)
}

const workspaceNewUsage = `
Usage: coordinator [global options] workspace new [options] NAME

  Makes a workspace, and selects it.

Options:
  -state=FILE           Begin with a copy of this state.
` + lockHelp + variablesHelp + jsonHelp

func runWorkspaceNew(ctx context.Context, a *app, args []string) int {
	var sf showFlags
	var vars variableFlags
	var lf stateFlags
	f := a.newFlags()
	sf.register(f)
	vars.registerValues(f)
	lf.registerLock(f)
	file := f.String("state", "", "")
	if code, done := a.parse(f, workspaceNewUsage, args); done {
		return code
	}
	s, name, diags := a.workspaceName(f.Args(), sf)
	if diags.HasErrors() {
		return s.end(diags)
	}
	if override := a.getenv("TF_WORKSPACE"); override != "" && override != name {
		return s.end(diag.Errors("The workspace is overridden using the TF_WORKSPACE environment variable",
			"To make another workspace, unset the variable, or set it to the name of that workspace, and run the command again.", nil))
	}
	return s.withWorkspaces(ctx, vars, func(w *workspaces) diag.List {
		if slices.Contains(w.names, name) {
			return diag.Errors(fmt.Sprintf("Workspace %q already exists", name), "Another workspace has this name.", nil)
		}
		var initial *state.State
		if *file != "" {
			st, diags := a.readStateFile(*file)
			if diags.HasErrors() {
				return diags
			}
			initial = st
		}
		return w.create(ctx, name, initial, lf)
	})
}

// create makes a workspace and selects it. initial is its state; nil for an empty one.
func (w *workspaces) create(ctx context.Context, name string, initial *state.State, lf stateFlags) diag.List {
	fail := func(err error) diag.List {
		return diag.Errors(fmt.Sprintf("Failed to create the workspace %q", name), err.Error()+".", nil)
	}
	if err := w.store.CreateWorkspace(ctx, name); err != nil {
		return fail(err)
	}
	if err := w.backend.Create(ctx, name); err != nil {
		return fail(errors.Join(err, w.store.DeleteWorkspace(ctx, name)))
	}
	if initial != nil {
		at := &openState{
			app: w.app, store: w.store, workspace: name, backend: w.backend, info: w.app.lockInfo("workspace-new"),
			sync: &snapshot.Sync{Store: w.store, Backend: w.backend, Version: engineVersion},
		}
		if lf.lock {
			if diags := at.lock(ctx, lf.lockTimeout); diags.HasErrors() {
				return diags
			}
		}
		diags := at.replace(ctx, initial, "workspace new")
		if diags = diags.Append(at.unlock(ctx)); diags.HasErrors() {
			return diags
		}
	}
	if err := w.app.selectWorkspace(name); err != nil {
		return fail(err)
	}
	w.say(w.app.ink(w.flags.viewFlags).Success(fmt.Sprintf("Created and switched to workspace %q!", name)) +
		"\n\nYou're now on a new, empty workspace. Workspaces isolate their state, so a plan\nhere does not see what exists in the others.")
	return nil
}

// selectWorkspace remembers which workspace is selected.
func (a *app) selectWorkspace(name string) error {
	if err := os.MkdirAll(a.dataDir(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.dataDir(), "environment"), []byte(name), 0o644)
}

// workspaceName returns the one argument of a command, which names a workspace.
func (a *app) workspaceName(args []string, sf showFlags) (*screen, string, diag.List) {
	s, diags := a.newStreamScreen(sf, nil)
	switch {
	case diags.HasErrors():
		return s, "", diags
	case len(args) != 1:
		return s, "", diag.Errors("Invalid arguments list", fmt.Sprintf("Expected a single argument: NAME.\n\nFor the options of the command, run:\n  coordinator %s -help", a.command), nil)
	case !validWorkspace(args[0]):
		return s, "", diag.Errors("Invalid workspace name", fmt.Sprintf("The workspace name %q is not allowed. The name must contain only URL safe characters, and no path separators.", args[0]), nil)
	}
	return s, args[0], nil
}

const workspaceSelectUsage = `
Usage: coordinator [global options] workspace select [options] NAME

  Selects another workspace.

Options:
  -or-create            Make the workspace when it does not exist.
` + variablesHelp + jsonHelp

func runWorkspaceSelect(ctx context.Context, a *app, args []string) int {
	var sf showFlags
	var vars variableFlags
	f := a.newFlags()
	sf.register(f)
	vars.registerValues(f)
	orCreate := f.Bool("or-create", false, "")
	if code, done := a.parse(f, workspaceSelectUsage, args); done {
		return code
	}
	s, name, diags := a.workspaceName(f.Args(), sf)
	if diags.HasErrors() {
		return s.end(diags)
	}
	if a.getenv("TF_WORKSPACE") != "" {
		return s.end(diag.Errors("The selected workspace is overridden using the TF_WORKSPACE environment variable",
			"To select another workspace, change this variable, or unset it and run the command again.", nil))
	}
	return s.withWorkspaces(ctx, vars, func(w *workspaces) diag.List {
		switch {
		case !slices.Contains(w.names, name) && *orCreate:
			return w.create(ctx, name, nil, stateFlags{})
		case !slices.Contains(w.names, name):
			return noSuchWorkspace(name)
		case name == a.workspace():
			return nil
		}
		if err := a.selectWorkspace(name); err != nil {
			return diag.Errors("Failed to select the workspace", err.Error()+".", nil)
		}
		s.say(fmt.Sprintf("Switched to workspace %q.", name))
		return nil
	})
}

func noSuchWorkspace(name string) diag.List {
	return diag.Errors(fmt.Sprintf("Workspace %q doesn't exist", name),
		"The command \"workspace new\" makes one, and so does \"workspace select -or-create\".", nil)
}

const workspaceDeleteUsage = `
Usage: coordinator [global options] workspace delete [options] NAME

  Deletes a workspace with its state.

Options:
  -force                Delete it even if there are objects in its state: they go on to exist, and nobody knows of them.
` + lockHelp + variablesHelp + jsonHelp

func runWorkspaceDelete(ctx context.Context, a *app, args []string) int {
	var sf showFlags
	var vars variableFlags
	var lf stateFlags
	f := a.newFlags()
	sf.register(f)
	vars.registerValues(f)
	lf.registerLock(f)
	force := f.Bool("force", false, "")
	if code, done := a.parse(f, workspaceDeleteUsage, args); done {
		return code
	}
	s, name, diags := a.workspaceName(f.Args(), sf)
	if diags.HasErrors() {
		return s.end(diags)
	}
	return s.withWorkspaces(ctx, vars, func(w *workspaces) diag.List {
		switch {
		case !slices.Contains(w.names, name):
			return noSuchWorkspace(name)
		case name == a.workspace():
			return diag.Errors(fmt.Sprintf("Workspace %q is your active workspace", name), "The selected workspace cannot be deleted. Select another one first.", nil)
		}
		return w.delete(ctx, name, *force, lf)
	})
}

// delete deletes a workspace, under its lock.
func (w *workspaces) delete(ctx context.Context, name string, force bool, lf stateFlags) diag.List {
	at := &openState{
		app: w.app, store: w.store, workspace: name, backend: w.backend, info: w.app.lockInfo("workspace-delete"),
		sync: &snapshot.Sync{Store: w.store, Backend: w.backend, Version: engineVersion},
	}
	if _, err := at.sync.Pull(ctx, name, ""); err != nil {
		return diag.List{}.Append(err)
	}
	if lf.lock {
		if diags := at.lock(ctx, lf.lockTimeout); diags.HasErrors() {
			return diags
		}
	}
	st, diags := at.load(ctx)
	if diags.HasErrors() {
		return diags.Append(at.unlock(ctx))
	}
	managed := managedInstances(st)
	if len(managed) > 0 && !force {
		return diags.Append(diag.New(diag.Error, "Workspace is not empty", fmt.Sprintf(
			"These resource instances are in the state of the workspace %q:%s\n\nWithout it nobody would know of them, and they would have to be destroyed by hand. Destroy them with Millipede first, or give -force to forget them.",
			name, strings.Join(managed, "")), nil), at.unlock(ctx))
	}
	if diags = diags.Append(at.unlock(ctx)); diags.HasErrors() {
		return diags
	}
	if name == journal.DefaultWorkspace {
		return diags.Append(diag.New(diag.Error, "The default workspace cannot be deleted", "It always exists.", nil))
	}
	// The backend first: a workspace that only the store has is seen, and can be deleted again.
	if err := errors.Join(w.backend.Delete(ctx, name), w.store.DeleteWorkspace(ctx, name)); err != nil {
		return diags.Append(diag.New(diag.Error, "Failed to delete the workspace", err.Error()+".", nil))
	}
	w.say(w.app.ink(w.flags.viewFlags).Success(fmt.Sprintf("Deleted workspace %q!", name)))
	if len(managed) > 0 {
		diags = diags.Append(diag.New(diag.Warning, fmt.Sprintf("%q was non-empty", name),
			"These resource instances go on to exist, and are in no state any more:"+strings.Join(managed, ""), nil))
	}
	return diags
}

// managedInstances lists what a state manages, a line each.
func managedInstances(st *state.State) []string {
	var out []string
	for _, at := range st.Addrs() {
		if at.Resource.Mode == addr.Managed {
			out = append(out, "\n  - "+at.String())
		}
	}
	return out
}
