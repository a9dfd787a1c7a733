package loop

import (
	"context"
	"errors"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

const (
	// StorePatience is how long a run waits for a message store that stores nothing, and how long it repeats what fails
	// for another reason than that nobody answers.
	StorePatience = 30 * time.Second
	// OutagePatience is how long a run waits for NATS to answer at all: for a server that is started again, or for
	// servers that elect a leader. A run that has waited for so long ends, and can be resumed.
	OutagePatience = 10 * time.Minute
	// mostPerTry is how much of its patience a run loses with one try, so that a machine that slept between two tries
	// has not waited.
	mostPerTry = 15 * time.Second
)

// Outage tells whether an error will be over when the transport is there again.
func Outage(err error) bool {
	return errors.Is(err, wire.ErrDisconnected) || errors.Is(err, wire.ErrUnanswered) ||
		errors.Is(err, context.DeadlineExceeded)
}

// Patience measures for how long a repeated call has failed. It counts the time without an answer apart from the time
// in which the answer was a refusal, and neither resets the other: otherwise the run would wait for ever for a store
// that is silent and refuses by turns. The zero value stands for a call that has not failed.
type Patience struct {
	last                time.Time
	refused, unanswered time.Duration
}

// None tells that the last try did not fail.
func (p *Patience) None() bool { return p.last.IsZero() }

// Spent counts a try. It returns for how long tries have failed like this one, once that is too long; else 0.
func (p *Patience) Spent(now time.Time, err error) time.Duration {
	if err == nil {
		*p = Patience{}
		return 0
	}
	var gap time.Duration
	if !p.last.IsZero() {
		gap = min(now.Sub(p.last), mostPerTry)
	}
	p.last = now
	kind, most := &p.refused, StorePatience
	if Outage(err) {
		kind, most = &p.unanswered, OutagePatience
	}
	if *kind += gap; *kind >= most {
		return *kind
	}
	return 0
}
