package store

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/seal"
)

// The names of entries in a backup.
const (
	backupHead = "backup.json"
	backupEnd  = "end.json" // without this entry, the backup is truncated
	Database   = "service.db"
)

// BackupFormat is the version of the backup format.
const BackupFormat = 1

// head is the first entry of a backup.
type head struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program
	At      time.Time `json:"at"`
}

// Homes gives access to the workspace directories that the engine keeps, and changes while runs are in
// progress.
type Homes interface {
	// Freeze calls cut, and then calls each for every file of every home, with its name relative to the
	// directory of the store and a file that has its content. The contents are those at the moment of the cut.
	// temp is a directory for copies.
	Freeze(ctx context.Context, temp string, cut func() error, each func(name, file string) error) error
	// Remove removes the home of a workspace that has no record any more, and reports whether it is gone: not while
	// somebody uses it, nor during a backup.
	Remove(workspace string) (gone bool, err error)
}

// RemovedHome is the prefix of the name of a home that is being removed.
const RemovedHome = ".removed-"

// Backup writes a consistent backup to out while the store is in use: the records as of one moment, every file
// that they refer to, and the homes as of that moment. It contains all changes that were confirmed before the
// call. Files that are removed meanwhile stay on the disk until the backup has ended.
func (s *Store) Backup(ctx context.Context, out io.Writer, version string, at time.Time, homes Homes) (err error) {
	s.pin()
	defer func() { err = errors.Join(err, s.unpin()) }()
	if err := s.complete(); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(s.dir, ".backup-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	b := &backup{ctx: ctx, tar: tar.NewWriter(out), dir: s.dir}
	if err := b.document(backupHead, head{Format: BackupFormat, Version: version, At: at}); err != nil {
		return err
	}
	var records *recorded.Tx
	defer func() {
		if records != nil {
			err = errors.Join(err, records.Rollback())
		}
	}()
	cut := func() (err error) {
		// As after a crash, a log may have less than the records say, but never more.
		if b.logs, err = sizes(filepath.Join(s.dir, "logs")); err == nil {
			records, err = recorded.Begin(s.db)
		}
		return err
	}
	if err := homes.Freeze(ctx, temp, cut, b.file); err != nil {
		return fmt.Errorf("backing up the states of workspaces: %w", err)
	}
	if err := b.header(Database, records.Size()); err != nil {
		return err
	}
	if _, err := records.WriteTo(b.tar); err != nil {
		return err
	}
	for _, dir := range []string{"configurations", "states", "plans", "timelines", "logs", "coordinator", "tls"} {
		if err := b.tree(dir); err != nil {
			return err
		}
	}
	if err := b.document(backupEnd, struct{}{}); err != nil {
		return err
	}
	return b.tar.Close()
}

// backup is a backup in progress.
type backup struct {
	ctx context.Context //nolint:containedctx // of the one call that makes it
	tar *tar.Writer
	dir string
	// logs are the lengths of the logs at the moment of the backup.
	logs map[string]int64
}

// sizes returns the lengths of the files in a directory.
func sizes(dir string) (map[string]int64, error) {
	out := map[string]int64{}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // otherwise it was removed
			out[e.Name()] = info.Size()
		}
	}
	return out, err
}

func (b *backup) header(name string, size int64) error {
	if err := b.ctx.Err(); err != nil {
		return context.Cause(b.ctx)
	}
	return b.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, Typeflag: tar.TypeReg})
}

func (b *backup) document(name string, v any) error {
	data, err := json.Marshal(v)
	if err == nil {
		err = b.header(name, int64(len(data)))
	}
	if err == nil {
		_, err = b.tar.Write(data)
	}
	return err
}

// file adds a complete file.
func (b *backup) file(name, path string) error { return b.beginning(name, path, -1) }

// beginning adds a file, or its first most bytes; -1 for all.
func (b *backup) beginning(name, path string, most int64) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if most >= 0 {
		size = min(size, most)
	}
	if err := b.header(name, size); err != nil {
		return err
	}
	_, err = io.CopyN(b.tar, f, size)
	return err
}

// tree adds a file, or the files of a directory that are complete.
func (b *backup) tree(name string) error {
	return filepath.WalkDir(filepath.Join(b.dir, name), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && (d.IsDir() || strings.HasPrefix(d.Name(), ".")) {
			return nil
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(b.dir, path)
		if err != nil {
			return err
		}
		most := int64(-1)
		if name == "logs" {
			var known bool
			if most, known = b.logs[d.Name()]; !known {
				return nil // it was created after the moment of the backup
			}
		}
		err = b.beginning(filepath.ToSlash(relative), path, most)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was being written when the directory was read
		}
		return err
	})
}

// pin defers the removal of files until unpin.
func (s *Store) pin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins++
}

// unpin removes the files whose removal was deferred.
func (s *Store) unpin() error {
	s.mu.Lock()
	var doomed []string
	if s.pins--; s.pins == 0 {
		doomed, s.doomed = s.doomed, nil
	}
	s.mu.Unlock()
	var errs []error
	for _, name := range doomed {
		errs = append(errs, s.Remove(name)) // another backup may have begun
	}
	return errors.Join(errs...)
}

// complete fetches the files that only the depot has.
func (s *Store) complete() error {
	if s.depot == nil {
		return nil
	}
	names, err := s.depot.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := s.openFile(name)
		if errors.Is(err, ErrNotFound) {
			continue // it was removed meanwhile
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return fmt.Errorf("fetching the file %s: %w", name, err)
		}
	}
	return nil
}

// ErrCutOff means that a backup is truncated.
var ErrCutOff = errors.New("the backup is truncated: its end is missing")

// Restore unpacks a backup into a directory, which must be empty or missing. The error is ErrKey if the backup
// was encrypted with another key, and ErrCutOff if it is truncated; the directory is removed then.
func Restore(in io.Reader, dir string, key *seal.Key) (err error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("the directory %s is not empty", dir)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), ".restored-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(fresh))
		}
	}()
	at, err := unpackBackup(tar.NewReader(in), fresh)
	if err != nil {
		return err
	}
	s, err := Open(fresh, key)
	if err != nil {
		return err
	}
	err = s.Update(func(tx *Tx) error {
		return tx.tx.Bucket(metaBucket).Put(restoredKey, []byte(at.Format(time.RFC3339)))
	})
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return err
	}
	return wholefile.SyncDir(filepath.Dir(dir))
}

// unpackBackup unpacks the files of a backup, and returns the moment at which it was made.
func unpackBackup(t *tar.Reader, dir string) (at time.Time, err error) {
	for first := true; ; first = false {
		h, err := t.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return at, ErrCutOff
		}
		if err != nil {
			return at, err
		}
		switch {
		case first:
			var about head
			if h.Name != backupHead || json.NewDecoder(io.LimitReader(t, 1<<16)).Decode(&about) != nil {
				return at, errors.New("this is not a backup of the service")
			}
			if about.Format > BackupFormat {
				return at, fmt.Errorf("%w: the backup has format %d, and this version reads %d", ErrNewer, about.Format,
					BackupFormat)
			}
			at = about.At
			continue
		case h.Name == backupEnd:
			return at, nil
		case h.Typeflag != tar.TypeReg || !filepath.IsLocal(filepath.FromSlash(h.Name)):
			return at, fmt.Errorf("the backup has an entry %q, which is outside of the directory", h.Name)
		}
		if err := unpackFile(t, filepath.Join(dir, filepath.FromSlash(h.Name))); err != nil {
			return at, err
		}
	}
}

// Restored returns the moment of the backup from which the records were restored; zero if they were not
// restored, or after SettledRestore.
func (t *Tx) Restored() (at time.Time, err error) {
	text := t.tx.Bucket(metaBucket).Get(restoredKey)
	if text == nil {
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339, string(text)); err != nil {
		return at, fmt.Errorf("reading the time of the backup from which the records were restored: %w", err)
	}
	return at, nil
}

// MarkRestored makes Restored return a moment, for records that are older than what was done since.
func (t *Tx) MarkRestored(at time.Time) error {
	return t.tx.Bucket(metaBucket).Put(restoredKey, []byte(at.UTC().Format(time.RFC3339)))
}

// SettledRestore makes Restored return zero from now on.
func (t *Tx) SettledRestore() error { return t.tx.Bucket(metaBucket).Delete(restoredKey) }

func unpackFile(in io.Reader, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = ErrCutOff
	}
	return errors.Join(err, f.Sync(), f.Close())
}
