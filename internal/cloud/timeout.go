package cloud

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"
)

// TimeoutVariable is the environment variable with the number of seconds for which a server may be silent.
const TimeoutVariable = "MILLIPEDE_SERVER_TIMEOUT"

// The default time for which a server may be silent, and its limits.
const (
	defaultTimeout = time.Minute
	maxTimeout     = time.Hour
	dialTimeout    = 30 * time.Second
)

// Timeout returns how long a server may be silent during a request: a minute, or the time in the environment.
// Values other than a number of seconds from 1 to 3600 are ignored.
func (e Environment) Timeout() time.Duration {
	n, err := strconv.Atoi(e.Either(TimeoutVariable))
	if d := time.Duration(n) * time.Second; err == nil && n > 0 && n <= int(maxTimeout/time.Second) {
		return d
	}
	return defaultTimeout
}

// Dialer makes connections with a limit on silence: reads and writes fail if no data has passed in either direction
// for that long. The error is a net.Error, and a timeout.
type Dialer struct {
	// Silence is how long no data may pass.
	Silence time.Duration
	// Timeout bounds connecting; 0 means half a minute. KeepAlive is that of net.Dialer.
	Timeout, KeepAlive time.Duration
}

// Dialer returns a dialer with the time limit of the environment.
func (e Environment) Dialer() Dialer { return Dialer{Silence: e.Timeout()} }

// Dial connects to a server.
func (d Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout connects to a server with a time limit.
func (d Dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// DialContext connects to a server.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if d.Timeout <= 0 {
		d.Timeout = dialTimeout
	}
	plain := &net.Dialer{Timeout: min(d.Timeout, d.Silence), KeepAlive: d.KeepAlive}
	conn, err := plain.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &timedConn{Conn: conn, silence: d.Silence}, nil
}

// timedConn is a connection whose deadline is extended whenever data pass. A deadline set by its user still
// applies.
type timedConn struct {
	net.Conn
	silence time.Duration

	mu          sync.Mutex // guards the fields below
	read, write time.Time  // the deadlines that the user has set; zero for none
}

// sooner returns the end of the allowed silence from now, or the user's deadline if that is earlier.
func (c *timedConn) sooner(user time.Time) time.Time {
	end := time.Now().Add(c.silence)
	if !user.IsZero() && user.Before(end) {
		return user
	}
	return end
}

func (c *timedConn) Read(p []byte) (int, error) {
	if err := c.await(false); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write also extends the deadline of the response: a concurrent read may have begun long before.
func (c *timedConn) Write(p []byte) (int, error) {
	if err := c.await(true); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *timedConn) await(writing bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.Conn.SetReadDeadline(c.sooner(c.read))
	if err == nil && writing {
		err = c.Conn.SetWriteDeadline(c.sooner(c.write))
	}
	return err
}

// SetDeadline implements net.Conn.
func (c *timedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.Conn.SetReadDeadline(c.sooner(t))
}

// SetWriteDeadline implements net.Conn.
func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return c.Conn.SetWriteDeadline(c.sooner(t))
}
