package estate

import (
	"context"
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// Unfit returns the runs of a workspace that are not over and that this version cannot resume, each with the reason and
// what to do, for people.
func (r *Runs) Unfit(ctx context.Context, workspace string) ([]string, error) {
	runs, err := r.store.Runs(ctx, workspace)
	if err != nil {
		return nil, err
	}
	var unfit []string
	for _, run := range runs {
		if run.Over() {
			continue
		}
		why, err := r.unfit(ctx, run)
		if err != nil {
			return nil, fmt.Errorf("reading the run %s: %w", run.ID, err)
		}
		if why != "" {
			unfit = append(unfit, fmt.Sprintf("the run %s: %s", titled(run), why))
		}
	}
	return unfit, nil
}

func (r *Runs) unfit(ctx context.Context, run journal.Run) (why string, err error) {
	_, text, err := r.store.RunPlan(ctx, run.ID)
	if err != nil {
		return "", err
	}
	format, by, err := planfile.Format(text)
	with := "the version that began it"
	if by != "" {
		with = "Millipede " + by
	}
	end := fmt.Sprintf("end it with %s first: %s runs resume %s", with, diag.Program(), run.ID)
	switch {
	case errors.Is(err, planfile.ErrNoPlan):
		return "its plan cannot be read; " + end, nil
	case err != nil:
		return "", err
	case !planfile.Applies(format):
		return fmt.Sprintf("its plan has format %d, and this version applies plans in the formats %v; %s", format,
			planfile.Formats(), end), nil
	}
	older, err := coordinator.OlderStreams(ctx, r.store, run.ID)
	if older {
		return "its registers are in streams that this version does not use; " + end, err
	}
	return "", err
}
