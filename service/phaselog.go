package service

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/millipede-iac/millipede/service/queue"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/tables"
)

// phaseLogs opens and ends the logs of phases.
type phaseLogs struct {
	*Logs
	version string
}

// Open implements queue.Logs.
func (l phaseLogs) Open(r *record.Run, phase string) (queue.Log, bool, error) {
	file, err := l.write(tables.LogFile(phase))
	if err != nil {
		l.log.Error("cannot write the log of a run", "run", r.ID, "error", err)
		return nil, false, err
	}
	log, begun := &bufferedLog{log: file}, file.Size() > 0
	if !begun {
		_, err = fmt.Fprintf(log, "%sMillipede %s\non %s_%s\n", preface(r.ID), l.version, runtime.GOOS, runtime.GOARCH)
	}
	return log, begun, err
}

// End implements queue.Logs.
func (l phaseLogs) End(r *record.Run, phase string, log queue.Log) {
	_, err := io.WriteString(log, logEnd)
	if err = errors.Join(err, l.end(tables.LogFile(phase))); err != nil {
		l.log.Error("cannot close the log of a run", "run", r.ID, "error", err)
	}
}

// Abandon implements queue.Logs.
func (l phaseLogs) Abandon(r *record.Run) {
	for _, phase := range []string{r.Plan.ID, r.Apply.ID} {
		l.mu.Lock()
		log := l.open[tables.LogFile(phase)]
		l.mu.Unlock()
		if log != nil {
			l.End(r, phase, &bufferedLog{log: log})
		}
	}
}

// Fail writes why the phase has failed, without the characters of the log's markers.
func (l *bufferedLog) Fail(err error) {
	_, _ = fmt.Fprintf(l, "\nError: %s\n", unmarked(err)) // problems with the log were reported before
}

// preface is the beginning of the log of a phase. Whoever follows a plan gets it as soon as the service has the run,
// when there is no file yet.
func preface(run string) string { return fmt.Sprintf("%sPreparing the run %s...\n", logBegin, run) }

// beforeBegin returns the log of a plan that has not begun, from an offset, and how it ends if it never will.
func beforeBegin(run string, over bool, offset int64, limit int) []byte {
	text := preface(run)
	if over {
		text += logEnd
	}
	if offset >= int64(len(text)) {
		return nil
	}
	text = text[max(offset, 0):]
	return []byte(text[:min(len(text), limit)])
}
