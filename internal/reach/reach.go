// Package reach opens the files that an operation may read: all of the machine's, or only those below some directories.
//
// A run in a service belongs to somebody who may not read the service's other files, so its configuration reaches
// itself and nothing else: neither the content of other files, nor whether they exist. Symbolic links that lead out are
// refused when they are followed, so replacing a file by a link in the meantime gains nothing (os.Root). The package
// confines no programs that the operation starts, and writes nothing.
package reach

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/millipede-iac/millipede/internal/bounds"
)

// ErrOutside tells that a file is not among those that the operation may read. It does not tell whether it exists.
var ErrOutside = errors.New("it is outside of the configuration, and a run in a service reads only the files of its " +
	"own configuration")

// Files are the files that may be read. Nil stands for all files. Names are absolute. A Files is immutable, and safe
// for concurrent use.
type Files struct {
	dirs  []string // absolute and clean
	named []string // single files, likewise
}

// Below returns the files below directories, given by their absolute paths.
func Below(dirs ...string) *Files {
	f := &Files{}
	for _, dir := range dirs {
		f.dirs = append(f.dirs, filepath.Clean(dir))
	}
	return f
}

// With returns the files of f, and some more, given by their absolute paths.
func (f *Files) With(names ...string) *Files {
	if f == nil {
		return nil
	}
	more := &Files{dirs: f.dirs, named: slices.Clone(f.named)}
	for _, name := range names {
		more.named = append(more.named, filepath.Clean(name))
	}
	return more
}

// Open opens a file or a directory for reading.
func (f *Files) Open(name string) (*os.File, error) {
	if f == nil || slices.Contains(f.named, filepath.Clean(name)) {
		return os.Open(name)
	}
	return in(f, name, func(root *os.Root, inside string) (*os.File, error) { return root.Open(inside) })
}

// Stat describes a file. It follows links.
func (f *Files) Stat(name string) (fs.FileInfo, error) {
	if f == nil || slices.Contains(f.named, filepath.Clean(name)) {
		return os.Stat(name)
	}
	return in(f, name, func(root *os.Root, inside string) (fs.FileInfo, error) { return root.Stat(inside) })
}

// ReadDir returns the entries of a directory, sorted by name.
func (f *Files) ReadDir(name string) (_ []fs.DirEntry, err error) {
	if f == nil {
		return os.ReadDir(name)
	}
	dir, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	entries, err := dir.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// ReadFile returns the content of a file, or a *bounds.TooLargeError.
func (f *Files) ReadFile(name string, limit int64) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it is only read
	return bounds.ReadOpen(file, name, limit)
}

// Dirs returns the directories whose files may be read. f must not be nil.
func (f *Files) Dirs() []string { return slices.Clone(f.dirs) }

// in calls do with the directory that contains a path, and with the path in that directory.
func in[T any](f *Files, name string, do func(root *os.Root, inside string) (T, error)) (out T, err error) {
	name = filepath.Clean(name)
	for _, dir := range f.dirs {
		inside, err := filepath.Rel(dir, name)
		if err != nil || !filepath.IsLocal(inside) {
			continue
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return out, err
		}
		out, err = do(root, inside)
		return out, errors.Join(named(err, name), root.Close())
	}
	return out, &fs.PathError{Op: "open", Path: name, Err: ErrOutside}
}

// named returns an error of os.Root with the absolute name of the file; ErrOutside for links that lead out.
func named(err error, name string) error {
	var at *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, escape()):
		return &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("a link leads to it: %w", ErrOutside)}
	case errors.As(err, &at):
		return &fs.PathError{Op: at.Op, Path: name, Err: at.Err}
	}
	return err
}

// escape returns the error of os.Root for paths that lead out, which package os does not export.
var escape = sync.OnceValue(func() error {
	root, err := os.OpenRoot(string(filepath.Separator))
	if err != nil {
		return errNone
	}
	defer root.Close()
	_, err = root.Open("..")
	var at *fs.PathError
	if !errors.As(err, &at) {
		return errNone
	}
	return at.Err
})

// errNone is no error that a call returns.
var errNone = errors.New("unknown")
