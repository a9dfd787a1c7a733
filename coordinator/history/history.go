// Package history makes the timeline of a run: live from the events of its loop, and afterwards from its journal.
//
// Both give the same timeline, through the same steps. The package makes no decisions about the run, and reads no
// clock.
package history

import (
	"slices"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// CutOff is the outcome of a run that did not end, and that no process executes.
const CutOff = "cut off"

// worthTelling is the minimum length of a wait that is shown, in milliseconds.
const worthTelling = 10

// maxErrors is the maximum number of problems of the run as a whole that are kept.
const maxErrors = 50

// HeadOf returns the head of a run's timeline.
func HeadOf(r journal.Run) timeline.Head {
	h := timeline.Head{Run: r.ID, Workspace: r.Workspace, Command: r.Command, Who: r.Who,
		Begun: r.Started.UnixMilli(), Ended: timeline.None}
	if r.Status != journal.Running {
		h.Outcome = r.Status
		if !r.Ended.IsZero() {
			h.Ended = max(0, r.Ended.Sub(r.Started).Milliseconds())
		}
	}
	return h
}

// Of returns the timeline of a recorded run. alive reports whether a process executes it; now is the current time.
func Of(r journal.Run, p *plan.Plan, events []journal.Event, alive bool, now time.Time) *timeline.Model {
	head := HeadOf(r)
	recorder := timeline.NewRecorder(head)
	w := NewWriter(recorder, r.Started, p)
	w.Replay(events)
	at := now.Sub(r.Started).Milliseconds()
	if head.Ended == timeline.None && !alive {
		at = 0
		if len(events) > 0 {
			at = w.ms(events[len(events)-1].At)
		}
		if head.Outcome == "" {
			recorder.Note(func(h *timeline.Head, _ *int64, _ *[]timeline.Shortage) { h.Outcome = CutOff })
		}
	}
	return recorder.Model(max(at, 0))
}

// Writer writes a run into a recorder. Its methods are called by one goroutine at a time.
type Writer struct {
	recorder *timeline.Recorder
	begun    time.Time
	// queues are the queued vertices by queue; in is the current queue of each.
	queues map[int]map[int]bool
	in     map[int]int
	passed map[int]int64 // the time when all dependencies of a junction were over
}

// NewWriter returns a writer of a run that begins at a time. The vertices of the plan are added to the recorder;
// without a plan, a vertex is added when it is first shown, and its dependencies are unknown.
func NewWriter(recorder *timeline.Recorder, begun time.Time, p *plan.Plan) *Writer {
	w := &Writer{
		recorder: recorder, begun: begun, queues: map[int]map[int]bool{}, in: map[int]int{}, passed: map[int]int64{},
	}
	if p != nil {
		recorder.Add(Vertices(p)...)
	}
	return w
}

func (w *Writer) ms(t time.Time) int64 { return max(0, t.Sub(w.begun).Milliseconds()) }

// Shown processes an event of the loop at a time.
func (w *Writer) Shown(now time.Time, s loop.Shown) {
	switch s.Kind {
	case loop.ShownQueued:
		w.ensure(&s)
		w.queued(s.Vertex, s.Queue, w.ms(s.At), w.ms(now), s.Pool, s.Waited)
	case loop.ShownLacking:
		w.lacking(s.Queue, w.ms(s.At), s.Waited)
	case loop.ShownStarted:
		w.ensure(&s)
		w.started(s.Vertex, w.ms(s.At), s.Ready, s.Waited, func(v *vertex) {
			v.Pool, v.Holds = s.Pool, s.Limits
			v.attempt(string(s.Attempt))
		})
	case loop.ShownHeld:
		w.recorder.Update(s.Vertex, func(v *timeline.Vertex) {
			v.Worker = s.Worker
			(*vertex)(v).attempt(string(s.Attempt))
		})
	case loop.ShownFinished, loop.ShownFailed:
		w.ensure(&s)
		w.ended(s.Vertex, w.ms(now), s.Took, s.Worker, s.Notes.Action, s.Reason, s.Kind == loop.ShownFailed)
	case loop.ShownSkipped:
		w.ensure(&s)
		w.skipped(s.Vertex, w.ms(now), s.Reason)
	case loop.ShownDoubtful:
		w.ensure(&s)
		w.doubtful(s.Vertex, w.ms(now), s.Reason)
	case loop.ShownWaiting:
		at := w.ms(now)
		w.recorder.Note(func(_ *timeline.Head, _ *int64, shortages *[]timeline.Shortage) {
			*shortages = shortagesOf(s.Waits, at, *shortages)
		})
	case loop.ShownCounts:
		w.recorder.Note(func(_ *timeline.Head, left *int64, _ *[]timeline.Shortage) { *left = s.Counts.Left.Milliseconds() })
	case loop.ShownDiagnostics:
		w.errors(s.Vertex, s.Diagnostics)
	}
}

// End records the end of the run.
func (w *Writer) End(at time.Time, outcome string) {
	w.recorder.Note(func(h *timeline.Head, left *int64, shortages *[]timeline.Shortage) {
		h.Outcome, *left, *shortages = outcome, 0, nil
		h.Ended = w.ms(at)
	})
}

// ensure adds a vertex that is not in a plan.
func (w *Writer) ensure(s *loop.Shown) {
	if _, ok := w.recorder.Lookup(s.Vertex); !ok {
		w.recorder.Add(timeline.Vertex{Number: s.Vertex, Module: moduleOf(s.Address), Address: s.Address, Deposed: s.Deposed,
			Type: s.Class, Action: s.Action, Status: timeline.Waiting, Ready: timeline.None, Started: timeline.None,
			Ended: timeline.None})
	}
}

var kinds = map[journal.WaitKind]timeline.WaitKind{
	journal.WaitPermit: timeline.ForPermit, journal.WaitPlace: timeline.ForPlace,
	journal.WaitWorker: timeline.ForWorker, journal.WaitOther: timeline.ForOther,
}

func (w *Writer) queued(number, queue int, ready, now int64, pool string, waited []journal.Wait) {
	free := w.free(number)
	w.recorder.Update(number, func(v *timeline.Vertex) {
		v.Status, v.Pool, v.Ended = timeline.Queued, pool, timeline.None
		if v.Started != timeline.None { // a further operation of the vertex
			return
		}
		v.Ready, v.Waits = tile(free, ready, now, nil)
		v.Waits = open(v.Waits, now, waited)
	})
	if w.queues[queue] == nil {
		w.queues[queue] = map[int]bool{}
	}
	w.queues[queue][number] = true
	w.in[number] = queue
}

// open adds a wait that is in progress.
func open(waits []timeline.Wait, from int64, waited []journal.Wait) []timeline.Wait {
	if len(waited) == 0 {
		return waits
	}
	return append(slices.Clip(waits), timeline.Wait{Kind: kinds[waited[0].Kind], Name: waited[0].Name, From: from,
		To: timeline.None})
}

// lacking changes the waits of the vertices in a queue.
func (w *Writer) lacking(queue int, since int64, waited []journal.Wait) {
	for number := range w.queues[queue] {
		w.recorder.Update(number, func(v *timeline.Vertex) {
			if v.Started != timeline.None || len(v.Waits) == 0 || len(waited) == 0 {
				return
			}
			last := v.Waits[len(v.Waits)-1]
			if last.Kind == kinds[waited[0].Kind] && last.Name == waited[0].Name {
				return
			}
			waits := slices.Clone(v.Waits)
			waits[len(waits)-1].To = max(last.From, since)
			v.Waits = open(waits, max(last.From, since), waited)
		})
	}
}

// leave removes a vertex from its queue.
func (w *Writer) leave(number int) {
	if queue, ok := w.in[number]; ok {
		delete(w.queues[queue], number)
		delete(w.in, number)
	}
}

func (w *Writer) started(number int, at int64, ready time.Time, waited []journal.Wait, more func(*vertex)) {
	w.leave(number)
	free, queued := w.free(number), at
	if !ready.IsZero() {
		queued = w.ms(ready)
	}
	w.recorder.Update(number, func(v *timeline.Vertex) {
		v.Status, v.Ended = timeline.Running, timeline.None
		if v.Started == timeline.None {
			v.Ready, v.Waits = tile(free, queued, at, waited)
			v.Started = at
		}
		more((*vertex)(v))
	})
}

func (w *Writer) ended(number int, at int64, took time.Duration, worker, action, failure string, bad bool) {
	w.leave(number)
	free := w.free(number)
	w.recorder.Update(number, func(v *timeline.Vertex) {
		v.Status, v.Ended, v.Holds, v.Doubtful = timeline.Done, at, nil, ""
		if v.Started == timeline.None {
			v.Started = max(free, at-took.Milliseconds())
			v.Ready, v.Waits = tile(free, v.Started, v.Started, nil)
		}
		v.Took = took.Milliseconds()
		if worker != "" {
			v.Worker = worker
		}
		if action != "" {
			v.Action = action
		}
		if bad {
			v.Status, v.Failure = timeline.Failed, failure
		}
	})
}

func (w *Writer) skipped(number int, at int64, because string) {
	w.leave(number)
	w.recorder.Update(number, func(v *timeline.Vertex) {
		v.Status, v.Because, v.Ended, v.Waits = timeline.Skipped, because, at, nil
	})
}

func (w *Writer) doubtful(number int, at int64, reason string) {
	w.leave(number)
	w.recorder.Update(number, func(v *timeline.Vertex) {
		v.Status, v.Doubtful, v.Ended = timeline.Doubt, reason, at
	})
}

func (w *Writer) errors(number int, list diag.List) {
	if number >= 0 || !list.HasErrors() {
		return // problems of a vertex come with its end
	}
	w.recorder.Note(func(h *timeline.Head, _ *int64, _ *[]timeline.Shortage) {
		kept := slices.Clone(h.Errors)
		for _, d := range list {
			if d.Severity == diag.Error && len(kept) < maxErrors {
				kept = append(kept, d.Error())
			}
		}
		h.Errors = kept
	})
}

// free returns when all dependencies of a vertex were over; zero if it has none.
func (w *Writer) free(number int) (at int64) {
	v, ok := w.recorder.Lookup(number)
	if !ok {
		return 0
	}
	for _, before := range v.After {
		if passed, ok := w.passed[before]; ok {
			at = max(at, passed)
			continue
		}
		b, _ := w.recorder.Lookup(before)
		if b.Status == timeline.Junction {
			passed := w.free(before)
			w.passed[before] = passed // a dependent of it has started, so all its dependencies are over
			at = max(at, passed)
			continue
		}
		at = max(at, b.Ended)
	}
	return at
}

// tile arranges the waits of a vertex between free, when its dependencies were met, and start. Before it was
// queued, it waited for its turn.
func tile(free, queued, start int64, waited []journal.Wait) (ready int64, waits []timeline.Wait) {
	queued = min(max(queued, 0), start)
	ready = min(free, queued)
	at := ready
	add := func(kind timeline.WaitKind, name string, until int64) {
		if until = min(until, start); until-at >= worthTelling {
			waits = append(waits, timeline.Wait{Kind: kind, Name: name, From: at, To: until})
			at = until
		}
	}
	add(timeline.ForTurn, "", queued)
	for _, one := range waited {
		add(kinds[one.Kind], one.Name, at+one.For.Milliseconds())
	}
	add(timeline.ForOther, "", start)
	return ready, waits
}

// shortagesOf returns the shortages at a time. Those that were there before keep the time of their beginning.
func shortagesOf(waits []loop.Wait, at int64, before []timeline.Shortage) []timeline.Shortage {
	var out []timeline.Shortage
	for _, x := range waits {
		s := timeline.Shortage{Kind: "worker", Name: x.Pool, Since: at, Vertices: x.Vertices, Example: x.Address}
		if !x.Away.IsZero() {
			s.Kind = "region"
		}
		if x.Limit != "" {
			s.Kind, s.Name, s.Slots, s.InDoubt = "permit", x.Limit, x.Slots, x.InDoubt
		}
		if pool, place := wire.LimitedPool(x.Limit); place {
			s.Kind, s.Name = "place", pool
		}
		for _, o := range before {
			if o.Kind == s.Kind && o.Name == s.Name {
				s.Since = o.Since
			}
		}
		out = append(out, s)
	}
	return out
}
