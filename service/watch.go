package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/millipede-iac/millipede/service/events"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/view/timeline"
)

// Stream returns the stream of what happens. Its events are for those who may see their workspace: ask MaySee before
// one is passed on to a person.
func (s *Service) Stream() *events.Stream { return s.stream }

// MaySee tells whether the actor may hear of the runs of a workspace.
func (s *Service) MaySee(a *Actor, workspace string) bool {
	err := s.store.View(func(tx *store.Tx) error {
		_, err := a.allowed(tx, workspace, needReadRuns)
		return err
	})
	return err == nil
}

// tell publishes that a run has changed.
func (s *Service) tell(r *record.Run) {
	data, err := json.Marshal(events.RunStatus{Status: r.Status})
	if err != nil {
		panic(err) // a string alone
	}
	s.stream.Publish(events.Event{Kind: events.RunChanged, Workspace: r.Workspace, Run: r.ID, Data: data})
}

// tellAfter publishes that a workspace has changed, once the change is durable.
func (s *Service) tellAfter(tx *store.Tx, w *record.Workspace) {
	id := w.ID
	tx.After(func() { s.stream.Publish(events.Event{Kind: events.WorkspaceChanged, Workspace: id}) })
}

// books are the timelines of the phases that are carried out just now, by the IDs of the phases.
type books struct {
	mu   sync.Mutex // guards open
	open map[string]*timeline.Book
}

func (b *books) get(phase string) *timeline.Book {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[phase]
}

func (b *books) set(phase string, book *timeline.Book) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = map[string]*timeline.Book{}
	}
	if book == nil {
		delete(b.open, phase)
		return
	}
	b.open[phase] = book
}

func timelineFile(phase string) string { return "timelines/" + phase }

// current returns the phase that a run is in.
func current(r *record.Run) *record.Phase {
	if r.Status == record.Applying {
		return &r.Apply
	}
	return &r.Plan
}

// openBook returns what the engine calls with the book of a phase.
func (s *Service) openBook(r *record.Run) func(*timeline.Book) {
	phase, workspace, run := current(r).ID, r.Workspace, r.ID
	return func(b *timeline.Book) {
		s.books.set(phase, b)
		s.stream.Publish(events.Event{Kind: events.TimelineBegun, Workspace: workspace, Run: run, Phase: phase})
	}
}

// closeBook keeps the timeline of a phase that has ended as a file. It is for people to look at alone, so the phase has
// not failed when it cannot be written.
func (s *Service) closeBook(r *record.Run) {
	phase := current(r).ID
	b := s.books.get(phase)
	if b == nil {
		return
	}
	text, err := json.Marshal(s.modelOf(b))
	if err == nil {
		_, err = s.store.Write(timelineFile(phase), bytes.NewReader(text), int64(len(text)))
	}
	if err != nil {
		s.log.Warn("the timeline of a run could not be kept", "run", r.ID, "error", err)
	}
	s.books.set(phase, nil)
}

func (s *Service) modelOf(b *timeline.Book) *timeline.Model {
	m := b.Model(0)
	if m.Head.Ended == timeline.None {
		m.Head.Now = s.now().UnixMilli() - m.Head.Begun
	}
	return m
}

// Timeline returns what the vertices of a phase of a run did, as JSON of a timeline.Model. live tells that the phase
// goes on: TimelineChanges has the rest. The error is ErrNotFound where nothing is known.
func (s *Service) Timeline(a *Actor, phase string) (model []byte, live bool, err error) {
	if _, err := s.RunOfPhase(a, phase); err != nil {
		return nil, false, err
	}
	if b := s.books.get(phase); b != nil {
		model, err = json.Marshal(s.modelOf(b))
		return model, true, err
	}
	model, err = s.store.ReadAll(timelineFile(phase))
	if errors.Is(err, store.ErrNotFound) {
		return nil, false, notFound("nothing is known of the operations of %s", phase)
	}
	return model, false, err
}

// TimelineChanges returns what is new in the timeline of a phase that goes on since a cursor. It waits until something
// is, or ctx ends. It returns nil when the phase does not go on (any more): what there is is in Timeline.
func (s *Service) TimelineChanges(ctx context.Context, a *Actor, phase string, cursor uint64) (*timeline.Changes,
	error) {
	if _, err := s.RunOfPhase(a, phase); err != nil {
		return nil, err
	}
	b := s.books.get(phase)
	if b == nil {
		return nil, nil //nolint:nilnil // as said above
	}
	if err := b.Wait(ctx, cursor); err != nil {
		return nil, err
	}
	c := b.Since(cursor, 0)
	if c.Head.Ended == timeline.None {
		c.Head.Now = s.now().UnixMilli() - c.Head.Begun
	}
	return c, nil
}
