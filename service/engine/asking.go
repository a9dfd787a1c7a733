package engine

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/service/work"
)

// asking is an observer that tells the service about questions, such as those for schemas, for which no worker is
// there. The waits of operations are in the timeline, which begins when these questions have been answered.
type asking struct {
	coordinator.Observer
	waits func(kind, on, text string) // see work.Job.Waits
	told  atomic.Bool
}

// Waiting implements coordinator.Observer.
func (a *asking) Waiting(waits []coordinator.Wait) {
	a.Observer.Waiting(waits)
	if len(waits) == 0 && a.told.CompareAndSwap(true, false) {
		a.waits("", "", "")
	}
	for _, w := range waits {
		if !w.Call {
			continue
		}
		a.told.Store(true)
		of := fmt.Sprintf("the pool %s, which has none", w.Pool)
		if strings.Contains(w.Pool, ",") {
			of = fmt.Sprintf("one of the pools %s, which have none", w.Pool)
		}
		if len(w.Unsuited) > 0 {
			of += " of a suitable version"
		}
		a.waits(work.ForWorker, w.Pool, fmt.Sprintf("a question about %s waits for a worker of %s", w.Address, of))
	}
}
