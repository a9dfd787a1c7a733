package backend

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/failpoint"
	"github.com/millipede-iac/millipede/internal/reach"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// LocalOptions are the files of a Local. Empty fields mean the default.
type LocalOptions struct {
	// Dir is the directory to which relative paths refer.
	Dir string
	// Files are the files that may be read; nil is all of them. With Files, the backend can only Read.
	Files *reach.Files
	// Path is the snapshot of the default workspace; default terraform.tfstate.
	Path string
	// WorkspaceDir has a directory for each other workspace; default terraform.tfstate.d.
	WorkspaceDir string
	// StateIn, StateOut and Backup are the options -state, -state-out and -backup: they replace the files of the
	// workspace. The backup "-" means none; the default is the snapshot's path followed by .backup.
	StateIn, StateOut, Backup string
	// Now returns the current time; default time.Now.
	Now func() time.Time
}

// Local stores snapshots in files, like OpenTofu's local backend. Both can be used alternately: both lock the
// snapshot itself and write it in place, because a process that waits for the lock waits for the file that had the
// name when it began to wait. To be safe against a crash while writing, a copy of the new content is kept beside
// the file until it is complete.
type Local struct {
	o LocalOptions
	// encryptBackup returns the backup of a snapshot's former content; nil: the same content, which
	// is then copied as a stream.
	encryptBackup func(ctx context.Context, before []byte) ([]byte, error)

	mu       sync.Mutex           // guards the fields below
	held     map[string]*heldFile // by workspace
	backedUp map[string]bool      // by workspace: a backup was made, or need not be
}

// heldFile is a locked snapshot. All access uses this handle, because on some systems closing another handle of the
// file releases the lock.
type heldFile struct {
	id      string
	f       *os.File
	created bool // the file was created for the lock
}

// DefaultPath is the snapshot of the default workspace if no other path is configured.
const DefaultPath = "terraform.tfstate"

// NewLocal returns a backend for files.
func NewLocal(o LocalOptions) *Local {
	if o.Path == "" {
		o.Path = DefaultPath
	}
	if o.WorkspaceDir == "" {
		o.WorkspaceDir = "terraform.tfstate.d"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Local{o: o, held: map[string]*heldFile{}, backedUp: map[string]bool{}}
}

func openLocal(_ context.Context, p Place, args Arguments) (Backend, diag.List) {
	var diags diag.List
	for name, what := range map[string]string{"path": "state file", "workspace_dir": "workspace directory"} {
		if args.Set(name) && args.String(name) == "" {
			diags = diags.Append(args.Problem(name, "Invalid local "+what+" path", fmt.Sprintf("The %q attribute "+
				"value must not be empty.", name)))
		}
	}
	if diags.HasErrors() {
		return nil, diags
	}
	return NewLocal(LocalOptions{
		Dir: p.Dir, Files: p.Files, Path: args.String("path"), WorkspaceDir: args.String("workspace_dir"), Now: p.Now,
	}), nil
}

// localAddress returns the path of the state file. It is relative if the file is below the directory, so that it stays
// the same if the directory is moved.
func localAddress(p Place, args Arguments, workspace string) string {
	l := NewLocal(LocalOptions{Dir: p.Dir, Path: args.String("path"), WorkspaceDir: args.String("workspace_dir")})
	path, _, _ := l.paths(workspace)
	path = l.in(path)
	if rel, err := filepath.Rel(p.Dir, path); err == nil && filepath.IsLocal(rel) {
		path = rel
	}
	return filepath.ToSlash(path)
}

// within returns a path relative to a directory, unless it is absolute.
func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// in returns a path relative to l's directory.
func (l *Local) in(path string) string { return within(l.o.Dir, path) }

// paths returns the file to read, the file to lock and write, and the backup ("" for none), as users write them.
func (l *Local) paths(workspace string) (in, out, backup string) {
	in = l.o.StateIn
	if in == "" {
		in = l.o.Path
		if workspace != journal.DefaultWorkspace {
			in = filepath.Join(l.o.WorkspaceDir, workspace, "terraform.tfstate")
		}
	}
	if out = l.o.StateOut; out == "" {
		out = in
	}
	switch backup = l.o.Backup; backup {
	case "":
		backup = out + ".backup"
	case "-":
		backup = ""
	}
	return in, out, backup
}

// beside returns the path of a file that belongs to a snapshot: .NAME.SUFFIX in its directory.
func beside(path, suffix string) string {
	dir, name := filepath.Split(path)
	return filepath.Join(dir, "."+strings.TrimPrefix(name, ".")+suffix)
}

const (
	lockSuffix = ".lock.info" // the name is OpenTofu's
	redoSuffix = ".new"
)

// Describe describes the place of the snapshot.
func (l *Local) Describe(workspace string) Description {
	in, out, _ := l.paths(workspace)
	return Description{Where: out, Form: tfstate.Indented, Stale: in != out}
}

// Read implements Backend.
func (l *Local) Read(_ context.Context, workspace string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in, out, _ := l.paths(workspace)
	var data []byte
	var err error
	if h := l.held[workspace]; h != nil && in == out {
		data, err = readAll(h.f)
	} else if data, err = l.o.Files.ReadFile(l.in(in), bounds.State); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if redo, err := l.unfinished(l.in(in), data); redo != nil || err != nil {
		return redo, err
	}
	if h := l.held[workspace]; len(data) == 0 && h != nil && in == out && h.created {
		return nil, nil
	}
	return data, nil
}

// unfinished returns the content that a killed process was writing into a file that contains data now; nil if the
// file is complete.
func (l *Local) unfinished(path string, data []byte) ([]byte, error) {
	redo, err := l.o.Files.ReadFile(beside(path, redoSuffix), bounds.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || json.Valid(data) { // then the write had not begun, or was complete
		return nil, err
	}
	return redo, nil
}

// Digest implements Streaming.
func (l *Local) Digest(_ context.Context, workspace string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in, out, _ := l.paths(workspace)
	if _, err := os.Stat(beside(l.in(in), redoSuffix)); err == nil {
		return "", nil // a process was killed while writing
	}
	var f *os.File
	if h := l.held[workspace]; h != nil && in == out {
		f = h.f
	} else {
		opened, err := os.Open(l.in(in))
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		defer opened.Close() //nolint:errcheck // it was read only
		f = opened
	}
	return digestOf(f)
}

// digestOf returns the SHA-256 of a file's content; empty if there is no file.
func digestOf(f *os.File) (string, error) {
	sum := sha256.New()
	n, err := io.Copy(sum, contentOf(f))
	if n == 0 || err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// contentOf returns a reader of a file from its beginning, independent of its offset.
func contentOf(f *os.File) io.Reader { return io.NewSectionReader(f, 0, math.MaxInt64) }

// Write implements Backend.
func (l *Local) Write(ctx context.Context, workspace string, data []byte) error {
	return l.WriteFrom(ctx, workspace, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteFrom replaces the snapshot. The first time it also makes the backup.
func (l *Local) WriteFrom(ctx context.Context, workspace string, write func(io.Writer) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, out, backup := l.paths(workspace)
	path := l.in(out)
	var f *os.File
	if h := l.held[workspace]; h != nil {
		f = h.f
	} else {
		opened, _, err := openShared(path)
		if err != nil {
			return err
		}
		defer opened.Close() //nolint:errcheck // it is synced
		f = opened
	}
	redo := beside(path, redoSuffix)
	if err := wholefile.Durable(redo, wholefile.Private, write); err != nil {
		return err
	}
	same, err := sameContent(f, redo)
	if err != nil {
		return err
	}
	if same {
		return os.Remove(redo)
	}
	if !l.backedUp[workspace] {
		if backup != "" {
			if err := l.backUp(ctx, f, l.in(backup)); err != nil {
				return errors.Join(fmt.Errorf("writing the backup: %w", err), os.Remove(redo))
			}
		}
		l.backedUp[workspace] = true
	}
	return overwrite(f, redo)
}

// backUp copies the content of a snapshot, if any, to another file.
func (l *Local) backUp(ctx context.Context, f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	content := contentOf(f)
	if l.encryptBackup != nil {
		before, err := io.ReadAll(content)
		if err == nil {
			before, err = l.encryptBackup(ctx, before)
		}
		if err != nil {
			return fmt.Errorf("encrypting it: %w", err)
		}
		content = bytes.NewReader(before)
	}
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, content)
	return errors.Join(err, to.Close())
}

// sameContent reports whether an open file has the content of another one.
func sameContent(f *os.File, path string) (bool, error) {
	other, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer other.Close() //nolint:errcheck // it was read only
	a, err := digestOf(f)
	if err != nil {
		return false, err
	}
	b, err := digestOf(other)
	return a == b, err
}

// overwrite replaces the content of a file by that of the file redo, in place, and removes redo. After a crash at
// any moment the file has the old content, the new one, or invalid JSON with redo still present.
func overwrite(f *os.File, redo string) error {
	from, err := os.Open(redo)
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.SnapshotCopied)
	err = f.Truncate(0) // so that a part of the new content is never completed by the old one
	if err == nil {
		failpoint.Hit(failpoint.SnapshotCut)
		_, err = io.Copy(io.NewOffsetWriter(f, 0), from)
	}
	if err = errors.Join(err, from.Close()); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.SnapshotWritten)
	return os.Remove(redo)
}

// WriteWhole creates a file with mode 0600 atomically; it is durable when WriteWhole returns.
func WriteWhole(path string, data []byte) error {
	return wholefile.Durable(path, wholefile.Private, wholefile.Bytes(data))
}

// openShared opens a snapshot, or creates an empty one, with OpenTofu's modes.
func openShared(path string) (f *os.File, created bool, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		created = true
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, false, err
	}
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	return f, created, err
}

func readAll(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

// Lock locks the snapshot's file, and completes an interrupted write.
func (l *Local) Lock(_ context.Context, workspace string, info journal.LockInfo) (Lock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, out, _ := l.paths(workspace)
	path := l.in(out)
	if l.held[workspace] != nil {
		return Lock{}, &journal.Held{Holder: readLockInfo(path)}
	}
	f, created, err := openShared(path)
	if err != nil {
		return Lock{}, err
	}
	switch locked, err := tryLock(f); {
	case err != nil:
		return Lock{}, errors.Join(fmt.Errorf("locking %s: %w", out, err), f.Close())
	case !locked:
		holder := readLockInfo(path)
		return Lock{}, errors.Join(&journal.Held{Holder: holder}, f.Close())
	}
	info.Path, info.Created = out, l.o.Now().UTC()
	if err := l.begin(path, f, info); err != nil {
		return Lock{}, errors.Join(err, unlock(f), f.Close())
	}
	l.held[workspace] = &heldFile{info.ID, f, created}
	return Lock{ID: info.ID}, nil
}

// begin does the first steps under a lock.
func (l *Local) begin(path string, f *os.File, info journal.LockInfo) error {
	if err := os.WriteFile(beside(path, lockSuffix), EncodeLock(info), 0o600); err != nil {
		return fmt.Errorf("recording the holder of the lock: %w", err)
	}
	if _, err := os.Lstat(beside(path, redoSuffix)); errors.Is(err, fs.ErrNotExist) {
		return nil // no write was cut off, and a large file is not read for nothing
	}
	now, err := readAll(f)
	if err != nil {
		return err
	}
	redo, err := l.unfinished(path, now)
	if err != nil {
		return err
	}
	if redo != nil {
		return overwrite(f, beside(path, redoSuffix))
	}
	if err := os.Remove(beside(path, redoSuffix)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readLockInfo returns the holder of the lock of a snapshot, as far as known.
func readLockInfo(path string) journal.LockInfo {
	data, err := bounds.ReadFile(beside(path, lockSuffix), bounds.Text)
	if err != nil {
		return journal.LockInfo{Who: "another process", Path: path}
	}
	info, err := DecodeLock(data)
	if err != nil {
		return journal.LockInfo{Who: "another process", Path: path}
	}
	return info
}

// Unlock releases the lock of this process. A lock of another process ends with that process, and cannot be broken.
func (l *Local) Unlock(_ context.Context, workspace, lockID string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[workspace]
	if h == nil || h.id != lockID {
		return fmt.Errorf("%w: %s; a lock of the local backend is held by a process and ends with it",
			ErrNotLocked, lockID)
	}
	delete(l.held, workspace)
	_, out, _ := l.paths(workspace)
	path := l.in(out)
	err := os.Remove(beside(path, lockSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	info, statErr := h.f.Stat()
	if statErr == nil && h.created && info.Size() == 0 {
		err = errors.Join(err, os.Remove(path))
	}
	return errors.Join(err, statErr, unlock(h.f), h.f.Close())
}

// Workspaces lists the workspaces, which are those with a directory.
func (l *Local) Workspaces(context.Context) ([]string, error) {
	entries, err := os.ReadDir(l.in(l.o.WorkspaceDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return defaultFirst(names), nil
}

// Create creates the directory of a workspace.
func (l *Local) Create(_ context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace {
		return nil
	}
	return os.MkdirAll(l.in(filepath.Join(l.o.WorkspaceDir, workspace)), 0o755)
}

// Delete removes the directory of a workspace.
func (l *Local) Delete(_ context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace || workspace == "" {
		return ErrDefault
	}
	return os.RemoveAll(l.in(filepath.Join(l.o.WorkspaceDir, workspace)))
}
