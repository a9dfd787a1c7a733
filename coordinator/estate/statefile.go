package estate

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/snapshot"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// StateOptions say which state is meant, and how it is locked.
type StateOptions struct {
	Lock        bool
	LockTimeout time.Duration
	// File, Out and Backup are the old options of the local backend: the state files to read and to write, and the one
	// that keeps the state of before.
	File, StateOut, Backup string
	// KeepsEach: a backup is kept of each state of before, named by its time, and not only the last.
	KeepsEach bool
	// KeepsNothing: the operation writes no state, so without a lock it reads what was last committed.
	KeepsNothing bool
	// Settle: the operation puts a whole state in the place of whatever there is, so it is no obstacle that the
	// state was changed in two places.
	Settle bool
	// Sharing has several operations of this process work on the state at the same time; nil has it for one alone.
	Sharing *Sharing
}

// Changeable is a state that can be changed: that of a workspace, or one in a file.
type Changeable interface {
	Load(context.Context) (*state.State, diag.List)
	// Commit makes changes durable.
	Commit(context.Context, []state.Change) diag.List
	Close(context.Context) diag.List
}

// Finding says how the configuration is looked at to find the state.
type Finding struct {
	Variables Variables
	// StorageOnly: the configuration is needed only to find the state; see config.TreeOptions.
	StorageOnly bool
	// Whole: every module has to be installed and valid, though the state alone is looked at.
	Whole bool
	// Sources, when set, is told where the text of files is, before the first problem.
	Sources func(func() map[string]*hcl.File)
}

// FindRoot loads the root module, which says where the state is; nil where there is no configuration: the state may be
// there all the same.
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

// OpenChangeable opens the state of the workspace, or the one in the file that is named. operation names what is done
// in the lock; empty for those who only read.
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

// fileState is a state in a file that is no workspace's.
type fileState struct {
	estate  *Estate
	backend snapshot.Backend
	lockID  string
	current *state.State // as it was read, with what was committed since
}

// OpenFile returns the state in a file, locked when operation is not empty and locking is on.
func (e *Estate) OpenFile(ctx context.Context, vars Variables, f StateOptions, operation string) (
	*fileState, diag.List) {
	enc, diags := e.ownEncryption(ctx, vars)
	if diags.HasErrors() {
		return nil, diags
	}
	target := enc.State()
	if e.Use.ClearFiles {
		target = nil // OpenTofu, too, rearranges only files that are in the clear
	}
	if f.Backup == "" && f.KeepsEach {
		f.Backup = e.backupName(f.File)
	}
	local := snapshot.NewLocal(e.localOptions(f))
	s := &fileState{estate: e, backend: snapshot.Encrypted(local, target)}
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

// localOptions are the files that a local state is in.
func (e *Estate) localOptions(f StateOptions) snapshot.LocalOptions {
	return snapshot.LocalOptions{Dir: e.base(), StateIn: f.File, StateOut: f.StateOut, Backup: f.Backup}
}

// Load reads the file. One that does not exist holds an empty state.
func (f *fileState) Load(ctx context.Context) (*state.State, diag.List) {
	st, diags := f.estate.readSnapshot(ctx, f.backend, journal.DefaultWorkspace, f.lockID != "")
	if st == nil {
		st = state.Empty()
	}
	f.current = st.Clone()
	return st, diags
}

// Commit changes what Load has read, and writes it.
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

// NeverStored reports whether nothing was ever put into the state. One of an old format has no lineage.
func NeverStored(st *state.State) bool { return st.Lineage == "" && st.Serial == 0 && st.IsEmpty() }

// backupName is where a state in a file that is rearranged is kept as it was before.
func (e *Estate) backupName(path string) string {
	return fmt.Sprintf("%s.%d.backup", path, e.Now().Unix())
}
