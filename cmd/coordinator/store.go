package main

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
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
)

// access is what a command does with a store.
type access int

const (
	// reads looks at a copy of what was last committed, whoever has the store. What is written to the copy goes with it.
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
	*bolt.Store
	home layout.Home
	// server answers those who want to read meanwhile; nil for a copy, and where there can be no socket.
	server *layout.Server
	// temporary is the directory of a copy, which goes with it; empty for the store itself.
	temporary string
	// pulled tells of a copy that the process that has the store had taken over what others did to the snapshot.
	pulled bool
	// elsewhere tells of a copy that another process has the store open.
	elsewhere bool
}

// directory is what belongs to Millipede in this working directory.
func (a *app) directory() layout.Directory { return layout.At(a.getenv("TF_DATA_DIR")) }

// home is the home of the selected workspace, or of the state files that -state and -state-out name.
func (a *app) home(f stateFlags) layout.Home {
	if f.state+f.stateOut == "" {
		return a.directory().Workspace(a.workspace())
	}
	return a.directory().File(f.state, f.stateOut)
}

// openStore opens the store of a home. What encrypts the state is set up.
func (a *app) openStore(ctx context.Context, home layout.Home, info journal.LockInfo, as access, timeout time.Duration) (*openedStore, diag.List) {
	if as == reads {
		return a.openCopy(ctx, home, info)
	}
	var told bool
	for {
		turn := timeout
		if as == waits {
			turn = max(timeout, turnTime)
		}
		s, err := a.openOwn(home, info, turn)
		var held *journal.Held
		switch {
		case err == nil:
			return s, s.serve()
		case !errors.As(err, &held):
			return nil, diag.Errors("Failed to open the state store", err.Error()+".", nil)
		case as == writes:
			return nil, diag.List{lockDiag(held.Holder, "another process works on the state in this directory")}
		case !told:
			told = true
			a.tell(fmt.Sprintf("Another process works on this state (%s, process %d). Waiting until it has ended, because what two write at one time would be lost...\n", held.Holder.Who, held.Holder.PID))
		}
		select {
		case <-ctx.Done():
			return nil, diag.Errors("Operation interrupted", "The command was stopped while it waited for the process that works on the state.", nil)
		default:
		}
	}
}

func (a *app) storeOptions() bolt.Options {
	var o bolt.Options
	if t := a.sealing.State(); t != nil {
		o.Wrapper = t
	}
	return o
}

// openOwn opens the store itself, in a directory that is laid out as it is today.
func (a *app) openOwn(home layout.Home, info journal.LockInfo, timeout time.Duration) (*openedStore, error) {
	d := a.directory()
	if err := d.Make(); err != nil {
		return nil, err
	}
	if err := a.layOut(d, info, timeout); err != nil {
		return nil, err
	}
	store, err := bolt.OpenOptions(home.Store(), info, timeout, a.storeOptions())
	if err != nil {
		return nil, err
	}
	if err := home.Tidy(time.Now()); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &openedStore{Store: store, home: home}, nil
}

// layOut divides the one store of all workspaces that earlier versions had.
func (a *app) layOut(d layout.Directory, info journal.LockInfo, timeout time.Duration) error {
	path, is := d.Former()
	if !is {
		return nil
	}
	former, err := bolt.OpenOptions(path, info, max(timeout, formerTime), a.storeOptions())
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
func (s *openedStore) serve() diag.List {
	server, err := s.home.Serve(s.Store)
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
func (a *app) openCopy(ctx context.Context, home layout.Home, info journal.LockInfo) (*openedStore, diag.List) {
	deadline := time.Now().Add(readTime)
	for {
		s, err := a.copyOnce(ctx, home, info)
		var held *journal.Held
		switch {
		case err == nil:
			return s, nil
		case !errors.As(err, &held) && !errors.Is(err, layout.ErrNobody):
			return nil, diag.Errors("Failed to read the state store", err.Error()+".", nil)
		case time.Now().After(deadline) && held != nil:
			return nil, diag.List{lockDiag(held.Holder, "the process that works on the state does not answer those who want to read it")}
		case time.Now().After(deadline):
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
func (a *app) copyOnce(ctx context.Context, home layout.Home, info journal.LockInfo) (*openedStore, error) {
	path := home.Store()
	former, isFormer := a.directory().Former()
	if isFormer {
		path = former
	}
	dir, err := os.MkdirTemp("", "millipede-")
	if err != nil {
		return nil, err
	}
	s := &openedStore{home: home, temporary: dir}
	copied := filepath.Join(dir, filepath.Base(home.Store()))
	err = bolt.Copy(path, copied)
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
	o := a.storeOptions()
	o.NoSync = true // it goes when the command ends
	if s.Store, err = bolt.OpenOptions(copied, info, time.Second, o); err != nil {
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
	var diags diag.List
	if s.server != nil {
		diags = closing(s.server.Close())
	}
	diags = diags.Append(closing(s.Store.Close()))
	return diags.Append(removing(s.temporary))
}
