package coordinator

import (
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
)

// persist repeats fn until it succeeds. It reports false when the run ended before, or when fn keeps failing for a reason
// that waiting does not cure: that ends the run.
func (x *executor) persist(doing string, fn func() error) bool {
	var since time.Time
	for {
		err := fn()
		if err == nil {
			return true
		}
		switch now := x.Now(); {
		case loop.Outage(err):
			since = time.Time{}
		case since.IsZero():
			since = now
		case now.Sub(since) >= loop.StorePatience:
			if x.ctx.Err() == nil {
				x.inbox.put(loop.Failed{Err: fmt.Errorf("%w for %s: %s: %w", loop.ErrStore, loop.StorePatience, doing, err)})
			}
			return false
		}
		if !x.pause(retryEvery) {
			return false
		}
	}
}
