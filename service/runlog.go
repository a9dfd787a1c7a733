package service

import (
	"context"
	"errors"

	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
)

// LogPart is a part of the log of a phase.
type LogPart struct {
	Text []byte
	// From is the offset of the text in the log, and Size the present length of the log, in bytes.
	From, Size int64
}

// Before returns up to limit bytes of a phase's log that end at an offset; a negative offset means the end
// of the log. It does not wait: a log that has not begun is empty.
func (s *Logs) Before(ctx context.Context, a *rights.Actor, phase string, end int64, limit int) (p LogPart,
	err error) {
	if _, err := s.runs.OfPhase(a, phase); err != nil {
		return p, err
	}
	s.mu.Lock()
	log := s.open[logFile(phase)]
	s.mu.Unlock()
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
