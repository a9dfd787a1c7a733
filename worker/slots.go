package worker

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// slots limits how many operations run at a time, over both lanes.
type slots struct {
	size int64
	held atomic.Int64
	sem  *semaphore.Weighted
}

func newSlots(n int) *slots {
	return &slots{size: int64(n), sem: semaphore.NewWeighted(int64(n))}
}

// free waits until there is a free slot, and returns how many there are without taking any: a fetch that waits for
// tasks occupies no slot. It returns 0 if ctx ends.
func (s *slots) free(ctx context.Context) int {
	if !s.take(ctx) {
		return 0
	}
	n := s.size - s.held.Load() + 1 // with the one that is in hand
	s.give()
	return int(max(n, 1))
}

// take waits for a slot and takes it. It returns false if ctx ends.
func (s *slots) take(ctx context.Context) bool {
	if s.sem.Acquire(ctx, 1) != nil {
		return false
	}
	s.held.Add(1)
	return true
}

// tryTake takes a slot if one is free.
func (s *slots) tryTake() bool {
	if !s.sem.TryAcquire(1) {
		return false
	}
	s.held.Add(1)
	return true
}

func (s *slots) give() {
	s.held.Add(-1)
	s.sem.Release(1)
}

// running returns how many slots are taken.
func (s *slots) running() int { return int(s.held.Load()) }
