package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// errAskedToStop is why an operation ends early that its run has asked to stop.
var errAskedToStop = errors.New("the run was asked to stop")

// operations knows what the worker does at the moment, and for which runs it must begin nothing more.
type operations struct {
	now func() time.Time

	mu        sync.Mutex              // guards all below
	held      map[wire.AttemptID]bool // whether the attempt is claimed for certain
	running   map[*operation]struct{}
	cancelled map[string]time.Time // by run, with the time when that was heard
}

// operation is one that runs.
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

// hold remembers an attempt until drop. It returns false for one that is held already: then this is
// another delivery of the same task, which nobody needs any more once the attempt is claimed.
func (o *operations) hold(a wire.AttemptID) (fresh, claimed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if claimed, ok := o.held[a]; ok {
		return false, claimed
	}
	o.held[a] = false
	return true, false
}

// claim notes that a held attempt is claimed.
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

// attempts are those that are claimed for certain: whoever hears of them takes them for begun. One that is only looked
// at may yet go to another worker.
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

// memory is how long a cancelled run is remembered: longer than anything of it can be under way. What comes later
// meets the coordinator's tombstones.
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
