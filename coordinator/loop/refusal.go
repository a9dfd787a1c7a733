package loop

import (
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
)

var (
	// ErrStore means that the run ended, and can be resumed, because the transport kept refusing something that the run
	// depends on, or did not answer.
	ErrStore = errors.New("NATS kept refusing")
	// ErrWorkers means that the run ended, and can be resumed, because no worker could take its tasks.
	ErrWorkers = errors.New("no worker could take a task")
)

// checkUnavailablePools ends the run if tasks wait in a pool whose workers are alive but take none, because their disks
// are full for instance. Nothing else would show that, because such workers still answer calls.
func (l *Loop) checkUnavailablePools() {
	if !l.Durable || l.halted() {
		return
	}
	waiting := map[string]int{}
	for _, v := range l.out {
		if x := &l.vertices[v]; x.phase == running && x.work.worker == "" {
			waiting[x.work.pool]++
		}
	}
	for _, p := range l.permits.poolOrder {
		why := ""
		if waiting[p.name] > 0 {
			why = l.workers.trouble(p.name)
		}
		switch {
		case why == "":
			p.troubledSince = time.Time{}
		case p.troubledSince.IsZero():
			p.troubledSince = l.now
			l.tell(-1, diag.List{diag.New(diag.Warning, "No worker takes tasks", fmt.Sprintf(
				"The run waits: every worker of pool %q is alive, and none takes a task. %s\n\n"+
					"Once a worker has room on its disk, or another one is started for the pool, the run goes on by "+
					"itself. If nothing changes within %s, it ends, and can be resumed.",
				p.name, why, StoreTimeout), nil)})
		case l.now.Sub(p.troubledSince) >= StoreTimeout:
			l.fail(fmt.Errorf("%w of pool %q for %s. %s", ErrWorkers, p.name, StoreTimeout, why))
		}
	}
}
