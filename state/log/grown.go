package log

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/internal/wholefile"
)

// tailParts is the kind of the pieces of files that grow. The name of a piece is tail/NAME/epoch/offset/hash. Each
// epoch begins at 0, so that those of the newest one are the file: a member that wrote in an earlier one may still be
// sending.
const tailParts = "tail"

// piece is a piece of a file that grows.
type piece struct {
	epoch, offset uint64
	part          string // its name
}

// pieces returns the pieces of a file, in the order of epochs and offsets.
func (f *Files) pieces(ctx context.Context, name string) (all []piece, err error) {
	prefix := tailParts + "/" + name + "/"
	names, err := f.Transport.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	for _, part := range names {
		fields := strings.Split(strings.TrimPrefix(part, prefix), "/")
		if len(fields) != 3 {
			continue // of another file, whose name begins with this one
		}
		p := piece{part: part}
		epoch, err1 := strconv.ParseUint(fields[0], 10, 64)
		offset, err2 := strconv.ParseUint(fields[1], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("the log has a part %s of no file: %w", part, err)
		}
		p.epoch, p.offset = epoch, offset
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.offset, b.offset))
	})
	return all, nil
}

// Extend stores a piece of a file that grows, from an offset on. The pieces of an epoch are stored in order, the first
// one from 0.
func (f *Files) Extend(ctx context.Context, name string, offset int64, data []byte) error {
	for len(data) > 0 {
		part := data[:min(len(data), MaxPart)]
		hash := sha256.Sum256(part)
		if err := f.Transport.Put(ctx, fmt.Sprintf("%s/%s/%d/%d/%s", tailParts, name, f.Epoch, offset,
			hex.EncodeToString(hash[:])), part); err != nil {
			return fmt.Errorf("extending the file %s: %w", name, err)
		}
		data, offset = data[len(part):], offset+int64(len(part))
	}
	return nil
}

// fetchGrown writes what is stored of a file that grows to a path. The error wraps fs.ErrNotExist if that is nothing.
func (f *Files) fetchGrown(ctx context.Context, name, path string) error {
	all, err := f.pieces(ctx, name)
	if err != nil {
		return fmt.Errorf("fetching the file %s: %w", name, err)
	}
	if len(all) == 0 {
		return fmt.Errorf("the file %s: %w", name, fs.ErrNotExist)
	}
	newest := all[len(all)-1].epoch
	return wholefile.Write(path, wholefile.Private, func(out io.Writer) error {
		end := uint64(0)
		for _, p := range all {
			if p.epoch != newest {
				continue
			}
			if p.offset != end {
				return nil // the one before is missing: what follows is of no use
			}
			data, err := f.Transport.Get(ctx, p.part)
			if err != nil {
				return err
			}
			hash := sha256.Sum256(data)
			if !strings.HasSuffix(p.part, "/"+hex.EncodeToString(hash[:])) {
				return fmt.Errorf("%w: the part %s was modified", ErrEntry, p.part)
			}
			if _, err := out.Write(data); err != nil {
				return err
			}
			end += uint64(len(data))
		}
		return nil
	})
}

// Shed removes the pieces of a file, which is kept as a whole.
func (f *Files) Shed(ctx context.Context, name string) error {
	all, err := f.pieces(ctx, name)
	if err != nil {
		return err
	}
	var parts []string
	for _, p := range all {
		if p.epoch <= f.Epoch {
			parts = append(parts, p.part)
		}
	}
	return f.remove(ctx, parts)
}
