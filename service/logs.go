package service

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/queue"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// The markers at both ends of a log, as the API defines them. Readers remove them, and recognise the end of the
// log by the second.
const (
	logBegin = "\x02"
	logEnd   = "\x03"
)

// Logs are the logs of the phases of runs. Those that are being written are open; others are opened when they are read.
type Logs struct {
	*shared
	queue *queue.Queue
	runs  *Runs

	mu   sync.Mutex // guards open
	open map[string]*store.Log
}

func newLogs(c *shared) *Logs {
	return &Logs{shared: c, open: map[string]*store.Log{}}
}

// write opens a log for writing. The caller closes it with end.
func (s *Logs) write(name string) (*store.Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if log := s.open[name]; log != nil {
		return log, nil
	}
	log, err := s.store.OpenLog(name)
	if err != nil {
		return nil, err
	}
	s.open[name] = log
	return log, nil
}

// end makes a log durable and removes it from the open ones. Current readers may continue to read it.
func (s *Logs) end(name string) error {
	s.mu.Lock()
	log := s.open[name]
	delete(s.open, name)
	s.mu.Unlock()
	if log == nil {
		return nil
	}
	return log.End() // the garbage collector closes its file after the last reader
}

// close ends all open logs.
func (s *Logs) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for name, log := range s.open {
		errs = append(errs, log.Close())
		delete(s.open, name)
	}
	return errors.Join(errs...)
}

// logTerm is how long the address of a log is valid at least. The address stays valid until the phase has
// ended.
const logTerm = 24 * time.Hour

// Address returns the last element of the URL path at which the log of a phase can be read without a token.
// It contains the phase, the expiry time in seconds since 1970, and their signature. It changes once an hour.
func (s *Logs) Address(p *record.Phase) string {
	end := s.now().Truncate(time.Hour).Add(time.Hour + logTerm)
	signed := p.ID + "." + strconv.FormatInt(end.Unix(), 10)
	return signed + "." + signature(p, signed)
}

func signature(p *record.Phase, signed string) string {
	mac := hmac.New(sha256.New, []byte(p.LogSecret))
	mac.Write([]byte(signed))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// followedLog identifies a log that a client reads.
type followedLog struct {
	phase, run string
	// plans is set if the phase is a plan that had not begun when the client asked.
	plans bool
}

// logPhase checks a log's address, and returns which one it is.
func (s *Logs) logPhase(address string) (followed followedLog, err error) {
	unknown := tables.NotFound("there is no log at this address, or the address has expired")
	cut := strings.LastIndexByte(address, '.')
	if cut < 0 {
		return followed, unknown
	}
	signed, sum := address[:cut], address[cut+1:]
	id, end, _ := strings.Cut(signed, ".")
	err = s.store.View(func(tx *store.Tx) error {
		r, err := tables.Runs.LookUp(tx, "plan", id)
		p := (*record.Phase)(nil)
		if err == nil {
			p = &r.Plan
		} else if r, err = tables.Runs.LookUp(tx, "apply", id); err == nil {
			p = &r.Apply
		}
		if errors.Is(err, store.ErrNotFound) {
			return unknown
		}
		if err != nil {
			return err
		}
		if !hmac.Equal([]byte(signature(p, signed)), []byte(sum)) {
			return unknown
		}
		seconds, err := strconv.ParseInt(end, 10, 64)
		if err != nil || !p.Ended.IsZero() && s.now().Unix() >= seconds {
			return unknown
		}
		followed = followedLog{phase: p.ID, run: r.ID, plans: p == &r.Plan && p.Started.IsZero()}
		return nil
	})
	return followed, tables.Translated(err)
}

// Read returns up to limit bytes of a phase's log from offset, by its address. If there are none yet, it waits
// until there are some, the log has ended, or ctx ends; in the last two cases the result may be empty.
func (s *Logs) Read(ctx context.Context, address string, offset int64, limit int) ([]byte, error) {
	f, err := s.logPhase(address)
	if err != nil {
		return nil, err
	}
	for {
		begun := s.queue.Follow(f.run, f.phase)
		s.mu.Lock()
		log := s.open[tables.LogFile(f.phase)]
		s.mu.Unlock()
		if log != nil {
			return log.ReadAt(ctx, offset, limit)
		}
		log, err := s.store.ReadLog(tables.LogFile(f.phase))
		if errors.Is(err, store.ErrNotFound) {
			if f.plans {
				if text := beforeBegin(f.run, begun == nil, offset, limit); len(text) > 0 {
					return text, nil
				}
			}
			if begun == nil {
				return nil, nil
			}
			select { // the run is queued
			case <-begun:
				continue
			case <-ctx.Done():
				return nil, nil
			}
		}
		if err != nil {
			return nil, err
		}
		data, err := log.ReadAt(ctx, offset, limit)
		if err == nil && len(data) == 0 && begun != nil {
			// The service was restarted, and has not begun the phase again.
			if err := log.Close(); err != nil {
				return nil, err
			}
			select {
			case <-begun:
				continue
			case <-ctx.Done():
				return nil, nil
			}
		}
		if err == nil && len(data) == 0 && offset == log.Size() && offset > 0 {
			// A crash may have occurred between the end of the phase and the writing of the marker.
			if last, err := log.ReadAt(ctx, offset-1, 1); err == nil && string(last) != logEnd {
				data = []byte(logEnd)
			}
		}
		return data, errors.Join(err, log.Close())
	}
}

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
	log := s.open[tables.LogFile(phase)]
	s.mu.Unlock()
	if log == nil {
		log, err = s.store.ReadLog(tables.LogFile(phase))
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
