package packages

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/millipede-iac/millipede/internal/unpacking"
)

// unpack writes the files of a zip archive under dir. Names that lead out of it, and anything but files and
// directories, are rejected.
func unpack(archive []byte, dir string) error {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	left := unpacking.Provider.Budget()
	for _, f := range z.File {
		if err := left.Entry(); err != nil {
			return err
		}
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return fmt.Errorf("the archive holds a file outside its own directory: %q", f.Name)
		}
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		switch {
		case f.FileInfo().IsDir():
			err = os.MkdirAll(path, 0o755)
		case f.Mode().IsRegular():
			err = unpackFile(f, path, left)
		default:
			err = fmt.Errorf("the archive holds something that is neither file nor directory: %q", f.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func unpackFile(f *zip.File, path string, left *unpacking.Budget) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode(f))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return left.Copy(w, r)
}

// mode keeps the executable bit, and sets it for the plugin itself: an archive made on Windows does not have it.
func mode(f *zip.File) fs.FileMode {
	if f.Mode()&0o111 != 0 || strings.HasPrefix(filepath.Base(f.Name), "terraform-provider-") {
		return 0o755
	}
	return 0o644
}
