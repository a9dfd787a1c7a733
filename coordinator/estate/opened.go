package estate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// Opened is the state of the selected workspace in its open store, with the backend that has the snapshot of the state.
type Opened struct {
	estate *Estate
	store  *openedStore
	// Workspace is the name of the workspace.
	Workspace string
	backend   backend.Backend
	sync      *backend.Sync
	// LockID is the ID of the lock that is held; empty if none is.
	LockID string
	// backendLock is the lock in the backend of the snapshot. Its ID may differ from LockID.
	backendLock backend.Lock
	info        journal.LockInfo
	// forget unregisters the function that releases the lock if the process exits immediately. unwatch ends the watch
	// of the backend's lock.
	forget, unwatch func()

	// sharing and home are nil if only this operation uses the state. asked is set while the operation has a request for
	// locks, turn while it may end a version of the state.
	sharing     *Sharing
	home        *sharedHome
	asked, turn bool
	// objects changes single instances in the backend, without a lock of the whole state there; nil if that is locked. It
	// waits for locks at most for objectsWait.
	objects     backend.ObjectChanger
	objectsWait time.Duration
}

// lockInfo returns the description of this command for a lock.
func (e *folder) lockInfo(operation string) journal.LockInfo {
	return journal.LockInfo{
		ID: uuid.NewString(), Operation: operation, Who: e.Who(), Version: e.EngineVersion,
		Created: e.Now().UTC(), PID: e.PID,
	}
}

// OpenState opens the store, and adopts the changes that others have made to the snapshot. operation is the name of
// the operation in the lock; the state is locked unless operation is empty or locking is off. If operation is empty,
// or f says that nothing is kept and nothing locked, the operation reads the last commit, even while another process
// changes the state. The caller closes the state.
func (e *Estate) OpenState(ctx context.Context, root *config.Node, f StateOptions, operation string) (
	*Opened, diag.List) {
	backend, diags := e.OpenBackend(ctx, root, f)
	if diags.HasErrors() {
		return nil, diags
	}
	as := writes
	switch {
	case operation == "" || f.KeepsNothing && !f.Lock:
		as = reads
	case !f.Lock:
		as = waits
	}
	if f.Sharing != nil {
		s := &Opened{estate: e, Workspace: e.Workspace(), backend: backend, info: e.lockInfo(operation)}
		return s, diags.Append(s.openShared(ctx, f))
	}
	at, more := e.storeFor(f, backend)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags.Append(e.CloseBackend(backend))
	}
	if f.File+f.StateOut != "" && as != reads {
		if err := e.Directory().TakeFile(f.File, f.StateOut); err != nil {
			return nil, diags.Append(diag.New(diag.Error, "Failed to open the state store", err.Error()+".", nil))
		}
	}
	const tries = 3
	for try := 1; ; try++ {
		s, more := e.openStateAs(ctx, backend, at, f, operation, as)
		// Another process may have written both between the copy of the store and the check of the snapshot.
		if as == reads && more.HasErrors() && try < tries {
			continue
		}
		if more.HasErrors() {
			more = more.Append(e.CloseBackend(backend))
		}
		return s, diags.Append(more)
	}
}

func (e *Estate) openStateAs(ctx context.Context, b backend.Backend, at storeAt, f StateOptions,
	operation string, as access) (*Opened, diag.List) {
	s := &Opened{estate: e, Workspace: e.Workspace(), backend: b, info: e.lockInfo(operation)}
	store, diags := e.openStore(ctx, at, s.info, as, f.LockTimeout)
	if diags.HasErrors() {
		return nil, diags
	}
	s.store = store
	if err := s.ensureWorkspace(ctx); err != nil {
		return nil, diags.Append(diag.List{}.Append(err), store.close())
	}
	s.sync = &backend.Sync{Store: store, Backend: b, Version: e.EngineVersion, Settle: f.Settle}
	if f.Lock && as != reads {
		if more := s.lockFor(ctx, f); more.HasErrors() {
			return nil, diags.Append(more, store.close())
		}
	}
	if store.pulled {
		return s, diags // the process that has the store open has pulled the snapshot
	}
	message, err := s.sync.Pull(ctx, s.Workspace, s.LockID)
	if err != nil {
		return nil, diags.Append(e.unreadable(err, s.LockID != ""), s.leave(ctx))
	}
	if message != "" {
		diags = diags.Append(diag.New(diag.Warning, "The state was changed outside of Millipede", message, nil))
	}
	if store.server != nil {
		store.server.Pulled()
	}
	return s, diags
}

// Versions returns the earlier versions of the state.
func (s *Opened) Versions() journal.Versions { return s.store }

// Who returns the name under which the lock is held.
func (s *Opened) Who() string { return s.info.Who }

// Own reports whether only this process has the store open, so that it may change the store.
func (s *Opened) Own() bool { return s.store.ownHome() != nil }

// ensureWorkspace creates the selected workspace if it does not exist. TF_WORKSPACE may name a new workspace, which is
// created when it is first used.
func (s *Opened) ensureWorkspace(ctx context.Context) error {
	names, err := s.store.Workspaces(ctx)
	if err != nil || slices.Contains(names, s.Workspace) {
		return err
	}
	err = s.store.CreateWorkspace(ctx, s.Workspace)
	if errors.Is(err, journal.ErrWorkspaceExists) {
		return nil // another operation that shares the store has created it
	}
	return err
}

// lockFor acquires the locks that an operation needs.
func (s *Opened) lockFor(ctx context.Context, f StateOptions) diag.List {
	if changer, can := backend.Objects(s.backend); f.Objects && can {
		locksObjects, err := changer.LocksObjects(ctx, s.Workspace)
		switch {
		case err != nil:
			return diag.Errors("Error acquiring the state lock", err.Error()+".", nil)
		case locksObjects:
			s.objects, s.objectsWait = changer, f.LockTimeout
			return s.lockStore(ctx)
		}
	}
	return s.lock(ctx, f.LockTimeout)
}

// lock acquires the lock in the snapshot's backend, which keeps other engines out, and then the lock in the store.
func (s *Opened) lock(ctx context.Context, timeout time.Duration) diag.List {
	lock, diags := s.estate.lockBackend(ctx, s.backend, s.Workspace, s.info, timeout)
	if diags.HasErrors() {
		return diags
	}
	if diags := s.lockStore(ctx); diags.HasErrors() {
		// Without this, the backend's lock would remain until this process ends.
		return diags.Append(releasing(s.backend.Unlock(context.WithoutCancel(ctx), s.Workspace, lock.ID)))
	}
	s.backendLock = lock
	s.forget = s.estate.Process.AtEnd(func(ctx context.Context) {
		_ = s.backend.Unlock(ctx, s.Workspace, lock.ID) // after an error, force-unlock can release the lock
	})
	s.watchLock()
	return nil
}

// lockStore acquires the lock in the store.
func (s *Opened) lockStore(ctx context.Context) diag.List {
	err := s.store.Lock(ctx, s.Workspace, s.info)
	var held *journal.Held
	if errors.As(err, &held) {
		// Only this process has the store open, so the process that took this lock has ended.
		err = s.store.Unlock(ctx, s.Workspace, held.Holder.ID)
		if errors.Is(err, journal.ErrLockID) {
			err = s.dropRequests(ctx)
		}
		if err == nil {
			err = s.store.Lock(ctx, s.Workspace, s.info)
		}
	}
	if err != nil {
		return diag.Errors("Error acquiring the state lock", err.Error(), nil)
	}
	s.LockID = s.info.ID
	return nil
}

// watchLock starts a goroutine that stops the command if the backend's lock is lost: others may then change the state.
func (s *Opened) watchLock() {
	done, over := make(chan struct{}), make(chan struct{})
	go func() { // unwatch waits until it has returned
		defer close(over)
		select {
		case <-done:
		case <-s.backendLock.Lost: // nil if the backend does not watch its lock
			s.estate.Process.Demand(fmt.Sprintf("\nThe lock of %s was lost, so others may change the state. "+
				"Nothing more is started; operations in progress are finished and recorded.\n\n",
				s.backend.Describe(s.Workspace).Where))
		}
	}()
	s.unwatch = sync.OnceFunc(func() {
		close(done)
		<-over
	})
}

// lockLost reports whether the backend's lock was lost. It asks the backend, if the backend can answer that. If it
// fails to answer, lockLost returns false.
func (s *Opened) lockLost(ctx context.Context) bool {
	select {
	case <-s.backendLock.Lost:
		return true
	default:
	}
	if s.backendLock.Held == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lockCheckTimeout)
	defer cancel()
	held, err := s.backendLock.Held(ctx)
	return err == nil && !held // the following write will report the backend's error
}

// lockCheckTimeout bounds one check of whether the lock is still held.
const lockCheckTimeout = 10 * time.Second

// lockBackend locks a backend. If somebody else holds the lock, it waits for at most timeout.
func (e *backends) lockBackend(ctx context.Context, b backend.Backend, workspace string, info journal.LockInfo,
	timeout time.Duration,
) (backend.Lock, diag.List) {
	lock, err := backend.Acquire(ctx, b, workspace, info, timeout, func(h journal.LockInfo) {
		e.Tell(fmt.Sprintf("Waiting for the state lock %s, which %s has held since %s for %s...\n",
			h.ID, h.Who, h.Created.Local().Format(time.DateTime), h.Operation))
	})
	var held *journal.Held
	switch {
	case errors.As(err, &held):
		return lock, diag.List{lockDiag(held, "the state is locked")}
	case err != nil:
		return lock, diag.Errors("Error acquiring the state lock", err.Error(), nil)
	}
	return lock, nil
}

// lockDiag returns the error that names the holder of a lock. Its Extra is held; see HeldBy.
func lockDiag(held *journal.Held, what string) *diag.Diagnostic {
	h := held.Holder
	d := diag.New(diag.Error, "Error acquiring the state lock",
		fmt.Sprintf("Error message: %s\nLock Info:\n  ID:        %s\n  Path:      %s\n  Operation: %s\n  Who:       "+
			"%s\n  Version:   %s\n  Created:   %s\n  Info:      %s\n\nThe state lock keeps two commands from "+
			"changing one state at the same time. Wait until the other command has ended, or use -lock-timeout to "+
			"wait for it. If that command no longer runs, release its lock with the force-unlock command.",
			what, h.ID, h.Path, h.Operation, h.Who, h.Version,
			h.Created.Format("2006-01-02 15:04:05.999999999 -0700 MST"), h.Info), nil)
	d.Extra = held
	return d
}

// HeldBy returns the holder of the state's lock if one of the errors is about that lock; otherwise nil.
func HeldBy(l diag.List) *journal.Held {
	for _, d := range l {
		if held, ok := d.Extra.(*journal.Held); ok {
			return held
		}
	}
	return nil
}

// Load returns a copy of the stored state, which the caller may change. If the state is shared, it is the last version
// that has ended.
func (s *Opened) Load(ctx context.Context) (*state.State, diag.List) {
	load := s.store.Load
	if s.sharing != nil {
		load = s.store.LoadEnded
	}
	st, err := load(ctx, s.Workspace)
	if err != nil {
		return nil, diag.Errors("Failed to load state", err.Error()+".", nil)
	}
	return st, nil
}

// Commit commits changes as a new version of the state, and writes the snapshot.
func (s *Opened) Commit(ctx context.Context, changes []state.Change) diag.List {
	return s.Record(ctx, journal.Commit{Changes: changes, EndVersion: true, Cause: s.info.Operation})
}

// Record makes a commit of the workspace under its lock, and writes the snapshot.
func (s *Opened) Record(ctx context.Context, tx journal.Commit) diag.List {
	if s.estate.Stop.Asked() {
		return diag.Errors("Operation interrupted", "The state was not changed.", nil)
	}
	defer s.estate.Process.Hold()()
	if s.objects != nil {
		return s.changeObjects(ctx, tx)
	}
	ctx = context.WithoutCancel(ctx)
	tx.Workspace, tx.Fence = s.Workspace, s.LockID
	if err := s.store.Commit(ctx, tx); err != nil {
		return diag.Errors("Failed to save state", err.Error()+".", nil)
	}
	return s.Push(ctx)
}

// Push writes the snapshot if the state has changed since the last write. If the write fails, Push writes the state to
// the file errored.tfstate in the directory of the configuration.
func (s *Opened) Push(ctx context.Context) diag.List {
	defer s.estate.Process.Hold()()
	if err := s.takeTurn(ctx); err != nil {
		return diag.Errors("Failed to save state", fmt.Sprintf("The snapshot was not written: %s.\n\nNothing is lost: the "+
			"state itself is in %s, and the next command writes the snapshot.", err, s.store.home.Path()), nil)
	}
	defer s.giveTurn()
	if s.lockLost(ctx) {
		return diag.Errors("State lock lost", fmt.Sprintf("The lock of %s was lost while it was held, so the "+
			"snapshot was not written there: another process may have changed it.\n\nNothing is lost: the state itself "+
			"is in %s. The next command writes the snapshot, or reports a conflict that you must resolve.",
			s.backend.Describe(s.Workspace).Where, s.store.home.Path()), nil).Append(s.rescue(ctx))
	}
	if err := s.sync.Push(ctx, s.Workspace); err != nil {
		return diag.Errors("Failed to save state",
			fmt.Sprintf("Writing the snapshot: %s.\n\nNothing is lost: the state "+
				"itself is in %s, and the next command that writes the state writes the snapshot.", err, s.store.home.Path()),
			nil).Append(s.rescue(ctx))
	}
	return nil
}

// rescue writes a state that could not be written to its backend to a file in the exchange format, because people
// cannot read the store.
func (s *Opened) rescue(ctx context.Context) diag.List {
	text, err := s.sync.Rescue(ctx, s.Workspace)
	if err == nil {
		err = wholefile.Durable(s.estate.path(backend.ErroredFile), wholefile.Private, wholefile.Bytes(text))
	}
	if err != nil {
		return diag.Errors("Failed to create local state file",
			fmt.Sprintf("The state could not be written to the file %s either: %s. Only the store has it.",
				backend.ErroredFile, err), nil)
	}
	return diag.Errors("Failed to persist state to backend", fmt.Sprintf("For recovery, the state was also written "+
		"to the file %q in the current working directory. Do not let other programs change this state before it is "+
		"in its backend again; otherwise there are two different states.\n\nTo try again, run any command that "+
		"writes the state, or:\n  %s state push %[1]s",
		backend.ErroredFile, diag.Program()), nil)
}

// progress returns the writer of the snapshot while a run changes the state. TF_STATE_PERSIST_INTERVAL sets the
// interval between two writes.
func (s *Opened) progress(tell func(string)) (*backend.Progress, diag.List) {
	const variable = "TF_STATE_PERSIST_INTERVAL"
	every, err := backend.PersistInterval(s.estate.Environ.Get(variable))
	if err != nil {
		return nil, diag.Errors("Invalid "+variable, err.Error()+".", nil)
	}
	return &backend.Progress{
		Store: s.store, Sync: s.sync, Workspace: s.Workspace, Every: every, Lost: s.backendLock.Lost, Tell: tell,
	}, nil
}

// unlock releases the lock of the state, or the request for locks if the state is shared; it does nothing if neither
// is held.
func (s *Opened) unlock(ctx context.Context) diag.List {
	if s.sharing != nil {
		s.giveTurn()
		return s.leaveLocks(ctx)
	}
	if s.LockID == "" {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if s.objects != nil {
		diags := releasing(s.store.Unlock(ctx, s.Workspace, s.LockID))
		s.LockID = ""
		return diags
	}
	s.forget()
	s.unwatch()
	// The store's lock was taken last, so it is released first.
	diags := releasing(s.store.Unlock(ctx, s.Workspace, s.LockID)).Append(releasing(s.backend.Unlock(ctx, s.Workspace,
		s.backendLock.ID)))
	s.LockID = ""
	return diags
}

func releasing(err error) diag.List {
	if err == nil {
		return nil
	}
	return diag.Errors("Error releasing the state lock", err.Error(), nil)
}

// Close releases the lock, and closes the store and the backend.
func (s *Opened) Close(ctx context.Context) diag.List {
	return s.leave(ctx).Append(closeBackend(s.backend))
}

// leave releases the lock, and closes the store. It does not close the backend.
func (s *Opened) leave(ctx context.Context) diag.List {
	return s.unlock(ctx).Append(s.store.close())
}
