package wire

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

const (
	// DefaultRoom is how many bytes of large messages a process takes out of envelopes at the same time.
	DefaultRoom = 1 << 30
	// smallMessage is the size in bytes up to which a message needs no room: how many of them there are at a time is
	// limited by the number of messages that are fetched.
	smallMessage = 1 << 20
)

// TooLargeError says that a message is larger than any that Packer packs or unpacks. Nothing of it was read.
type TooLargeError struct {
	// About is the subject of the message; Bytes is its size before compression, or that of its blob.
	About string
	Bytes int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the message on %s has %d bytes, and at most %d are carried", e.About, e.Bytes, int64(MaxMessage))
}

// Room limits the bytes of all large messages that a process unpacks at the same time. A message of more than 1 MiB
// waits until there is room for it. The messages of one pool never occupy more than half of the room, so that a pool
// with huge messages, or with blobs that do not arrive, leaves the other half to others.
type Room struct {
	share int64
	all   *semaphore.Weighted

	mu    sync.Mutex // guards pools
	pools map[string]*poolRoom
}

// poolRoom is the half of the room that a pool may occupy.
type poolRoom struct {
	*semaphore.Weighted
	// growing is of the message that has room and waits for more. If there were two, each could wait for the other.
	growing *semaphore.Weighted
}

// NewRoom returns room for a number of bytes. A message that is larger than half of that occupies half of it.
func NewRoom(bytes int64) *Room {
	return &Room{share: bytes / 2, all: semaphore.NewWeighted(bytes), pools: map[string]*poolRoom{}}
}

// For returns what a message of a pool will occupy: nothing yet. Give it back when the message is not needed any more.
func (r *Room) For(pool string) *Held { return &Held{room: r, pool: pool} }

func (r *Room) of(pool string) *poolRoom {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pools[pool]
	if p == nil {
		p = &poolRoom{semaphore.NewWeighted(r.share), semaphore.NewWeighted(1)}
		r.pools[pool] = p
	}
	return p
}

// Held is the room that one message occupies. One goroutine uses it. A nil Held limits nothing.
type Held struct {
	room    *Room
	pool    string
	bytes   int64
	growing bool // grow will follow
}

// take occupies room for a message that has none yet. It waits until there is enough; the error is that of ctx. With
// more, grow must follow.
func (h *Held) take(ctx context.Context, bytes int64, more bool) error {
	if h == nil || bytes <= smallMessage {
		return nil
	}
	pool := h.room.of(h.pool)
	if more {
		if pool.growing.Acquire(ctx, 1) != nil {
			return context.Cause(ctx)
		}
		h.growing = true
	}
	bytes = min(bytes, h.room.share)
	if pool.Acquire(ctx, bytes) != nil {
		return context.Cause(ctx)
	}
	if h.room.all.Acquire(ctx, bytes) != nil {
		pool.Release(bytes)
		return context.Cause(ctx)
	}
	h.bytes = bytes
	return nil
}

// grow raises what the message occupies to a number of bytes.
//
// While the message waits for its part of the whole room it occupies nothing of that, because messages of several pools
// may wait for each other there: what is in memory then and not counted is one compressed message of each pool.
func (h *Held) grow(ctx context.Context, bytes int64) error {
	if h == nil {
		return nil
	}
	if h.bytes == 0 {
		return h.take(ctx, bytes, false)
	}
	pool := h.room.of(h.pool)
	had := h.bytes
	bytes = min(max(bytes, had), h.room.share)
	if pool.Acquire(ctx, bytes-had) != nil {
		return context.Cause(ctx)
	}
	h.room.all.Release(had)
	if h.room.all.Acquire(ctx, bytes) != nil {
		pool.Release(bytes)
		h.bytes = 0
		return context.Cause(ctx)
	}
	h.bytes, h.growing = bytes, false
	pool.growing.Release(1)
	return nil
}

// Give gives the room back. It may be called more than once.
func (h *Held) Give() {
	if h == nil {
		return
	}
	pool := h.room.of(h.pool)
	if h.bytes > 0 {
		h.room.all.Release(h.bytes)
		pool.Release(h.bytes)
	}
	if h.growing {
		pool.growing.Release(1)
	}
	h.bytes, h.growing = 0, false
}
