// Package events is the stream of events of the service: the progress of runs and the changes of workspaces.
// Pages, webhooks and metrics read it from a cursor on.
//
// It keeps the latest events of this process in bounded memory, and nothing on disk. It checks no rights: each
// event names its workspace, and code that passes events on checks that the reader may see that workspace. The
// progress of a run's vertices is not part of the stream, but of the run's timeline.Recorder, which has its own
// cursors; its readers get the latest status of each vertex once, however many events there were.
package events

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/record"
)

// Kind is a kind of event.
type Kind string

// The kinds of events, with the content of Data.
const (
	// RunChanged: the status of a run has changed, or it has a new comment. Data is a RunStatus.
	RunChanged Kind = "run"
	// TimelineBegun: a phase of a run has started, and its timeline can be read. Data is empty.
	TimelineBegun Kind = "timeline"
	// ShortageChanged: the operations of a run in progress wait for other limits or pools than before. Data is
	// empty.
	ShortageChanged Kind = "shortage"
	// WorkspaceChanged: the lock, the state, the variables or the settings of a workspace have changed. Data is empty.
	WorkspaceChanged Kind = "workspace"
)

// RunStatus is the data of a RunChanged event.
type RunStatus struct {
	Status record.RunStatus `json:"status"`
}

// Event is an event. It is plain data, and is not modified after it was published.
type Event struct {
	// Sequence numbers the events of this process from 1.
	Sequence uint64
	At       time.Time
	Kind     Kind
	// Workspace is the ID of the event's workspace. Readers who may not see the workspace must not see the
	// event.
	Workspace string
	// Run and Phase are the IDs of the event's run and phase; empty if it concerns the whole workspace.
	Run, Phase string
	// Data is JSON, encoded once for all readers.
	Data json.RawMessage
}

// Bounds of the events that are kept.
const (
	maxEvents = 16384
	maxBytes  = 32 << 20
	// overhead is the memory for an event without its data, in bytes.
	overhead = 200
	// mostAtOnce is the maximum number of events that one Read returns.
	mostAtOnce = 256
)

// Cursor is a position in the stream of one process. Clients can send its text form when they reconnect;
// another process does not accept it.
type Cursor struct {
	Epoch    string
	Sequence uint64
}

// String returns the text form.
func (c Cursor) String() string { return c.Epoch + "." + strconv.FormatUint(c.Sequence, 10) }

// ParseCursor parses the text form. For an invalid text it returns the zero cursor, to which every stream
// responds with Reset.
func ParseCursor(text string) Cursor {
	epoch, number, ok := strings.Cut(text, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || epoch == "" {
		return Cursor{}
	}
	return Cursor{epoch, n}
}

// Stream is a stream of events. Safe for concurrent use; readers do not slow down writers.
type Stream struct {
	epoch string
	now   func() time.Time

	mu      sync.Mutex // guards the fields below
	kept    []Event    // a ring; first is the index of the oldest event
	first   int
	number  int // events in the ring
	bytes   int // their data with overhead
	last    uint64
	changed chan struct{} // closed and replaced when an event is published
	closed  bool
}

// New returns an empty stream with a new epoch.
func New(now func() time.Time) *Stream {
	return &Stream{epoch: rand.Text()[:12], now: now, changed: make(chan struct{})}
}

// Publish adds an event, and sets its Sequence and At. It returns the cursor directly after the event.
func (s *Stream) Publish(e Event) Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Cursor{s.epoch, s.last}
	}
	s.last++
	e.Sequence, e.At = s.last, s.now()
	s.bytes += len(e.Data) + overhead
	s.add(e)
	for s.number > 1 && (s.number > maxEvents || s.bytes > maxBytes) {
		s.drop()
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return Cursor{s.epoch, s.last}
}

// add appends an event to the ring, which grows up to maxEvents+1. The caller holds the lock.
func (s *Stream) add(e Event) {
	if s.number == len(s.kept) {
		grown := make([]Event, min(maxEvents+1, max(64, 2*len(s.kept))))
		for i := range s.number {
			grown[i] = s.kept[(s.first+i)%len(s.kept)]
		}
		s.kept, s.first = grown, 0
	}
	s.kept[(s.first+s.number)%len(s.kept)] = e
	s.number++
}

// drop removes the oldest event. The caller holds the lock.
func (s *Stream) drop() {
	s.bytes -= len(s.kept[s.first].Data) + overhead
	s.kept[s.first] = Event{}
	s.first = (s.first + 1) % len(s.kept)
	s.number--
}

// Now returns the cursor after the latest event. To read something and then follow its changes, take the cursor
// first.
func (s *Stream) Now() Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Cursor{s.epoch, s.last}
}

// Batch is the result of a Read.
type Batch struct {
	Events []Event
	// Next is the cursor for the next Read.
	Next Cursor
	// Reset says that events after the cursor were dropped, or that the cursor belongs to another process: the
	// reader must reload what it shows.
	Reset bool
	// Closed says that there will be no further events.
	Closed bool
}

// Read returns the events after a cursor for which wanted returns true; nil selects all. It waits while there
// are none. A batch has a few hundred events at most; Next also moves past events that were not selected. The
// only error is that of ctx.
func (s *Stream) Read(ctx context.Context, c Cursor, wanted func(*Event) bool) (Batch, error) {
	for {
		s.mu.Lock()
		b := s.read(c, wanted)
		changed := s.changed
		s.mu.Unlock()
		if len(b.Events) > 0 || b.Reset || b.Closed {
			return b, nil
		}
		if b.Next != c && ctx.Err() == nil {
			c = b.Next
			continue // there may be more after the events that were not selected
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Batch{Next: c}, context.Cause(ctx)
		}
	}
}

// read looks at some thousand events at most, so that a slow filter does not hold the lock for long. The caller
// holds the lock.
func (s *Stream) read(c Cursor, wanted func(*Event) bool) Batch {
	oldest := s.last - uint64(s.number) // the cursor before the oldest event
	if c.Epoch != s.epoch || c.Sequence < oldest || c.Sequence > s.last {
		return Batch{Next: Cursor{s.epoch, s.last}, Reset: true}
	}
	b := Batch{Next: c}
	for looked := 0; b.Next.Sequence < s.last && len(b.Events) < mostAtOnce && looked < 4*mostAtOnce; looked++ {
		e := &s.kept[(s.first+int(b.Next.Sequence-oldest))%len(s.kept)] //nolint:gosec // below maxEvents
		b.Next.Sequence++
		if wanted == nil || wanted(e) {
			b.Events = append(b.Events, *e)
		}
	}
	b.Closed = s.closed && b.Next.Sequence == s.last
	return b
}

// Close ends the stream: readers get the remaining events, and then a batch with Closed set.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.changed)
		s.changed = make(chan struct{})
	}
}
