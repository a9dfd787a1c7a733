package history

import (
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/state/journal"
)

// vertex is a vertex that is being modified.
type vertex timeline.Vertex

// attempt adds an attempt, which may be known already.
func (v *vertex) attempt(id string) {
	if id != "" && id != v.Attempt {
		v.Attempt = id
		v.Attempts++
	}
}

// Replay processes the events of a journal in order. The journal does not contain operations on the fast lane
// without changes, nor those that had not ended when a run was cut off there.
func (w *Writer) Replay(events []journal.Event) {
	for i := range events {
		w.replay(&events[i])
	}
}

func (w *Writer) replay(e *journal.Event) {
	at := w.ms(e.At)
	switch e.Kind {
	case journal.Want:
		free := w.free(e.Vertex)
		w.recorder.Update(e.Vertex, func(v *timeline.Vertex) {
			v.Status = timeline.Queued
			if v.Ready == timeline.None {
				v.Ready = min(free, at)
			}
		})
	case journal.Dispatch:
		w.started(e.Vertex, at, e.At.Add(-e.Waited), e.Waits, func(v *vertex) {
			v.Pool, v.Holds = e.Pool, nil
			if e.Worker != "" {
				v.Worker = e.Worker
			}
			v.attempt(e.Attempt)
			for _, name := range e.Permits {
				if limit, _, ok := journal.ParsePermit(name); ok {
					v.Holds = append(v.Holds, limit)
				}
			}
		})
	case journal.Step:
		w.recorder.Update(e.Vertex, func(v *timeline.Vertex) { v.Worker = e.Worker })
	case journal.Retract:
		w.recorder.Update(e.Vertex, func(v *timeline.Vertex) {
			v.Status, v.Holds, v.Doubtful, v.Ended = timeline.Queued, nil, "", timeline.None
		})
	case journal.Suspect:
		w.doubtful(e.Vertex, at, e.Detail)
	case journal.Finish, journal.Fail:
		if v, ok := w.recorder.Lookup(e.Vertex); ok && v.Started == timeline.None && e.Took > 0 {
			start := e.At.Add(-e.Took)
			w.started(e.Vertex, w.ms(start), start.Add(-min(e.Waited, waited(e.Waits))), e.Waits, func(v *vertex) {
				v.Pool = e.Pool
			})
		}
		failure := ""
		if e.Kind == journal.Fail {
			failure = e.Detail
		}
		w.ended(e.Vertex, at, e.Took, e.Worker, e.Action, failure, e.Kind == journal.Fail)
	case journal.Skip:
		w.skipped(e.Vertex, at, e.Detail)
	case journal.RunEnd:
		w.End(e.At, e.Detail)
	}
}

func waited(waits []journal.Wait) (sum time.Duration) {
	for _, one := range waits {
		sum += one.For
	}
	return sum
}
