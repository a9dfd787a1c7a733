// Package journal is a worker's own durable record of its attempts.
//
// After a crash at any instant, it shows for each attempt whether its operation had not begun, may have begun, or
// had ended with a result that is not yet confirmed; and it contains the message to publish in that case. The
// messages are sealed, so that no secret is stored in clear text, and recovery needs no key. The package publishes
// nothing and does not depend on the transport. The format is described in docs/format/worker-journal.md.
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
	// ErrLocked means that another process has locked the journal.
	ErrLocked = errors.New("the journal is in use by another worker")
	// ErrFormat means that the file is not a journal, or one of another version.
	ErrFormat = errors.New("not a journal that this version can read")
	// ErrFull means that the disk has no space for an entry. Nothing was recorded and the journal is unchanged, so
	// the operation can be retried.
	ErrFull = errors.New("the disk has no room for the journal")
	// ErrBroken means that an earlier write failed, so that the content of the disk is unknown. The worker must
	// stop; the file is read again at the next start.
	ErrBroken = errors.New("the journal is broken by an earlier failure to write")
)

// Status is the progress of an attempt.
type Status byte

// The statuses, and the events that lead to them. An attempt that is done has no status: it is removed.
//
//	(none) --Intend--> Intended --Start--> Started --End--> Ended --Done--> (none)
//	                      |                                           ^
//	                      +------------- Done (claim lost) -----------+
//
// Progress keeps an attempt Started, with another message.
const (
	// Intended: the claim may have been won; the operation has not begun.
	Intended Status = 1 + iota
	// Started: the operation may have begun.
	Started
	// Ended: the operation has ended; its result may not have been confirmed.
	Ended
)

// String returns the name of the status for messages.
func (p Status) String() string {
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

// follows reports whether an event that leads to the status is legal for an attempt in status before (0: not in the
// journal).
func (p Status) follows(before Status) bool {
	switch p {
	case Intended:
		return before == 0
	case Started:
		return before == Intended || before == Started
	case Ended:
		return before == Started || before == Intended
	default: // done
		return before == Intended || before == Ended
	}
}

// Entry is one attempt of the worker.
type Entry struct {
	Ref    wire.TaskRef `msgpack:"r"`
	Nonce  string       `msgpack:"n"`
	Status Status       `msgpack:"p"`
	// Message is published if this is the last entry: it says that the attempt was not started, or that it is in doubt, or
	// it is the result.
	Message []byte `msgpack:"m,omitempty"`
}

// Journal is an open journal. Its methods are safe for concurrent use; concurrent durable writes share one fsync.
type Journal struct {
	path string
	lock *os.File

	// mu guards the fields below. It is held for writes into the page cache and for the rare compaction, never
	// while a durable write waits for the disk.
	mu     sync.Mutex
	file   *os.File
	size   int64 // of the file
	live   map[wire.AttemptID]*held
	order  uint64 // of the next attempt
	broken error
	lacked int // the size of the largest frame that could not be written since Room last succeeded

	// syncing is held during an fsync; synced is the size of the file with this generation that has been synced: a
	// compaction starts a new file, which is synced from the start.
	syncing    sync.Mutex
	synced     int64
	generation uint64 // guarded by both mutexes: changed under both, read under either
}

// held is a live entry with its position in the order of arrival, and the size of its frame.
type held struct {
	Entry
	order uint64
	bytes int64
}

const fileName = "worker.journal"

// Open opens the journal in the directory, or creates one. An incomplete end after a crash is truncated: it was
// never reported as durable. cut is the number of bytes that were removed.
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

// Close closes the files and releases the lock. Entries that were appended without being durable may still be lost.
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

// Pending returns the live entries, oldest first.
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

// Intend records that the attempt is about to be claimed with the nonce. The entry survives the end of the process,
// not that of the machine: an attempt that is lost in this way is in doubt, which is safe. notStarted is the
// message to publish if the claim was won.
func (j *Journal) Intend(ref wire.TaskRef, nonce string, notStarted []byte) error {
	return j.append(Entry{Ref: ref, Nonce: nonce, Status: Intended, Message: notStarted}, false)
}

// Start records that the operation is about to begin. The entry is durable when Start returns.
func (j *Journal) Start(ref wire.TaskRef, doubt []byte) error {
	return j.append(Entry{Ref: ref, Status: Started, Message: doubt}, true)
}

// Progress replaces the message about a started operation. As for Intend, it survives the end of the process alone:
// after the end of the machine, the message is an earlier one.
func (j *Journal) Progress(ref wire.TaskRef, doubt []byte) error {
	return j.append(Entry{Ref: ref, Status: Started, Message: doubt}, false)
}

// End records the result. It is durable when End returns, and is kept until Done.
func (j *Journal) End(ref wire.TaskRef, result []byte) error {
	return j.append(Entry{Ref: ref, Status: Ended, Message: result}, true)
}

// Done removes an attempt: its result is confirmed, or its claim was lost. If the removal is lost in a crash, the
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

// write writes an entry into the page cache and returns the size of the file after it.
func (j *Journal) write(e Entry) (int64, uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrBroken, j.broken)
	}
	var before Status
	h := j.live[e.Ref.Attempt]
	if h != nil {
		before = h.Status
		e.Nonce = h.Nonce
	}
	if !e.Status.follows(before) {
		return 0, 0, fmt.Errorf("attempt %s cannot become %q: it is %q", e.Ref.Attempt, e.Status, before)
	}
	frame, err := encodeFrame(e)
	if err != nil {
		return 0, 0, err
	}
	if _, err := j.file.WriteAt(frame, j.size); err != nil {
		// A part of the frame may be in the file, after the end, where the next frame will be written; it is
		// truncated so that nothing of it remains after a shorter one.
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

// probeBytes is the minimum number of bytes that Room tries to write: the entries of some operations.
const probeBytes = 64 << 10

// CheckSpace returns ErrFull while the disk has no space for the largest entry that could not be written, and for some
// more small ones. It does not change the journal: a crash during the test leaves zeros after its end, which the
// next start truncates.
func (j *Journal) CheckSpace() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return fmt.Errorf("%w: %w", ErrBroken, j.broken)
	}
	_, err := j.file.WriteAt(make([]byte, max(j.lacked, probeBytes)), j.size)
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

// keep updates the state in memory with an entry that is in the file.
func (j *Journal) keep(e Entry, bytes int64) {
	if e.Status == 0 {
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

// sync returns when the file is synced up to end. A call that waited for another's fsync often finds that this has
// covered its own entries.
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
		j.broken = err // the kernel may have dropped the unwritten pages, so that a retry proves nothing
		j.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	j.synced = target
	return j.compact()
}
