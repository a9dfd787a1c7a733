package log

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/wholefile"
)

// fileParts is the kind of the parts of files. The name of a part is file/NAME/epoch/revision/count/number/hash: a file
// is the highest revision of the highest epoch that has all of its parts.
const fileParts = "file"

// Files keeps whole files beside the log, so that those on the disk of a member are a cache. It does not seal them:
// their writers have. What a member does in an epoch has no effect on what was done in a later one. Safe for concurrent
// use for different files.
type Files struct {
	Transport Transport
	// Epoch is that in which this member writes.
	Epoch uint64
	// Now returns the time.
	Now func() time.Time
}

// revision is a version of a file, with the names of its parts.
type revision struct {
	version
	count uint64
	parts map[uint64]string
}

// version orders the revisions of a file.
type version struct{ epoch, number uint64 }

func (v version) compare(o version) int {
	return cmp.Or(cmp.Compare(v.epoch, o.epoch), cmp.Compare(v.number, o.number))
}

func (r revision) whole() bool { return uint64(len(r.parts)) == r.count }

// revisions returns the versions of a file.
func (f *Files) revisions(ctx context.Context, name string) (map[version]revision, error) {
	prefix := fileParts + "/" + name + "/"
	names, err := f.Transport.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	all := map[version]revision{}
	for _, part := range names {
		var n [4]uint64
		pieces := strings.Split(strings.TrimPrefix(part, prefix), "/")
		if len(pieces) != len(n)+1 {
			continue // of another file, whose name begins with this one
		}
		for i := range n {
			if n[i], err = strconv.ParseUint(pieces[i], 10, 64); err != nil {
				return nil, fmt.Errorf("the log has a part %s of no file", part)
			}
		}
		v := version{n[0], n[1]}
		r, known := all[v]
		if !known {
			r = revision{version: v, count: n[2], parts: map[uint64]string{}}
		}
		r.parts[n[3]] = part
		all[v] = r
	}
	return all, nil
}

// Keep stores the file at a path under a name, whose pieces are separated by "/", in place of an earlier one. It is
// durable when Keep returns; after an error or a crash, the earlier one stays.
func (f *Files) Keep(ctx context.Context, name, path string) (err error) {
	before, err := f.revisions(ctx, name)
	if err != nil {
		return fmt.Errorf("keeping the file %s: %w", name, err)
	}
	own := version{f.Epoch, uint64(max(f.Now().UnixNano(), 1))} //nolint:gosec // positive
	for v := range before {
		switch {
		case v.epoch > own.epoch:
			return fmt.Errorf("keeping the file %s: %w", name, ErrDeposed)
		case v.epoch == own.epoch:
			own.number = max(own.number, v.number+1)
		}
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
		part := fmt.Sprintf("%s/%s/%d/%d/%d/%d/%s", fileParts, name, own.epoch, own.number, count, i,
			hex.EncodeToString(hash[:]))
		if err := f.Transport.Put(ctx, part, buffer[:n]); err != nil {
			return fmt.Errorf("keeping the file %s: %w", name, err)
		}
	}
	return f.removeUpTo(ctx, before, own)
}

// removeUpTo removes revisions that are not newer than a version.
func (f *Files) removeUpTo(ctx context.Context, all map[version]revision, last version) error {
	for v, r := range all {
		if v.compare(last) > 0 {
			continue
		}
		if err := f.remove(ctx, slices.Collect(maps.Values(r.parts))); err != nil {
			return err
		}
	}
	return nil
}

func (f *Files) remove(ctx context.Context, parts []string) error {
	for _, part := range parts {
		if err := f.Transport.Remove(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// Fetch writes a file to a path, or what is stored of one that grows. The error wraps fs.ErrNotExist if there is none.
func (f *Files) Fetch(ctx context.Context, name, path string) error {
	all, err := f.revisions(ctx, name)
	if err != nil {
		return fmt.Errorf("fetching the file %s: %w", name, err)
	}
	var last revision
	for _, r := range all {
		if r.whole() && r.compare(last.version) > 0 {
			last = r
		}
	}
	if last.number == 0 {
		return f.fetchGrown(ctx, name, path)
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
		if len(pieces) > 6 { // the kind, at least one of the name, five of the part
			all[strings.Join(pieces[1:len(pieces)-5], "/")] = true
		}
	}
	return slices.Collect(maps.Keys(all)), nil
}

// Drop removes a file, if it is there.
func (f *Files) Drop(ctx context.Context, name string) error {
	all, err := f.revisions(ctx, name)
	if err != nil {
		return err
	}
	return f.removeUpTo(ctx, all, version{f.Epoch, math.MaxUint64})
}
