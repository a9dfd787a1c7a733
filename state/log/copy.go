package log

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/state/recorded"
)

// positionKey is the copy's own value with its position; see recorded.Own.
const positionKey = "position"

// Conditions of copies that callers handle.
var (
	// ErrMissing means that the log has no entries of a store that is not new, or not those that a copy needs.
	ErrMissing = errors.New("the log does not have the entries of this store")
	// ErrEnded means that the store was removed.
	ErrEnded = errors.New("the store was removed")
	// errBehind means that entries which the copy has not applied were purged.
	errBehind = errors.New("the copy is behind what the log still has")
)

// Copy is a file with the applied entries of a store. It is for one goroutine. Close it.
type Copy struct {
	o    Options
	path string
	db   *bbolt.DB
	at   Position

	behind uint64 // the entry that could not be applied, for which the copy was made anew last
}

// OpenCopy opens the copy at a path, and creates it if there is none, or none that can be trusted: it is then made
// from the log by Step. Nobody else may have the file open.
func OpenCopy(path string, o Options) (*Copy, error) {
	c := &Copy{o: o.withDefaults(), path: path}
	if err := c.open(trusted(path, o)); err != nil {
		return nil, fmt.Errorf("opening the copy of the store %s: %w", o.Store, err)
	}
	return c, nil
}

// open opens the file, which is made anew unless keep is set and it can be read.
func (c *Copy) open(keep bool) error {
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	if !keep {
		if err := c.free(); err != nil {
			return err
		}
		// The mark goes first: a crash in between leaves a copy that is not trusted.
		for _, path := range []string{markPath(c.path), c.path} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	if err := openMark(c.path, c.o); err != nil {
		return err
	}
	err := bug.Catch(func() error { return c.load() })
	if err == nil || !keep || errors.Is(err, ErrHeld) || !damaged(err) {
		return err
	}
	c.o.Log(fmt.Sprintf("the copy %s cannot be read, and is made anew: %s", c.path, err))
	if c.db != nil {
		_ = c.db.Close() // it is removed
	}
	return c.open(false)
}

// heldTimeout is how long a file is waited for that another process has open, as one that is just ending.
const heldTimeout = time.Second

// free returns ErrHeld if another process has the file open, which is going to be removed.
func (c *Copy) free() error {
	if _, err := os.Stat(c.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var db *bbolt.DB
	err := bug.Catch(func() (err error) {
		db, err = bbolt.Open(c.path, 0o600, &bbolt.Options{Timeout: heldTimeout})
		return err
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return ErrHeld
	case err != nil:
		return nil //nolint:nilerr // it cannot be read, and is removed
	}
	return db.Close()
}

// damaged reports whether an error is about what is in the file.
func damaged(err error) bool {
	b := (*bug.Error)(nil)
	return errors.As(err, &b) || errors.Is(err, berrors.ErrInvalid) || errors.Is(err, berrors.ErrVersionMismatch) ||
		errors.Is(err, berrors.ErrChecksum) || errors.Is(err, ErrEntry) || errors.Is(err, ErrNewer) ||
		errors.Is(err, ErrChain)
}

// load opens the file and reads its position.
func (c *Copy) load() (err error) {
	c.db, err = bbolt.Open(c.path, 0o600, &bbolt.Options{Timeout: heldTimeout, NoSync: true,
		FreelistType: bbolt.FreelistMapType})
	if errors.Is(err, berrors.ErrTimeout) {
		return ErrHeld
	}
	if err != nil {
		return err
	}
	c.at = Position{Incarnation: c.o.Incarnation}
	data, err := recorded.Own(c.db, positionKey)
	if err != nil || data == nil {
		return err
	}
	if c.at, err = parsePosition(data); err == nil && c.at.Incarnation != c.o.Incarnation {
		err = fmt.Errorf("%w: it is of the incarnation %s", ErrChain, c.at.Incarnation)
	}
	return err
}

// Position returns the end of what the copy has applied.
func (c *Copy) Position() Position { return c.at }

// Close closes the file, and marks it as whole.
func (c *Copy) Close() error {
	if err := c.db.Close(); err != nil {
		return err
	}
	return closeMark(c.path, c.o)
}

// Step applies the next entry, for which it waits for at most wait, and reports whether there was one. The error
// wraps ErrChain if the log is another one than that of the copy, ErrUnanswered if a repetition may help.
func (c *Copy) Step(ctx context.Context, wait time.Duration) (applied bool, err error) {
	sequence, data, err := c.o.Transport.Next(ctx, c.o.Store, c.at.Sequence+1, wait)
	if errors.Is(err, ErrNone) {
		return false, nil
	}
	if err == nil {
		err = c.apply(ctx, sequence, data)
	}
	if !errors.Is(err, errBehind) {
		return err == nil, err
	}
	if c.behind == sequence {
		return false, fmt.Errorf("entry %d of the store %s: %w: no snapshot has what was removed before it", sequence,
			c.o.Store, ErrMissing)
	}
	c.behind = sequence
	return true, c.rebuild(ctx)
}

// apply applies an entry in one transaction with the position.
func (c *Copy) apply(ctx context.Context, sequence uint64, data []byte) error {
	e, err := Parse(data)
	if err != nil {
		return fmt.Errorf("entry %d of the store %s: %w", sequence, c.o.Store, err)
	}
	next, err := e.After(c.at, sequence)
	switch {
	case c.o.omit.chain:
		next = Position{Incarnation: e.Incarnation, Sequence: sequence, Hash: hashOf(data), Epoch: e.Epoch, Member: e.Member}
	case err != nil && e.Before > c.at.Sequence:
		return errBehind
	case err != nil:
		return err
	}
	content, err := e.open(c.o.Key, c.o.Store, c.part(ctx, contentParts, e.Before))
	if errors.Is(err, ErrNone) {
		return errBehind // its parts were removed, because a snapshot has what it changed
	}
	if err != nil {
		return fmt.Errorf("entry %d of the store %s: %w", sequence, c.o.Store, err)
	}
	if e.Kind != Changes {
		content = nil
	}
	if err := recorded.Replay(c.db, content, positionKey, next.code()); err != nil {
		return fmt.Errorf("applying entry %d of the store %s: %w", sequence, c.o.Store, err)
	}
	c.at = next
	return nil
}

// Follow applies all entries that the log has, as far as its server knows. The first call compares the last entry of
// the copy with that of the log.
func (c *Copy) Follow(ctx context.Context) error {
	if err := c.compare(ctx); err != nil {
		return err
	}
	for {
		applied, err := c.Step(ctx, 0)
		if err != nil || !applied {
			return err
		}
	}
}

// compare looks whether the last entry of the copy is in the log. If the log has only later ones, the copy is made
// anew.
func (c *Copy) compare(ctx context.Context) error {
	if c.at.Sequence == 0 {
		return c.rebuild(ctx)
	}
	sequence, data, err := c.o.Transport.Next(ctx, c.o.Store, c.at.Sequence, 0)
	switch {
	case errors.Is(err, ErrNone):
		return nil // a server that is behind, or a loss: the next entry that is appended decides
	case err != nil:
		return err
	case sequence > c.at.Sequence:
		return c.rebuild(ctx)
	case !c.o.omit.chain && hashOf(data) != c.at.Hash:
		return fmt.Errorf("the store %s: %w: the log has another entry %d than the copy %s. If an older log was restored "+
			"on purpose, remove the copy and %s: what the log does not have is lost then", c.o.Store, ErrChain, sequence,
			c.path, markPath(c.path))
	}
	return nil
}

// Open brings the copy at a path up to the end of its log, and begins an epoch in which this member writes it. It
// returns a Writer for the store that is opened over the file afterwards. The error is ErrMissing if the log has no
// entries of the store and o.First is not set; ErrEnded if the store was removed; ErrChain or ErrLost if the log is
// not the one that the copy was made from.
func Open(ctx context.Context, path string, o Options) (*Writer, error) {
	c, err := OpenCopy(path, o)
	if err != nil {
		return nil, err
	}
	w, err := c.lead(ctx)
	if closing := c.db.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", o.Store, err)
	}
	return w, nil
}

// leadRounds is how often another member may be faster.
const leadRounds = 10

// lead appends the entry that begins an epoch. Whatever an earlier writer has in flight is decided then: it comes
// before this entry, and is applied, or never.
func (c *Copy) lead(ctx context.Context) (*Writer, error) {
	for round := 0; ; {
		if err := c.insist(ctx); err != nil {
			return nil, err
		}
		if c.at.Ended {
			return nil, ErrEnded
		}
		if c.at.Sequence == 0 && !c.o.First {
			w := c.writer(ctx)
			err := w.probe()
			w.cancel()
			if err != nil {
				return nil, err
			}
			continue
		}
		w, err := c.claim(ctx)
		if round++; errors.Is(err, ErrDeposed) && round < leadRounds {
			continue
		}
		return w, err
	}
}

// openPatience is how many times as long as an entry may be undecided whoever opens a store waits for an answer.
const openPatience = 4

// insist is Follow, and asks again while the log does not answer, as when a server of it has just ended.
func (c *Copy) insist(ctx context.Context) error {
	began, pause := c.o.Now(), firstPause
	for {
		err := c.Follow(ctx)
		if !errors.Is(err, ErrUnanswered) || ctx.Err() != nil || c.o.Now().Sub(began) >= openPatience*c.o.Patience {
			return err
		}
		if perr := c.o.Pause(ctx, pause); perr != nil {
			return err
		}
		pause = min(2*pause, mostPause)
	}
}

// writer returns a Writer that goes on where the copy ends.
func (c *Copy) writer(ctx context.Context) *Writer {
	w := &Writer{o: c.o, path: c.path, at: c.at, end: c.at, done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// claim appends the entry that begins an epoch after what the copy has applied, and nothing else.
func (c *Copy) claim(ctx context.Context) (*Writer, error) {
	w := c.writer(ctx)
	defer w.cancel()
	h := w.header(Lead)
	h.Epoch, h.Member = c.at.Epoch+1, c.o.Member
	data, _ := h.seal(c.o.Key, nil)
	began := c.o.Elapsed()
	sequence, err := w.publish(data)
	if err != nil {
		return nil, err
	}
	if err := c.apply(ctx, sequence, data); err != nil {
		return nil, err
	}
	w = c.writer(context.WithoutCancel(ctx))
	w.sent.Store(int64(began))
	return w, nil
}

// mark is the file beside a copy that says whether it can be trusted: bbolt writes it without syncs, because the log
// is what is durable. So after a loss of power anything can be in it.
type mark struct {
	Format      int    `json:"format"`
	Incarnation string `json:"incarnation"`
	Store       string `json:"store"`
	Boot        string `json:"boot,omitempty"` // in which it was opened
	Closed      bool   `json:"closed"`         // it was synced, and not opened since
}

func markPath(path string) string { return path + ".copy" }

// trusted reports whether the copy at a path is what the entries up to its position have made.
func trusted(path string, o Options) bool {
	var m mark
	data, err := os.ReadFile(markPath(path))
	if err != nil || json.Unmarshal(data, &m) != nil {
		return false
	}
	return m.Format == Format && m.Incarnation == o.Incarnation.String() && m.Store == o.Store &&
		(m.Closed || m.Boot == o.Boot && o.Boot != "")
}

// openMark records that the copy is open, before it is written.
func openMark(path string, o Options) error { return writeMark(path, o, false) }

// closeMark syncs the file, and records that.
func closeMark(path string, o Options) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was removed
	}
	if err != nil {
		return err
	}
	sync := f.Sync
	if o.omit.sync {
		sync = func() error { return nil }
	}
	if err := errors.Join(sync(), f.Close()); err != nil {
		return err
	}
	return writeMark(path, o, true)
}

func writeMark(path string, o Options, closed bool) error {
	data, err := json.Marshal(mark{Format: Format, Incarnation: o.Incarnation.String(), Store: o.Store, Boot: o.Boot,
		Closed: closed})
	if err != nil {
		return err
	}
	write := wholefile.Durable // the directory, too
	if o.omit.sync {
		write = wholefile.Write
	}
	return write(markPath(path), wholefile.Private, wholefile.Bytes(data))
}

// ThisBoot identifies this machine since it was started; empty where the system does not say.
func ThisBoot() string {
	machine, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(machine)) + "/" + string(bytes.TrimSpace(boot))
}
