package journal

import (
	"context"
	"time"
)

// Observations are observations of plans about instances, beside the state: when an instance was last read from its
// provider and found unchanged, and under which inputs a plan left it unchanged. Instances are named by their
// addresses; the observations about an instance are lost when it moves or is removed. Losing them costs time, and
// nothing else, so a crash before the next commit may lose them.
type Observations interface {
	// Reads returns when the instances were last read.
	Reads(ctx context.Context, workspace string) (Reads, error)
	// NoteReads records that instances were read at a time: those in the list or, with all, every instance except those in
	// the list. The caller does not change the list any more.
	NoteReads(ctx context.Context, workspace string, at time.Time, all bool, list []string) error
	// Verdicts returns the verdicts about instances. The caller owns the map.
	Verdicts(ctx context.Context, workspace string) (map[string]Verdict, error)
	// NoteVerdicts stores verdicts. They replace earlier ones about the same instances. The caller does not change the
	// map any more.
	NoteVerdicts(ctx context.Context, workspace string, list map[string]Verdict) error
}

// Verdict is a digest of everything that the plan of an unchanged instance depended on. While the digest is the same,
// the instance needs no change.
type Verdict [16]byte

// Reads are the times at which the instances of a workspace were last read. The zero time means never.
type Reads struct {
	// All is the time for every instance that is not in Each.
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

// Note records that instances were read, as Observations.NoteReads does.
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
