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
	file, err := q.logs.write(logFile(phase))
	if err != nil {
		q.log.Error("cannot write the log of a run", "run", r.ID, "error", err)
		return nil, false, err
	}
	log, begun = &bufferedLog{log: file}, file.Size() > 0
	if !begun {
		_, err = fmt.Fprintf(log, "%sMillipede %s\non %s_%s\n", preface(r.ID), q.version, runtime.GOOS, runtime.GOARCH)
	}
	q.begun(r.ID)
	return log, begun, err
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

// endLog marks the end of the log of a phase, and makes the log durable.
func (q *queue) endLog(r *record.Run, phase string, log io.Writer) {
	_, err := io.WriteString(log, logEnd)
	if err = errors.Join(err, q.logs.end(logFile(phase))); err != nil {
		q.log.Error("cannot close the log of a run", "run", r.ID, "error", err)
	}
}
