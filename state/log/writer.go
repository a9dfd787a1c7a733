package log

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/seal"
)

// Options say whose copy of which store it is. Zero durations and functions mean defaults.
type Options struct {
	Transport   Transport
	Incarnation ID     // of the group
	Store       string // its name
	Member      string // who writes here
	Key         *seal.Key

	// First allows the log to have no entry of the store. Only whoever knows that the store never had one may set it:
	// else a log that has lost everything would be taken for that of a new store.
	First bool
	// Boot identifies this machine since it was started; see ThisBoot. A copy that was not closed is trusted only in
	// the boot in which it was written. Empty: never.
	Boot string

	// Patience is how long the log may leave an entry undecided; 0 means 30 s.
	Patience time.Duration
	// Suspicion is for how long all answers have to show a loss before it counts; 0 means 25 s. A server that is cut
	// off from its cluster shows one for up to 17 s.
	Suspicion time.Duration
	// Entries and Bytes are how many entries, or how many bytes of them, follow a snapshot before the next one is
	// made; 0 means 20,000, and half of the size of the file but at least 4 MiB.
	Entries int
	Bytes   int64

	Now   func() time.Time                                 // default time.Now
	Pause func(ctx context.Context, d time.Duration) error // default sleep.For
	NewID func() ID                                        // default random
	// Elapsed is a clock that never goes back, and goes on while the machine sleeps; default since it was started.
	Elapsed func() time.Duration
	Log     func(line string) // of what the caller does not see otherwise; default none

	omit omitted
}

// omitted are the guards that a test leaves out, to see that they are needed.
type omitted struct {
	higher bool // a refusal decides, whatever sequence it names
	chain  bool // entries are applied whatever they follow
	sync   bool // files are not synced, as long as no power is lost
}

func (o Options) withDefaults() Options {
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	if o.Suspicion == 0 {
		o.Suspicion = 25 * time.Second
	}
	if o.Entries == 0 {
		o.Entries = 20_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Pause == nil {
		o.Pause = sleep.For
	}
	if o.Elapsed == nil {
		o.Elapsed = bootTime
	}
	if o.NewID == nil {
		o.NewID = func() (id ID) {
			_, _ = rand.Read(id[:]) // never fails
			return id
		}
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	return o
}

// The pauses between the tries of an entry: each is twice as long as the one before.
const (
	firstPause = 2 * time.Millisecond
	mostPause  = 250 * time.Millisecond
)

// Writer writes a store: it publishes each transaction as the next entry of the log, and commits it when the log has
// it. It implements recorded.Committer.
//
// A Writer that has returned an error of Stopped does nothing any more: the store has to be closed, and opened anew
// with all that it keeps in memory. Close it after the store.
type Writer struct {
	o    Options
	path string

	// ctx ends with Close; group waits for the snapshot that is being made.
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	// writing is held while an entry is published and committed; taken after the file's right to write, which every
	// transaction has. It guards at, since and snapping. It is held across calls of the log, as that right is.
	writing  sync.Mutex
	at       Position
	since    extent // what follows the last snapshot
	snapping bool

	soon atomic.Bool // the next commit makes a snapshot
	// sent is when the last acknowledged entry was sent, as Options.Elapsed says; 0 before there is one.
	sent atomic.Int64

	mu       sync.Mutex // guards the fields below
	end      Position   // as at, for those who must not wait
	stopped  error
	distrust bool // the copy must not be used again
	done     chan struct{}
}

// extent is an amount of entries.
type extent struct {
	entries int
	bytes   int64
}

// Stopped returns a channel that is closed when the writer stops by itself; Err then returns the reason.
func (w *Writer) Stopped() <-chan struct{} { return w.done }

// Err returns why the writer has stopped; nil while it writes.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

// stop ends the writing, and returns the reason.
func (w *Writer) stop(why error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped == nil {
		w.stopped = why
		close(w.done)
		if !errors.Is(why, ErrClosed) {
			w.o.Log(fmt.Sprintf("the store %s is closed: %s", w.o.Store, why))
		}
	}
	return w.stopped
}

// Commit publishes and commits what was changed. The error is ErrDeposed, ErrUnknown, ErrLost, ErrCopy or ErrClosed,
// each with details, or another one if the change could not even be tried; only after the last the writer goes on. A
// crash before the entry is stored loses the transaction, one after it does not: whoever opens the copy applies the
// entry.
func (w *Writer) Commit(a *recorded.Attempt) error {
	if len(a.Changes()) == 0 {
		return errors.Join(a.Rollback(), w.Err())
	}
	return w.commit(a, Changes, a.Changes())
}

func (w *Writer) commit(a *recorded.Attempt, kind Kind, content []byte) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	if err := w.Err(); err != nil {
		return errors.Join(err, a.Rollback())
	}
	db, size := a.DB(), a.Size()
	data, parts := w.header(kind).seal(w.o.Key, content)
	if err := putParts(w.ctx, w.o, contentParts, w.at.Sequence, parts); err != nil {
		return errors.Join(err, a.Rollback()) // nothing was published
	}
	sequence, err := w.publish(data)
	if errors.Is(err, errNotStored) {
		return errors.Join(err, a.Rollback())
	}
	if err != nil {
		return errors.Join(w.stop(err), a.Rollback())
	}
	next := Position{Incarnation: w.at.Incarnation, Sequence: sequence, Hash: hashOf(data), Epoch: w.at.Epoch,
		Member: w.at.Member, Ended: kind == End}
	if err := errors.Join(a.SetOwn(positionKey, next.code()), a.Commit()); err != nil {
		w.mu.Lock()
		w.distrust = true
		w.mu.Unlock()
		return errors.Join(w.stop(fmt.Errorf("%w: %w", ErrCopy, err)), a.Rollback())
	}
	w.advance(next)
	w.since.entries++
	w.since.bytes += int64(len(data))
	for _, p := range parts {
		w.since.bytes += int64(len(p))
	}
	w.snapshotIfDue(db, size)
	return nil
}

func (w *Writer) header(kind Kind) Header {
	return Header{Kind: kind, Incarnation: w.at.Incarnation, Store: w.o.Store, Epoch: w.at.Epoch, Member: w.at.Member,
		ID: w.o.NewID(), Before: w.at.Sequence, BeforeHash: w.at.Hash}
}

// errNotStored is what nobody can know from a refusal alone; see omitted.higher.
var errNotStored = errors.New("the entry was refused")

// publish appends an entry to the log, and returns its sequence when it is certain that it is stored there. It
// repeats the same bytes until the log decides: they are acknowledged, or refused with a higher sequence, which
// means that either they or another entry follow. A refusal alone decides nothing, because an entry that was
// refused, or not answered, may be in flight and be stored later.
func (w *Writer) publish(data []byte) (_ uint64, err error) {
	sent := w.o.Elapsed()
	defer func() {
		if err == nil {
			w.sent.Store(int64(sent))
		}
	}()
	began, pause := w.o.Now(), firstPause
	var shortened time.Time // since when all answers show a loss
	for {
		sequence, err := w.o.Transport.Append(w.ctx, w.o.Store, w.at.Sequence, data)
		refused := (*Refused)(nil)
		now := w.o.Now()
		switch {
		case err == nil && sequence <= w.at.Sequence:
			return 0, fmt.Errorf("%w: an entry after %d got the sequence %d", ErrLost, w.at.Sequence, sequence)
		case err == nil:
			return sequence, nil
		case errors.As(err, &refused) && refused.Last > w.at.Sequence:
			return w.verdict(data, refused.Last)
		case errors.As(err, &refused) && refused.Last < w.at.Sequence:
			if shortened.IsZero() {
				shortened = now
				w.o.Log(fmt.Sprintf("the log ends at %d for the store %s, which has the entry %d: asking again for %s",
					refused.Last, w.o.Store, w.at.Sequence, w.o.Suspicion))
			}
			if now.Sub(shortened) >= w.o.Suspicion {
				return 0, fmt.Errorf("%w: the last one of the store %s has the sequence %d, and %d was acknowledged",
					ErrLost, w.o.Store, refused.Last, w.at.Sequence)
			}
		default:
			if w.o.omit.higher && errors.Is(err, ErrUndecided) {
				return 0, errNotStored
			}
			shortened = time.Time{}
			if now.Sub(began) >= w.o.Patience {
				return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
			}
		}
		if perr := w.o.Pause(w.ctx, pause); perr != nil {
			return 0, fmt.Errorf("%w: %w", ErrUnknown, perr)
		}
		pause = min(2*pause, mostPause)
	}
}

// verdict decides about an entry that was refused because the subject has a later one: either the entry itself, which
// an earlier try has stored, or that of somebody else. last is the sequence in the refusal. The entry that follows
// the expected one does not change any more, so whoever answers the read answers the truth, or nothing yet.
func (w *Writer) verdict(data []byte, last uint64) (uint64, error) {
	began, pause := w.o.Now(), firstPause
	for {
		sequence, found, err := w.o.Transport.Next(w.ctx, w.o.Store, w.at.Sequence+1, 0)
		switch {
		case err == nil && bytes.Equal(found, data):
			return sequence, nil
		case err == nil:
			e, err := Parse(found)
			if err != nil || e.Before != w.at.Sequence {
				// The one that followed was purged, so others have applied it: it can have been this one.
				return 0, fmt.Errorf("%w: the store %s has gone on to the entry %d", ErrUnknown, w.o.Store, sequence)
			}
			return 0, fmt.Errorf("%w: the store %s has an entry %d that follows %d", ErrDeposed, w.o.Store, sequence,
				w.at.Sequence)
		case w.o.Now().Sub(began) >= w.o.Patience:
			return 0, fmt.Errorf("%w: the store %s has the entry %d, and the one after %d cannot be read: %w", ErrUnknown,
				w.o.Store, last, w.at.Sequence, err)
		}
		if err := w.o.Pause(w.ctx, pause); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		pause = min(2*pause, mostPause)
	}
}

// probe returns nil when the log has entries of a store of which a read has found none. A read is no evidence: its
// server may be behind. So it appends an entry that expects what cannot be, and is told the last sequence.
func (w *Writer) probe() error {
	began, pause := w.o.Now(), firstPause
	for {
		_, err := w.o.Transport.Append(w.ctx, w.o.Store, math.MaxInt64, nil)
		refused := (*Refused)(nil)
		if errors.As(err, &refused) && refused.Last > 0 {
			_, _, err = w.o.Transport.Next(w.ctx, w.o.Store, 0, 0)
			if err == nil {
				return nil
			}
			refused = nil
		}
		switch waited := w.o.Now().Sub(began); {
		case refused != nil && waited >= w.o.Suspicion:
			return ErrMissing
		case refused == nil && waited >= max(w.o.Patience, w.o.Suspicion):
			return fmt.Errorf("%w: %w", ErrUnanswered, err)
		}
		if err := w.o.Pause(w.ctx, pause); err != nil {
			return fmt.Errorf("%w: %w", ErrUnanswered, err)
		}
		pause = min(2*pause, mostPause)
	}
}

// Close ends the writer. Call it after the store has closed its file: the file then counts as whole, unless the
// writer has found that it cannot be trusted. An entry that is being published ends as unknown.
func (w *Writer) Close() error {
	_ = w.stop(ErrClosed)
	w.cancel()
	w.group.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.distrust {
		err := os.Remove(markPath(w.path))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return closeMark(w.path, w.o)
}
