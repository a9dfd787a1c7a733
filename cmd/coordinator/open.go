package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/snapshot"
)

// openState is the state of the selected workspace, opened: the store, and the snapshot that is kept in step with it.
type openState struct {
	app       *app
	store     *openedStore
	workspace string
	backend   snapshot.Backend
	sync      *snapshot.Sync
	// lockID is the lock that the command holds; empty when it holds none.
	lockID string
	// backendLock is the lock of the snapshot's backend, whose ID may be another one.
	backendLock snapshot.Lock
	info        journal.LockInfo
	// forget ends the duty to release the lock when the process is ended at once; unwatch ends the watch over it.
	forget, unwatch func()
}

// lockInfo says who this command is.
func (a *app) lockInfo(operation string) journal.LockInfo {
	who := "unknown"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		who += "@" + h
	}
	return journal.LockInfo{
		ID: uuid.NewString(), Operation: operation, Who: who, Version: engineVersion, Created: time.Now().UTC(), PID: os.Getpid(),
	}
}

// openState opens the store and adopts what others did to the snapshot since. operation names what the command does
// to the state; it is locked unless operation is empty or locking is off. A command without an operation, or one that
// keeps nothing and does not lock, reads what was last committed, whoever works on the state. Close it.
func (a *app) openState(ctx context.Context, root *config.Node, f stateFlags, operation string) (*openState, diag.List) {
	backend, diags := a.openBackend(ctx, root, f)
	if diags.HasErrors() {
		return nil, diags
	}
	as := writes
	switch {
	case operation == "" || f.keepsNothing && !f.lock:
		as = reads
	case !f.lock:
		as = waits
	}
	if f.state+f.stateOut != "" && as != reads {
		if err := a.directory().TakeFile(f.state, f.stateOut); err != nil {
			return nil, diags.Append(diag.New(diag.Error, "Failed to open the state store", err.Error()+".", nil))
		}
	}
	const tries = 3
	for try := 1; ; try++ {
		s, more := a.openStateAs(ctx, backend, f, operation, as)
		// Between the copy of the store and the look at the snapshot another process may have written both.
		if as == reads && more.HasErrors() && try < tries {
			continue
		}
		return s, diags.Append(more)
	}
}

func (a *app) openStateAs(ctx context.Context, backend snapshot.Backend, f stateFlags, operation string, as access) (*openState, diag.List) {
	s := &openState{app: a, workspace: a.workspace(), backend: backend, info: a.lockInfo(operation)}
	store, diags := a.openStore(ctx, a.home(f), s.info, as, f.lockTimeout)
	if diags.HasErrors() {
		return nil, diags
	}
	s.store = store
	if err := s.ensureWorkspace(ctx); err != nil {
		return nil, diags.Append(diag.List{}.Append(err), store.close())
	}
	s.sync = &snapshot.Sync{Store: store, Backend: backend, Version: engineVersion}
	if f.lock && as != reads {
		if more := s.lock(ctx, f.lockTimeout); more.HasErrors() {
			return nil, diags.Append(more, store.close())
		}
	}
	if store.pulled {
		return s, diags // whoever works on the state has done it, and has the snapshot
	}
	message, err := s.sync.Pull(ctx, s.workspace, s.lockID)
	if err != nil {
		return nil, diags.Append(a.unreadable(err, s.lockID != ""), s.close(ctx))
	}
	if message != "" {
		diags = diags.Append(diag.New(diag.Warning, "The state was changed outside of Millipede", message, nil))
	}
	if store.server != nil {
		store.server.Pulled()
	}
	return s, diags
}

// ensureWorkspace makes the selected workspace in the store if it is not there: TF_WORKSPACE may name one that nobody has
// made, and using it makes it.
func (s *openState) ensureWorkspace(ctx context.Context) error {
	names, err := s.store.Workspaces(ctx)
	if err != nil || slices.Contains(names, s.workspace) {
		return err
	}
	return s.store.CreateWorkspace(ctx, s.workspace)
}

// lock takes the lock of the snapshot's backend, so that other engines keep out, then that of the store.
func (s *openState) lock(ctx context.Context, timeout time.Duration) diag.List {
	lock, diags := s.app.lockBackend(ctx, s.backend, s.workspace, s.info, timeout)
	if diags.HasErrors() {
		return diags
	}
	err := s.store.Lock(ctx, s.workspace, s.info)
	var held *journal.Held
	if errors.As(err, &held) {
		// The store is open here alone, so whoever left this lock is gone.
		if err = s.store.Unlock(ctx, s.workspace, held.Holder.ID); err == nil {
			err = s.store.Lock(ctx, s.workspace, s.info)
		}
	}
	if err != nil {
		// What was taken first is given back, or nobody could have it until this process ends.
		return diag.Errors("Error acquiring the state lock", err.Error(), nil).Append(
			releasing(s.backend.Unlock(context.WithoutCancel(ctx), s.workspace, lock.ID)))
	}
	s.lockID, s.backendLock = s.info.ID, lock
	s.forget = s.app.interrupts.atEnd(func(ctx context.Context) {
		_ = s.backend.Unlock(ctx, s.workspace, lock.ID) // who finds the lock afterwards can break it
	})
	s.watchLock()
	return nil
}

// watchLock stops the command when the backend's lock is lost: somebody else may change the state from then on.
func (s *openState) watchLock() {
	done, over := make(chan struct{}), make(chan struct{})
	go func() { // unwatch waits for it
		defer close(over)
		select {
		case <-done:
		case <-s.backendLock.Lost: // nil where a lock cannot be lost unnoticed
			s.app.interrupts.demand(fmt.Sprintf("\nThe lock of %s was lost, so others may change the state. "+
				"Nothing more is started; what runs is finished and recorded.\n\n", s.backend.Describe(s.workspace).Where))
		}
	}()
	s.unwatch = sync.OnceFunc(func() {
		close(done)
		<-over
	})
}

// lockLost tells whether the backend's lock was lost while it was held.
func (s *openState) lockLost() bool {
	select {
	case <-s.backendLock.Lost:
		return true
	default:
		return false
	}
}

// lockBackend takes the lock of a backend; it waits for one that somebody else holds, but not longer than timeout.
func (a *app) lockBackend(ctx context.Context, backend snapshot.Backend, workspace string, info journal.LockInfo,
	timeout time.Duration,
) (snapshot.Lock, diag.List) {
	lock, err := snapshot.Acquire(ctx, backend, workspace, info, timeout, func(h journal.LockInfo) {
		a.tell(fmt.Sprintf("Waiting for the state lock %s, which %s has held since %s for %s...\n",
			h.ID, h.Who, h.Created.Local().Format(time.DateTime), h.Operation))
	})
	var held *journal.Held
	switch {
	case errors.As(err, &held):
		return lock, diag.List{lockDiag(held.Holder, "the state is locked")}
	case err != nil:
		return lock, diag.Errors("Error acquiring the state lock", err.Error(), nil)
	}
	return lock, nil
}

// lockDiag names the holder of a lock.
func lockDiag(h journal.LockInfo, what string) *diag.Diagnostic {
	return diag.New(diag.Error, "Error acquiring the state lock",
		fmt.Sprintf("Error message: %s\nLock Info:\n  ID:        %s\n  Path:      %s\n  Operation: %s\n  Who:       %s\n  Version:   %s\n  Created:   %s\n  Info:      %s\n\nThe state lock keeps two commands from changing one state at the same time. Wait until the other one has ended, or give -lock-timeout to do so; where it is gone for good, release its lock with the force-unlock command.",
			what, h.ID, h.Path, h.Operation, h.Who, h.Version, h.Created.Format("2006-01-02 15:04:05.999999999 -0700 MST"), h.Info), nil)
}

// load returns the stored state; the caller owns it.
func (s *openState) load(ctx context.Context) (*state.State, diag.List) {
	st, err := s.store.Load(ctx, s.workspace)
	if err != nil {
		return nil, diag.Errors("Failed to load state", err.Error()+".", nil)
	}
	return st, nil
}

// commit makes changes durable as a new version, and writes the snapshot.
func (s *openState) commit(ctx context.Context, changes []state.Change) diag.List {
	return s.record(ctx, journal.Tx{Changes: changes, EndVersion: true})
}

// record makes a transaction durable, and writes the snapshot.
func (s *openState) record(ctx context.Context, tx journal.Tx) diag.List {
	if s.app.interrupts.Asked() {
		return diag.Errors("Operation interrupted", "The state was not changed.", nil)
	}
	defer s.app.interrupts.hold()()
	ctx = context.WithoutCancel(ctx)
	if err := s.store.Commit(ctx, s.workspace, s.lockID, tx); err != nil {
		return diag.Errors("Failed to save state", err.Error()+".", nil)
	}
	return s.push(ctx)
}

// push writes the snapshot when the state has changed since it was written. What cannot be written is put into a file
// beside the configuration, too.
func (s *openState) push(ctx context.Context) diag.List {
	defer s.app.interrupts.hold()()
	if s.lockLost() {
		return diag.Errors("State lock lost", fmt.Sprintf("The lock of %s was lost while it was held, so the snapshot was not "+
			"written there: somebody else may have changed it.\n\nNothing is lost: the state itself is in %s, and the next "+
			"command writes the snapshot, or says what has to be decided.",
			s.backend.Describe(s.workspace).Where, s.store.home.Path()), nil).Append(s.rescue(ctx))
	}
	if err := s.sync.Push(ctx, s.workspace); err != nil {
		return diag.Errors("Failed to save state", fmt.Sprintf("Writing the snapshot: %s.\n\nNothing is lost: the state "+
			"itself is in %s, and the next command writes the snapshot again.", err, s.store.home.Path()), nil).Append(s.rescue(ctx))
	}
	return nil
}

// rescue puts the state that could not be written to its backend into a file, for those who cannot read the store.
func (s *openState) rescue(ctx context.Context) diag.List {
	text, err := s.sync.Rescue(ctx, s.workspace)
	if err == nil {
		err = os.WriteFile(snapshot.ErroredFile, text, 0o600)
	}
	if err != nil {
		return diag.Errors("Failed to create local state file",
			fmt.Sprintf("The state could not be put into the file %s either: %s. It is in the store alone.", snapshot.ErroredFile, err), nil)
	}
	return diag.Errors("Failed to persist state to backend", fmt.Sprintf("For recovery, the state was also written to the file %q in "+
		"the current working directory. Other programs should not work on this state before it is in its backend again, or it "+
		"goes on in two places.\n\nTo try again, run any command that writes the state, or:\n  %s state push %[1]s",
		snapshot.ErroredFile, diag.Program()), nil)
}

// progress makes what writes the snapshot while a run changes the state.
func (s *openState) progress(tell func(string)) (*snapshot.Progress, diag.List) {
	const variable = "TF_STATE_PERSIST_INTERVAL"
	every, err := snapshot.PersistInterval(s.app.getenv(variable))
	if err != nil {
		return nil, diag.Errors("Invalid "+variable, err.Error()+".", nil)
	}
	return &snapshot.Progress{
		Store: s.store, Sync: s.sync, Workspace: s.workspace, Every: every, Lost: s.backendLock.Lost, Tell: tell,
	}, nil
}

// unlock releases the lock, if it is held.
func (s *openState) unlock(ctx context.Context) diag.List {
	if s.lockID == "" {
		return nil
	}
	s.forget()
	s.unwatch()
	ctx = context.WithoutCancel(ctx)
	// The store's lock is within the backend's, so it goes first.
	diags := releasing(s.store.Unlock(ctx, s.workspace, s.lockID)).Append(releasing(s.backend.Unlock(ctx, s.workspace, s.backendLock.ID)))
	s.lockID = ""
	return diags
}

func releasing(err error) diag.List {
	if err == nil {
		return nil
	}
	return diag.Errors("Error releasing the state lock", err.Error(), nil)
}

// close releases the lock, and closes the store and the backend.
func (s *openState) close(ctx context.Context) diag.List {
	diags := s.unlock(ctx).Append(s.store.close())
	if err := snapshot.Close(s.backend); err != nil {
		diags = diags.Append(diag.New(diag.Warning, "Failed to close the backend", err.Error()+".", nil))
	}
	return diags
}

// newID returns an ID that is unique for ever.
func newID() string { return rand.Text() }
