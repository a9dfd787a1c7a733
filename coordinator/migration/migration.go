// Package migration decides which states of a directory are copied from one backend to another, in which order, and
// which questions are asked before. It opens no file and knows no configuration: it reads and writes through Storage,
// which an estate implements.
package migration

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// Storage has the states of a directory.
type Storage interface {
	// Selected returns the selected workspace, and Select selects another one. Fixed reports whether the environment
	// selects it.
	Selected() string
	Select(workspace string) diag.List
	Fixed() bool
	// Stored lists the workspaces of a recorded backend that have a store in the directory, and the default one.
	Stored(ctx context.Context, r Record) ([]string, error)
	// Source opens the store from which the state of a workspace is copied. If there is no store, it is a copy, so that
	// none is created.
	Source(ctx context.Context, at Side, workspace string, timeout time.Duration) (Store, diag.List)
	// Target opens the store of a workspace, which need not exist. operation is its name in locks.
	Target(ctx context.Context, at Side, workspace, operation string, timeout time.Duration) (Store, diag.List)
	// Snapshot reads a state from a backend; nil if there is none.
	Snapshot(ctx context.Context, b backend.Backend, workspace string) (*state.State, diag.List)
}

// Backends opens the backends of a directory, and records the one that it uses.
type Backends interface {
	// Recorded returns the backend that the directory has used until now, and Record replaces it.
	Recorded() (Record, diag.List)
	Record(r Record) error
	// Wanted returns the backend of the configuration, with arguments of the command line.
	Wanted(arguments []string) (Record, diag.List)
	// Open opens a recorded backend, whose states are encrypted as configured. If it is the wanted one, problems refer to
	// the block of the configuration.
	Open(ctx context.Context, r Record, wanted bool) (backend.Backend, diag.List)
	// Close closes a backend; nil for one that could not be opened.
	Close(b backend.Backend) diag.List
	// Claim gives stores of earlier versions to the backend that the directory has used until now. It is called before
	// another one is recorded.
	Claim(ctx context.Context, was Record) diag.List
	// Left returns warnings about states of other backends that were not written completely.
	Left(ctx context.Context) diag.List
}

// Directory is what Prepare needs of a directory.
type Directory interface {
	Storage
	Backends
}

// Store is the opened store of a workspace. The caller closes it.
type Store interface {
	// Current returns the state, with the changes that others have made to the snapshot; empty if there is none.
	Current(ctx context.Context) (*state.State, diag.List)
	// CutOff returns an error if a run of the workspace was cut off.
	CutOff(ctx context.Context) diag.List
	// Locked calls fn while the workspace of a backend is locked. It waits for the lock for at most timeout.
	Locked(ctx context.Context, b backend.Backend, timeout time.Duration, fn func() diag.List) diag.List
	// Replace makes st the state of the workspace, and writes the snapshot. The store keeps the state that was there.
	Replace(ctx context.Context, st *state.State, cause string) diag.List
	// Empty empties the state and its snapshot. The store keeps the state that was there.
	Empty(ctx context.Context, cause string) error
	// Versions returns the earlier versions of the state.
	Versions() journal.Versions
	Close() diag.List
}

// Service is a backend that is a service with the API of HCP Terraform.
type Service interface {
	backend.Backend
	// Single returns the only workspace of the service that the configuration names; empty if it selects several.
	Single() string
	// Integrated reports whether the configuration has a cloud block.
	Integrated() bool
	// Tags are the tags that select workspaces.
	Tags() []string
	Organization() string
}

// Side is a backend, as recorded and opened.
type Side struct {
	Record
	Backend backend.Backend
}

// migration copies states from one backend to another.
type migration struct {
	Storage
	from, to Side
	options  Options
}

// workspaces lists the workspaces of a backend; a backend without workspaces has the default one.
func workspaces(ctx context.Context, b backend.Backend) ([]string, error) {
	names, err := b.Workspaces(ctx)
	if errors.Is(err, backend.ErrNoWorkspaces) {
		return []string{journal.DefaultWorkspace}, nil
	}
	return names, err
}

// sources returns the workspaces that may have a state: those of the old backend, with those that have a store here if
// its workspaces end with the process.
func (m *migration) sources(ctx context.Context) ([]string, error) {
	names, err := workspaces(ctx, m.from.Backend)
	if err != nil {
		return nil, err
	}
	if m.from.Backend.Describe(journal.DefaultWorkspace).Volatile {
		own, err := m.Stored(ctx, m.from.Record)
		if err != nil {
			return nil, err
		}
		names = append(names, own...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// source returns the state of a workspace of the old backend; nil if it is empty: then there is nothing to copy.
func (m *migration) source(ctx context.Context, name string) (*state.State, diag.List) {
	at, diags := m.Source(ctx, m.from, name, m.options.LockTimeout)
	if diags.HasErrors() {
		return nil, diags
	}
	st, more := at.Current(ctx)
	diags = diags.Append(more)
	if !diags.HasErrors() && !st.IsEmpty() {
		diags = diags.Append(at.CutOff(ctx))
	}
	if diags = diags.Append(at.Close()); diags.HasErrors() || st.IsEmpty() {
		return nil, diags
	}
	return st, diags
}

// pending returns the state of a workspace of the old backend that is to be copied to the target, a workspace of the
// new one, and the state that is there. The state is nil if there is nothing to copy.
func (m *migration) pending(ctx context.Context, name, target string) (st, there *state.State, diags diag.List) {
	st, diags = m.source(ctx, name)
	if st == nil {
		return nil, nil, diags
	}
	there, diags = m.Snapshot(ctx, m.to.Backend, target)
	if diags.HasErrors() || there != nil && there.SameContent(st) && there.Lineage == st.Lineage {
		return nil, nil, diags
	}
	return st, there, diags
}

// put makes st the state of a workspace of the new backend. The store of that keeps the state that it replaces.
func (m *migration) put(ctx context.Context, target string, st *state.State) diag.List {
	at, diags := m.Target(ctx, m.to, target, "init", m.options.LockTimeout)
	if diags.HasErrors() {
		return diags
	}
	replace := func() diag.List {
		if err := m.to.Backend.Create(ctx, target); err != nil && !errors.Is(err, backend.ErrNoWorkspaces) {
			return diag.List{}.Append(err)
		}
		return at.Replace(ctx, st, cause)
	}
	if m.options.Lock {
		diags = diags.Append(at.Locked(ctx, m.to.Backend, m.options.LockTimeout, replace))
	} else {
		diags = diags.Append(replace())
	}
	return diags.Append(at.Close())
}

// cause is the cause of the versions that a migration makes.
const cause = "init -migrate-state"

// leave empties the state file of the local backend that was used without a block, as OpenTofu does, so that the
// state is not offered for migration again. The backup of the file keeps the state, and so does the store, if the
// location has one.
func (m *migration) leave(ctx context.Context, name string) diag.List {
	if m.from.Type != "" || m.from.Backend.Describe(name).Where == m.to.Backend.Describe(name).Where {
		return nil
	}
	at, diags := m.Source(ctx, m.from, name, m.options.LockTimeout)
	if diags.HasErrors() {
		return diags
	}
	if err := at.Empty(ctx, cause); err != nil {
		diags = diags.Append(diag.New(diag.Error, "Failed to empty the former state file", err.Error()+".", nil))
	}
	return diags.Append(at.Close())
}

// agree asks a question about several workspaces, unless -force-copy answers it. A "no" is an error.
func (m *migration) agree(q question) diag.List {
	if m.options.Force {
		return nil
	}
	yes, diags := false, diag.List(nil)
	if m.options.CanAsk {
		yes, diags = m.options.Confirm(q.text, q.what)
	}
	switch {
	case diags.HasErrors() || !m.options.CanAsk:
		return diag.Errors("Error asking for state migration action: input is disabled",
			"The states of several workspaces have to be copied to another backend, and input is disabled. Give "+
				"-force-copy to copy them without confirmation, or -reconfigure to leave them where they are.", nil)
	case !yes:
		return diag.Errors("Migration aborted by user.", "Nothing was changed.", nil)
	}
	return nil
}

// confirm asks a question about one workspace, unless -force-copy answers it. place is where its state is copied to.
func (m *migration) confirm(q question, place string) (bool, diag.List) {
	if m.options.Force {
		return true, nil
	}
	yes, diags := m.options.Confirm(q.text, q.what)
	if diags.HasErrors() {
		return false, diag.Errors("Can't ask approval for state migration when interactive input is disabled.",
			"The state has to be copied to "+place+", and input is disabled. Give -force-copy to copy it without "+
				"confirmation, or -reconfigure to leave it where it is.", nil)
	}
	return yes, nil
}
