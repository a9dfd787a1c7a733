package getter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// bucket is a bucket of S3 or of Google Cloud Storage.
type bucket interface {
	// list returns the names of the objects with a prefix. more continues a truncated list; "" starts it.
	list(ctx context.Context, prefix, more string) (names []string, next string, err error)
	// read returns the content of an object, of at most limit bytes. version selects a version of the object; empty
	// is the current one.
	read(ctx context.Context, name, version string, limit int64) ([]byte, error)
}

// maxObject bounds the size of an object, in bytes: it is held in memory.
const maxObject = 256 << 20

// getObjects gets an archive, recognized by its file extension, or all objects below a name as a directory. temp is
// the directory for temporary files.
func getObjects(ctx context.Context, b bucket, u *url.URL, name, version, into, temp string) error {
	q, kind := archiveKind(u)
	if kind != "" {
		data, err := b.read(ctx, name, version, maxObject)
		if err != nil {
			return fmt.Errorf("reading the object %q: %w", name, err)
		}
		f, err := os.CreateTemp(temp, "module-*")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		_, err = f.Write(data)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		if err := checkSum(f.Name(), q.Get("checksum")); err != nil {
			return err
		}
		return unpack(f.Name(), kind, into)
	}
	if version != "" {
		return errors.New("a version can be named of an archive alone, not of a directory of objects")
	}
	return copyObjects(ctx, b, name, into)
}

// copyObjects copies the objects below a directory name: for dir, not those of dir2.
func copyObjects(ctx context.Context, b bucket, name, into string) error {
	prefix := name
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(into) // nothing is written outside of it, regardless of the names
	if err != nil {
		return err
	}
	defer root.Close()
	w := &writer{root: root, left: bounds.Budget()}
	copied, more := 0, ""
	for {
		names, next, err := b.list(ctx, prefix, more)
		if err != nil {
			return fmt.Errorf("listing the objects below %q: %w", prefix, err)
		}
		for _, object := range names {
			rest, ok := strings.CutPrefix(object, prefix)
			if !ok || strings.HasSuffix(object, "/") || rest == "" {
				continue // the marker of a folder
			}
			data, err := b.read(ctx, object, "", maxObject)
			if err != nil {
				return fmt.Errorf("reading the object %q: %w", object, err)
			}
			if err := w.entry(rest, 0o644, "", bytes.NewReader(data)); err != nil {
				return err
			}
			copied++
		}
		if next == "" || next == more {
			break
		}
		more = next
	}
	if copied > 0 {
		return nil
	}
	names, _, err := b.list(ctx, name, "")
	if err == nil && len(names) > 0 && names[0] == name {
		return fmt.Errorf("by its name the object %q is not an archive, and there are no objects below it", name)
	}
	return fmt.Errorf("no objects lie below %q", prefix)
}
