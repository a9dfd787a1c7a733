package coordinator

import (
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
)

// persist calls fn until it succeeds. It returns false if the run ends first, or if fn has failed for so long that
// persist ends the run.
func (x *executor) persist(doing string, fn func() error) bool {
	var failures loop.FailureTimer
	for {
		err := fn()
		if err == nil {
			return true
		}
		if spent := failures.Failing(x.Now(), err); spent > 0 {
			if x.ctx.Err() == nil {
				x.inbox.put(loop.Failed{Err: fmt.Errorf("%w for %s: %s: %w", loop.ErrStore,
					spent.Round(time.Second), doing, err)})
			}
			return false
		}
		if !x.pause(retryEvery) {
			return false
		}
	}
}
