package estate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/remote"
	"github.com/millipede-iac/millipede/coordinator/migration"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/edit"
	"github.com/millipede-iac/millipede/state/journal"
)

// Workspaces are the workspaces of an estate: their homes, and those in the backend.
type Workspaces struct {
	// Names are their names, the default one first.
	Names []string

	estate  *Estate
	backend backend.Backend
	record  migration.Record
}

// Workspaces lists the workspaces. It opens no store, so it does not interfere with processes that work on a state.
// root configures where the states are stored; nil if there is no configuration. The caller closes the list.
func (e *Estate) Workspaces(ctx context.Context, root *config.Node) (*Workspaces, diag.List) {
	record, diags := e.recordFor(StateOptions{})
	if diags.HasErrors() {
		return nil, diags
	}
	backend, diags := e.OpenBackend(ctx, root, StateOptions{})
	if diags.HasErrors() {
		return nil, diags
	}
	w := &Workspaces{estate: e, backend: backend, record: record}
	if err := w.list(ctx); err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to list the workspaces", err.Error()+".", nil),
			w.Close())
	}
	return w, diags
}

// Close closes the backend of the list.
func (w *Workspaces) Close() diag.List { return w.estate.CloseBackend(w.backend) }

// list collects the workspaces of the backend, because one that another program has deleted there no longer exists.
// If the backend's workspaces end with the process, it collects those with a home here.
func (w *Workspaces) list(ctx context.Context) error {
	theirs, err := w.backend.Workspaces(ctx)
	if err != nil {
		return err
	}
	var ours []string
	if w.backend.Describe(journal.DefaultWorkspace).Volatile {
		if ours, err = w.estate.ownWorkspaces(ctx, w.record); err != nil {
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
	w.Names = slices.Compact(all)
	return nil
}

// ownWorkspaces lists the workspaces of a backend that have a store here, and the default one, which always exists.
func (e *homes) ownWorkspaces(ctx context.Context, r migration.Record) ([]string, error) {
	d := e.Directory()
	at, diags := e.storeOf(r, journal.DefaultWorkspace, nil)
	if diags.HasErrors() {
		return nil, diags.Err()
	}
	if _, is := d.Former(); is {
		store, diags := e.openStore(ctx, at, e.lockInfo("workspace"), reads, 0)
		if diags.HasErrors() {
			return nil, diags.Err()
		}
		names, err := store.Workspaces(ctx)
		return names, errors.Join(err, store.close().Err())
	}
	names, err := d.Workspaces() // of earlier versions, or of a service
	if err != nil {
		return nil, err
	}
	locations, err := d.States()
	for _, l := range locations {
		if l.Backend == at.location.Backend && l.Address == at.location.Address {
			names = append(names, l.Workspace)
		}
	}
	return append(names, journal.DefaultWorkspace), err
}

// openWorkspace opens the store of any workspace of a backend, which need not exist yet, without a lock.
func (e *Estate) openWorkspace(ctx context.Context, name string, r migration.Record, b backend.Backend,
	operation string, timeout time.Duration) (*Opened, diag.List) {
	at, diags := e.storeOf(r, name, b)
	if diags.HasErrors() {
		return nil, diags
	}
	return e.openLocated(ctx, at, name, b, operation, writes, timeout)
}

// openLocated is openWorkspace for a store that has been located.
func (e *Estate) openLocated(ctx context.Context, at storeAt, name string, b backend.Backend, operation string,
	as access, timeout time.Duration) (*Opened, diag.List) {
	info := e.lockInfo(operation)
	store, diags := e.openStore(ctx, at, info, as, timeout)
	if diags.HasErrors() {
		return nil, diags
	}
	return &Opened{
		estate: e, store: store, Workspace: name, backend: b, info: info,
		sync: &backend.Sync{Store: store, Backend: b, Version: e.EngineVersion},
	}, diags
}

// Has reports whether a workspace exists.
func (w *Workspaces) Has(name string) bool { return slices.Contains(w.Names, name) }

// Find returns an error if a workspace does not exist.
func (w *Workspaces) Find(name string) diag.List {
	if w.Has(name) {
		return nil
	}
	return diag.Errors(fmt.Sprintf("Workspace %q doesn't exist", name),
		"The command \"workspace new\" creates one, and so does \"workspace select -or-create\".", nil)
}

// Create creates a workspace and selects it. initial is its state; nil for an empty one.
func (w *Workspaces) Create(ctx context.Context, name string, initial *state.State, o StateOptions) diag.List {
	if w.Has(name) {
		return diag.Errors(fmt.Sprintf("Workspace %q already exists", name), "Another workspace has this name.", nil)
	}
	fail := func(err error) diag.List {
		return diag.Errors(fmt.Sprintf("Failed to create the workspace %q", name), err.Error()+".", nil)
	}
	at, diags := w.estate.openWorkspace(ctx, name, w.record, w.backend, "workspace-new", o.LockTimeout)
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
		return diags.Append(fail(err), at.Close(ctx))
	}
	if initial != nil {
		diags = diags.Append(at.begin(ctx, initial, o))
	}
	if diags = diags.Append(at.Close(ctx)); diags.HasErrors() {
		return diags
	}
	if err := w.estate.SelectWorkspace(name); err != nil {
		return fail(err)
	}
	return diags
}

// begin stores the first state of a new workspace.
func (s *Opened) begin(ctx context.Context, initial *state.State, o StateOptions) diag.List {
	if o.Lock {
		if diags := s.lock(ctx, o.LockTimeout); diags.HasErrors() {
			return diags
		}
	}
	return s.Replace(ctx, initial, "workspace new")
}

// Delete deletes a workspace, under its lock; the selected one cannot be deleted. One with objects is deleted only
// with force; the remaining objects are then a warning.
func (w *Workspaces) Delete(ctx context.Context, name string, force bool, o StateOptions) diag.List {
	if missing := w.Find(name); missing.HasErrors() {
		return missing
	}
	if name == w.estate.Workspace() {
		return diag.Errors(fmt.Sprintf("Workspace %q is your active workspace", name),
			"The selected workspace cannot be deleted. Select another one first.", nil)
	}
	at, diags := w.estate.openWorkspace(ctx, name, w.record, w.backend, "workspace-delete", o.LockTimeout)
	if diags.HasErrors() {
		return diags
	}
	return diags.Append(w.deleteOpened(ctx, at, name, force, o), at.Close(ctx))
}

func (w *Workspaces) deleteOpened(ctx context.Context, at *Opened, name string, force bool, o StateOptions) diag.List {
	if err := at.ensureWorkspace(ctx); err != nil {
		return diag.List{}.Append(err)
	}
	if _, err := at.sync.Pull(ctx, name, ""); err != nil {
		return w.estate.unreadable(err, false)
	}
	if o.Lock {
		if diags := at.lock(ctx, o.LockTimeout); diags.HasErrors() {
			return diags
		}
	}
	st, diags := at.Load(ctx)
	if diags.HasErrors() {
		return diags.Append(at.unlock(ctx))
	}
	managed := managedInstances(st)
	if len(managed) > 0 && !force {
		return diags.Append(diag.New(diag.Error, "Workspace is not empty", fmt.Sprintf(
			"These resource instances are in the state of the workspace %q:%s\n\nWithout it nobody would know of "+
				"them, and they would have to be destroyed by hand. Destroy them with Millipede first, or give "+
				"-force to forget them.",
			name, strings.Join(managed, "")), nil), at.unlock(ctx))
	}
	if diags = diags.Append(at.unlock(ctx)); diags.HasErrors() {
		return diags
	}
	if name == journal.DefaultWorkspace {
		return diags.Append(diag.New(diag.Error, "Workspace deletion failed", "The default workspace always exists, so it "+
			"cannot be deleted.", nil))
	}
	// The backend first: a workspace with only a home is listed, and can be deleted again.
	remove := w.backend.Delete
	if service, is := backend.Plain(w.backend).(*remote.Store); is && len(managed) > 0 {
		remove = service.DeleteNonEmpty
	}
	if err := errors.Join(remove(ctx, name), at.store.home.Remove()); err != nil {
		return diags.Append(diag.New(diag.Error, "Failed to delete the workspace", err.Error()+".", nil))
	}
	if len(managed) > 0 {
		diags = diags.Append(diag.New(diag.Warning, fmt.Sprintf("%q was non-empty", name),
			"These resource instances go on to exist, and are in no state any more:"+strings.Join(managed, ""), nil))
	}
	return diags
}

// managedInstances lists the managed instances of a state, one per line.
func managedInstances(st *state.State) []string {
	var out []string
	for _, at := range edit.Managed(st) {
		out = append(out, "\n  - "+at.String())
	}
	return out
}

// Unlock releases a lock in the store and in the backend. It succeeds if at least one of them had it.
func (e *homes) Unlock(ctx context.Context, b backend.Backend, id string) diag.List {
	at, diags := e.storeFor(StateOptions{}, b)
	if diags.HasErrors() {
		return diags
	}
	store, diags := e.openStore(ctx, at, e.lockInfo("force-unlock"), writes, 0)
	if diags.HasErrors() {
		return diags
	}
	inStore := store.Unlock(ctx, e.Workspace(), id)
	inBackend := b.Unlock(ctx, e.Workspace(), id)
	switch {
	case inStore != nil && !errors.Is(inStore, journal.ErrLockID) && !errors.Is(inStore, journal.ErrNoWorkspace):
		diags = diag.Errors(fmt.Sprintf("Failed to unlock state: %s", inStore), "", nil)
	case inBackend != nil && (inStore != nil || !errors.Is(inBackend, backend.ErrNotLocked)):
		diags = diag.Errors(fmt.Sprintf("Failed to unlock state: %s", inBackend), "", nil)
	}
	return diags.Append(store.close())
}
