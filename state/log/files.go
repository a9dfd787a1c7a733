package log

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/wholefile"
)

// fileParts is the kind of the parts of files. The name of a part is file/NAME/revision/count/number/hash: a file is
// the highest revision that has all of its parts.
const fileParts = "file"

// Files keeps whole files beside the log, so that those on the disk of a member are a cache. It does not seal them:
// their writers have. Only one member at a time may change a file. Safe for concurrent use for different files.
type Files struct {
	Transport Transport
	// Now returns the time.
	Now func() time.Time
}

// revision is a version of a file, with the names of its parts.
type revision struct {
	number, count uint64
	parts         map[uint64]string
}

func (r revision) whole() bool { return uint64(len(r.parts)) == r.count }

// revisions returns the versions of a file, and the names of all its parts.
func (f *Files) revisions(ctx context.Context, name string) (map[uint64]revision, []string, error) {
	prefix := fileParts + "/" + name + "/"
	names, err := f.Transport.List(ctx, prefix)
	if err != nil {
		return nil, nil, err
	}
	all, own := map[uint64]revision{}, names[:0]
	for _, part := range names {
		var n [3]uint64
		pieces := strings.Split(strings.TrimPrefix(part, prefix), "/")
		if len(pieces) != len(n)+1 {
			continue // of another file, whose name begins with this one
		}
		for i := range n {
			if n[i], err = strconv.ParseUint(pieces[i], 10, 64); err != nil {
				return nil, nil, fmt.Errorf("the log has a part %s of no file", part)
			}
		}
		r, known := all[n[0]]
		if !known {
			r = revision{number: n[0], count: n[1], parts: map[uint64]string{}}
		}
		r.parts[n[2]] = part
		all[n[0]] = r
		own = append(own, part)
	}
	return all, own, nil
}

// Keep stores the file at a path under a name, whose pieces are separated by "/", in place of an earlier one. It is
// durable when Keep returns; after an error or a crash, the earlier one stays.
func (f *Files) Keep(ctx context.Context, name, path string) (err error) {
	before, old, err := f.revisions(ctx, name)
	if err != nil {
		return fmt.Errorf("keeping the file %s: %w", name, err)
	}
	number := uint64(max(f.Now().UnixNano(), 1)) //nolint:gosec // positive
	for n := range before {
		number = max(number, n+1)
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	count := max((info.Size()+MaxPart-1)/MaxPart, 1)
	buffer := make([]byte, min(MaxPart, max(info.Size(), 1)))
	for i := range count {
		n, err := io.ReadFull(in, buffer)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		hash := sha256.Sum256(buffer[:n])
		part := fmt.Sprintf("%s/%s/%d/%d/%d/%s", fileParts, name, number, count, i, hex.EncodeToString(hash[:]))
		if err := f.Transport.Put(ctx, part, buffer[:n]); err != nil {
			return fmt.Errorf("keeping the file %s: %w", name, err)
		}
	}
	return f.remove(ctx, old)
}

func (f *Files) remove(ctx context.Context, parts []string) error {
	for _, part := range parts {
		if err := f.Transport.Remove(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// Fetch writes a file to a path. The error wraps fs.ErrNotExist if there is none.
func (f *Files) Fetch(ctx context.Context, name, path string) error {
	all, _, err := f.revisions(ctx, name)
	if err != nil {
		return fmt.Errorf("fetching the file %s: %w", name, err)
	}
	var last revision
	for _, r := range all {
		if r.whole() && r.number > last.number {
			last = r
		}
	}
	if last.number == 0 {
		return fmt.Errorf("the file %s: %w", name, fs.ErrNotExist)
	}
	return wholefile.Write(path, wholefile.Private, func(out io.Writer) error {
		for i := range last.count {
			name := last.parts[i]
			part, err := f.Transport.Get(ctx, name)
			if err != nil {
				return err
			}
			hash := sha256.Sum256(part)
			if !strings.HasSuffix(name, "/"+hex.EncodeToString(hash[:])) {
				return fmt.Errorf("%w: the part %s was modified", ErrEntry, name)
			}
			if _, err := out.Write(part); err != nil {
				return err
			}
		}
		return nil
	})
}

// Names returns the names of all files, in any order.
func (f *Files) Names(ctx context.Context) ([]string, error) {
	parts, err := f.Transport.List(ctx, fileParts+"/")
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, part := range parts {
		pieces := strings.Split(part, "/")
		if len(pieces) > 5 { // the kind, at least one of the name, four of the part
			all[strings.Join(pieces[1:len(pieces)-4], "/")] = true
		}
	}
	return slices.Collect(maps.Keys(all)), nil
}

// Drop removes a file, if it is there.
func (f *Files) Drop(ctx context.Context, name string) error {
	_, parts, err := f.revisions(ctx, name)
	if err != nil {
		return err
	}
	return f.remove(ctx, parts)
}
