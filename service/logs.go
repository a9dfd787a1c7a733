package service

import (
	"context"
	"errors"
	"sync"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// The marks at the ends of a log, as the API has them: its readers strip them, and know by them that they have all.
const (
	logBegin = "\x02"
	logEnd   = "\x03"
)

// logs are those that grow. Others are opened when somebody reads them.
type logs struct {
	store *store.Store

	mu   sync.Mutex // guards open
	open map[string]*store.Log
}

func newLogs(s *store.Store) *logs { return &logs{store: s, open: map[string]*store.Log{}} }

// write opens a log to be written. End it with end.
func (l *logs) write(name string) (*store.Log, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if log := l.open[name]; log != nil {
		return log, nil
	}
	log, err := l.store.OpenLog(name)
	if err != nil {
		return nil, err
	}
	l.open[name] = log
	return log, nil
}

// end makes a log durable and takes it from those that grow. Who reads it just then may still do so.
func (l *logs) end(name string) error {
	l.mu.Lock()
	log := l.open[name]
	delete(l.open, name)
	l.mu.Unlock()
	if log == nil {
		return nil
	}
	return log.End() // its file is closed with the last reader, by the collector of garbage
}

// close ends all logs.
func (l *logs) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for name, log := range l.open {
		errs = append(errs, log.Close())
		delete(l.open, name)
	}
	return errors.Join(errs...)
}

func logFile(phase string) string { return "logs/" + phase }

// Log returns at most limit bytes of the log of a phase from offset on, by the secret of its address. Where nothing is
// yet it waits until something is, the log has ended, or ctx ends, and may return nothing then.
func (s *Service) Log(ctx context.Context, secret string, offset int64, limit int) ([]byte, error) {
	var phase string
	err := s.store.View(func(tx *store.Tx) error {
		if r, err := runs.Find(tx, "plan log", secret); err == nil {
			phase = r.Plan.ID
			return nil
		}
		r, err := runs.Find(tx, "apply log", secret)
		if err != nil {
			return notFound("there is no log at this address")
		}
		phase = r.Apply.ID
		return nil
	})
	if err != nil {
		return nil, told(err)
	}
	for {
		s.logs.mu.Lock()
		log := s.logs.open[logFile(phase)]
		s.logs.mu.Unlock()
		if log != nil {
			return log.ReadAt(ctx, offset, limit)
		}
		log, err := s.store.ReadLog(logFile(phase))
		if errors.Is(err, store.ErrNotFound) {
			// Nothing was written yet: the run waits. Once it starts, or ends without having started, there is news.
			if !s.queue.wait(ctx, phase) {
				return nil, nil
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		data, err := log.ReadAt(ctx, offset, limit)
		if err == nil && len(data) == 0 && offset == log.Size() && offset > 0 {
			// A crash may have come between the end of the phase and the mark.
			if last, err := log.ReadAt(ctx, offset-1, 1); err == nil && string(last) != logEnd {
				data = []byte(logEnd)
			}
		}
		return data, errors.Join(err, log.Close())
	}
}

// runFiles are the files that belong to a run.
func runFiles(r *record.Run) []string {
	return []string{logFile(r.Plan.ID), logFile(r.Apply.ID), planFile(r), planJSONFile(r), planRedactedFile(r),
		timelineFile(r.Plan.ID), timelineFile(r.Apply.ID)}
}

func planFile(r *record.Run) string         { return "plans/" + r.Plan.ID }
func planJSONFile(r *record.Run) string     { return "plans/" + r.Plan.ID + ".json" }
func planRedactedFile(r *record.Run) string { return "plans/" + r.Plan.ID + ".redacted" }
