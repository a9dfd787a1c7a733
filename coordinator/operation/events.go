package operation

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
)

const (
	// maxEvents is how many events of an operation are kept: those of a thousand objects, in two megabytes. Readers are
	// normally only a little behind; slower ones learn how many events they missed.
	maxEvents = 4096
	// mostAtOnce is the most events that one call returns.
	mostAtOnce = 512
)

// Event is an event of an operation. It is plain data.
type Event struct {
	// Sequence counts the events of an operation from 1.
	Sequence uint64
	At       time.Time
	// Action is the verb of the vertex's change, and Class its resource type; empty for events without a vertex.
	Action, Class string
	loop.Shown
}

// log stores the last events of an operation for any number of readers.
type log struct {
	most int // the number of events that are kept

	mu      sync.Mutex // guards the fields below
	kept    []Event    // oldest first
	first   int
	count   uint64        // the number of events so far
	closed  bool          // no more events will be added
	changed chan struct{} // nil if no reader waits; closed and set to nil at a change
}

func newLog(most int) *log { return &log{most: most} }

func (l *log) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	e.Sequence = l.count
	if len(l.kept) < l.most {
		if len(l.kept) == cap(l.kept) { // events are large, so the list is not often moved
			l.kept = slices.Grow(l.kept, min(l.most-len(l.kept), 16+3*len(l.kept)))
		}
		l.kept = append(l.kept, e)
	} else {
		l.kept[l.first] = e
		l.first = (l.first + 1) % l.most
	}
	l.wake()
}

func (l *log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake()
}

// wake requires the lock.
func (l *log) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// since is Handle.Events.
func (l *log) since(ctx context.Context, cursor uint64) (events []Event, next, missed uint64, err error) {
	for {
		l.mu.Lock()
		events, next, missed = l.read(cursor)
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		closed, changed := l.closed, l.changed
		l.mu.Unlock()
		if len(events) > 0 || closed {
			return events, next, missed, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, cursor, 0, context.Cause(ctx)
		}
	}
}

// read requires the lock.
func (l *log) read(cursor uint64) (events []Event, next, missed uint64) {
	if cursor >= l.count {
		return nil, l.count, 0 // with an unknown cursor, only later events are returned
	}
	oldest := l.count - uint64(len(l.kept)) // the cursor before the oldest event that is kept
	if cursor < oldest {
		cursor, missed = oldest, oldest-cursor
	}
	n := min(l.count-cursor, mostAtOnce)
	events = make([]Event, n)
	for i := range events {
		events[i] = l.kept[(l.first+int(cursor-oldest)+i)%len(l.kept)]
	}
	return events, cursor + n, missed
}

// traced passes events to a recorder and to an observer that is a tracer.
type traced struct {
	*recorder
	tracer coordinator.Tracer
}

// Shown implements coordinator.Tracer. The log has the events that observers get, and no others.
func (t traced) Shown(s loop.Shown) { t.tracer.Shown(s) }

// recorder is an observer that records events, and passes them on.
type recorder struct {
	log  *log
	now  func() time.Time
	next coordinator.Observer // may be nil
}

func (r *recorder) keep(d program.Description, s loop.Shown) coordinator.Observer {
	s.Address, s.Deposed = d.Address, d.Deposed
	r.log.add(Event{At: r.now(), Action: d.Action, Class: d.Class, Shown: s})
	if r.next == nil {
		return coordinator.Silent{}
	}
	return r.next
}

func (r *recorder) Started(v int, d program.Description, pool string, at time.Time) {
	r.keep(d, loop.Shown{Kind: loop.ShownStarted, Vertex: v, Pool: pool, At: at}).Started(v, d, pool, at)
}

func (r *recorder) Progress(v int, d program.Description, elapsed time.Duration) {
	r.keep(d, loop.Shown{Kind: loop.ShownProgress, Vertex: v, Took: elapsed}).Progress(v, d, elapsed)
}

func (r *recorder) Finished(v int, d program.Description, notes program.Notes, took time.Duration) {
	r.keep(d, loop.Shown{Kind: loop.ShownFinished, Vertex: v, Notes: notes, Took: took}).Finished(v, d, notes, took)
}

func (r *recorder) Failed(v int, d program.Description, notes program.Notes, took time.Duration) {
	r.keep(d, loop.Shown{Kind: loop.ShownFailed, Vertex: v, Notes: notes, Took: took}).Failed(v, d, notes, took)
}

func (r *recorder) Skipped(v int, d program.Description, because string) {
	r.keep(d, loop.Shown{Kind: loop.ShownSkipped, Vertex: v, Reason: because}).Skipped(v, d, because)
}

func (r *recorder) Doubtful(v int, d program.Description, reason string) {
	r.keep(d, loop.Shown{Kind: loop.ShownDoubtful, Vertex: v, Reason: reason}).Doubtful(v, d, reason)
}

func (r *recorder) Waiting(waits []loop.Wait) {
	r.keep(program.Description{}, loop.Shown{Kind: loop.ShownWaiting, Vertex: -1, Waits: waits}).Waiting(waits)
}

func (r *recorder) Counts(c loop.Counts) {
	r.keep(program.Description{}, loop.Shown{Kind: loop.ShownCounts, Vertex: -1, Counts: c}).Counts(c)
}

func (r *recorder) Diagnostics(l diag.List) {
	r.keep(program.Description{}, loop.Shown{Kind: loop.ShownDiagnostics, Vertex: -1, Diagnostics: l}).Diagnostics(l)
}
