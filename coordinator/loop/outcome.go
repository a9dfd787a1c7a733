package loop

import (
	"slices"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Outcome is the result of a run.
type Outcome struct {
	// Diags are all the problems, ordered by vertex.
	Diags   diag.List
	Failed  []Failure
	Skipped []Skipped
	InDoubt []Doubtful
	// Interrupted says that vertices were not executed because the run was asked to stop; Cancelled that the run must not
	// be resumed.
	Interrupted, Cancelled bool
	Counts                 Counts
	// Status is the status of the run in the journal: done, failed, interrupted or cancelled.
	Status string
}

// Outcome returns the result of the run so far.
func (l *Loop) Outcome() Outcome {
	out := Outcome{
		Failed: l.failed, Skipped: l.skipped, InDoubt: l.doubted,
		Interrupted: l.stops() && !l.sched.Finished(), Cancelled: l.cancels(), Counts: l.progress(&l.queues, &l.permits),
	}
	slices.SortStableFunc(l.problems, func(a, b problem) int { return a.vertex - b.vertex })
	for _, p := range l.problems {
		out.Diags = append(out.Diags, p.list...)
	}
	slices.SortFunc(out.Failed, func(a, b Failure) int { return a.Vertex - b.Vertex })
	slices.SortFunc(out.Skipped, func(a, b Skipped) int { return a.Vertex - b.Vertex })
	slices.SortFunc(out.InDoubt, func(a, b Doubtful) int { return a.Vertex - b.Vertex })
	switch {
	case l.cancels() && len(l.doubted) == 0 && !l.openEnded():
		out.Status = "cancelled"
	case out.Interrupted, l.evidence != complete, l.err != nil, len(l.doubted) > 0, l.leaves():
		out.Status = "interrupted"
	case len(l.failed) > 0, out.Diags.HasErrors():
		out.Status = "failed"
	default:
		out.Status = "done"
	}
	return out
}

// Held returns the permits of operations that may still run when the run ends.
func (l *Loop) Held() (keys []PermitKey) {
	for v := range l.vertices {
		if w := l.vertices[v].work; w != nil && w.step.Lane == program.Safe {
			keys = append(keys, keysOf(w.permits)...)
		}
	}
	for _, ps := range l.permits.kept {
		keys = append(keys, keysOf(ps.permits)...)
	}
	for v, p := range l.Past {
		if l.vertices[v].phase == idle { // it was not looked at
			keys = append(keys, keysOf(p.permits)...)
		}
	}
	for k, a := range l.permits.reclaims {
		if l.isOpen(a) { // else it was to be given back as soon as it came
			keys = append(keys, k)
		}
	}
	return keys
}
