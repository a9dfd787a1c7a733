package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/state/journal"
)

// Lock is a lock that this process holds on a snapshot.
type Lock struct {
	// ID is the argument of Unlock and is shown to others. It is the ID of the lock information, unless the backend
	// assigns IDs itself (gcs, consul, cos).
	ID string
	// Lost is closed when the lock is known to be lost: then nothing more may be written. It is nil if a lock
	// cannot be lost unnoticed, or if only the next write would detect it.
	Lost <-chan struct{}
	// Held checks whether the lock is still held; an error means that this is unknown. It is called right before a
	// write, because Lost is closed with a delay. It is nil if a write under a lost lock fails anyway, and if the
	// check is not possible.
	Held func(ctx context.Context) (bool, error)
}

// lockDocument is the lock information in the form of OpenTofu's backends: these fields in this order. An
// additional field would break unlocking by OpenTofu, which compares texts in some backends.
type lockDocument struct {
	ID        string
	Operation string
	Info      string
	Who       string
	Version   string
	Created   time.Time
	Path      string
}

// EncodeLock returns lock information in the form that OpenTofu's backends store.
func EncodeLock(info journal.LockInfo) []byte {
	data, err := json.Marshal(lockDocument{info.ID, info.Operation, info.Info, info.Who, info.Version,
		info.Created.UTC(), info.Path})
	if err != nil {
		panic(err) // encoding fails only for years beyond 9999
	}
	return data
}

// DecodeLock decodes lock information written by EncodeLock or by another engine. Unknown fields are ignored.
func DecodeLock(data []byte) (journal.LockInfo, error) {
	var d lockDocument
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&d); err != nil {
		return journal.LockInfo{}, fmt.Errorf("reading who holds the lock: %w", err)
	}
	return journal.LockInfo{
		ID: d.ID, Operation: d.Operation, Info: d.Info, Who: d.Who, Version: d.Version,
		Created: d.Created, Path: d.Path,
	}, nil
}

// The pauses between the attempts of Acquire.
const (
	firstPause = time.Second
	maxPause   = 16 * time.Second
)

// Acquire locks a snapshot. While it is locked, Acquire retries after 1, 2, 4, 8, 16, 16 ... seconds, as OpenTofu does,
// until timeout has passed. Whenever the holder has changed, it begins again with a second, so that a waiting process
// gets its turn even if others take the lock in turns. waiting, unless it is nil, is called with the holder before the
// first pause, and whenever the holder has changed. The error is *journal.Held after the timeout, and the context's
// cause if that ends first.
func Acquire(ctx context.Context, b Backend, workspace string, info journal.LockInfo, timeout time.Duration,
	waiting func(holder journal.LockInfo),
) (Lock, error) {
	end := time.Now().Add(timeout)
	pause, told := firstPause, "nobody"
	for {
		lock, err := b.Lock(ctx, workspace, info)
		var held *journal.Held
		if !errors.As(err, &held) {
			return lock, err
		}
		left := time.Until(end)
		if left <= 0 {
			return Lock{}, err
		}
		if told != held.Holder.ID {
			told, pause = held.Holder.ID, firstPause
			if waiting != nil {
				waiting(held.Holder)
			}
		}
		if err := sleep.For(ctx, min(pause, left)); err != nil {
			return Lock{}, err
		}
		pause = min(2*pause, maxPause)
	}
}
