// Package timelines keeps the timelines of the phases of runs, while the phases are in progress and afterwards.
//
// It does not draw them: package picture does.
package timelines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/events"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Options are what timelines need. All are required.
type Options struct {
	Store  *store.Store
	Now    func() time.Time
	Log    *slog.Logger
	Stream *events.Stream
	// Run and RunOfPhase return a run, by its ID or by that of its plan or apply, if the actor may read it.
	Run, RunOfPhase func(a *rights.Actor, id string) (*record.Run, error)
}

// Timelines are the timelines of the phases of runs. Those of phases in progress have a recorder.
type Timelines struct {
	o Options

	mu     sync.Mutex                    // guards the fields below
	open   map[string]*timeline.Recorder // by phase ID
	engine map[string]string             // the service's run of each run of the engine
	due    map[string]bool               // the phases about whose shortages an event will be published
}

// New returns the timelines in a store.
func New(o Options) *Timelines { return &Timelines{o: o} }

// Recorder returns the recorder of a phase in progress; nil if there is none.
func (s *Timelines) Recorder(phase string) *timeline.Recorder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[phase]
}

// All returns a copy of the timelines in progress, by phase.
func (s *Timelines) All() map[string]*timeline.Recorder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.open)
}

// set records the recorder of a phase; nil removes it.
func (s *Timelines) set(phase string, recorder *timeline.Recorder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[string]*timeline.Recorder{}
	}
	if recorder == nil {
		delete(s.open, phase)
		return
	}
	s.open[phase] = recorder
}

// RunOf returns the service's run of a run of the engine, while it is in progress; empty if there is none.
func (s *Timelines) RunOf(engine string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine[engine]
}

// CurrentPhase returns the current phase of a run.
func CurrentPhase(r *record.Run) *record.Phase {
	if r.Status == record.Applying {
		return &r.Apply
	}
	return &r.Plan
}

// Begin returns the function that the engine calls with the timeline of a phase.
func (s *Timelines) Begin(r *record.Run) func(*timeline.Recorder, string) {
	phase, workspace, run := CurrentPhase(r).ID, r.Workspace, r.ID
	return func(b *timeline.Recorder, engine string) {
		s.set(phase, b)
		s.name(engine, run)
		s.tellShortages(b, events.Event{Kind: events.ShortageChanged, Workspace: workspace, Run: run, Phase: phase})
		s.o.Stream.Publish(events.Event{Kind: events.TimelineBegun, Workspace: workspace, Run: run, Phase: phase})
	}
}

// End stores the timeline of an ended phase as a file. The timeline is only informative: the phase does
// not fail if the file cannot be written.
func (s *Timelines) End(r *record.Run) {
	phase := CurrentPhase(r).ID
	b := s.Recorder(phase)
	if b == nil {
		return
	}
	var text bytes.Buffer
	now := s.timeOf(b)
	err := errors.Join(b.Write(&text, timeline.Shape, now), b.Write(&text, timeline.Story, now),
		b.Write(&text, timeline.Outline, now), json.NewEncoder(&text).Encode(failuresOf(b.Each)))
	switch {
	case err != nil:
	case phase == r.Plan.ID: // a plan leaves nothing in doubt
		err = s.o.Store.Cache(tables.TimelineFile(phase), text.Bytes())
	default:
		_, err = s.o.Store.Write(tables.TimelineFile(phase), &text, int64(text.Len()))
	}
	if err != nil {
		s.o.Log.Warn("cannot store the timeline of a run", "run", r.ID, "error", err)
	}
	s.set(phase, nil)
	s.unname(r.ID)
}

// name records which phase a run of the engine belongs to: permits are held under the name of the engine's run.
func (s *Timelines) name(engine, run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil {
		s.engine = map[string]string{}
	}
	s.engine[engine] = run
}

// unname removes the engine's runs of a run.
func (s *Timelines) unname(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.engine, func(_, of string) bool { return of == run })
}

// linesOfFile is the number of lines in the file of an ended phase's timeline: the pieces in the order of their
// constants, and the failures.
const linesOfFile = 4

// timelineLines are the lines of such a file. An earlier version has written the first two only; the others are nil
// then.
type timelineLines [linesOfFile][]byte

// lines reads the timeline of an ended phase.
func (s *Timelines) lines(phase string) (timelineLines, error) {
	text, err := s.o.Store.ReadAll(tables.TimelineFile(phase))
	if err != nil {
		return timelineLines{}, err
	}
	lines := linesOf(text)
	if lines[timeline.Story] == nil {
		return lines, store.ErrNotFound
	}
	return lines, nil
}

func linesOf(text []byte) (lines timelineLines) {
	for i := range lines {
		line, rest, found := bytes.Cut(text, []byte("\n"))
		if !found {
			break
		}
		lines[i], text = line, rest
	}
	return lines
}

// piece returns a piece; the shape in place of an outline that the file does not have.
func (l *timelineLines) piece(piece timeline.Piece) []byte {
	if l[piece] == nil {
		return l[timeline.Shape]
	}
	return l[piece]
}

// failures returns the failures of the phase.
func (l *timelineLines) failures() (f failures, err error) {
	if text := l[linesOfFile-1]; text != nil {
		return f, json.Unmarshal(text, &f)
	}
	shape := l[timeline.Shape]
	if c, err := timeline.CountsOf(shape); err != nil || c.Failed+c.Doubt == 0 {
		return f, err
	}
	m := new(timeline.Model)
	if err := json.Unmarshal(shape, m); err != nil {
		return f, err
	}
	return failuresOf(func(see func(*timeline.Vertex)) {
		for i := range m.Vertices {
			see(&m.Vertices[i])
		}
	}), nil
}

// Model reads the timeline of an ended phase, without its story.
func (s *Timelines) Model(phase string) (*timeline.Model, error) {
	lines, err := s.lines(phase)
	if err != nil {
		return nil, err
	}
	m := new(timeline.Model)
	return m, json.Unmarshal(lines[timeline.Shape], m)
}

// InDoubt reports whether the outcome of a vertex is unknown, as it is when the phase was abandoned while the
// vertex was running.
func InDoubt(v *timeline.Vertex) bool {
	return v.Status == timeline.Doubt || v.Status == timeline.Running
}

// Failure is a failed operation, with the operations that were skipped because of it.
type Failure struct {
	Address, Action, Text string
	Skipped               []string
	// More is the number of skipped operations that are not listed.
	More int
}

// maxFailures bounds the listed failures of a run, and the listed skipped operations of each.
const maxFailures = 50

// failures are those that a run's page lists; more is the number of those that are not.
type failures struct {
	List []Failure `json:"list,omitempty"`
	More int       `json:"more,omitempty"`
}

// failuresOf finds the failures among vertices. each calls its argument with each of them.
func failuresOf(each func(see func(*timeline.Vertex))) (f failures) {
	at := map[string]int{}
	each(func(v *timeline.Vertex) {
		if v.Status != timeline.Failed && v.Status != timeline.Doubt {
			return
		}
		if len(f.List) == maxFailures {
			f.More++
			return
		}
		at[v.Address] = len(f.List)
		f.List = append(f.List, Failure{Address: v.Address, Action: v.Action, Text: v.Failure + v.Doubtful})
	})
	if len(f.List) == 0 {
		return f
	}
	each(func(v *timeline.Vertex) {
		j, ok := at[v.Because]
		switch {
		case v.Status != timeline.Skipped || !ok:
		case len(f.List[j].Skipped) < maxFailures:
			f.List[j].Skipped = append(f.List[j].Skipped, v.Address)
		default:
			f.List[j].More++
		}
	})
	return f
}

// Failures returns the operations of a run that failed or are in doubt, according to its timeline, each with
// the operations that were skipped because of it. more is the number of failures that are not listed.
func (s *Timelines) Failures(a *rights.Actor, run string) (out []Failure, more int, err error) {
	v, err := s.o.Run(a, run)
	if err != nil {
		return nil, 0, err
	}
	phase := v.Plan.ID
	if !v.Apply.Started.IsZero() {
		phase = v.Apply.ID
	}
	if b := s.Recorder(phase); b != nil {
		if c := b.Counts(); c.Failed+c.Doubt == 0 {
			return nil, 0, nil
		}
		f := failuresOf(b.Each)
		return f.List, f.More, nil
	}
	lines, err := s.lines(phase)
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	f, err := lines.failures()
	return f.List, f.More, err
}

// timeOf returns the time since a run has begun, in milliseconds.
func (s *Timelines) timeOf(b *timeline.Recorder) int64 { return s.o.Now().UnixMilli() - b.Begun() }

// Read returns a function that writes a piece of a phase's timeline, as timeline.Model.Write does. live
// means that the phase is still in progress: use Follow for the rest. The error is ErrNotFound if there
// is no timeline.
func (s *Timelines) Read(a *rights.Actor, phase string, piece timeline.Piece) (write func(io.Writer) error, live bool,
	err error) {
	if _, err := s.o.RunOfPhase(a, phase); err != nil {
		return nil, false, err
	}
	if b := s.Recorder(phase); b != nil {
		return func(w io.Writer) error { return b.Write(w, piece, s.timeOf(b)) }, true, nil
	}
	lines, err := s.lines(phase)
	if errors.Is(err, store.ErrNotFound) {
		return nil, false, tables.NotFound("there is no timeline of %s", phase)
	}
	if err != nil {
		return nil, false, err
	}
	return func(w io.Writer) error { _, err := w.Write(lines.piece(piece)); return err }, false, nil
}

// Reader reads the changes of the timeline of a phase in progress.
type Reader struct {
	s        *Timelines
	phase    string
	recorder *timeline.Recorder
}

// Follow returns a reader of a phase's timeline, or nil if the phase is not in progress; then Timeline
// has all of it. The caller checks at intervals that the actor still has access.
func (s *Timelines) Follow(a *rights.Actor, phase string) (*Reader, error) {
	if _, err := s.o.RunOfPhase(a, phase); err != nil {
		return nil, err
	}
	b := s.Recorder(phase)
	if b == nil {
		return nil, nil //nolint:nilnil // see the comment of the function
	}
	return &Reader{s, phase, b}, nil
}

// Next returns the changes since a cursor. It waits until there are some, or until ctx ends and returns its
// error. over means that there will be no further changes.
func (r *Reader) Next(ctx context.Context, cursor uint64) (c *timeline.Changes, over bool, err error) {
	ended := r.s.Recorder(r.phase) != r.recorder
	if err := r.recorder.Wait(ctx, cursor); err != nil && !ended {
		return nil, false, err
	}
	c = r.recorder.Since(cursor, r.s.timeOf(r.recorder))
	return c, ended || c.Head.Ended != timeline.None, nil
}

// shortagePause is the minimum time between two events about what a run lacks.
const shortagePause = time.Second

// tellShortages publishes an event soon after the shortages of a run have changed, but at most once in shortagePause.
func (s *Timelines) tellShortages(b *timeline.Recorder, e events.Event) {
	b.OnShortage(func() {
		if s.waitToTell(e.Phase) {
			time.AfterFunc(shortagePause, func() {
				s.told(e.Phase)
				s.o.Stream.Publish(e)
			})
		}
	})
}

// waitToTell reports whether no event about what a phase lacks is due, and makes one due.
func (s *Timelines) waitToTell(phase string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due == nil {
		s.due = map[string]bool{}
	}
	first := !s.due[phase]
	s.due[phase] = true
	return first
}

func (s *Timelines) told(phase string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.due, phase)
}
