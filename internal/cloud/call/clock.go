package call

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Clock returns the time for signatures. If a service has rejected a signature because of its time, it follows the
// service's clock, as the services' own libraries do, so that a machine with a wrong clock still works. The zero
// value is ready for use, and returns the machine's time. Safe for concurrent use.
type Clock struct {
	// Machine returns the machine's time; default time.Now.
	Machine func() time.Time

	off atomic.Int64 // the correction of the machine's time, in nanoseconds
}

// tolerated is the difference between clocks that is ignored. All services accept at least five minutes.
const tolerated = 2 * time.Minute

// Now returns the time for a signature.
func (c *Clock) Now() time.Time { return c.machine().Add(time.Duration(c.off.Load())) }

func (c *Clock) machine() time.Time {
	if c.Machine != nil {
		return c.Machine()
	}
	return time.Now()
}

// skew returns how far the clock is ahead of that of the responding service; 0 if the difference is tolerated or
// unknown, and if there is no clock.
func (c *Clock) skew(answer http.Header) time.Duration {
	if c == nil {
		return 0
	}
	theirs, err := http.ParseTime(answer.Get("Date"))
	if err != nil {
		return 0
	}
	if d := c.Now().Sub(theirs); d > tolerated || d < -tolerated {
		return d
	}
	return 0
}

// behind corrects the clock by the difference.
func (c *Clock) behind(by time.Duration) { c.off.Add(-int64(by)) }
