package coordinator

import (
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// Watcher is an Observer that also gets live events of the workers, such as the output of provisioners. Event is called
// on a different goroutine than the methods of Observer.
type Watcher interface {
	Observer
	Event(wire.Event)
}

// Both passes everything to two watchers.
type Both [2]Watcher

func (b Both) each(tell func(Watcher)) {
	tell(b[0])
	tell(b[1])
}

// Started implements Observer.
func (b Both) Started(vertex int, d program.Description, pool string, at time.Time) {
	b.each(func(o Watcher) { o.Started(vertex, d, pool, at) })
}

// Progress implements Observer.
func (b Both) Progress(vertex int, d program.Description, elapsed time.Duration) {
	b.each(func(o Watcher) { o.Progress(vertex, d, elapsed) })
}

// Finished implements Observer.
func (b Both) Finished(vertex int, d program.Description, n program.Notes, took time.Duration) {
	b.each(func(o Watcher) { o.Finished(vertex, d, n, took) })
}

// Failed implements Observer.
func (b Both) Failed(vertex int, d program.Description, n program.Notes, took time.Duration) {
	b.each(func(o Watcher) { o.Failed(vertex, d, n, took) })
}

// Skipped implements Observer.
func (b Both) Skipped(vertex int, d program.Description, because string) {
	b.each(func(o Watcher) { o.Skipped(vertex, d, because) })
}

// Doubtful implements Observer.
func (b Both) Doubtful(vertex int, d program.Description, reason string) {
	b.each(func(o Watcher) { o.Doubtful(vertex, d, reason) })
}

// Waiting implements Observer.
func (b Both) Waiting(waits []Wait) {
	b.each(func(o Watcher) { o.Waiting(waits) })
}

// Counts implements Observer.
func (b Both) Counts(c Counts) { b.each(func(o Watcher) { o.Counts(c) }) }

// Diagnostics implements Observer.
func (b Both) Diagnostics(l diag.List) { b.each(func(o Watcher) { o.Diagnostics(l) }) }

// Event implements Watcher.
func (b Both) Event(e wire.Event) { b.each(func(o Watcher) { o.Event(e) }) }
