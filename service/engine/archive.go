package engine

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/millipede-iac/millipede/internal/unpacking"
)

// unpack writes the files of a configuration's archive, a gzipped tar, into an empty directory. It writes
// nothing outside of the directory, and leaves no link that points outside.
func unpack(archive io.Reader, dir string, bounds unpacking.Bounds) error {
	z, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(unpackInto(root, tar.NewReader(z), bounds.Budget()), root.Close(), linksStay(dir))
}

func unpackInto(root *os.Root, t *tar.Reader, budget *unpacking.Budget) error {
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := budget.Entry(); err != nil {
			return err
		}
		if err := unpackEntry(root, t, h, budget); err != nil {
			return fmt.Errorf("%q: %w", h.Name, err)
		}
	}
}

func unpackEntry(root *os.Root, t *tar.Reader, h *tar.Header, budget *unpacking.Budget) error {
	name := filepath.FromSlash(strings.TrimSuffix(h.Name, "/"))
	if filepath.Clean(name) == "." {
		return nil
	}
	if !filepath.IsLocal(name) {
		return errors.New("it leads out of the configuration")
	}
	if h.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, 0o700)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		mode := fs.FileMode(0o600)
		if h.FileInfo().Mode()&0o100 != 0 {
			mode = 0o700 // scripts of the configuration must be executable
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
		if err != nil {
			return err
		}
		return errors.Join(budget.Copy(f, t), f.Close())
	case tar.TypeSymlink:
		if filepath.IsAbs(h.Linkname) {
			return errors.New("it is a link that leads out of the configuration")
		}
		return root.Symlink(filepath.FromSlash(h.Linkname), name)
	case tar.TypeXGlobalHeader:
		return nil
	}
	return errors.New("it is neither a file, nor a directory, nor a link")
}

// linksStay checks that no link below a directory points outside, directly or indirectly.
func linksStay(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		to, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			return os.Remove(path) // it is dangling; a later file must not become its target
		}
		if err != nil {
			return err
		}
		if to != real && !strings.HasPrefix(to, real+string(filepath.Separator)) {
			return fmt.Errorf("the link %q leads out of the configuration",
				strings.TrimPrefix(path, dir+string(filepath.Separator)))
		}
		return nil
	})
}
