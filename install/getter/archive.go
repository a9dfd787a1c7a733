package getter

import (
	"archive/tar"
	"archive/zip"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ulikunitz/xz"

	"github.com/millipede-iac/millipede/internal/unpacking"
)

// tarReaders decompress archives, by file extension. An entry without a reader is not a tar archive.
var tarReaders = map[string]func(io.Reader) (io.Reader, error){
	"tar.gz": gunzip, "tgz": gunzip,
	"tar.bz2": bunzip, "tar.tbz2": bunzip,
	"tar.xz": unxz, "txz": unxz,
	"zip": nil,
}

func gunzip(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
func bunzip(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }
func unxz(r io.Reader) (io.Reader, error)   { return xz.NewReader(r) }

// archiveKind returns the kind of archive to which a URL refers, by its query or its path, and the rest of the
// query. It is empty if the URL does not refer to an archive.
func archiveKind(u *url.URL) (q url.Values, kind string) {
	q = query(u)
	if kind = q.Get("archive"); kind != "" {
		q.Del("archive")
		if is, err := strconv.ParseBool(kind); err == nil && !is {
			return q, ""
		}
		if _, known := tarReaders[kind]; known {
			return q, kind
		}
		return q, ""
	}
	for end := range tarReaders {
		if strings.HasSuffix(u.Path, "."+end) && len(end) > len(kind) {
			kind = end
		}
	}
	return q, kind
}

// Sniff returns the kind of an archive by its content.
func Sniff(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it is only read
	start := make([]byte, 6)
	if _, err := io.ReadFull(f, start); err != nil {
		return "", errors.New("it is too short for an archive")
	}
	for magic, kind := range map[string]string{"PK": "zip", "\x1f\x8b": "tar.gz", "BZ": "tar.bz2",
		"\xfd7zXZ\x00": "tar.xz"} {
		if strings.HasPrefix(string(start), magic) {
			return kind, nil
		}
	}
	return "", errors.New("it is neither a zip archive nor a tar archive that gzip, bzip2 or xz compressed")
}

// Unpack unpacks an archive, whose kind it determines from the content, into a directory that does not exist yet.
func Unpack(name, into string) error {
	kind, err := Sniff(name)
	if err != nil {
		return err
	}
	return unpack(name, kind, into)
}

// unpack unpacks an archive of a kind.
func unpack(name, kind, into string) error {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(into) // nothing is written outside of it, regardless of the archive's content
	if err != nil {
		return err
	}
	defer root.Close()
	w := &writer{root: root, left: bounds.Budget()}
	if err := w.unpack(name, kind); err != nil {
		return err
	}
	return w.checkLinks()
}

// bounds limits what the archive of a module may unpack to; tests use smaller limits.
var bounds = unpacking.Module

func (w *writer) unpack(name, kind string) error {
	if kind == "zip" {
		return w.unzip(name)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	r, err := tarReaders[kind](f)
	if err != nil {
		return fmt.Errorf("the archive cannot be read: %w", err)
	}
	return w.untar(tar.NewReader(r))
}

// writer writes the entries of an archive.
type writer struct {
	root  *os.Root
	left  *unpacking.Budget
	links []string // as they were written
}

// checkLinks fails if a link leads out of the archive. It is called after all entries are written, because other
// links can change the meaning of a link's target.
func (w *writer) checkLinks() error {
	for _, link := range w.links {
		if _, err := w.root.Stat(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the archive has a link %q, which leads out of it: %w", filepath.ToSlash(link), err)
		}
	}
	return nil
}

func (w *writer) unzip(name string) error {
	z, err := zip.OpenReader(name)
	if err != nil {
		return fmt.Errorf("the archive cannot be read: %w", err)
	}
	defer z.Close()
	for _, f := range z.File {
		content, err := f.Open()
		if err != nil {
			return err
		}
		target := ""
		if f.Mode()&fs.ModeSymlink != 0 {
			text, err := io.ReadAll(io.LimitReader(content, maxTarget))
			if err != nil {
				return errors.Join(err, content.Close())
			}
			target = string(text)
		}
		err = w.entry(f.Name, f.Mode(), target, content)
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	return nil
}

// maxTarget bounds the length of a link's target.
const maxTarget = 4096

func (w *writer) untar(r *tar.Reader) error {
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the archive cannot be read: %w", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader || h.Typeflag == tar.TypeXHeader {
			continue
		}
		if err := w.entry(h.Name, h.FileInfo().Mode(), h.Linkname, r); err != nil {
			return err
		}
	}
}

// entry writes one entry: a directory, a file, or a link within the archive. Other entries are skipped.
func (w *writer) entry(name string, mode fs.FileMode, target string, content io.Reader) error {
	if err := w.left.Entry(); err != nil {
		return err
	}
	name = strings.TrimSuffix(path.Clean("./"+name), "/")
	if name == "." {
		return nil
	}
	local := filepath.FromSlash(name)
	if !filepath.IsLocal(local) {
		return fmt.Errorf("the archive has an entry %q, which leads out of it", name)
	}
	if mode.IsDir() {
		return w.root.MkdirAll(local, 0o755)
	}
	if err := w.root.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		return err
	}
	switch {
	case mode&fs.ModeSymlink != 0:
		if path.IsAbs(target) || !filepath.IsLocal(filepath.FromSlash(path.Join(path.Dir(name), target))) {
			return fmt.Errorf("the archive has a link %q, which leads out of it", name)
		}
		w.links = append(w.links, local)
		return w.root.Symlink(target, local)
	case !mode.IsRegular():
		return nil
	}
	f, err := w.root.OpenFile(local, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode.Perm()|0o600)
	if err != nil {
		return err
	}
	return errors.Join(w.left.Copy(f, content), f.Close())
}
