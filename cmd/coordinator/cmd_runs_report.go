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
	"github.com/millipede-iac/millipede/coordinator/picture"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/view"
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
			return errNoReportFile
		}
		run, err := store.Read(ctx, a.Estate.Workspace(), name)
		if err != nil {
			return err
		}
		if run == nil {
			return errors.New("no runs are recorded")
		}
		report, err := store.Report(run, time.Now())
		if err != nil {
			return err
		}
		return a.writeReport(&report, run.Run.ID, out)
	}, func(ctx context.Context, at servedAt) error {
		if out == "" {
			return errNoReportFile
		}
		return a.reportServed(ctx, at, out)
	})
}

// errNoReportFile is the error of a report without a place.
var errNoReportFile = errors.New("the option -out=FILE for the report is missing")

// writeReport writes the report about a run to a file.
func (a *app) writeReport(report *picture.Report, run, out string) error {
	var text bytes.Buffer
	if err := report.Write(&text); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	out = environ.Path(a.Dir, out)
	if err := os.WriteFile(out, text.Bytes(), 0o600); err != nil {
		return err
	}
	_, err := fmt.Fprintf(view.Clean(a.Stdout, false), "The report about the run %s is in %s.\n", run, out)
	return err
}
