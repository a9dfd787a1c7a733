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
	"time"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/snapshot"
)

// validWorkspace tells whether a workspace may have this name: what a URL and a path hold as it is.
func validWorkspace(name string) bool {
	return name != "" && name == url.PathEscape(name) && name != "." && name != ".."
}

// workspaces is what the workspace commands work with: the homes of the workspaces, and the backend that other engines see.
type workspaces struct {
	*screen
	backend snapshot.Backend
	names   []string
}

// withWorkspaces parses what the workspace commands have in common: at most one name. It calls fn with the name, and
// with all workspaces. No store is opened for that, so nobody who works on the state of one is in the way.
func (s *screen) withWorkspaces(ctx context.Context, vars variableFlags, fn func(*workspaces) diag.List) int {
	root, diags := s.loadRoot(vars)
	if diags.HasErrors() {
		return s.end(diags)
	}
	backend, more := s.app.openBackend(ctx, root, stateFlags{})
	if diags = diags.Append(more); diags.HasErrors() {
		return s.end(diags)
	}
	w := &workspaces{screen: s, backend: backend}
	if err := w.list(ctx); err != nil {
		diags = diags.Append(diag.New(diag.Error, "Failed to list the workspaces", err.Error()+".", nil))
	} else {
		diags = diags.Append(fn(w))
	}
	return s.end(diags)
}

// list collects the workspaces, the default one first: those that the backend has, because one that another program has
// deleted there is gone. Where the backend forgets them with the process, they are those that have a home here.
func (w *workspaces) list(ctx context.Context) error {
	theirs, err := w.backend.Workspaces(ctx)
	if err != nil {
		return err
	}
	var ours []string
	if w.backend.Describe(journal.DefaultWorkspace).Volatile {
		if ours, err = w.app.ownWorkspaces(ctx); err != nil {
			return err
		}
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

// ownWorkspaces lists the workspaces that have a store here, and the default one, which always exists.
func (a *app) ownWorkspaces(ctx context.Context) ([]string, error) {
	d := a.directory()
	if _, is := d.Former(); is {
		store, diags := a.openStore(ctx, d.Workspace(journal.DefaultWorkspace), a.lockInfo("workspace"), reads, 0)
		if diags.HasErrors() {
			return nil, diags.Err()
		}
		names, err := store.Workspaces(ctx)
		return names, errors.Join(err, store.close().Err())
	}
	names, err := d.Workspaces()
	return append(names, journal.DefaultWorkspace), err
}

// open opens the store of a workspace, which may not be there yet, for a command that changes it.
func (w *workspaces) open(ctx context.Context, name, operation string, lf stateFlags) (*openState, diag.List) {
	return w.app.openWorkspace(ctx, name, w.backend, operation, lf.lockTimeout)
}

// openWorkspace opens the store of a workspace that need not be the selected one, and no lock.
func (a *app) openWorkspace(ctx context.Context, name string, b snapshot.Backend, operation string, timeout time.Duration) (*openState, diag.List) {
	info := a.lockInfo(operation)
	store, diags := a.openStore(ctx, a.directory().Workspace(name), info, writes, timeout)
	if diags.HasErrors() {
		return nil, diags
	}
	return &openState{
		app: a, store: store, workspace: name, backend: b, info: info,
		sync: &snapshot.Sync{Store: store, Backend: b, Version: engineVersion},
	}, diags
}

// create makes a workspace and selects it. initial is its state; nil for an empty one.
func (w *workspaces) create(ctx context.Context, name string, initial *state.State, lf stateFlags) diag.List {
	fail := func(err error) diag.List {
		return diag.Errors(fmt.Sprintf("Failed to create the workspace %q", name), err.Error()+".", nil)
	}
	at, diags := w.open(ctx, name, "workspace-new", lf)
	if diags.HasErrors() {
		return diags
	}
	err := at.ensureWorkspace(ctx)
	if err == nil {
		if err = w.backend.Create(ctx, name); err != nil {
			err = errors.Join(err, at.store.home.Remove())
		}
	}
	if err != nil {
		return diags.Append(fail(err), at.close(ctx))
	}
	if initial != nil {
		diags = diags.Append(at.begin(ctx, initial, lf))
	}
	if diags = diags.Append(at.close(ctx)); diags.HasErrors() {
		return diags
	}
	if err := w.app.selectWorkspace(name); err != nil {
		return fail(err)
	}
	w.say(w.app.ink(w.flags.viewFlags).Success(fmt.Sprintf("Created and switched to workspace %q!", name)) +
		"\n\nYou're now on a new, empty workspace. Workspaces isolate their state, so a plan\nhere does not see what exists in the others.")
	return diags
}

// begin gives a new workspace its first state.
func (s *openState) begin(ctx context.Context, initial *state.State, lf stateFlags) diag.List {
	if lf.lock {
		if diags := s.lock(ctx, lf.lockTimeout); diags.HasErrors() {
			return diags
		}
	}
	return s.replace(ctx, initial, "workspace new")
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
	at, diags := w.open(ctx, name, "workspace-delete", lf)
	if diags.HasErrors() {
		return diags
	}
	return diags.Append(w.deleteOpened(ctx, at, name, force, lf), at.close(ctx))
}

func (w *workspaces) deleteOpened(ctx context.Context, at *openState, name string, force bool, lf stateFlags) diag.List {
	if err := at.ensureWorkspace(ctx); err != nil {
		return diag.List{}.Append(err)
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
	// The backend first: a workspace that only has a home is seen, and can be deleted again.
	if err := errors.Join(w.backend.Delete(ctx, name), at.store.home.Remove()); err != nil {
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
