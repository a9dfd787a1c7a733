package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// ErrStore means that the run was ended, to be resumed, because the transport kept refusing what the run cannot do
// without.
var ErrStore = errors.New("NATS kept refusing")

// StorePatience is how long a run waits for a message store that stores nothing, and how long it repeats what fails for
// another reason than that nobody answers. Without a connection, or an elected leader, it waits without end.
const StorePatience = 30 * time.Second

// Outage tells whether an error will be over when the transport is there again. Waiting for that, and nothing else, has no
// bound.
func Outage(err error) bool {
	return errors.Is(err, wire.ErrDisconnected) || errors.Is(err, wire.ErrUnanswered) || errors.Is(err, context.DeadlineExceeded)
}

// onRefusing pauses the run while the message store stores nothing, and ends it when that lasts. Nothing is lost by
// either: what was done is recorded, and what is under way is reported later.
func (l *Loop) onRefusing(e Refusing) {
	if e.Err == nil {
		l.refusedSince = time.Time{}
		return
	}
	if l.refusedSince.IsZero() {
		l.refusedSince = l.now
		l.tell(-1, diag.List{diag.New(diag.Warning, "NATS stores nothing", fmt.Sprintf(
			"The run pauses, because the message store does not take messages: %s.\n\n"+
				"Make room on the disk of NATS. A server of its own must be started again then, because it refuses all that comes after a write that failed; "+
				"the one inside this process is opened again by itself. If nothing changes within %s, the run ends, and can be resumed.",
			e.Err, StorePatience), nil)})
	}
	if l.now.Sub(l.refusedSince) >= StorePatience && l.broken == nil {
		l.broken = fmt.Errorf("%w for %s: %w", ErrStore, StorePatience, e.Err)
	}
}

// repeatedly tells whether something that began to fail at a moment, which it keeps, has failed for long enough to end
// the run with the error.
func (l *Loop) repeatedly(since *time.Time, doing string, err error) bool {
	switch {
	case err == nil || Outage(err):
		*since = time.Time{}
	case since.IsZero():
		*since = l.now
	case l.now.Sub(*since) >= StorePatience:
		if l.broken == nil {
			l.broken = fmt.Errorf("%w for %s: %s: %w", ErrStore, StorePatience, doing, err)
		}
		return true
	}
	return false
}
