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

// logTerm is how long an address of a log is good, at least. It is good, too, until the phase has ended.
const logTerm = 24 * time.Hour

// LogAddress returns the last element of the path at which the log of a phase is read without a token: the phase, the
// end of the address as seconds since 1970, and their signature. It is the same for an hour.
func (s *Service) LogAddress(p *record.Phase) string {
	end := s.now().Truncate(time.Hour).Add(time.Hour + logTerm)
	signed := p.ID + "." + strconv.FormatInt(end.Unix(), 10)
	return signed + "." + signature(p, signed)
}

func signature(p *record.Phase, signed string) string {
	mac := hmac.New(sha256.New, []byte(p.LogSecret))
	mac.Write([]byte(signed))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// logPhase returns the phase whose log is at an address, and its run.
func (s *Service) logPhase(address string) (phase, run string, err error) {
	unknown := notFound("there is no log at this address, or the address has ended")
	cut := strings.LastIndexByte(address, '.')
	if cut < 0 {
		return "", "", unknown
	}
	signed, sum := address[:cut], address[cut+1:]
	id, end, _ := strings.Cut(signed, ".")
	err = s.store.View(func(tx *store.Tx) error {
		r, err := runs.LookUp(tx, "plan", id)
		p := (*record.Phase)(nil)
		if err == nil {
			p = &r.Plan
		} else if r, err = runs.LookUp(tx, "apply", id); err == nil {
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
		phase, run = p.ID, r.ID
		return nil
	})
	return phase, run, told(err)
}

// Log returns at most limit bytes of the log of a phase from offset on, by its address. Where nothing is yet it waits
// until something is, the log has ended, or ctx ends, and may return nothing then.
func (s *Service) Log(ctx context.Context, address string, offset int64, limit int) ([]byte, error) {
	phase, run, err := s.logPhase(address)
	if err != nil {
		return nil, err
	}
	for {
		begun := s.queue.follow(run, phase)
		s.logs.mu.Lock()
		log := s.logs.open[logFile(phase)]
		s.logs.mu.Unlock()
		if log != nil {
			return log.ReadAt(ctx, offset, limit)
		}
		log, err := s.store.ReadLog(logFile(phase))
		if errors.Is(err, store.ErrNotFound) {
			if begun == nil {
				return nil, nil
			}
			select { // the run waits for its turn
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
	return []string{logFile(r.Plan.ID), logFile(r.Apply.ID), planFile(r), planShapeFile(r), planJSONFile(r),
		planRedactedFile(r), planOutlineFile(r), timelineFile(r.Plan.ID), timelineFile(r.Apply.ID)}
}

func planFile(r *record.Run) string         { return "plans/" + r.Plan.ID }
func planShapeFile(r *record.Run) string    { return "plans/" + r.Plan.ID + ".shape" }
func planJSONFile(r *record.Run) string     { return "plans/" + r.Plan.ID + ".json" }
func planRedactedFile(r *record.Run) string { return "plans/" + r.Plan.ID + ".redacted" }
