package estate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// access is how a command uses a store.
type access int

const (
	// reads uses a copy of the last commit, even if another process has the store. Writes to the copy are lost.
	reads access = iota
	// writes has exclusive use of the store, and fails if another process has it for longer than the timeout.
	writes
	// waits is writes for commands without a lock: they wait for the other process without a time limit.
	waits
)

// turnTime is the interval at which a waiting command checks whether it was stopped.
const turnTime = 200 * time.Millisecond

// openedStore is a store, or a copy of one for reading. The caller closes it.
type openedStore struct {
	Store
	home layout.Home
	// server serves concurrent readers; nil for a copy, and if there can be no socket.
	server *layout.Server
	// temporary is the directory of a copy, which is removed with it; empty for the store itself.
	temporary string
	// pulled is set for a copy if the process that has the store had adopted others' changes to the snapshot.
	pulled bool
	// elsewhere is set for a copy if another process has the store open.
	elsewhere bool
	// shared is the home of a shared store; nil for exclusive use.
	shared *sharedHome
}

// openStore opens a store. The encryption must be set up.
func (e *homes) openStore(ctx context.Context, at storeAt, info journal.LockInfo, as access,
	timeout time.Duration) (*openedStore, diag.List) {
	if as == reads {
		return e.openCopy(ctx, at, info)
	}
	var told bool
	for {
		turn := timeout
		if as == waits {
			turn = max(timeout, turnTime)
		}
		s, err := e.openOwn(ctx, at, info, turn)
		var held *journal.Held
		switch {
		case err == nil && e.Private:
			return s, nil
		case err == nil:
			return s, s.serve(e.Temp)
		case !errors.As(err, &held):
			return nil, diag.Errors("Failed to open the state store", err.Error()+".", nil)
		case as == writes:
			return nil, diag.List{lockDiag(held, "another process works on the state in this directory")}
		case !told:
			told = true
			e.Tell(fmt.Sprintf("Another process works on this state (%s, process %d). Waiting until it has ended, "+
				"because what two write at one time would be lost...\n", held.Holder.Who, held.Holder.PID))
		}
		select {
		case <-ctx.Done():
			return nil, diag.Errors("Operation interrupted", "The command was stopped while it waited for the "+
				"process that works on the state.", nil)
		default:
		}
	}
}

func (e *homes) storeOptions() StoreOptions { return StoreOptions{Target: e.sealing.State()} }

// openOwn opens the store itself, in a directory with the current layout.
func (e *homes) openOwn(ctx context.Context, at storeAt, info journal.LockInfo, timeout time.Duration) (
	*openedStore, error) {
	d, home := e.Directory(), at.Home
	if err := d.Make(); err != nil {
		return nil, err
	}
	if err := e.layOut(d, info, timeout); err != nil {
		return nil, err
	}
	options := e.storeOptions()
	options.Workspace = e.Workspace()
	if at.located() {
		options.Workspace = at.location.Workspace
		err := e.claim(at, info, timeout, func(s Store) (bool, error) { return e.owns(ctx, s, at) })
		if err != nil {
			return nil, err
		}
		if err := d.MakeState(at.location); err != nil {
			return nil, err
		}
	}
	store, err := e.Stores.Open(home.Store(), info, timeout, options)
	if err != nil {
		return nil, err
	}
	if err := home.Tidy(e.Now()); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &openedStore{Store: store, home: home}, nil
}

// layOut divides the single store of all workspaces that earlier versions used.
func (e *homes) layOut(d layout.Directory, info journal.LockInfo, timeout time.Duration) error {
	path, is := d.Former()
	if !is {
		return nil
	}
	former, err := e.Stores.Open(path, info, max(timeout, formerTime), e.storeOptions())
	if err != nil {
		return err
	}
	if _, is := d.Former(); !is { // another process has done it
		return former.Close()
	}
	return errors.Join(d.Divide(former.Split), former.Close())
}

// formerTime is how long a process waits for another one that divides the former store.
const formerTime = 5 * time.Second

// serve lets other processes read the store. If there can be no socket, they have to wait; that is not an error.
func (s *openedStore) serve(temp string) diag.List {
	server, err := s.home.Serve(s.Store, temp)
	if err != nil {
		return diag.List{diag.New(diag.Warning, "Nobody can read the state meanwhile",
			fmt.Sprintf("Commands that read the state while this one works on it have to wait: %s.", err), nil)}
	}
	s.server = server
	return nil
}

// The bounds of a reader's attempts while a store is being opened or closed.
const (
	readTime  = 15 * time.Second
	readPause = 20 * time.Millisecond
)

// openCopy opens a copy of the store. If there is no store, or none that this user may read, the copy is empty, and
// the snapshot is loaded into it.
func (e *homes) openCopy(ctx context.Context, at storeAt, info journal.LockInfo) (*openedStore, diag.List) {
	deadline := e.Now().Add(readTime)
	for {
		s, err := e.copyOnce(ctx, at, info)
		var held *journal.Held
		switch {
		case err == nil:
			return s, nil
		case !errors.As(err, &held) && !errors.Is(err, layout.ErrNobody):
			return nil, diag.Errors("Failed to read the state store", err.Error()+".", nil)
		case e.Now().After(deadline) && held != nil:
			return nil, diag.List{lockDiag(held, "the process that works on the state does not answer those who want "+
				"to read it")}
		case e.Now().After(deadline):
			return nil, diag.Errors("Failed to read the state store", err.Error()+".", nil)
		}
		if err := sleep.For(ctx, readPause); err != nil {
			return nil, diag.Errors("Failed to read the state store", err.Error()+".", nil)
		}
	}
}

// copyOnce makes a copy of a store without a writer, or requests one from the process that writes.
func (e *homes) copyOnce(ctx context.Context, at storeAt, info journal.LockInfo) (*openedStore, error) {
	path, home, isFormer := at.Store(), at.Home, false
	former, is := e.Directory().Former()
	unclaimed, older := e.Directory().Unclaimed(at.location)
	switch {
	case is:
		path, isFormer = former, true
	case at.located() && older:
		path, home = unclaimed.Store(), unclaimed
	}
	dir, err := os.MkdirTemp(e.Temp, "millipede-")
	if err != nil {
		return nil, err
	}
	s := &openedStore{home: at.Home, temporary: dir}
	copied := filepath.Join(dir, filepath.Base(at.Store()))
	err = e.Stores.Copy(path, copied)
	var held *journal.Held
	switch {
	case errors.Is(err, fs.ErrNotExist) && path != at.Store(): // it has been divided or claimed in the meantime
		return nil, errors.Join(layout.ErrNobody, err, os.RemoveAll(dir))
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		err = nil // bolt opens an empty store below
	case errors.As(err, &held):
		answered, pulled, askErr := home.Ask(ctx)
		if askErr != nil {
			return nil, errors.Join(err, askErr, os.RemoveAll(dir))
		}
		err = os.RemoveAll(dir)
		s.elsewhere = true
		s.temporary, s.pulled, copied = answered, pulled, filepath.Join(answered, filepath.Base(copied))
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.temporary))
	}
	if err := e.openCopied(s, copied, info); err != nil {
		return nil, err
	}
	if path == at.Store() || !at.located() && isFormer {
		return s, nil
	}
	own, err := e.owns(ctx, s.Store, at)
	if err == nil && own {
		return s, nil
	}
	if err = errors.Join(err, s.Store.Close(), os.RemoveAll(s.temporary)); err != nil {
		return nil, err
	}
	// The store is that of another state; this one has none yet.
	if dir, err = os.MkdirTemp(e.Temp, "millipede-"); err != nil {
		return nil, err
	}
	s = &openedStore{home: at.Home, temporary: dir}
	return s, e.openCopied(s, filepath.Join(dir, filepath.Base(at.Store())), info)
}

// openCopied opens a copy, which ends with the process.
func (e *homes) openCopied(s *openedStore, copied string, info journal.LockInfo) (err error) {
	o := e.storeOptions()
	o.Volatile = true // it is removed when the command ends
	if s.Store, err = e.Stores.Open(copied, info, time.Second, o); err != nil {
		return errors.Join(err, os.RemoveAll(s.temporary))
	}
	if runtime.GOOS != "windows" { // an open file cannot be removed there
		if err := os.RemoveAll(s.temporary); err != nil { // so that nothing remains if the command is killed
			return errors.Join(err, s.Store.Close())
		}
	}
	return nil
}

// ownHome returns the home of a store that this process uses exclusively; nil for a copy.
func (s *openedStore) ownHome() *layout.Home {
	if s.temporary != "" {
		return nil
	}
	return &s.home
}

// close closes the store, and removes it if it is a copy.
func (s *openedStore) close() diag.List {
	if s.shared != nil {
		return s.shared.leave()
	}
	var diags diag.List
	if s.server != nil {
		diags = closing(s.server.Close())
	}
	diags = diags.Append(closing(s.Store.Close()))
	return diags.Append(removing(s.temporary))
}

// removing removes a temporary directory; empty for none.
func removing(dir string) diag.List {
	if dir == "" {
		return nil
	}
	return closing(os.RemoveAll(dir))
}

// closing returns the error that something could not be closed.
func closing(err error) diag.List {
	if err == nil {
		return nil
	}
	return diag.List{diag.New(diag.Warning, "Failed to close down cleanly", err.Error()+".", nil)}
}
