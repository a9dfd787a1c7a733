package operation

import (
	"context"

	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/state/journal"
)

// onlyChanged reports whether an ordinary plan reads only objects that a change can affect.
func (s *Session) onlyChanged(o plan.Options) bool {
	if o.Mode != plan.Normal || o.SkipRefresh {
		return false
	}
	return o.Refresh == placement.RefreshChanged || o.Refresh == "" && s.Rules.RefreshesChanged()
}

// verdicts returns the verdicts that a plan may use. Verdicts that cannot be read only cost time.
func (s *Session) verdicts(ctx context.Context, asked bool) map[string]journal.Verdict {
	if !asked || s.Store == nil {
		return nil
	}
	list, err := s.Store.Verdicts(ctx, s.Workspace)
	if err != nil {
		return nil
	}
	return list
}

// storeObservations records in a plan the objects that it has not read, and in the store the objects that it has read.
// A failure of the latter is harmless: later plans have to read more. onlyChanged is set if the plan has read only
// objects that a change can affect.
func (d *draft) storeObservations(ctx context.Context, p *plan.Plan, onlyChanged bool) {
	s := d.session
	if s.Store == nil || d.options.SkipRefresh {
		return
	}
	ctx = context.WithoutCancel(ctx)
	seen, began := d.planner.Observations(), d.now // nothing was read before
	if len(seen.Unread) > 0 {
		reads, err := s.Store.Reads(ctx, s.Workspace)
		if err != nil {
			reads = journal.Reads{} // then the times are unknown
		}
		p.Unread = seen.UnreadIn(reads)
	}
	switch {
	case p.Errored:
	case onlyChanged:
		if len(seen.Same) > 0 {
			_ = s.Store.NoteReads(ctx, s.Workspace, began, false, seen.Same)
		}
		if len(seen.New) > 0 {
			_ = s.Store.NoteVerdicts(ctx, s.Workspace, seen.New)
		}
	case len(p.Targets)+len(p.Excludes)+len(p.Invoke) == 0 && p.Dependencies != nil && !p.Defers:
		var other []string // instances known to differ from the state
		for _, f := range p.Dependencies.Found {
			other = append(other, f.Addr.String())
		}
		_ = s.Store.NoteReads(ctx, s.Workspace, began, true, other)
	}
}
