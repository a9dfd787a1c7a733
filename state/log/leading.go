package log

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/recorded"
)

// Several members have copies of a store, and one of them writes it. Here is what the others need to take its place:
// the log decides who does, and these are the entries that ask it.

// ErrHandedOver means that the store was handed over to another member, which writes it now. It is an ErrDeposed.
var ErrHandedOver = fmt.Errorf("the store was handed over: %w", ErrDeposed)

// Claim begins an epoch in which this member writes the store, if the log has nothing beyond what the copy has applied.
// The error is ErrDeposed if it has more; the copy can then be followed further. After ErrUnknown the entry may be
// stored at any later time: following the copy tells. With a Writer the file is closed, and the store can be opened.
func (c *Copy) Claim(ctx context.Context) (*Writer, error) {
	if c.at.Ended {
		return nil, ErrEnded
	}
	w, err := c.claim(ctx)
	if err != nil {
		return nil, err
	}
	return w, c.release(w)
}

// Take returns the Writer for an epoch that another member has begun for this one with HandOver, and that the copy has
// applied. Only one process may be this member. Its Unchanged is long until an entry of its own is acknowledged. With a
// Writer the file is closed, and the store can be opened.
func (c *Copy) Take(ctx context.Context) (*Writer, error) {
	if c.at.Member != c.o.Member || c.at.Ended {
		return nil, fmt.Errorf("%w: %s leads in epoch %d", ErrDeposed, c.at.Member, c.at.Epoch)
	}
	w := c.writer(context.WithoutCancel(ctx))
	// The entry may be an old one, which others have followed on: only an acknowledgement says that they have not.
	w.sent.Store(int64(c.o.Elapsed() - 24*time.Hour))
	return w, c.release(w)
}

// Continues reports whether the log has the last entry that the copy has applied, as far as its server knows.
func (c *Copy) Continues(ctx context.Context) (bool, error) {
	sequence, data, err := c.o.Transport.Next(ctx, c.o.Store, c.at.Sequence, 0)
	if errors.Is(err, ErrNone) {
		return false, nil
	}
	return err == nil && sequence == c.at.Sequence && hashOf(data) == c.at.Hash, err
}

// CheckKey returns ErrEntry if what the log has of a store was not sealed with the key of the options. It returns nil
// if the log has nothing of it.
func CheckKey(ctx context.Context, o Options) error {
	_, data, err := o.Transport.Next(ctx, o.Store, 0, 0)
	if errors.Is(err, ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := Parse(data)
	if err != nil {
		return err
	}
	_, err = e.open(o.Key, o.Store, func(h Hash) ([]byte, error) {
		return o.Transport.Get(ctx, partName(contentParts, o.Store, e.Before, h))
	})
	if errors.Is(err, ErrNone) { // a snapshot has it, which tells as well when the copy is made
		return nil
	}
	return err
}

// Probe returns nil when the log has entries of a store of which the copy has found none. The error is ErrMissing if
// the log says for the time of Options.Suspicion that there are none.
func (c *Copy) Probe(ctx context.Context) error {
	w := c.writer(ctx)
	defer w.cancel()
	return w.probe()
}

// View calls f with a transaction that reads the copy. Step must not run meanwhile.
func (c *Copy) View(f func(*recorded.Tx) error) error { return recorded.View(c.db, f) }

// release closes the file for the store that is opened over it.
func (c *Copy) release(w *Writer) error {
	err := c.db.Close()
	if err != nil {
		w.cancel()
	}
	return err
}

// Unchanged is for how long no entry of this writer was acknowledged, counted from when the last one was sent: until
// the term of members after that, nobody else can have begun an epoch. Time in which the machine sleeps counts.
func (w *Writer) Unchanged() time.Duration { return w.o.Elapsed() - time.Duration(w.sent.Load()) }

// Beat publishes an entry without changes, so that others see that the store is written. db is the store's open file.
// It returns as Commit does.
func (w *Writer) Beat(db *bbolt.DB) error {
	a, err := recorded.Try(db)
	if err != nil {
		return err
	}
	return w.commit(a, Changes, nil)
}

// HandOver begins an epoch in which another member writes the store. It returns nil if the log has the entry: this
// writer has then stopped with ErrHandedOver. Otherwise it returns as Commit does. db is the store's open file.
func (w *Writer) HandOver(db *bbolt.DB, to string) error {
	a, err := recorded.Try(db)
	if err != nil {
		return err
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	if err := w.Err(); err != nil {
		return errors.Join(err, a.Rollback())
	}
	h := w.header(Lead)
	h.Epoch, h.Member = w.at.Epoch+1, to
	data, _ := h.seal(w.o.Key, nil)
	sequence, err := w.publish(data)
	if err != nil {
		return errors.Join(w.stop(err), a.Rollback())
	}
	next := Position{Incarnation: w.at.Incarnation, Sequence: sequence, Hash: hashOf(data), Epoch: h.Epoch, Member: to}
	if err := errors.Join(a.SetOwn(positionKey, next.code()), a.Commit()); err != nil {
		w.mu.Lock()
		w.distrust = true
		w.mu.Unlock()
		return errors.Join(w.stop(fmt.Errorf("%w: %w", ErrCopy, err)), a.Rollback())
	}
	w.advance(next)
	_ = w.stop(ErrHandedOver)
	return nil
}

// Position returns the end of what was acknowledged. It waits for a commit that is in progress.
func (w *Writer) Position() Position {
	w.writing.Lock()
	defer w.writing.Unlock()
	return w.at
}

// advance sets the position. The caller has writing.
func (w *Writer) advance(next Position) {
	w.at = next
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = next
}

// Acknowledged returns the end of what was acknowledged before the commit that is in progress, and does not wait.
func (w *Writer) Acknowledged() Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.end
}
