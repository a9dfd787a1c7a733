package work

import (
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/program"
)

// PlanResult is the result of a plan.
type PlanResult struct {
	HasChanges, Generated        bool
	Add, Change, Destroy, Import int
	// Sensitive has the names of the variables that the configuration declares sensitive.
	Sensitive []string
	// Plan and Shape are opaque data: Apply needs Plan, and PlanJSON needs both to make the complete document.
	// Redacted is the JSON document without sensitive values.
	Plan, Shape, Redacted []byte
}

// ApplyResult counts the changes of an apply.
type ApplyResult struct{ Add, Change, Destroy, Import int }

// FitsInto returns an error for a result of a phase that has more bytes than it may have.
func FitsInto(size, most int64) error {
	if size <= most {
		return nil
	}
	return fmt.Errorf("The result of this phase has %.1f MiB: the plan, the schemas of its providers, and its JSON. At "+
		"most %d MiB are possible. Divide the configuration among several workspaces, or have the size of plans raised: in "+
		"the settings of the workspace, or by the operator (serve -plan-size)", float64(size)/(1<<20), most>>20)
}

// ErrStopped is returned by the engine when it has ended because it was asked to stop.
var ErrStopped = errors.New("the run was stopped")

// ErrAgain is wrapped by the engine's error if a phase has failed because something that it needs was
// temporarily unavailable. The phase is then repeated: planned again, or resumed.
var ErrAgain = errors.New("something that the run needs was unavailable")

// ErrSuspended is the cause of a stop after which the service continues the phase later.
var ErrSuspended = program.ErrSuspended

// ErrCanceled is the cause of a stop because a person has canceled the run.
var ErrCanceled = errors.New("the run was canceled")

// ErrReported is wrapped by errors whose text is already in the run's log.
var ErrReported = errors.New("reported in the log")

// ErrLost is returned for a phase whose engine has died. The phase is then begun again: planned again, or resumed.
var ErrLost = errors.New("the engine that worked on it has ended unexpectedly")
