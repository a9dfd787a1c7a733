package plan

import (
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// Dependencies describes which parts of the stored state a plan was computed from, and which it changes. The plan is
// equally valid for a later state in which none of these has changed.
type Dependencies struct {
	// Writes are the instances that applying the plan changes, with all their objects; both ends of a move are
	// among them. They are sorted.
	Writes []addr.Instance
	// Outputs are the root outputs that it changes, sorted.
	Outputs []string
	// Reads are the other instances from whose values the writes were computed, sorted.
	Reads []addr.Instance
	// Keeps are the resources from which the plan removes objects: no new dependencies on them may be added
	// meanwhile, and their dependents must not change.
	Keeps []addr.ConfigResource
	// Found are the instances for which refreshing, or a move, found differences from the stored state, sorted.
	// Applying the plan stores them as found.
	Found []Found
}

// Found is an instance whose stored form differs from the plan's prior state.
type Found struct {
	Addr addr.Instance
	// Stored is the digest of the stored form; see state.Instance.Digest.
	Stored state.Digest
}
