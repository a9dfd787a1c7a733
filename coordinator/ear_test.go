package coordinator

import (
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
)

// ear is the observer of the world.
type ear struct {
	Silent
	w *world
}

func (e *ear) hear(format string, args ...any) {
	e.w.seen = append(e.w.seen, fmt.Sprintf(format, args...))
}

func (e *ear) Started(v int, d program.Description, pool string, at time.Time) {
	e.hear("started %d in %s", v, pool)
}
func (e *ear) Progress(v int, d program.Description, elapsed time.Duration) {
	e.hear("still %d %s", v, elapsed)
}
func (e *ear) Finished(v int, d program.Description, n program.Notes, took time.Duration) {
	e.hear("finished %d", v)
}
func (e *ear) Failed(v int, d program.Description, took time.Duration) { e.hear("failed %d", v) }
func (e *ear) Skipped(v int, d program.Description, because string) {
	e.hear("skipped %d because of %s", v, because)
}
func (e *ear) Doubtful(v int, d program.Description, reason string) {
	e.hear("in doubt %d: %s", v, reason)
}
func (e *ear) Waiting(waits []Wait) { e.hear("waiting %v", waits) }
func (e *ear) Diagnostics(l diag.List) {
	for _, d := range l {
		e.hear("%s: %s", d.Severity, d.Summary)
	}
}
