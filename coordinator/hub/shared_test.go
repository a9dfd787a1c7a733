package hub

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A user that came while the goroutine of the last user was ending held a mutex, or waited for one, until the goroutine
// had ended. In the simulation that stops the clock, and the goroutine waits for the clock: seed 62011 never ended.
func TestAUserMayComeWhileTheFormerGoroutineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, runs atomic.Int32
		s := shared{run: func(ctx context.Context) {
			if running.Add(1) > 1 {
				t.Error("two goroutines run at the same time")
			}
			runs.Add(1)
			<-ctx.Done()
			<-time.After(time.Second)
			running.Add(-1)
		}}
		s.join()
		go s.leave()
		synctest.Wait()
		began := time.Now()
		s.join()
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the next user waited for %s", waited)
		}
		<-time.After(10 * time.Second)
		s.leave()
		if n := runs.Load(); n != 2 || running.Load() != 0 {
			t.Errorf("%d goroutines have run, and %d still do", n, running.Load())
		}
	})
}
