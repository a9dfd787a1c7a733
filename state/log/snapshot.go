package log

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/state/recorded"
)

// The kinds of parts beside the log: of the contents of large entries, and of snapshots. The name of a part is
// kind/store/sequence/hash. The sequence is that of the entry before a content, and that of the last entry in a
// snapshot.
const (
	contentParts  = "content"
	snapshotParts = "snapshot"
)

func partName(kind, store string, sequence uint64, hash Hash) string {
	return fmt.Sprintf("%s/%s/%d/%s", kind, store, sequence, hex.EncodeToString(hash[:]))
}

// putParts stores the parts of a content.
func putParts(ctx context.Context, o Options, kind string, sequence uint64, parts Parts) error {
	for _, p := range parts {
		if err := o.Transport.Put(ctx, partName(kind, o.Store, sequence, sha256.Sum256(p)), p); err != nil {
			return err
		}
	}
	return nil
}

// partTries is how often a part is asked for that the log does not have: a server may be behind, for some seconds.
const partTries = 20

// part returns a function that gets a part by its hash.
func (c *Copy) part(ctx context.Context, kind string, sequence uint64) func(Hash) ([]byte, error) {
	return func(h Hash) ([]byte, error) {
		pause := firstPause
		for try := 1; ; try++ {
			data, err := c.o.Transport.Get(ctx, partName(kind, c.o.Store, sequence, h))
			if !errors.Is(err, ErrNone) || try == partTries {
				return data, err
			}
			if err := c.o.Pause(ctx, pause); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrUnanswered, err)
			}
			pause = min(2*pause, mostPause)
		}
	}
}

// frame is how many bytes of a file are in a part of its snapshot: sealed, they fit.
const frame = MaxPart - 4<<10

// framePlace is what the seal of a frame is bound to.
func framePlace(o Options, sequence uint64, number int, last bool) []byte {
	return fmt.Appendf(nil, "snapshot/%s/%s/%d/%d/%t", o.Incarnation, o.Store, sequence, number, last)
}

// manifest is the content of a Snap entry: the position that the snapshot has, and its parts in order.
type manifest struct {
	at    Position
	parts []Hash
}

func (m manifest) code() []byte {
	out := appendText(nil, m.at.code())
	out = binary.AppendUvarint(out, uint64(len(m.parts)))
	for _, h := range m.parts {
		out = append(out, h[:]...)
	}
	return out
}

func parseManifest(data []byte) (m manifest, err error) {
	r := reader{in: data}
	if m.at, err = parsePosition(r.text()); err != nil {
		return m, err
	}
	n := r.number()
	if n > uint64(len(r.in))/sha256.Size {
		return m, fmt.Errorf("%w: a snapshot: %w", ErrEntry, errCut)
	}
	for range n {
		m.parts = append(m.parts, Hash(r.take(sha256.Size)))
	}
	return m, nil
}

// snapshotIfDue begins a snapshot after a commit if enough has followed the last one.
func (w *Writer) snapshotIfDue(db *bbolt.DB, size int64) {
	if w.snapping {
		return
	}
	due := w.soon.Swap(false) || w.since.entries >= w.o.Entries
	if !due {
		most := w.o.Bytes
		if most == 0 {
			most = max(4<<20, size/2)
		}
		due = w.since.bytes >= most
	}
	if !due {
		return
	}
	w.snapping, w.since = true, extent{} // if it fails, it is tried again after as much
	w.group.Go(func() {
		err := w.Snapshot(w.ctx, db)
		if err != nil && w.Err() == nil && w.ctx.Err() == nil && !errors.Is(err, berrors.ErrDatabaseNotOpen) {
			w.o.Log(fmt.Sprintf("making a snapshot of the store %s: %s", w.o.Store, err))
		}
	})
}

// SnapshotSoon has the next commit begin a snapshot.
func (w *Writer) SnapshotSoon() { w.soon.Store(true) }

// Snapshot stores the content of the file, which the store has open, beside the log, and appends an entry that names
// it. Commits go on meanwhile. Older snapshots than the one before are removed.
func (w *Writer) Snapshot(ctx context.Context, db *bbolt.DB) error {
	m, err := w.store(ctx, db)
	a, failed := recorded.Try(db)
	if failed != nil {
		return errors.Join(err, failed)
	}
	w.writing.Lock()
	w.snapping = false
	w.writing.Unlock()
	if err != nil {
		return errors.Join(err, a.Rollback())
	}
	if err := w.commit(a, Snap, m.code()); err != nil {
		return err
	}
	return w.removeOld(ctx, m.at.Sequence)
}

// store stores the parts of a snapshot.
func (w *Writer) store(ctx context.Context, db *bbolt.DB) (m manifest, err error) {
	tx, err := recorded.Begin(db)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	if m.at, err = parsePosition(tx.Own(positionKey)); err != nil {
		return m, err
	}
	out := &frames{ctx: ctx, o: w.o, sequence: m.at.Sequence}
	if _, err := tx.WriteTo(out); err != nil {
		return m, err
	}
	if err := out.flush(true); err != nil {
		return m, err
	}
	m.parts = out.parts
	return m, nil
}

// frames stores what is written to it as the parts of a snapshot.
type frames struct {
	ctx      context.Context //nolint:containedctx // of the one call that makes it
	o        Options
	sequence uint64
	buffer   []byte
	parts    []Hash
}

func (f *frames) Write(p []byte) (n int, err error) {
	n = len(p)
	for len(p) > 0 {
		if len(f.buffer) == frame {
			if err := f.flush(false); err != nil {
				return 0, err
			}
		}
		k := min(len(p), frame-len(f.buffer))
		f.buffer, p = append(f.buffer, p[:k]...), p[k:]
	}
	return n, nil
}

// flush stores a part.
func (f *frames) flush(last bool) error {
	sealed := f.o.Key.Seal(framePlace(f.o, f.sequence, len(f.parts), last), f.buffer)
	hash := sha256.Sum256(sealed)
	if err := f.o.Transport.Put(f.ctx, partName(snapshotParts, f.o.Store, f.sequence, hash), sealed); err != nil {
		return err
	}
	f.parts, f.buffer = append(f.parts, hash), f.buffer[:0]
	return nil
}

// removeOld removes the parts of snapshots before the last but one, and of contents that the last but one has. A
// reader that needs one of them begins anew with the last snapshot.
func (w *Writer) removeOld(ctx context.Context, newest uint64) error {
	names, err := listParts(ctx, w.o, snapshotParts)
	if err != nil {
		return err
	}
	before := uint64(0) // the last but one
	for _, name := range names {
		if n := sequenceOf(name); n < newest {
			before = max(before, n)
		}
	}
	contents, err := listParts(ctx, w.o, contentParts)
	if err != nil {
		return err
	}
	for _, name := range slices.Concat(names, contents) {
		if sequenceOf(name) < before {
			if err := w.o.Transport.Remove(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// listParts returns the names of the parts of a store, of one kind.
func listParts(ctx context.Context, o Options, kind string) ([]string, error) {
	prefix := kind + "/" + o.Store + "/"
	names, err := o.Transport.List(ctx, prefix)
	return slices.DeleteFunc(names, func(name string) bool {
		sequence, hash, two := strings.Cut(strings.TrimPrefix(name, prefix), "/")
		_, err := strconv.ParseUint(sequence, 10, 64)
		return !two || err != nil || strings.Contains(hash, "/") // of a store whose name begins with this one
	}), err
}

// sequenceOf returns the sequence in the name of a part that listParts has returned.
func sequenceOf(name string) uint64 {
	pieces := strings.Split(name, "/")
	n, err := strconv.ParseUint(pieces[len(pieces)-2], 10, 64)
	if err != nil {
		panic("not of listParts: " + name)
	}
	return n
}

// Covered returns the sequence up to which the last snapshot of a store has all entries that the log still has; 0 if
// there is none. Entries up to the lowest one of all stores are no longer needed.
func Covered(ctx context.Context, o Options) (uint64, error) {
	m, err := (&Copy{o: o.withDefaults()}).lastSnapshot(ctx)
	if err != nil || m == nil {
		return 0, err
	}
	return m.at.Sequence, nil
}

// Renew makes a snapshot of a store that nobody has open, so that its older entries can be purged.
func Renew(ctx context.Context, path string, o Options) (err error) {
	w, err := Open(ctx, path, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: heldTimeout, NoSync: true,
		FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(db.Close(), err) }()
	return w.Snapshot(ctx, db)
}

// Purge removes the entries that no store needs any more: those before the lowest last snapshot. stores are all
// stores that the log has, so that none of them loses its last entry; one without a snapshot keeps everything. It
// returns the sequence up to which the last snapshot of each store reaches.
func Purge(ctx context.Context, t Transport, stores []Options) (covered map[string]uint64, err error) {
	covered = map[string]uint64{}
	lowest := ^uint64(0)
	for _, o := range stores {
		if covered[o.Store], err = Covered(ctx, o); err != nil {
			return nil, err
		}
		lowest = min(lowest, covered[o.Store])
	}
	if lowest == 0 || len(stores) == 0 {
		return covered, nil
	}
	return covered, t.Purge(ctx, lowest+1) // the entry that names the snapshot is later, so each store keeps one
}

// rebuild makes the copy anew: from the first entry, if the log still has it, else from the last snapshot.
func (c *Copy) rebuild(ctx context.Context) error {
	m, err := c.lastSnapshot(ctx)
	if err != nil {
		return err
	}
	if c.at.Sequence == 0 && m == nil {
		return nil // a copy that is as new as the log
	}
	if err := c.db.Close(); err != nil {
		return err
	}
	if err := c.open(false); err != nil || m == nil {
		return err
	}
	if err := c.db.Close(); err != nil {
		return err
	}
	if err := c.fetch(ctx, *m); err != nil {
		return errors.Join(fmt.Errorf("reading the snapshot of the store %s at %d: %w", c.o.Store, m.at.Sequence, err),
			c.load())
	}
	if err := c.load(); err != nil {
		return err
	}
	if err := recorded.Replay(c.db, nil, positionKey, m.at.code()); err != nil {
		return err
	}
	c.at = m.at
	return nil
}

// lastSnapshot returns the last snapshot after which the log has all entries; nil if there is none, and the log has
// all entries from the first on.
func (c *Copy) lastSnapshot(ctx context.Context) (last *manifest, err error) {
	names, err := listParts(ctx, c.o, snapshotParts)
	if err != nil {
		return nil, err
	}
	var sequences []uint64
	for _, name := range names {
		sequences = append(sequences, sequenceOf(name))
	}
	slices.Sort(sequences)
	for _, at := range slices.Backward(slices.Compact(sequences)) {
		if last, err = c.named(ctx, at); last != nil || err != nil {
			return last, err
		}
	}
	return c.searched(ctx)
}

// nameWithin is within how many entries after a snapshot the one that names it is looked for: those that were
// committed while it was made.
const nameWithin = 10_000

// named returns the snapshot at a sequence, if an entry names it and the log has all entries after it; nil otherwise.
func (c *Copy) named(ctx context.Context, at uint64) (*manifest, error) {
	from := at + 1
	for range nameWithin {
		sequence, data, err := c.o.Transport.Next(ctx, c.o.Store, from, 0)
		if errors.Is(err, ErrNone) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		e, m, err := c.snap(ctx, sequence, data)
		switch {
		case err != nil:
			return nil, err
		case from == at+1 && e.Before != at:
			return nil, nil
		case m != nil && m.at.Sequence == at:
			return m, nil
		}
		from = sequence + 1
	}
	return nil, nil
}

// snap reads an entry, and the snapshot that it names, if it is one that names one.
func (c *Copy) snap(ctx context.Context, sequence uint64, data []byte) (*Entry, *manifest, error) {
	e, err := Parse(data)
	if err == nil && (e.Kind != Snap || e.Incarnation != c.o.Incarnation) {
		return e, nil, nil
	}
	var content []byte
	if err == nil {
		content, err = e.open(c.o.Key, c.o.Store, c.part(ctx, contentParts, e.Before))
	}
	var m manifest
	if err == nil {
		m, err = parseManifest(content)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("entry %d of the store %s: %w", sequence, c.o.Store, err)
	}
	if m.at.Incarnation != c.o.Incarnation {
		return e, nil, nil
	}
	return e, &m, nil
}

// searched is lastSnapshot by a look at each entry: a server that is behind may not have listed the parts of a
// snapshot.
func (c *Copy) searched(ctx context.Context) (last *manifest, err error) {
	from, begin := uint64(0), uint64(0)
	for first := true; ; first = false {
		sequence, data, err := c.o.Transport.Next(ctx, c.o.Store, from, 0)
		switch {
		case errors.Is(err, ErrNone) && last == nil && begin > 0:
			return nil, fmt.Errorf("%w: those up to %d were purged, and no snapshot follows", ErrMissing, begin)
		case errors.Is(err, ErrNone):
			return last, nil
		case err != nil:
			return nil, err
		}
		e, m, err := c.snap(ctx, sequence, data)
		if err != nil {
			return nil, err
		}
		if first {
			if begin = e.Before; begin == 0 {
				return nil, nil // no snapshot is needed
			}
		}
		if m != nil && m.at.Sequence >= begin {
			last = m
		}
		from = sequence + 1
	}
}

// fetch writes the file of a snapshot in the place of the copy.
func (c *Copy) fetch(ctx context.Context, m manifest) error {
	get := c.part(ctx, snapshotParts, m.at.Sequence)
	write := func(out io.Writer) error {
		for i, hash := range m.parts {
			sealed, err := get(hash)
			if err != nil {
				return err
			}
			if sha256.Sum256(sealed) != hash {
				return fmt.Errorf("%w: a part of the snapshot was modified", ErrEntry)
			}
			plain, err := c.o.Key.Open(framePlace(c.o, m.at.Sequence, i, i == len(m.parts)-1), sealed)
			if err != nil {
				return fmt.Errorf("%w: a part of the snapshot: %w", ErrEntry, err)
			}
			if _, err := out.Write(plain); err != nil {
				return err
			}
		}
		return nil
	}
	if err := os.Remove(c.path); err != nil {
		return err
	}
	return wholefile.Durable(c.path, wholefile.Private, write)
}
