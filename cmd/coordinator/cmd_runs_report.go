package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/history"
	"github.com/millipede-iac/millipede/environ"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/picture"
)

const runsReportUsage = `
Usage: coordinator [global options] runs report -out=FILE [options] [RUN]

  Writes a report about a run: a single HTML file with the failures, a Gantt chart of the operations of all workers
  with their waits, and the graph. It can be opened from disk, loads nothing, and has no values of attributes.
  Without a name, the newest run. A run in progress is shown in its present status.

Options:
  -out=FILE             Where to write the report.
  -no-color             Do not use colours.
` + variablesHelp

func runRunsReport(ctx context.Context, a *app, args []string) int {
	var out string
	more := func(f *flag.FlagSet) { f.StringVar(&out, "out", "", "") }
	return a.readRunsWith(ctx, runsReportUsage, args, 1, more, func(store *estate.Runs, name string) error {
		if out == "" {
			return errors.New("the option -out=FILE for the report is missing")
		}
		if name == "" {
			runs, err := store.Journal().Runs(ctx, a.Estate.Workspace())
			if err != nil {
				return err
			}
			if len(runs) == 0 {
				return errors.New("no runs are recorded")
			}
			name = runs[0].ID
		}
		text, err := reportOf(ctx, store, name)
		if err != nil {
			return err
		}
		out = environ.Path(a.Dir, out)
		if err := os.WriteFile(out, text, 0o600); err != nil {
			return err
		}
		_, err = fmt.Fprintf(view.Clean(a.Stdout, false), "The report about the run %s is in %s.\n", name, out)
		return err
	})
}

// reportOf makes the report about a run.
func reportOf(ctx context.Context, store *estate.Runs, name string) ([]byte, error) {
	run, text, err := store.Journal().RunPlan(ctx, name)
	if err != nil {
		return nil, err
	}
	saved, err := planfile.DecodeRecorded(text)
	if err != nil {
		return nil, fmt.Errorf("the plan of the run: %w", err)
	}
	events, err := store.Journal().Events(ctx, name)
	if err != nil {
		return nil, err
	}
	if run.Vertices != len(saved.Plan.Graph.Vertices) {
		return nil, fmt.Errorf("the plan of the run has %d vertices, and the run %d", len(saved.Plan.Graph.Vertices),
			run.Vertices)
	}
	alive := run.Status == journal.Running && store.Running(run)
	report := picture.Report{Model: history.Of(run, saved.Plan, events, alive, time.Now()),
		Parts: history.Parts(saved.Plan)}
	var b bytes.Buffer
	if err := report.Write(&b); err != nil {
		return nil, fmt.Errorf("writing the report: %w", err)
	}
	return b.Bytes(), nil
}
