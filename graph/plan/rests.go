package plan

import (
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// RestsOn says what of the stored state a plan was computed from, and what it changes of it. A later state in which
// nothing of that has changed is as good for the plan as the one that it was made for.
type RestsOn struct {
	// Writes are the instances that carrying the plan out changes, with all their objects; both ends of a move are among
	// them. They are sorted.
	Writes []addr.Instance
	// Outputs are the root outputs that it changes, sorted.
	Outputs []string
	// Reads are the other instances that the values of the writes were computed from, sorted.
	Reads []addr.Instance
	// Keeps are the resources of which the plan ends objects: nothing may begin to depend on them meanwhile, and what
	// depends on them must not change.
	Keeps []addr.ConfigResource
	// Found are the instances that refreshing, or a move, has found to be other than they are stored, sorted. Carrying
	// the plan out stores them as they were found.
	Found []Found
}

// Found is an instance that is stored otherwise than the plan's prior state has it.
type Found struct {
	Addr addr.Instance
	// Stored identifies what is stored; see state.Instance.Digest.
	Stored state.Digest
}
