// Package journal is a worker's own durable record of the attempts that it holds.
//
// It says, after a crash at any instant, for each attempt whether its operation had not begun, may have begun, or
// had ended with a result that is not yet confirmed; and it holds the message that has to be published in that case.
// The messages come sealed, so that no secret reaches the disk in the clear, and recovery needs no key. The package
// publishes nothing and knows no transport. The format is described in docs/format/worker-journal.md.
package journal

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/millipede-iac/millipede/wire"
)

// Conditions that callers handle.
var (
	// ErrLocked means that another process holds the journal.
	ErrLocked = errors.New("the journal is in use by another worker")
	// ErrFormat means that the file is no journal, or one of another version.
	ErrFormat = errors.New("not a journal that this version can read")
	// ErrFull means that the disk has no room for an entry. Nothing was noted, and the journal is as it was: the same
	// may be tried again.
	ErrFull = errors.New("the disk has no room for the journal")
	// ErrBroken means that an earlier write failed, so that nobody can say what reached the disk. The worker must
	// stop; what is in the file is read again at the next start.
	ErrBroken = errors.New("the journal is broken by an earlier failure to write")
)

// Phase is how far an attempt has come.
type Phase byte

// The phases, and the events that lead to them. An attempt that is done has no phase: it is forgotten.
//
//	(none) --Intend--> Intended --Start--> Started --End--> Ended --Done--> (none)
//	                      |                                           ^
//	                      +------------- Done (claim lost) -----------+
const (
	// Intended: the claim may have been won, the operation has not begun.
	Intended Phase = 1 + iota
	// Started: the operation may have begun.
	Started
	// Ended: the operation has ended; its result may not have been confirmed.
	Ended
)

// String names the phase in messages.
func (p Phase) String() string {
	switch p {
	case Intended:
		return "intended"
	case Started:
		return "started"
	case Ended:
		return "ended"
	default:
		return "not held"
	}
}

// follows reports whether an event that leads to the phase is legal for an attempt in the other one (0: not held).
func (p Phase) follows(before Phase) bool {
	switch p {
	case Intended:
		return before == 0
	case Started:
		return before == Intended
	case Ended:
		return before == Started || before == Intended
	default: // done
		return before == Intended || before == Ended
	}
}

// Entry is one attempt that the worker holds.
type Entry struct {
	Ref   wire.TaskRef `msgpack:"r"`
	Nonce string       `msgpack:"n"`
	Phase Phase        `msgpack:"p"`
	// Message is what to publish if this is the last that is known: that the attempt was not started, that it is
	// in doubt, or its result.
	Message []byte `msgpack:"m,omitempty"`
}

// Journal is an open journal. Its methods are safe for concurrent use; concurrent durable writes share one fsync.
type Journal struct {
	path string
	lock *os.File

	// mu guards what follows. It is held for writes into the page cache and for the rare compaction, never while a
	// durable write waits for the disk.
	mu     sync.Mutex
	file   *os.File
	size   int64 // of the file
	live   map[wire.AttemptID]*held
	order  uint64 // of the next attempt
	broken error
	lacked int // the size of the largest frame that found no room since Room found some

	// syncing is held during an fsync; synced is the size that has reached the disk, of the file with this
	// generation: a compaction begins a new file, which is on the disk from the start.
	syncing    sync.Mutex
	synced     int64
	generation uint64 // guarded by both mutexes: changed under both, read under either
}

// held is a live entry with its place in the order of arrival, and the bytes that its frame takes.
type held struct {
	Entry
	order uint64
	bytes int64
}

const fileName = "worker.journal"

// Open opens the journal in the directory, or begins one. What a crash left unfinished at the end of the file is
// cut off: it was never reported as durable. Cut tells how much that was.
func Open(dir string) (j *Journal, cut int64, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, 0, fmt.Errorf("making the journal's directory: %w", err)
	}
	lock, err := lockFile(filepath.Join(dir, fileName+".lock"))
	if err != nil {
		return nil, 0, err
	}
	j = &Journal{path: filepath.Join(dir, fileName), lock: lock, live: map[wire.AttemptID]*held{}}
	if cut, err = j.load(); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("opening the journal %s: %w", j.path, err), lock.Close())
	}
	return j, cut, nil
}

// Close closes the files and frees the lock. What was appended without being durable may still be lost.
func (j *Journal) Close() error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	broken := j.broken
	j.broken = os.ErrClosed
	if broken != nil { // the file may be closed already
		return errors.Join(broken, j.lock.Close())
	}
	return errors.Join(j.file.Close(), j.lock.Close())
}

// Pending returns the entries that are held, oldest first.
func (j *Journal) Pending() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.inOrder()
}

func (j *Journal) inOrder() []Entry {
	all := slices.SortedFunc(maps.Values(j.live), func(a, b *held) int { return cmp.Compare(a.order, b.order) })
	out := make([]Entry, len(all))
	for i, h := range all {
		out[i] = h.Entry
	}
	return out
}

// Intend notes that the attempt is about to be claimed with the nonce. It survives the death of the process, not
// that of the machine: an attempt that is lost so is in doubt, which is safe. notStarted is what to publish when
// the claim turns out to be ours.
func (j *Journal) Intend(ref wire.TaskRef, nonce string, notStarted []byte) error {
	return j.append(Entry{Ref: ref, Nonce: nonce, Phase: Intended, Message: notStarted}, false)
}

// Start notes that the operation is about to begin. It is on the disk when Start returns.
func (j *Journal) Start(ref wire.TaskRef, doubt []byte) error {
	return j.append(Entry{Ref: ref, Phase: Started, Message: doubt}, true)
}

// End notes the result. It is on the disk when End returns, and stays there until Done.
func (j *Journal) End(ref wire.TaskRef, result []byte) error {
	return j.append(Entry{Ref: ref, Phase: Ended, Message: result}, true)
}

// Done forgets an attempt: its result is confirmed, or its claim was lost. If that does not reach the disk, the
// result is published again, which is harmless.
func (j *Journal) Done(ref wire.TaskRef) error {
	return j.append(Entry{Ref: ref}, false)
}

func (j *Journal) append(e Entry, durable bool) error {
	end, generation, err := j.write(e)
	if err != nil || !durable {
		return err
	}
	return j.sync(end, generation)
}

// write puts an entry into the page cache and returns the size of the file behind it.
func (j *Journal) write(e Entry) (int64, uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrBroken, j.broken)
	}
	var before Phase
	h := j.live[e.Ref.Attempt]
	if h != nil {
		before = h.Phase
		e.Nonce = h.Nonce
	}
	if !e.Phase.follows(before) {
		return 0, 0, fmt.Errorf("attempt %s cannot become %q: it is %q", e.Ref.Attempt, e.Phase, before)
	}
	frame, err := encodeFrame(e)
	if err != nil {
		return 0, 0, err
	}
	if _, err := j.file.WriteAt(frame, j.size); err != nil {
		// A part of the frame may be in the file. It is behind the end, where the next frame goes; it is cut off so
		// that nothing of it stays behind a shorter one.
		if cutErr := j.file.Truncate(j.size); cutErr == nil && full(err) {
			j.lacked = max(j.lacked, len(frame))
			return 0, 0, fmt.Errorf("%w: %w", ErrFull, err)
		}
		j.broken = err
		return 0, 0, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	j.size += int64(len(frame))
	j.keep(e, int64(len(frame)))
	return j.size, j.generation, nil
}

// enoughRoom is how many bytes Room tries to write at least: the entries of some operations.
const enoughRoom = 64 << 10

// Room returns ErrFull as long as the disk has no room for the largest entry that could not be written, and for some
// more small ones. It leaves the journal as it is: a crash meanwhile leaves zeros behind its end, which the next start
// cuts off.
func (j *Journal) Room() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return fmt.Errorf("%w: %w", ErrBroken, j.broken)
	}
	_, err := j.file.WriteAt(make([]byte, max(j.lacked, enoughRoom)), j.size)
	cutErr := j.file.Truncate(j.size)
	switch {
	case cutErr != nil:
		j.broken = cutErr
		return fmt.Errorf("%w: %w", ErrBroken, cutErr)
	case err == nil:
		j.lacked = 0
		return nil
	case full(err):
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	j.broken = err
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// keep brings what is known in memory up to date with an entry that is in the file.
func (j *Journal) keep(e Entry, bytes int64) {
	if e.Phase == 0 {
		delete(j.live, e.Ref.Attempt)
		return
	}
	order := j.order
	if h := j.live[e.Ref.Attempt]; h != nil {
		order = h.order
	} else {
		j.order++
	}
	j.live[e.Ref.Attempt] = &held{Entry: e, order: order, bytes: bytes}
}

// sync returns when the file is on the disk up to end. Whoever waits meanwhile for the fsync of another finds, when
// its turn comes, that one fsync has served all that had been written before it.
func (j *Journal) sync(end int64, generation uint64) error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	if j.generation != generation || j.synced >= end {
		return nil
	}
	j.mu.Lock()
	target, file, broken := j.size, j.file, j.broken
	j.mu.Unlock()
	if broken != nil {
		return fmt.Errorf("%w: %w", ErrBroken, broken)
	}
	if err := file.Sync(); err != nil {
		j.mu.Lock()
		j.broken = err // the kernel may have dropped what it could not write, so a second try proves nothing
		j.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	j.synced = target
	return j.compact()
}
