package service

import (
	"context"
	"errors"

	"github.com/millipede-iac/millipede/service/store"
)

// LogPart is a part of the log of a phase.
type LogPart struct {
	Text []byte
	// From is where the text begins, and Size how long the log is at the moment, in bytes.
	From, Size int64
}

// LogBefore returns at most limit bytes of the log of a phase that end at an offset; a negative one is the end of the
// log. It waits for nothing: a log that was not begun is empty.
func (s *Service) LogBefore(ctx context.Context, a *Actor, phase string, end int64, limit int) (p LogPart,
	err error) {
	if _, err := s.RunOfPhase(a, phase); err != nil {
		return p, err
	}
	s.logs.mu.Lock()
	log := s.logs.open[logFile(phase)]
	s.logs.mu.Unlock()
	if log == nil {
		log, err = s.store.ReadLog(logFile(phase))
		if errors.Is(err, store.ErrNotFound) {
			return p, nil
		}
		if err != nil {
			return p, err
		}
		defer func() { err = errors.Join(err, log.Close()) }()
	}
	p.Size = log.Size()
	if end < 0 || end > p.Size {
		end = p.Size
	}
	p.From = max(0, end-int64(limit))
	for p.From+int64(len(p.Text)) < end {
		more, err := log.ReadAt(ctx, p.From+int64(len(p.Text)), int(end-p.From)-len(p.Text))
		if err != nil {
			return p, err
		}
		p.Text = append(p.Text, more...)
	}
	return p, nil
}
