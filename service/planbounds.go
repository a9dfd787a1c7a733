package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/service/work"
)

// errTooLong is the cause of the end of a plan that takes too long.
var errTooLong = errors.New("the plan takes too long")

// leaveAfter is how long a plan that takes too long may take to end in order.
const leaveAfter = 30 * time.Second

// plan makes a plan within the bounds of its workspace.
func (s *phases) plan(leaving context.Context, j *work.Job) (*work.PlanResult, error) {
	j.Workspace.Bounds = j.Workspace.Bounds.Within(s.bounds)
	b := j.Workspace.Bounds
	planned, err := s.planInTime(leaving, j, b.PlanTime)
	if err == nil && b.PlanSize != 0 {
		size := int64(len(planned.Plan) + len(planned.Shape) + len(planned.Redacted))
		err = work.FitsInto(size, b.PlanSize<<20)
	}
	return planned, err
}

// planInTime makes a plan that may take a time; 0 is no bound. Once it is over, the engine must end the plan as if it
// was canceled; an engine that does not is left, and killed.
func (s *phases) planInTime(leaving context.Context, j *work.Job, most time.Duration) (*work.PlanResult, error) {
	if most == 0 {
		return s.engine.Plan(leaving, j)
	}
	whole := j.Stopping
	stopping, stop := context.WithCancelCause(whole)
	defer stop(nil)
	leaving, leave := context.WithCancel(leaving)
	defer leave()
	defer time.AfterFunc(most, func() { stop(errTooLong) }).Stop()
	defer time.AfterFunc(most+leaveAfter, leave).Stop()
	j.Stopping = stopping
	planned, err := s.engine.Plan(leaving, j)
	if err != nil && whole.Err() == nil && errors.Is(context.Cause(stopping), errTooLong) {
		return nil, fmt.Errorf("The plan has not ended within %s, with the time for which it has waited for workers. Divide "+
			"the configuration among several workspaces, or have the time of plans raised: in the settings of the workspace, "+
			"or by the operator (serve -plan-time)", PeriodText(most))
	}
	return planned, err
}
