package service

import (
	"container/list"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/drift"
	"github.com/millipede-iac/millipede/service/outline"
	"github.com/millipede-iac/millipede/service/queue"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// outlines caches the outlines of the plans and states that were viewed last. Outlines are stored in files too;
// the cache saves reading the file for each page.
type outlines struct {
	*shared
	drift *drift.Findings
	queue *queue.Queue

	mu   sync.Mutex // guards kept, last, size and superseded
	kept map[string]*list.Element
	last list.List // of *keptOutline, the most recently used first
	size int       // the number of objects in all outlines
	// superseded has the names that were dropped last, the oldest first. Somebody who read the file of one before that
	// does not put it back.
	superseded []string

	// making is held while an outline is made, because that reads a whole document into memory.
	making sync.Mutex
	// wanted queues outlines that are made before anybody requests them.
	wanted chan func() error
}

func newOutlines(c *shared) *outlines {
	return &outlines{shared: c, wanted: make(chan func() error, 64)}
}

type keptOutline struct {
	name    string
	value   any
	objects int
}

// maxKept bounds the number of objects in all cached outlines: about twenty megabytes.
const maxKept = 200_000

func (s *outlines) get(name string) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.kept[name]
	if e == nil {
		return nil
	}
	s.last.MoveToFront(e)
	return e.Value.(*keptOutline).value
}

func (s *outlines) put(name string, value any, objects int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[string]*list.Element{}
	}
	if s.kept[name] != nil || slices.Contains(s.superseded, name) {
		return
	}
	s.kept[name] = s.last.PushFront(&keptOutline{name, value, objects})
	for s.size += objects; s.size > maxKept && s.last.Len() > 1; {
		oldest := s.last.Remove(s.last.Back()).(*keptOutline)
		delete(s.kept, oldest.name)
		s.size -= oldest.objects
	}
}

// maxSuperseded is more than the outlines that are read at the same time.
const maxSuperseded = 64

// drop removes an outline from the cache, if it is there, and keeps it out: it is viewed rarely from now on.
func (s *outlines) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.superseded = append(s.superseded, name); len(s.superseded) > maxSuperseded {
		s.superseded = slices.Delete(s.superseded, 0, 1)
	}
	if e := s.kept[name]; e != nil {
		s.size -= s.last.Remove(e).(*keptOutline).objects
		delete(s.kept, name)
	}
}

// outlined returns an outline from the cache, or from its file, or else makes it by reading the document. T is
// outline.Plan or outline.State.
func outlined[T any](s *outlines, name string, decode func([]byte) (*T, error), make func() (*T, error),
	count func(*T) int) (*T, error) {
	if v, ok := s.get(name).(*T); ok {
		return v, nil
	}
	s.making.Lock()
	defer s.making.Unlock()
	if v, ok := s.get(name).(*T); ok {
		return v, nil
	}
	text, err := s.store.ReadAll(name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	var v *T
	if err == nil {
		v, err = decode(text)
	}
	if err != nil {
		if v, err = make(); err != nil {
			return nil, err
		}
		if text, err = outline.Encode(v); err == nil {
			err = s.store.Cache(name, text)
		}
		if err != nil {
			s.log.Warn("cannot store an outline; it will be made again at the next request", "file", name, "error", err)
		}
	}
	s.put(name, v, count(v))
	return v, nil
}

func (s *outlines) Plan(r *record.Run) (*outline.Plan, error) {
	return outlined(s, tables.PlanOutlineFile(r), outline.DecodePlan, func() (*outline.Plan, error) {
		return readOutline(s, tables.PlanRedactedFile(r), outline.ReadPlan)
	}, func(p *outline.Plan) int { return len(p.Changes) + len(p.Drift) })
}

func readOutline[T any](s *outlines, file string, read func(io.Reader) (*T, error)) (v *T, err error) {
	r, err := s.store.Read(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return read(r)
}

// maxBack bounds how many earlier versions are outlined at once to find out when objects last changed.
const maxBack = 50

// State returns the outline of a version, which is based on the outline of the version before. Missing
// outlines of earlier versions are made, up to maxBack; changes before those are unknown.
func (s *outlines) State(v *record.StateVersion) (*outline.State, error) {
	chain := []*record.StateVersion{v}
	err := s.store.View(func(tx *store.Tx) error {
		behind := false
		for _, id := range tables.StateVersions.Newest(tx, "workspace", 10_000, v.Workspace) {
			if behind = behind || id == v.ID; !behind || id == v.ID {
				continue
			}
			before, err := tables.StateVersions.Get(tx, id)
			if err != nil {
				return err
			}
			if before.Status != record.StateFinalized || before.Encrypted {
				continue
			}
			chain = append(chain, before)
			if s.outlineThere(before.ID) || len(chain) > maxBack {
				break
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if s.outlineThere(v.ID) {
		chain = chain[:1]
	}
	var before *outline.State
	for i := len(chain) - 1; i >= 0; i-- {
		this, beforeID := chain[i], ""
		if i+1 < len(chain) {
			beforeID = chain[i+1].ID
		}
		before, err = outlined(s, tables.StateOutlineFile(this.ID), outline.DecodeState, func() (*outline.State, error) {
			o, err := readOutline(s, tables.StateFile(this.ID), outline.ReadState)
			if err == nil {
				o.Follow(this.ID, before, beforeID)
				if before != nil {
					s.drop(tables.StateOutlineFile(beforeID)) // its file remains, for the few who compare versions
				}
			}
			return o, err
		}, func(o *outline.State) int { return len(o.Objects) })
		if err != nil {
			return nil, err
		}
	}
	return before, nil
}

func (s *outlines) outlineThere(version string) bool {
	if s.get(tables.StateOutlineFile(version)) != nil {
		return true
	}
	r, err := s.store.Read(tables.StateOutlineFile(version))
	if err != nil {
		return false
	}
	return r.Close() == nil
}

// maxPlans is how many of the last runs are searched for a plan with the schema of a type.
const maxPlans = 20

// masks returns the attributes of an object that are sensitive according to its schema. The schema comes from
// the run that wrote the version, or from one of the last runs of the workspace.
func (s *outlines) masks(v *record.StateVersion, o *outline.Object) ([]string, bool) {
	var candidates []*record.Run
	err := s.store.View(func(tx *store.Tx) error {
		ids := tables.Runs.Newest(tx, "workspace", maxPlans, v.Workspace)
		if v.Run != "" {
			ids = append([]string{v.Run}, ids...)
		}
		for _, id := range ids {
			if r, err := tables.Runs.Get(tx, id); err == nil && r.Plan.Status == record.PhaseFinished {
				candidates = append(candidates, r)
			}
		}
		return nil
	})
	if err != nil {
		return nil, false
	}
	for _, r := range candidates {
		p, err := s.Plan(r)
		if err != nil {
			continue
		}
		if paths, known := p.Masks[o.Mode+" "+o.Type]; known {
			return paths, true
		}
	}
	return nil, false
}

// enqueue queues the making of an outline. If the queue is full, the outline is made when it is requested.
func (s *outlines) enqueue(make func() error) {
	select {
	case s.wanted <- make:
	default:
	}
}

// enqueueStateOutline queues the outline of a new version of a state, while the outline of the version before, on which
// it is based, is still cached.
func (s *outlines) enqueueStateOutline(version string) {
	s.enqueue(func() error {
		var v *record.StateVersion
		err := s.store.View(func(tx *store.Tx) (err error) { v, err = tables.StateVersions.Get(tx, version); return err })
		if err == nil && !v.Encrypted && v.Status == record.StateFinalized {
			if _, err = s.State(v); err == nil {
				err = s.drift.Settle(v)
			}
		}
		return err
	})
}

// outlinePatience is how long an outline that nobody has requested waits for the phases of runs in progress.
const outlinePatience = 5 * time.Second

// makeWanted makes the queued outlines until ctx ends. They are as large as their states, and people wait for runs,
// so that outlines are made while none is in progress, unless that takes too long or many are queued.
func (s *outlines) makeWanted(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case make := <-s.wanted:
			if len(s.wanted) < cap(s.wanted)/2 {
				s.queue.AwaitIdle(ctx, outlinePatience)
			}
			if ctx.Err() != nil {
				return
			}
			if err := make(); err != nil && !errors.Is(err, store.ErrNotFound) {
				s.log.Warn("cannot make the outline of a plan or a state", "error", err)
			}
		}
	}
}
