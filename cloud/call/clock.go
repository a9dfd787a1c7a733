package call

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Clock tells the time that signatures have. It follows the clock of a service that has refused a signature for its
// time, as the services' own libraries do: a machine whose clock is wrong can still work. The zero value is ready, and
// tells the machine's time. Safe for concurrent use.
type Clock struct {
	// Machine tells the machine's time; default time.Now.
	Machine func() time.Time

	off atomic.Int64 // what is added to the machine's time, in nanoseconds
}

// tolerated is how far the clocks of services and machines may be apart without being a reason for anything. No service
// minds less than five minutes.
const tolerated = 2 * time.Minute

// Now returns the time that a signature should have.
func (c *Clock) Now() time.Time { return c.machine().Add(time.Duration(c.off.Load())) }

func (c *Clock) machine() time.Time {
	if c.Machine != nil {
		return c.Machine()
	}
	return time.Now()
}

// skew returns how far the clock is ahead of that of the service that has answered; 0 where that is within what is
// tolerated, where the service does not tell its time, and where there is no clock.
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

// behind sets the clock back, by what it was found to be ahead.
func (c *Clock) behind(by time.Duration) { c.off.Add(-int64(by)) }
