package journal

import (
	"context"
	"time"
)

// Sights are what plans have seen of instances, beside the state: when each was last read from its provider and found
// as it is stored, and under which inputs it was planned to stay as it is. Instances are named by their addresses. What
// is known of one goes with it, and is lost when it moves. Losing all of it costs time, nothing else.
type Sights interface {
	// Reads returns when the instances were last read.
	Reads(ctx context.Context, workspace string) (Reads, error)
	// NoteReads notes that instances were read at a time: those in the list or, with all, every instance there is but
	// those in the list.
	NoteReads(ctx context.Context, workspace string, at time.Time, all bool, list []string) error
	// Verdicts returns the verdicts about instances. The caller owns the map.
	Verdicts(ctx context.Context, workspace string) (map[string]Verdict, error)
	// NoteVerdicts notes verdicts, in place of those that there are about the same instances.
	NoteVerdicts(ctx context.Context, workspace string, list map[string]Verdict) error
}

// Verdict identifies all that went into a plan in which an instance stays as it is: with the same, it stays so again.
type Verdict [16]byte

// Reads are when the instances of a workspace were last read. The zero time is never.
type Reads struct {
	// All is when every instance was that is not in Each.
	All  time.Time
	Each map[string]time.Time
}

// At returns when an instance was last read.
func (r Reads) At(instance string) time.Time {
	if at, ok := r.Each[instance]; ok {
		return at
	}
	return r.All
}

// Note notes that instances were read, as Sights.NoteReads does.
func (r *Reads) Note(at time.Time, all bool, list []string) {
	each := map[string]time.Time{}
	if !all {
		if r.Each == nil {
			r.Each = each
		}
		for _, instance := range list {
			r.Each[instance] = at
		}
		return
	}
	for _, instance := range list {
		each[instance] = r.At(instance)
	}
	r.All, r.Each = at, each
}
