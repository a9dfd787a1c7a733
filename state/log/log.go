// Package log keeps the changes of a store as a chain of entries in a log that several members share, so that a store
// is the applied copy of its log.
//
// A Writer publishes each transaction as an entry before it commits it; a Follower applies the entries of others. The
// package does not know what the stores contain, and does not choose who writes: the log itself decides, by refusing
// entries that do not follow the last one. docs/format/log.md describes the entries, docs/adr/0047 the reasons.
package log

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Transport is the shared log. Each store has a subject of its own; sequences are those of the whole log. Its methods
// are safe for concurrent use. What they answer is no evidence about the end of a subject, except an acknowledgement of
// Append and the sequence of its refusal: a server that is cut off answers reads from what it has.
type Transport interface {
	// Append stores an entry as the next of a store, if the last sequence of its subject is expected; 0 means that it has
	// none. It returns the sequence only if the entry is stored durably. The error is a *Refused with the last sequence
	// that the subject has, or wraps ErrUndecided or ErrUnanswered. After both, the entry can be stored at any later time,
	// also if further calls are refused. An entry has less than 1 MiB.
	Append(ctx context.Context, store string, expected uint64, entry []byte) (sequence uint64, err error)
	// Next returns the first stored entry of a store whose sequence is from or higher. It waits for one for at most wait,
	// and returns ErrNone if there is none that it knows. Other errors wrap ErrUnanswered if a repetition may help.
	Next(ctx context.Context, store string, from uint64, wait time.Duration) (sequence uint64, entry []byte, err error)
	// Purge removes the entries of all stores whose sequence is lower than the horizon.
	Purge(ctx context.Context, horizon uint64) error
	// Put stores a part, of at most MaxPart bytes, durably. A name is put with one content only, so it may be put again.
	Put(ctx context.Context, name string, part []byte) error
	// Get returns a part. The error is ErrNone if there is none that it knows.
	Get(ctx context.Context, name string) ([]byte, error)
	// List returns the names of all parts that begin with a prefix, in any order.
	List(ctx context.Context, prefix string) ([]string, error)
	// Remove removes a part, if there is one.
	Remove(ctx context.Context, name string) error
}

// Answers of a Transport that callers handle.
var (
	// ErrUnanswered means that nobody answered: the request may have been carried out, or be carried out later.
	ErrUnanswered = errors.New("the log does not answer")
	// ErrUndecided means that the log refused an entry and did not say what the last one is.
	ErrUndecided = errors.New("the log has not decided about an entry of the store")
	// ErrNone means that there is no such entry or part, as far as the answering server knows.
	ErrNone = errors.New("the log has no such entry")
)

// Refused is the answer to an entry that does not follow the last one of its store.
type Refused struct{ Last uint64 }

func (r *Refused) Error() string {
	return fmt.Sprintf("the log has refused an entry: the last one of the store has the sequence %d", r.Last)
}

// Conditions in which a store can no longer be written by this object. It has to be opened anew; its transaction has no
// effect, unless the text says otherwise.
var (
	// ErrDeposed means that another member writes the store, or another object of this member.
	ErrDeposed = errors.New("another member writes this store now")
	// ErrUnknown means that nobody knows whether the transaction has an effect. Whoever opens the store anew does.
	ErrUnknown = errors.New("it is not known whether the change was stored")
	// ErrLost means that the log has fewer entries than it acknowledged. Nobody knows whether the transaction has an
	// effect.
	ErrLost = errors.New("the log has lost entries that it had acknowledged")
	// ErrCopy means that the transaction has its effect, but could not be applied to the copy of this member.
	ErrCopy = errors.New("the change is stored, but the copy on this machine could not be written")
	// ErrHeld means that another process has the copy open.
	ErrHeld = errors.New("another process has the store open")
	// ErrClosed means that the writer was closed.
	ErrClosed = errors.New("the writer of the store is closed")
)
