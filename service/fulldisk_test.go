package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/work"
)

// errFull is the error of a full disk.
var errFull = fmt.Errorf("writing the plan: %w", syscall.ENOSPC)

// If the disk was full during a phase, the run ended as failed: in a series of faults with full disks a third of all
// runs failed.
func TestAFullDiskEndsNoRun(t *testing.T) {
	h := servicetest.New(t)
	var plans, applies atomic.Int32
	h.Engine.PlanFunc = func(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
		if plans.Add(1) <= 2 {
			return nil, errFull
		}
		return servicetest.PlanThen(func(*work.Job) {})(ctx, j)
	}
	h.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		if n := applies.Add(1); n == 1 {
			return nil, errFull
		} else if !j.Resumed {
			t.Errorf("the apply %d was begun again instead of resumed", n)
		}
		return &work.ApplyResult{Add: 1}, nil
	}
	r := h.NewRun(h.NewWorkspace("one"), func(r *record.Run) { r.AutoApply = true })
	v := h.Await(r.ID, record.Applied)
	if plans.Load() != 3 || applies.Load() != 2 {
		t.Errorf("%d plans, %d applies", plans.Load(), applies.Load())
	}
	for _, phase := range []*record.Phase{&v.Plan, &v.Apply} {
		text := wholeLog(t, h, h.Logs.Address(phase))
		if !strings.Contains(text, "The disk of the service was full. The run continues.") ||
			strings.Contains(text, "service was restarted") || strings.Contains(text, "Error") ||
			strings.Count(text, "\x02") != 1 || !strings.HasSuffix(text, "\x03") {
			t.Errorf("%q", text)
		}
	}
}

// A run ended as failed if the NATS server was restarted while the run uploaded the package of its provider.
func TestANATSServerThatWasAwayEndsNoRun(t *testing.T) {
	h := servicetest.New(t)
	var plans, applies atomic.Int32
	away := errors.Join(work.ErrReported, work.ErrAgain)
	h.Engine.PlanFunc = func(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
		if plans.Add(1) == 1 {
			return nil, away
		}
		return servicetest.PlanThen(func(*work.Job) {})(ctx, j)
	}
	h.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		if n := applies.Add(1); n == 1 {
			return nil, away
		} else if !j.Resumed {
			t.Errorf("the apply %d was begun again instead of resumed", n)
		}
		return &work.ApplyResult{Add: 1}, nil
	}
	r := h.NewRun(h.NewWorkspace("one"), func(r *record.Run) { r.AutoApply = true })
	v := h.Await(r.ID, record.Applied)
	log, err := h.Logs.Read(t.Context(), h.Logs.Address(&v.Plan), 0, 10_000)
	if plans.Load() != 2 || applies.Load() != 2 || err != nil ||
		!strings.Contains(string(log), "The NATS server was unreachable. The run continues.") {
		t.Errorf("%d plans, %d applies; %q, %v", plans.Load(), applies.Load(), log, err)
	}
}

// Data that is larger than the disk never fits, so the service must not try for ever.
func TestWhatNeverFitsOnADiskWithRoomFails(t *testing.T) {
	h := servicetest.New(t)
	var plans atomic.Int32
	h.Engine.PlanFunc = func(context.Context, *work.Job) (*work.PlanResult, error) {
		plans.Add(1)
		return nil, errFull
	}
	v := h.Await(h.NewRun(h.NewWorkspace("one"), nil).ID, record.Errored)
	log, err := h.Logs.Read(t.Context(), h.Logs.Address(&v.Plan), 0, 10_000)
	if err != nil || plans.Load() != 11 || !strings.Contains(string(log), "Error: writing the plan: no space left") {
		t.Errorf("%d plans; %q, %v", plans.Load(), log, err)
	}
}
