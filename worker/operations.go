package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// errAskedToStop is the cause when an operation ends early because its run was asked to stop.
var errAskedToStop = errors.New("the run was asked to stop")

// operations has the worker's current attempts and operations. It also has the runs that the worker must not start
// anything for.
type operations struct {
	now func() time.Time

	mu        sync.Mutex              // guards all below
	held      map[wire.AttemptID]bool // whether the attempt is claimed for certain
	running   map[*operation]struct{}
	cancelled map[string]time.Time // by run, with the time when that was heard
}

// operation is a running operation.
type operation struct {
	run     string
	attempt wire.AttemptID
	stop    func(context.Context) error
}

func newOperations(now func() time.Time) *operations {
	return &operations{
		now:  now,
		held: map[wire.AttemptID]bool{}, running: map[*operation]struct{}{}, cancelled: map[string]time.Time{},
	}
}

// hold registers an attempt until drop. It returns false if it is registered already: then this is another delivery of
// the same task, which is not needed any more once the attempt is claimed.
func (o *operations) hold(a wire.AttemptID) (fresh, claimed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if claimed, ok := o.held[a]; ok {
		return false, claimed
	}
	o.held[a] = false
	return true, false
}

// claim marks a registered attempt as claimed.
func (o *operations) claim(a wire.AttemptID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held[a] = true
}

func (o *operations) drop(a wire.AttemptID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.held, a)
}

// attempts returns the attempts that are certainly claimed: coordinators take them for started. Another worker may
// still claim the others.
func (o *operations) attempts() []wire.AttemptID {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]wire.AttemptID, 0, len(o.held))
	for a, claimed := range o.held {
		if claimed {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return out
}

// begin registers a running operation until end is called.
func (o *operations) begin(run string, attempt wire.AttemptID, stop func(context.Context) error) (end func()) {
	op := &operation{run: run, attempt: attempt, stop: stop}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running[op] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.running, op)
	}
}

// of returns the running operations of a run.
func (o *operations) of(run string) []*operation {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []*operation
	for op := range o.running {
		if op.run == run {
			out = append(out, op)
		}
	}
	return out
}

// memory is how long a cancelled run is remembered: longer than any of its operations can be under way. Later tasks
// meet the coordinator's tombstones.
const memory = 24 * time.Hour

func (o *operations) cancel(run string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	for run, at := range o.cancelled {
		if now.Sub(at) > memory {
			delete(o.cancelled, run)
		}
	}
	o.cancelled[run] = now
}

func (o *operations) isCancelled(run string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.cancelled[run]
	return ok
}
