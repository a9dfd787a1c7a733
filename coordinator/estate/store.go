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
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// access is what a command does with a store.
type access int

const (
	// reads looks at a copy of what was last committed, whoever has the store. What is written to the copy goes with
	// it.
	reads access = iota
	// writes has the store for itself, and gives up when another process has it for longer than the timeout.
	writes
	// waits is writes for commands that take no lock: they wait for the other process as long as it takes.
	waits
)

// turnTime is after what time a command that waits for another process looks whether it was stopped.
const turnTime = 200 * time.Millisecond

// openedStore is a store, or a copy of one to read. Close it.
type openedStore struct {
	Store
	home layout.Home
	// server answers those who want to read meanwhile; nil for a copy, and where there can be no socket.
	server *layout.Server
	// temporary is the directory of a copy, which goes with it; empty for the store itself.
	temporary string
	// pulled tells of a copy that the process that has the store had taken over what others did to the snapshot.
	pulled bool
	// elsewhere tells of a copy that another process has the store open.
	elsewhere bool
	// shared is where several have the store that this is; nil where it is one's alone.
	shared *sharedHome
}

// openStore opens the store of a home. What encrypts the state is set up.
func (e *Estate) openStore(ctx context.Context, home layout.Home, info journal.LockInfo, as access,
	timeout time.Duration) (*openedStore, diag.List) {
	if as == reads {
		return e.openCopy(ctx, home, info)
	}
	var told bool
	for {
		turn := timeout
		if as == waits {
			turn = max(timeout, turnTime)
		}
		s, err := e.openOwn(home, info, turn)
		var held *journal.Held
		switch {
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

func (e *Estate) storeOptions() StoreOptions { return StoreOptions{Target: e.sealing.State()} }

// openOwn opens the store itself, in a directory that is laid out as it is today.
func (e *Estate) openOwn(home layout.Home, info journal.LockInfo, timeout time.Duration) (*openedStore, error) {
	d := e.Directory()
	if err := d.Make(); err != nil {
		return nil, err
	}
	if err := e.layOut(d, info, timeout); err != nil {
		return nil, err
	}
	store, err := e.Stores.Open(home.Store(), info, timeout, e.storeOptions())
	if err != nil {
		return nil, err
	}
	if err := home.Tidy(e.Now()); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &openedStore{Store: store, home: home}, nil
}

// layOut divides the one store of all workspaces that earlier versions had.
func (e *Estate) layOut(d layout.Directory, info journal.LockInfo, timeout time.Duration) error {
	path, is := d.Former()
	if !is {
		return nil
	}
	former, err := e.Stores.Open(path, info, max(timeout, formerTime), e.storeOptions())
	if err != nil {
		return err
	}
	if _, is := d.Former(); !is { // another process did it meanwhile
		return former.Close()
	}
	return errors.Join(d.Divide(former.Split), former.Close())
}

// formerTime is how long a process waits for another one that divides the former store.
const formerTime = 5 * time.Second

// serve lets other processes read the store meanwhile. Where there can be no socket, they have to wait: that is no
// reason not to work.
func (s *openedStore) serve(temp string) diag.List {
	server, err := s.home.Serve(s.Store, temp)
	if err != nil {
		return diag.List{diag.New(diag.Warning, "Nobody can read the state meanwhile",
			fmt.Sprintf("Commands that read the state while this one works on it have to wait: %s.", err), nil)}
	}
	s.server = server
	return nil
}

// The bounds of what a reader does to get hold of a store that is being opened or closed at the moment.
const (
	readTime  = 15 * time.Second
	readPause = 20 * time.Millisecond
)

// openCopy opens a copy of what the store has. Where there is no store, or none that this user may read, it is an empty
// one, to which the snapshot is read.
func (e *Estate) openCopy(ctx context.Context, home layout.Home, info journal.LockInfo) (*openedStore, diag.List) {
	deadline := e.Now().Add(readTime)
	for {
		s, err := e.copyOnce(ctx, home, info)
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
		select {
		case <-ctx.Done():
			return nil, diag.Errors("Failed to read the state store", context.Cause(ctx).Error()+".", nil)
		case <-time.After(readPause):
		}
	}
}

// copyOnce makes a copy of a store that nobody writes to, or has the process that does make one.
func (e *Estate) copyOnce(ctx context.Context, home layout.Home, info journal.LockInfo) (*openedStore, error) {
	path := home.Store()
	former, isFormer := e.Directory().Former()
	if isFormer {
		path = former
	}
	dir, err := os.MkdirTemp(e.Temp, "millipede-")
	if err != nil {
		return nil, err
	}
	s := &openedStore{home: home, temporary: dir}
	copied := filepath.Join(dir, filepath.Base(home.Store()))
	err = e.Stores.Copy(path, copied)
	var held *journal.Held
	switch {
	case errors.Is(err, fs.ErrNotExist) && isFormer: // it was divided meanwhile
		return nil, errors.Join(layout.ErrNobody, err, os.RemoveAll(dir))
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		err = nil // what bolt opens below is empty
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
	o := e.storeOptions()
	o.Volatile = true // it goes when the command ends
	if s.Store, err = e.Stores.Open(copied, info, time.Second, o); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.temporary))
	}
	if runtime.GOOS != "windows" { // where an open file cannot be removed
		if err := os.RemoveAll(s.temporary); err != nil { // so that nothing is left of it when the command is killed
			return nil, errors.Join(err, s.Store.Close())
		}
	}
	return s, nil
}

// ownHome is the home of a store that this process has to itself; nil for a copy.
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

// closing says that something could not be closed.
func closing(err error) diag.List {
	if err == nil {
		return nil
	}
	return diag.List{diag.New(diag.Warning, "Failed to close down cleanly", err.Error()+".", nil)}
}
