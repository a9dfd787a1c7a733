package loop

import (
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

var (
	// ErrStore means that the run ended, and can be resumed, because the transport kept refusing something that the run
	// depends on, or did not answer.
	ErrStore = errors.New("NATS kept refusing")
	// ErrWorkers means that the run ended, and can be resumed, because no worker could take its tasks.
	ErrWorkers = errors.New("no worker could take a task")
)

// onProbed processes the result of the regular check of the message store. The run pauses while the store cannot store
// messages, and ends if that lasts or if the store does not answer for long. Nothing is lost then: what was done is
// recorded, and what is under way is reported later.
func (l *Loop) onProbed(e Probed) {
	if !errors.Is(e.Err, wire.ErrStore) && !errors.Is(e.Err, wire.ErrUnconfirmed) && (e.Err == nil || !l.unconfirmed) {
		l.refusing, l.unconfirmed = false, false
	}
	if e.Err == nil {
		l.silentSince, l.silenceTold = time.Time{}, false
	}
	spent := l.probes.Failing(l.now, e.Err)
	switch {
	case e.Err == nil:
	case errors.Is(e.Err, wire.ErrUnconfirmed):
		if !l.unconfirmed {
			l.refusing, l.unconfirmed = true, true
			l.tell(-1, diag.List{diag.New(diag.Warning, "NATS seems to have lost data", fmt.Sprintf(
				"The run pauses: %s.\n\nA server that is cut off from the others of its cluster gives such answers. If "+
					"another answer shows the same within half a minute, the run ends; otherwise it goes on.", e.Err), nil)})
		}
	case errors.Is(e.Err, wire.ErrStore):
		if !l.refusing {
			l.refusing = true
			summary, remedy := "NATS stores nothing", "Make room on the disk of NATS. A server of its own must be "+
				"started again then, because it refuses all that comes after a write that failed; "+
				"the one inside this process is opened again by itself. "
			if errors.Is(e.Err, wire.ErrFull) {
				summary, remedy = "A stream of NATS is full", ""
			}
			l.tell(-1, diag.List{diag.New(diag.Warning, summary, fmt.Sprintf(
				"The run pauses, because the message store does not take messages: %s.\n\n"+
					"%sIf nothing changes within %s, the run ends, and can be resumed.",
				e.Err, remedy, StoreTimeout), nil)})
		}
		if spent > 0 {
			l.failRun(fmt.Errorf("%w for %s: %w", ErrStore, spent.Round(time.Second), e.Err))
		}
	case Outage(e.Err):
		if l.silentSince.IsZero() {
			l.silentSince = l.now
		}
		if l.now.Sub(l.silentSince) >= StoreTimeout && !l.silenceTold {
			l.silenceTold = true
			l.tell(-1, diag.List{diag.New(diag.Warning, "NATS does not answer", fmt.Sprintf(
				"The run waits for the message server, which has not answered for %s: %s.\n\n"+
					"Make sure that the server is started, that this machine can reach it, and that most of the "+
					"servers of a cluster are there. "+
					"The run goes on by itself then. If nothing changes within %s, it ends; it can be interrupted "+
					"before. Either way it can be resumed.",
				l.now.Sub(l.silentSince).Round(time.Second), e.Err, OutageTimeout), nil)})
		}
		if spent > 0 {
			l.failRun(fmt.Errorf("NATS has not answered for %s: %w", spent.Round(time.Second), e.Err))
		}
	}
}

// failRun ends the run because of an external failure.
func (l *Loop) failRun(err error) {
	if l.broken == nil {
		l.broken = err
	}
}

// repeatedly reports whether something has failed for long enough to end the run with the error.
func (l *Loop) repeatedly(p *FailureTimer, doing string, err error) bool {
	spent := p.Failing(l.now, err)
	if spent > 0 {
		l.failRun(fmt.Errorf("%w for %s: %s: %w", ErrStore, spent.Round(time.Second), doing, err))
	}
	return spent > 0
}

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
	for _, p := range l.poolOrder {
		why := ""
		if waiting[p.name] > 0 {
			why = l.trouble(p.name)
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
			l.failRun(fmt.Errorf("%w of pool %q for %s. %s", ErrWorkers, p.name, StoreTimeout, why))
		}
	}
}

// trouble returns why the workers of a pool take no tasks; empty if one of them does, or if there are none.
func (l *Loop) trouble(pool string) (why string) {
	for _, w := range l.workerOrder {
		if !w.takes || w.Pools[0] != pool {
			continue
		}
		if w.Trouble == "" {
			return ""
		}
		if why == "" {
			why = fmt.Sprintf("Worker %s says: %s.", w.Worker, w.Trouble)
		}
	}
	return why
}
