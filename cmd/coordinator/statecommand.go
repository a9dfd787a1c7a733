package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/snapshot"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// registerValues registers -var and -var-file for commands that ask for nothing.
func (v *variableFlags) registerValues(f *flag.FlagSet) {
	f.Func("var", "", func(s string) error {
		v.list = append(v.list, config.VariableFlag{Text: s})
		return nil
	})
	f.Func("var-file", "", func(s string) error {
		v.list = append(v.list, config.VariableFlag{File: true, Text: s})
		return nil
	})
}

// registerFile registers -lock, -lock-timeout and the old options of the local backend, for commands that rearrange
// the state.
func (s *stateFlags) registerFile(f *flag.FlagSet) {
	s.registerLock(f)
	f.StringVar(&s.state, "state", "", "")
	f.StringVar(&s.stateOut, "state-out", "", "")
	f.StringVar(&s.backup, "backup", "", "")
	s.keepsEach = true
}

// registerLock registers -lock and -lock-timeout.
func (s *stateFlags) registerLock(f *flag.FlagSet) {
	f.BoolVar(&s.lock, "lock", true, "")
	f.DurationVar(&s.lockTimeout, "lock-timeout", 0, "")
}

// rootOnly leaves all modules but the root out of the tree.
type rootOnly struct{}

// Locate implements config.Locator.
func (rootOnly) Locate(config.ModuleRequest) (config.Installed, diag.List) {
	return config.Installed{}, nil
}

// loadRoot loads the root module alone: it says where the state is. Where there is no configuration the state may be
// there all the same.
func (s *screen) loadRoot(vars variableFlags) (*config.Node, diag.List) {
	w, diags := s.app.newWorkdir(vars)
	if diags.HasErrors() {
		return nil, diags
	}
	s.from(w.loader.Sources)
	if !w.loader.HasConfig(".") {
		return nil, diags
	}
	if s.wholeConfig {
		if more := errorsOf(w.load()); more.HasErrors() {
			return nil, diags.Append(more)
		}
		return w.tree.Root, diags
	}
	root, more := w.loadRoot(s.storageOnly)
	return root, errorsOf(diags.Append(more))
}

// errorsOf leaves the warnings out: those about the configuration are told by the commands that carry it out.
func errorsOf(l diag.List) diag.List {
	return slices.DeleteFunc(slices.Clone(l), func(d *diag.Diagnostic) bool { return d.Severity != diag.Error })
}

// checkWorkspace says whether the name that TF_WORKSPACE gives can be one of a workspace, for commands that have to do with
// workspaces.
func (a *app) checkWorkspace() diag.List {
	if name := a.getenv("TF_WORKSPACE"); name != "" && !a.apart && !validWorkspace(name) {
		return diag.Errors("Invalid workspace name set using TF_WORKSPACE", fmt.Sprintf("The workspace name %q is not allowed: it may hold only what is safe in a URL, and no slash.", name), nil)
	}
	return nil
}

// aState is a state that a command works on.
type aState interface {
	load(context.Context) (*state.State, diag.List)
	// commit makes changes durable.
	commit(context.Context, []state.Change) diag.List
	close(context.Context) diag.List
}

// withState opens the state of the workspace, or that in the file of -state, calls fn and closes it. operation names what the
// command does in the lock; empty for commands that only read. It returns the exit code.
func (s *screen) withState(ctx context.Context, vars variableFlags, f stateFlags, operation string, fn func(aState) diag.List) int {
	if f.state != "" {
		file, diags := s.app.openFile(ctx, vars, f, operation)
		if diags.HasErrors() {
			return s.end(diags)
		}
		return s.end(s.with(ctx, file, diags, fn))
	}
	root, diags := s.loadRoot(vars)
	if diags.HasErrors() {
		return s.end(diags)
	}
	st, more := s.app.openState(ctx, root, f, operation)
	if diags = diags.Append(more); diags.HasErrors() {
		return s.end(diags)
	}
	if operation != "" {
		if more := st.cutOff(ctx); more.HasErrors() {
			return s.end(diags.Append(more, st.close(ctx)))
		}
	}
	return s.end(s.with(ctx, st, diags, fn))
}

func (s *screen) with(ctx context.Context, st aState, diags diag.List, fn func(aState) diag.List) diag.List {
	diags = diags.Append(fn(st))
	return diags.Append(st.close(ctx))
}

// readState is withState for commands that only look at the state.
func (s *screen) readState(ctx context.Context, vars variableFlags, file string, fn func(*state.State) diag.List) int {
	return s.withState(ctx, vars, stateFlags{state: file}, "", func(at aState) diag.List {
		st, diags := at.load(ctx)
		if diags.HasErrors() {
			return diags
		}
		return diags.Append(fn(st))
	})
}

// fileState is a state in a file that is no workspace's: what -state names.
type fileState struct {
	app     *app
	backend snapshot.Backend
	lockID  string
	current *state.State // as it was read, with what was committed since
}

// openFile returns the state in the file of -state, locked when operation is not empty and locking is on.
func (a *app) openFile(ctx context.Context, vars variableFlags, f stateFlags, operation string) (*fileState, diag.List) {
	e, diags := a.ownEncryption(ctx, vars)
	if diags.HasErrors() {
		return nil, diags
	}
	target := e.State()
	if slices.Contains([]string{"state mv", "state rm", "state replace-provider"}, a.command) {
		target = nil // OpenTofu, too, rearranges only files that are in the clear
	}
	if f.backup == "" && f.keepsEach {
		f.backup = backupName(f.state)
	}
	local := snapshot.NewLocal(snapshot.LocalOptions{StateIn: f.state, StateOut: f.stateOut, Backup: f.backup})
	s := &fileState{app: a, backend: snapshot.Encrypted(local, target)}
	if operation == "" || !f.lock {
		return s, nil
	}
	lock, diags := a.lockBackend(ctx, s.backend, journal.DefaultWorkspace, a.lockInfo(operation), f.lockTimeout)
	if diags.HasErrors() {
		return nil, diags
	}
	s.lockID = lock.ID
	return s, nil
}

// load reads the file. One that does not exist holds an empty state.
func (f *fileState) load(ctx context.Context) (*state.State, diag.List) {
	st, diags := f.app.readSnapshot(ctx, f.backend, journal.DefaultWorkspace, f.lockID != "")
	if st == nil {
		st = state.Empty()
	}
	f.current = st.Clone()
	return st, diags
}

// commit changes what load has read, and writes it.
func (f *fileState) commit(ctx context.Context, changes []state.Change) diag.List {
	if f.app.interrupts.Asked() {
		return diag.Errors("Operation interrupted", "The state was not changed.", nil)
	}
	defer f.app.interrupts.hold()()
	ctx = context.WithoutCancel(ctx)
	f.current.Apply(changes...)
	if f.current.Lineage == "" {
		f.current.Lineage = uuid.NewString()
	}
	f.current.Serial++
	var text bytes.Buffer
	err := tfstate.Write(&text, f.current, engineVersion, tfstate.Indented)
	if err == nil {
		err = f.backend.Write(ctx, journal.DefaultWorkspace, text.Bytes())
	}
	return diag.List(nil).Append(err)
}

func (f *fileState) close(ctx context.Context) diag.List {
	if f.lockID == "" {
		return nil
	}
	if err := f.backend.Unlock(context.WithoutCancel(ctx), journal.DefaultWorkspace, f.lockID); err != nil {
		return diag.Errors("Error releasing the state lock", err.Error(), nil)
	}
	return nil
}

// noStateFile is what commands on the state say where nothing was ever stored.
func noStateFile() diag.List {
	return diag.Errors("No state file was found", "There is no state here that the command could work on. Run it in a directory where something was applied, or name a state file with -state.", nil)
}

// backupName is where a command that rearranges the state in a file keeps the one of before.
func backupName(path string) string {
	return fmt.Sprintf("%s.%d.backup", path, time.Now().Unix())
}
