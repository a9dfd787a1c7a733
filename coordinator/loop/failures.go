package loop

import (
	"context"
	"errors"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

const (
	// StoreTimeout is how long a run waits for a message store that stores nothing. It is also how long the run repeats a
	// call that fails for any reason other than a missing answer.
	StoreTimeout = 30 * time.Second
	// OutageTimeout is how long a run waits for an answer from NATS, for example while a server restarts or while
	// servers elect a leader. After that the run ends; it can be resumed.
	OutageTimeout = 10 * time.Minute
	// mostPerTry bounds the time that one failure adds: if the machine slept between two tries, the run has not waited.
	mostPerTry = 15 * time.Second
)

var (
	// ErrStore means that the run ended, and can be resumed, because the transport kept refusing something that the run
	// depends on, or did not answer.
	ErrStore = errors.New("NATS kept refusing")
	// ErrWorkers means that the run ended, and can be resumed, because no worker could take its tasks.
	ErrWorkers = errors.New("no worker could take a task")
)

// Outage reports whether an error means that the transport is not connected or has not answered.
func Outage(err error) bool {
	return errors.Is(err, wire.ErrDisconnected) || errors.Is(err, wire.ErrUnanswered) ||
		errors.Is(err, context.DeadlineExceeded)
}

// FailureTimer measures for how long a repeated call has failed. It adds up the time without an answer and the time
// with refusals separately, and neither resets the other: otherwise a run would wait for ever for a store that
// alternates between silence and refusals. The zero value is the timer of a call that has not failed.
type FailureTimer struct {
	last                time.Time
	refused, unanswered time.Duration
}

// Stopped reports whether the last try succeeded, or none was made.
func (f *FailureTimer) Stopped() bool { return f.last.IsZero() }

// Failing records a try and its error, nil if it succeeded. If tries have failed in this way for too long, Failing
// returns for how long; otherwise it returns 0.
func (f *FailureTimer) Failing(now time.Time, err error) time.Duration {
	if err == nil {
		*f = FailureTimer{}
		return 0
	}
	var gap time.Duration
	if !f.last.IsZero() {
		gap = min(now.Sub(f.last), mostPerTry)
	}
	f.last = now
	kind, most := &f.refused, StoreTimeout
	if Outage(err) {
		kind, most = &f.unanswered, OutageTimeout
	}
	if *kind += gap; *kind >= most {
		return *kind
	}
	return 0
}
