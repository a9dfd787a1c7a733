package estate

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/coordinator/migration"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/edit"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// StateOptions select a state, and how it is locked.
type StateOptions struct {
	Lock        bool
	LockTimeout time.Duration
	// File, Out and Backup are the deprecated options of the local backend: the state files to read and to write,
	// and the one for the backup.
	File, StateOut, Backup string
	// KeepsEach: a backup of each former state is kept, named by its time, not only of the last one.
	KeepsEach bool
	// KeepsNothing: the operation writes no state, so without a lock it reads the last commit.
	KeepsNothing bool
	// Settle: the operation replaces the whole state, so it may have been changed in two places.
	Settle bool
	// Objects: the operation changes few instances. If runs change the state at the same time, each under locks of its
	// objects, the operation locks these instances instead of the whole state.
	Objects bool
	// planned is the backend of the saved plan that is applied; nil for the one that init has recorded.
	planned *migration.Record
	// Sharing lets several operations of this process work on the state at the same time; nil for exclusive use.
	Sharing *Sharing
}

// Changeable is a state that can be changed: that of a workspace, or one in a file.
type Changeable interface {
	Load(context.Context) (*state.State, diag.List)
	// Commit makes changes durable.
	Commit(context.Context, []state.Change) diag.List
	Close(context.Context) diag.List
}

// Move makes the changes of a move of objects from a state to the same or another one.
func Move(ctx context.Context, moves []edit.Move, source *state.State, at Changeable, target *state.State,
	to Changeable) (diags diag.List) {
	changes := edit.Changes(moves, source, target)
	// The target is written before the source: after a crash between the two, the objects are in both states,
	// but never in none.
	if len(changes.Arrive) > 0 {
		diags = diags.Append(to.Commit(ctx, changes.Arrive))
	}
	if !diags.HasErrors() {
		diags = diags.Append(at.Commit(ctx, changes.Away))
	}
	return diags
}

// Finding are the options for finding the state by the configuration.
type Finding struct {
	Variables Variables
	// StorageOnly: the configuration is needed only to find the state; see config.TreeOptions.
	StorageOnly bool
	// Whole: every module must be installed and valid, although only the state is used.
	Whole bool
	// Sources, if set, is called with the texts of files before the first diagnostic.
	Sources func(func() map[string]*hcl.File)
}

// FindRoot loads the root module, which configures where the state is stored; nil if there is no configuration: the
// state may exist nevertheless.
func (e *Estate) FindRoot(f Finding) (*config.Node, diag.List) {
	c, diags := e.Configuration(f.Variables)
	if diags.HasErrors() {
		return nil, diags
	}
	if f.Sources != nil {
		f.Sources(c.Sources)
	}
	if !c.HasFiles() {
		return nil, diags
	}
	if f.Whole {
		if more := Errors(c.Load()); more.HasErrors() {
			return nil, diags.Append(more)
		}
		return c.Tree.Root, diags
	}
	root, more := c.LoadRoot(f.StorageOnly)
	return root, Errors(diags.Append(more))
}

// OpenChangeable opens the state of the workspace, or the one in the given file. operation is the name in the lock;
// empty for readers.
func (e *Estate) OpenChangeable(ctx context.Context, find Finding, o StateOptions, operation string) (
	Changeable, diag.List) {
	if o.File != "" {
		return opened(e.OpenFile(ctx, find.Variables, o, operation))
	}
	root, diags := e.FindRoot(find)
	if diags.HasErrors() {
		return nil, diags
	}
	s, more := e.OpenState(ctx, root, o, operation)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	if operation != "" {
		if more := s.cutOff(ctx); more.HasErrors() {
			return nil, diags.Append(more, s.Close(ctx))
		}
	}
	return s, diags
}

func opened(f *fileState, diags diag.List) (Changeable, diag.List) {
	if f == nil {
		return nil, diags
	}
	return f, diags
}

// fileState is a state in a file that does not belong to a workspace.
type fileState struct {
	estate  *Estate
	backend backend.Backend
	lockID  string
	current *state.State // as read, with later commits
}

// OpenFile returns the state in a file, locked if operation is not empty and locking is enabled.
func (e *Estate) OpenFile(ctx context.Context, vars Variables, f StateOptions, operation string) (
	*fileState, diag.List) {
	enc, diags := e.ownEncryption(ctx, vars)
	if diags.HasErrors() {
		return nil, diags
	}
	target := enc.State()
	if e.Use.ClearFiles {
		target = nil // like OpenTofu, this only changes unencrypted files
	}
	if f.Backup == "" && f.KeepsEach {
		f.Backup = e.backupName(f.File)
	}
	local := backend.NewLocal(e.localOptions(f))
	s := &fileState{estate: e, backend: backend.Encrypted(local, target)}
	if operation == "" || !f.Lock {
		return s, nil
	}
	lock, diags := e.lockBackend(ctx, s.backend, journal.DefaultWorkspace, e.lockInfo(operation), f.LockTimeout)
	if diags.HasErrors() {
		return nil, diags
	}
	s.lockID = lock.ID
	return s, nil
}

// localOptions returns the files of a local state.
func (e *folder) localOptions(f StateOptions) backend.LocalOptions {
	return backend.LocalOptions{Dir: e.base(), StateIn: f.File, StateOut: f.StateOut, Backup: f.Backup}
}

// Load reads the file. If it does not exist, the state is empty.
func (f *fileState) Load(ctx context.Context) (*state.State, diag.List) {
	st, diags := f.estate.readSnapshot(ctx, f.backend, journal.DefaultWorkspace, f.lockID != "")
	if st == nil {
		st = state.Empty()
	}
	f.current = st.Clone()
	return st, diags
}

// Commit applies changes to the loaded state, and writes it.
func (f *fileState) Commit(ctx context.Context, changes []state.Change) diag.List {
	if f.estate.Stop.Asked() {
		return diag.Errors("Operation interrupted", "The state was not changed.", nil)
	}
	defer f.estate.Process.Hold()()
	ctx = context.WithoutCancel(ctx)
	f.current.Apply(changes...)
	if f.current.Lineage == "" {
		f.current.Lineage = uuid.NewString()
	}
	f.current.Serial++
	var text bytes.Buffer
	err := tfstate.Write(&text, f.current, f.estate.EngineVersion, tfstate.Indented)
	if err == nil {
		err = f.backend.Write(ctx, journal.DefaultWorkspace, text.Bytes())
	}
	return diag.List(nil).Append(err)
}

// Close releases the lock, if there is one.
func (f *fileState) Close(ctx context.Context) diag.List {
	if f.lockID == "" {
		return nil
	}
	if err := f.backend.Unlock(context.WithoutCancel(ctx), journal.DefaultWorkspace, f.lockID); err != nil {
		return diag.Errors("Error releasing the state lock", err.Error(), nil)
	}
	return nil
}

// backupName returns the name of the backup of a state file before a change.
func (e *folder) backupName(path string) string {
	return fmt.Sprintf("%s.%d.backup", path, e.Now().Unix())
}
