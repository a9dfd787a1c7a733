package backend_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/state/journal"
)

// busy is a backend whose lock others hold: the holder changes at the times in changes, in seconds from the start.
type busy struct {
	backend.Backend
	start   time.Time
	changes []int
	tries   []int // in seconds from the start
}

func (b *busy) Lock(context.Context, string, journal.LockInfo) (backend.Lock, error) {
	now := int(time.Since(b.start) / time.Second)
	b.tries = append(b.tries, now)
	n := 0
	for n < len(b.changes) && b.changes[n] <= now {
		n++
	}
	return backend.Lock{}, &journal.Held{Holder: journal.LockInfo{ID: strconv.Itoa(n)}}
}

// A command that waited beside others that took turns was left out: after a while it asked only every 16 seconds, and
// each time another one had the lock.
func TestTheOneWhoWaitsAsksMoreOftenWhenTheLockChangesHands(t *testing.T) {
	for _, c := range []struct {
		changes, tries []int
		holders        []string
	}{
		{nil, []int{0, 1, 3, 7, 15, 31, 47, 60}, []string{"0"}},
		{[]int{10, 40}, []int{0, 1, 3, 7, 15, 16, 18, 22, 30, 46, 47, 49, 53, 60}, []string{"0", "1", "2"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &busy{start: time.Now(), changes: c.changes}
			var holders []string
			_, err := backend.Acquire(t.Context(), b, "default", journal.LockInfo{}, time.Minute,
				func(holder journal.LockInfo) { holders = append(holders, holder.ID) })
			if err == nil || !slices.Equal(b.tries, c.tries) || !slices.Equal(holders, c.holders) {
				t.Errorf("with the holders %s it tried after %d seconds, want %d: %v", holders, b.tries, c.tries, err)
			}
		})
	}
}
