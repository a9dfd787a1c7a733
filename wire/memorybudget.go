package wire

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

const (
	// DefaultMemoryBudget is how many bytes of large messages a process takes out of envelopes at the same time.
	DefaultMemoryBudget = 1 << 30
	// smallMessage is the size in bytes up to which a message needs no reservation: how many of them there are at a time
	// is limited by the number of messages that are fetched.
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

// MemoryBudget limits the bytes of all large messages that a process unpacks at the same time. A message of more than 1
// MiB waits until the budget has enough memory for it. The messages of one pool never use more than half of the budget,
// so that a pool with huge messages, or with blobs that do not arrive, leaves the other half to others.
type MemoryBudget struct {
	share int64
	all   *semaphore.Weighted

	mu    sync.Mutex // guards pools
	pools map[string]*poolBudget
}

// poolBudget is the half of the budget that a pool may use.
type poolBudget struct {
	*semaphore.Weighted
	// growing is held by the message that has a reservation and waits for more. If there were two, each could wait for
	// the other.
	growing *semaphore.Weighted
}

// NewMemoryBudget returns a budget of a number of bytes. A message that is larger than half of it reserves half of it.
func NewMemoryBudget(bytes int64) *MemoryBudget {
	return &MemoryBudget{share: bytes / 2, all: semaphore.NewWeighted(bytes), pools: map[string]*poolBudget{}}
}

// For returns the reservation of a message of a pool: nothing yet. Release it when the message is not needed any more.
func (b *MemoryBudget) For(pool string) *Reservation {
	return &Reservation{budget: b, pool: pool}
}

func (b *MemoryBudget) of(pool string) *poolBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pools[pool]
	if p == nil {
		p = &poolBudget{semaphore.NewWeighted(b.share), semaphore.NewWeighted(1)}
		b.pools[pool] = p
	}
	return p
}

// Reservation is the memory that one message may use. One goroutine uses it. A nil reservation limits nothing.
type Reservation struct {
	budget  *MemoryBudget
	pool    string
	bytes   int64
	growing bool // grow will follow
}

// take reserves memory for a message that has none yet. It waits until there is enough; the error is that of ctx. With
// more, grow must follow.
func (r *Reservation) take(ctx context.Context, bytes int64, more bool) error {
	if r == nil || bytes <= smallMessage {
		return nil
	}
	pool := r.budget.of(r.pool)
	if more {
		if pool.growing.Acquire(ctx, 1) != nil {
			return context.Cause(ctx)
		}
		r.growing = true
	}
	bytes = min(bytes, r.budget.share)
	if pool.Acquire(ctx, bytes) != nil {
		return context.Cause(ctx)
	}
	if r.budget.all.Acquire(ctx, bytes) != nil {
		pool.Release(bytes)
		return context.Cause(ctx)
	}
	r.bytes = bytes
	return nil
}

// grow raises the reservation of the message to a number of bytes.
//
// While the message waits for its part of the whole budget it reserves nothing there, because messages of several pools
// may wait for each other there. Meanwhile, one compressed message of each pool is in memory without being counted.
func (r *Reservation) grow(ctx context.Context, bytes int64) error {
	if r == nil {
		return nil
	}
	if r.bytes == 0 {
		return r.take(ctx, bytes, false)
	}
	pool := r.budget.of(r.pool)
	had := r.bytes
	bytes = min(max(bytes, had), r.budget.share)
	if pool.Acquire(ctx, bytes-had) != nil {
		return context.Cause(ctx)
	}
	r.budget.all.Release(had)
	if r.budget.all.Acquire(ctx, bytes) != nil {
		pool.Release(bytes)
		r.bytes = 0
		return context.Cause(ctx)
	}
	r.bytes, r.growing = bytes, false
	pool.growing.Release(1)
	return nil
}

// Release returns the memory to the budget. It may be called more than once.
func (r *Reservation) Release() {
	if r == nil {
		return
	}
	pool := r.budget.of(r.pool)
	if r.bytes > 0 {
		r.budget.all.Release(r.bytes)
		pool.Release(r.bytes)
	}
	if r.growing {
		pool.growing.Release(1)
	}
	r.bytes, r.growing = 0, false
}
