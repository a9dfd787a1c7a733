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
// with all workspaces. reads tells that it only looks at them.
func (s *screen) withWorkspaces(ctx context.Context, vars variableFlags, reads bool, fn func(*workspaces) diag.List) int {
	root, diags := s.loadRoot(vars)
	if diags.HasErrors() {
		return s.end(diags)
	}
	backend, more := s.app.openBackend(ctx, root, stateFlags{})
	if diags = diags.Append(more); diags.HasErrors() {
		return s.end(diags)
	}
	store, temporary, more := s.app.openStoreFile(stateFlags{}.storeFile(), s.app.lockInfo("workspace"), 0, reads)
	if diags = diags.Append(more); diags.HasErrors() {
		return s.end(diags)
	}
	w := &workspaces{screen: s, store: store, backend: backend}
	if err := w.list(ctx); err != nil {
		diags = diags.Append(diag.New(diag.Error, "Failed to list the workspaces", err.Error()+".", nil))
	} else {
		diags = diags.Append(fn(w))
	}
	return s.end(diags.Append(closeStore(store, temporary)))
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
		return s, "", diag.Errors("Invalid arguments list", fmt.Sprintf("Expected a single argument: NAME.\n\nFor the options of the command, run:\n  "+diag.Program()+" %s -help", a.command), nil)
	case !validWorkspace(args[0]):
		return s, "", diag.Errors("Invalid workspace name", fmt.Sprintf("The workspace name %q is not allowed. The name must contain only URL safe characters, and no path separators.", args[0]), nil)
	}
	return s, args[0], nil
}

func noSuchWorkspace(name string) diag.List {
	return diag.Errors(fmt.Sprintf("Workspace %q doesn't exist", name),
		"The command \"workspace new\" makes one, and so does \"workspace select -or-create\".", nil)
}

// delete deletes a workspace, under its lock.
func (w *workspaces) delete(ctx context.Context, name string, force bool, lf stateFlags) diag.List {
	at := &openState{
		app: w.app, store: w.store, workspace: name, backend: w.backend, info: w.app.lockInfo("workspace-delete"),
		sync: &snapshot.Sync{Store: w.store, Backend: w.backend, Version: engineVersion},
	}
	if _, err := at.sync.Pull(ctx, name, ""); err != nil {
		return w.app.unreadable(err, false)
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
