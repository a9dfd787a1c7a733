package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/state/journal"
)

// Lock is a lock that is held on a snapshot.
type Lock struct {
	// ID is what Unlock takes and what others are shown. It is the ID of the lock information, unless the place gives
	// locks IDs of its own (gcs, consul, cos).
	ID string
	// Lost is closed when the lock is known to be lost while it is held: then nothing more may be written. It is nil
	// where a lock cannot be lost unnoticed, or where only the next write would notice it.
	Lost <-chan struct{}
	// Held looks whether the lock is still held; an error means that it cannot be told. It is for the moment before a
	// write, because Lost learns of a loss late. It is nil where a write under a lock that is lost fails by itself, and
	// where it cannot be asked for.
	Held func(ctx context.Context) (bool, error)
}

// lockDocument is the lock information as every backend of OpenTofu stores and sends it: these fields in this order.
// A field more would break the other engine's unlocking, which compares texts in some places.
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
		panic(err) // the fields cannot fail to be encoded, but for years beyond 9999
	}
	return data
}

// DecodeLock reads lock information that EncodeLock, or another engine, has written. Unknown fields are ignored.
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

// The pauses between the tries of Acquire.
const (
	firstPause = time.Second
	maxPause   = 16 * time.Second
)

// Acquire takes the lock of a snapshot. While somebody else holds it, Acquire tries again after 1, 2, 4, 8, 16, 16 ...
// seconds, as OpenTofu does, until timeout has passed. waiting, unless it is nil, is told of the holder before the
// first pause, and whenever the holder is another one. The error is *journal.Held when the time is up, and the
// context's cause when that ends first.
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
		if waiting != nil && told != held.Holder.ID {
			waiting(held.Holder)
			told = held.Holder.ID
		}
		timer := time.NewTimer(min(pause, left))
		select {
		case <-ctx.Done():
			timer.Stop()
			return Lock{}, context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(2*pause, maxPause)
	}
}
