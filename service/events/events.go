// Package events is one stream of what happens in the service: how runs get on, what changes in their workspaces.
// Pages, webhooks and metrics read it from a cursor on.
//
// It keeps the last events of this process, in bounded memory, and nothing on the disk. It checks no rights: each event
// says which workspace it belongs to, and whoever passes events on asks whether the reader may see that workspace. What
// the vertices of a run do is not in the stream, but in the run's timeline.Book, which has cursors of its own: a reader
// of that misses nothing and reads each vertex once, however many events there were.
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

// Kind says what an event tells.
type Kind string

// The kinds of events, and what Data holds.
const (
	// RunChanged: the status of a run has changed, or somebody has said something of it. Data is a RunStatus.
	RunChanged Kind = "run"
	// TimelineBegun: a phase of a run is carried out from now on, and what its vertices do can be read. Data is empty.
	TimelineBegun Kind = "timeline"
	// WorkspaceChanged: the lock, the state, the variables or the settings of a workspace have changed. Data is empty.
	WorkspaceChanged Kind = "workspace"
)

// RunStatus is what a RunChanged tells.
type RunStatus struct {
	Status record.RunStatus `json:"status"`
}

// Event is one thing that happened. It is plain data, and never changed after it was published.
type Event struct {
	// Sequence counts the events of this process from 1.
	Sequence uint64
	At       time.Time
	Kind     Kind
	// Workspace is the ID of the workspace that the event belongs to. Who may not see that must not see the event.
	Workspace string
	// Run and Phase are the IDs of what the event is about; empty where it is about the whole workspace.
	Run, Phase string
	// Data is JSON, encoded once for all readers.
	Data json.RawMessage
}

// Bounds of what is kept.
const (
	maxEvents = 16384
	maxBytes  = 32 << 20
	// overhead is what an event costs beside its data.
	overhead = 200
	// mostAtOnce is how many events one Read returns.
	mostAtOnce = 256
)

// Cursor is a place in the stream of one process. The text form survives a reconnect of a client, and is refused by
// another process.
type Cursor struct {
	Epoch    string
	Sequence uint64
}

// String returns the text form.
func (c Cursor) String() string { return c.Epoch + "." + strconv.FormatUint(c.Sequence, 10) }

// ParseCursor reads the text form. A text that is no cursor gives the zero one, which every stream answers with Reset.
func ParseCursor(text string) Cursor {
	epoch, number, ok := strings.Cut(text, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || epoch == "" {
		return Cursor{}
	}
	return Cursor{epoch, n}
}

// Stream is the stream. Safe for concurrent use; no reader slows a writer.
type Stream struct {
	epoch string
	now   func() time.Time

	mu      sync.Mutex // guards what follows
	kept    []Event    // a ring: the oldest is at first
	first   int
	number  int // of events in the ring
	bytes   int // of their data, with overhead
	last    uint64
	changed chan struct{} // closed, and replaced, when something was published
	closed  bool
}

// New returns an empty stream with an epoch of its own.
func New(now func() time.Time) *Stream {
	return &Stream{epoch: rand.Text()[:12], now: now, changed: make(chan struct{})}
}

// Publish adds an event, whose Sequence and At are set here. It returns the cursor right behind the event.
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

// add needs the lock. The ring grows up to one place more than maxEvents.
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

// drop needs the lock. It forgets the oldest event.
func (s *Stream) drop() {
	s.bytes -= len(s.kept[s.first].Data) + overhead
	s.kept[s.first] = Event{}
	s.first = (s.first + 1) % len(s.kept)
	s.number--
}

// Now returns the cursor behind the newest event. Whoever reads something, and then wants to hear of what changes,
// takes the cursor first.
func (s *Stream) Now() Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Cursor{s.epoch, s.last}
}

// Batch is what one Read has found.
type Batch struct {
	Events []Event
	// Next is the cursor to read on from.
	Next Cursor
	// Reset tells that events after the cursor are gone, or that the cursor belongs to another process: the reader has
	// to read afresh what it shows.
	Reset bool
	// Closed tells that nothing more will come.
	Closed bool
}

// Read returns events behind a cursor that wanted chooses; nil chooses all. It waits while there are none. A batch has
// at most a few hundred events; events that were passed over move Next on, too. The error is that of ctx.
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
			continue // there may be more behind what was passed over
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Batch{Next: c}, context.Cause(ctx)
		}
	}
}

// read needs the lock. It looks at no more than some thousand events, so that a slow filter holds nobody up for long.
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

// Close says that nothing more comes: readers get what is left, and then a batch that says so.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.changed)
		s.changed = make(chan struct{})
	}
}
