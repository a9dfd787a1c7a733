package service

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/millipede-iac/millipede/service/record"
)

// openLog opens the log of a phase, and writes its first lines if it has none. begun says that it had some. The log is
// nil if it cannot be opened.
func (q *queue) openLog(r *record.Run, phase string) (log *bufferedLog, begun bool, err error) {
	s := q.s
	file, err := s.logs.write(logFile(phase))
	if err != nil {
		s.log.Error("cannot write the log of a run", "run", r.ID, "error", err)
		return nil, false, err
	}
	log, begun = &bufferedLog{log: file}, file.Size() > 0
	if !begun {
		_, err = fmt.Fprintf(log, "%sMillipede %s\non %s_%s\nPreparing the run %s...\n", logBegin, s.opts.Version,
			runtime.GOOS, runtime.GOARCH, r.ID)
	}
	q.begun(r.ID)
	return log, begun, err
}

// openWaiting opens the log of a plan that waits for its turn: whoever follows it learns at once that the service has
// the run. A log that cannot be written is opened again when the plan is begun.
func (q *queue) openWaiting(r *record.Run) {
	log, _, err := q.openLog(r, r.Plan.ID)
	if err == nil {
		err = log.Flush()
	}
	if err != nil {
		q.s.log.Warn("cannot begin the log of a waiting run", "run", r.ID, "error", err)
	}
	q.mu.Lock()
	gone := q.active[r.ID] == nil
	q.mu.Unlock()
	if gone { // it was canceled before the log was open
		q.endWaiting(r)
	}
}

// endWaiting ends the log of a plan that was canceled, or deleted, while it waited for its turn.
func (q *queue) endWaiting(r *record.Run) {
	q.s.logs.mu.Lock()
	log := q.s.logs.open[logFile(r.Plan.ID)]
	q.s.logs.mu.Unlock()
	if log != nil {
		q.endLog(r, r.Plan.ID, log)
	}
}

// endLog marks the end of the log of a phase, and makes the log durable.
func (q *queue) endLog(r *record.Run, phase string, log io.Writer) {
	_, err := io.WriteString(log, logEnd)
	if err = errors.Join(err, q.s.logs.end(logFile(phase))); err != nil {
		q.s.log.Error("cannot close the log of a run", "run", r.ID, "error", err)
	}
}
