package loop

import (
	"github.com/millipede-iac/millipede/coordinator/program"
)

// onInterrupted stops the run gracefully: it starts nothing more, asks workers to have their providers stop, and
// revokes attempts that no worker has claimed. It waits for what runs.
func (l *Loop) onInterrupted(e Interrupted) {
	again := l.stops()
	if e.Cancel && l.toCancel() {
		l.do(Control{"cancel"})
	}
	if again {
		if !e.Cancel {
			l.onAbandoned()
		}
		return
	}
	l.toStop()
	if !e.Settle {
		l.do(Control{"stop"})
	}
	l.unpark()
	for _, v := range l.out {
		x := &l.vertices[v]
		w := x.work
		if w.step.Lane == program.Safe && (x.phase == running || x.phase == publishing) && w.worker == "" {
			l.revoke(v, "the run was interrupted")
		}
	}
	l.permits.giveBack()
}

// onAbandoned makes the run return at once. Remote workers finish their operations, and a resumed run takes the
// results; workers in this process end with it, so their operations are in doubt.
func (l *Loop) onAbandoned() {
	if !l.toLeave() || !l.Embedded {
		return
	}
	for v := range l.vertices {
		if p := l.vertices[v].phase; p == running || p == publishing {
			set(v, &l.vertices[v].work.effect, over) // nothing runs any more, so the permits are free
			l.suspect(v, "the coordinator was ended while its own worker was at work")
		}
	}
}
