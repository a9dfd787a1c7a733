package worker

import (
	"context"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

// A pool's workers share one queue, so a worker may fetch a task of a version that it does not speak. It returns the
// task without claiming it, so that no attempt is lost, and leaves the queue to the others for a while.

// The bounds of that while. It is short, because another coordinator of the pool may have a task that the worker can
// read: no slot is idle for more than three seconds then.
const (
	firstAside = time.Second
	lastAside  = 2 * time.Second
)

// asideTime is how long a worker leaves the queue of a pool to others.
type asideTime struct {
	next time.Duration // 0 unless the last task was of another version
}

// wait waits for the end of the time. It returns false if ctx ends first.
func (a *asideTime) wait(ctx context.Context) bool {
	return a.next == 0 || sleep.For(ctx, a.next) == nil
}

// most returns how many tasks to fetch if so many slots are free: after a time aside, one, to see whether it can be
// read.
func (a *asideTime) most(free int) int {
	if a.next > 0 {
		return min(free, 1)
	}
	return free
}

// pass returns the tasks that the worker can read, and releases the others.
func (w *Worker) pass(ctx context.Context, pool string, tasks []wire.Delivery, a *asideTime) []wire.Delivery {
	readable, foreign := tasks[:0], 0
	for _, d := range tasks {
		if reads(d.Data()) {
			readable = append(readable, d)
			continue
		}
		foreign = wire.EnvelopeVersion(d.Data())
		w.release(ctx, d)
	}
	switch {
	case foreign == 0:
		a.next = 0
		return readable
	case a.next == 0:
		w.Log.Warn("tasks of this pool are of another version of the protocol, and are left to other workers; replace "+
			"this worker by one of the coordinator's version", "pool", pool, "task", foreign, "worker",
			wire.Spoken().String())
	}
	a.next = min(max(2*a.next, firstAside), lastAside)
	return readable
}

// reads reports whether the worker can read the message in an envelope, as far as its version shows. A malformed one is
// answered like any other that cannot be read.
func reads(envelope []byte) bool {
	version := wire.EnvelopeVersion(envelope)
	return version == 0 || wire.Spoken().Has(version)
}

// answering returns the version in which the worker answers a message: that of the message.
func answering(envelope []byte) int {
	if version := wire.EnvelopeVersion(envelope); version != 0 && wire.Spoken().Has(version) {
		return version
	}
	return wire.Spoken().Highest
}
