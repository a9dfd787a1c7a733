package operation

import (
	"time"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/history"
	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/state/journal"
)

// tracing is an observer that also writes the timeline of a run.
type tracing struct {
	coordinator.Observer
	next   coordinator.Tracer // the observer, if it is one; else nil
	writer *history.Writer
	now    func() time.Time
}

// Shown implements coordinator.Tracer.
func (t *tracing) Shown(s loop.Shown) {
	t.writer.Shown(t.now(), s)
	if t.next != nil {
		t.next.Shown(s)
	}
}

// traced makes a run be recorded in a recorder, if one is requested. p is the plan that it applies, nil for a run that
// makes one; events are those already in the journal. The caller calls ended with the outcome of the run when it is
// over.
func (s *Session) traced(o *coordinator.Options, r journal.Run, p *plan.Plan, events []journal.Event) (
	ended func(outcome string)) {
	if s.Timeline == nil {
		return func(string) {}
	}
	head := history.HeadOf(r)
	head.Outcome, head.Ended = "", timeline.None // it is in progress
	recorder := s.Timeline(head)
	if recorder == nil {
		return func(string) {}
	}
	t := &tracing{Observer: o.Observer, writer: history.NewWriter(recorder, r.Started, p), now: s.Now}
	if t.Observer == nil {
		t.Observer = coordinator.Silent{}
	}
	t.next, _ = o.Observer.(coordinator.Tracer)
	t.writer.Replay(events)
	o.Observer = t
	return func(outcome string) { t.writer.End(s.Now(), outcome) }
}
