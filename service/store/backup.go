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

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/seal"
	"github.com/millipede-iac/millipede/wholefile"
)

// Names in a backup.
const (
	backupHead = "backup.json"
	backupEnd  = "end.json" // without it, the backup was cut off
	database   = "service.db"
)

// BackupFormat is the version of a backup's layout.
const BackupFormat = 1

// head is what a backup says of itself.
type head struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program
	At      time.Time `json:"at"`
}

// Homes are the files that the engine keeps of workspaces, and changes while runs go on.
type Homes interface {
	// Freeze calls cut, and then each with the name of every home's file below the directory of the store and a file
	// that has its content. The content is that of right before cut, or of cut; temp is a directory for copies.
	Freeze(ctx context.Context, temp string, cut func() error, each func(name, file string) error) error
}

// Backup writes everything that the directory has to know, while others read and change it: the records as they were at
// one moment, every file that they name, and the homes as they were at that moment. What was answered before Backup was
// called is in it. Files that are removed meanwhile stay until it has ended.
func (s *Store) Backup(ctx context.Context, out io.Writer, version string, at time.Time, homes Homes) (err error) {
	s.pin()
	defer func() { err = errors.Join(err, s.unpin()) }()
	temp, err := os.MkdirTemp(s.dir, ".backup-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	b := &backup{ctx: ctx, tar: tar.NewWriter(out), dir: s.dir}
	if err := b.document(backupHead, head{Format: BackupFormat, Version: version, At: at}); err != nil {
		return err
	}
	var records *bbolt.Tx
	defer func() {
		if records != nil {
			err = errors.Join(err, records.Rollback())
		}
	}()
	cut := func() (err error) {
		// A log may tell less than the records, as after a crash, and never more.
		if b.logs, err = sizes(filepath.Join(s.dir, "logs")); err == nil {
			records, err = s.db.Begin(false)
		}
		return err
	}
	if err := homes.Freeze(ctx, temp, cut, b.file); err != nil {
		return fmt.Errorf("backing up the states of workspaces: %w", err)
	}
	if err := b.header(database, records.Size()); err != nil {
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

// backup is a backup that is being written.
type backup struct {
	ctx context.Context //nolint:containedctx // of the one call that makes it
	tar *tar.Writer
	dir string
	// logs are how long the logs were at the moment of the backup.
	logs map[string]int64
}

// sizes returns how long the files of a directory are.
func sizes(dir string) (map[string]int64, error) {
	out := map[string]int64{}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it is gone
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

// file adds a file.
func (b *backup) file(name, path string) error { return b.beginning(name, path, -1) }

// beginning adds a file, of which there are at most so many bytes; -1 for all.
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

// tree adds a file, or the files of a directory that are whole.
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
				return nil // it was begun since
			}
		}
		err = b.beginning(filepath.ToSlash(relative), path, most)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was being written when the directory was read
		}
		return err
	})
}

// pin keeps files from being removed until unpin.
func (s *Store) pin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins++
}

// unpin removes what was to be removed meanwhile.
func (s *Store) unpin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins--; s.pins > 0 {
		return nil
	}
	var errs []error
	for _, name := range s.doomed {
		errs = append(errs, s.remove(name))
	}
	s.doomed = nil
	return errors.Join(errs...)
}

// ErrCutOff means that a backup does not have its end.
var ErrCutOff = errors.New("the backup is not whole: its end is missing")

// Restore makes a directory of a backup. Nothing may be there. The error is ErrKey when the key is another one, and
// ErrCutOff when the backup is not whole; the directory does not exist then.
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

// unpackBackup makes the files of a backup, and returns of which moment it is.
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
				return at, errors.New("this is no backup of the service")
			}
			if about.Format > BackupFormat {
				return at, fmt.Errorf("%w: the backup has format %d, and this version knows %d", ErrNewer, about.Format,
					BackupFormat)
			}
			at = about.At
			continue
		case h.Name == backupEnd:
			return at, nil
		case h.Typeflag != tar.TypeReg || !filepath.IsLocal(filepath.FromSlash(h.Name)):
			return at, fmt.Errorf("the backup has an entry %q, which leads out of it", h.Name)
		}
		if err := unpackFile(t, filepath.Join(dir, filepath.FromSlash(h.Name))); err != nil {
			return at, err
		}
	}
}

// Restored returns of which moment the backup was that the records were restored from; zero when they were not, or when
// SettledRestore has been called since.
func (tx *Tx) Restored() (at time.Time, err error) {
	text := tx.tx.Bucket(metaBucket).Get(restoredKey)
	if text == nil {
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339, string(text)); err != nil {
		return at, fmt.Errorf("reading when the backup was made that the records are of: %w", err)
	}
	return at, nil
}

// SettledRestore has Restored return zero from now on.
func (tx *Tx) SettledRestore() error { return tx.tx.Bucket(metaBucket).Delete(restoredKey) }

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
