// Package work is the contract between the service and the engine that executes the phases of its runs.
//
// It has only data and interfaces, so that an engine need not know the service. Package engine implements it.
package work

import (
	"context"
)

// Engine executes the phases of runs.
type Engine interface {
	// Plan makes the plan of a run. It changes nothing outside of the job's directories.
	Plan(ctx context.Context, j *Job) (*PlanResult, error)
	// PlanJSON makes the JSON document of a plan from the results of Plan and from the state versions in the
	// directory, data, of the workspace. It needs no worker, and also works when the state has changed since.
	PlanJSON(ctx context.Context, workspace, data string, plan, shape []byte) ([]byte, error)
	// Apply applies the plan of a run, or resumes an interrupted apply. A nil error means that everything was
	// applied.
	Apply(ctx context.Context, j *Job) (*ApplyResult, error)
	// Resolve records the outcome of an operation in doubt, as the person who states it.
	Resolve(ctx context.Context, j *Job, r Resolution, who string) error
	// ChangeObjects changes instances of a state on which runs work, under locks of these instances. The error is
	// *Refused if runs have locked or changed them.
	ChangeObjects(ctx context.Context, j *Job, c ObjectChange) error
	// Watch reads objects of the workspace, at most reads at a time, and returns those that differ from the
	// state. It changes nothing, takes no lock of the state, and yields to the operations of plans and applies.
	// If it returns an error, some objects could not be read; the findings about the others are returned all
	// the same.
	Watch(ctx context.Context, j *Job, addresses []string, reads int) ([]Found, error)
}
