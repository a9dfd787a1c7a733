package cloud

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"
)

// PatienceVariable is the environment variable that says for how many seconds a server may be silent.
const PatienceVariable = "MILLIPEDE_SERVER_TIMEOUT"

// The time that a server may be silent, and the limits of what may be set.
const (
	patience     = time.Minute
	maxPatience  = time.Hour
	dialPatience = 30 * time.Second
)

// Patience returns how long a server may be silent while something is asked of it: a minute, or what the environment
// says. What the variable holds that is not a number of seconds from 1 to 3600 is passed over.
func (s Surroundings) Patience() time.Duration {
	n, err := strconv.Atoi(s.Either(PatienceVariable))
	if d := time.Duration(n) * time.Second; err == nil && n > 0 && n <= int(maxPatience/time.Second) {
		return d
	}
	return patience
}

// Dialer makes connections on which a server may be silent for a while, not for ever: reading and writing fail when
// nothing has passed in either direction for that long. The error is a net.Error, and a timeout.
type Dialer struct {
	// Silence is how long nothing may pass.
	Silence time.Duration
	// Timeout bounds connecting; 0 means half a minute. KeepAlive is that of net.Dialer.
	Timeout, KeepAlive time.Duration
}

// Dialer returns what makes connections with the patience that the environment says.
func (s Surroundings) Dialer() Dialer { return Dialer{Silence: s.Patience()} }

// Dial connects to a server.
func (d Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout connects to a server within a time.
func (d Dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// DialContext connects to a server.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if d.Timeout <= 0 {
		d.Timeout = dialPatience
	}
	plain := &net.Dialer{Timeout: min(d.Timeout, d.Silence), KeepAlive: d.KeepAlive}
	conn, err := plain.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &impatient{Conn: conn, silence: d.Silence}, nil
}

// impatient is a connection whose deadline moves on with whatever passes. A deadline that its user sets still holds.
type impatient struct {
	net.Conn
	silence time.Duration

	mu          sync.Mutex // guards what follows
	read, write time.Time  // the deadlines that the user has set; zero for none
}

// sooner returns the end of the silence that begins now, or the user's deadline where that is before.
func (c *impatient) sooner(user time.Time) time.Time {
	end := time.Now().Add(c.silence)
	if !user.IsZero() && user.Before(end) {
		return user
	}
	return end
}

func (c *impatient) Read(p []byte) (int, error) {
	if err := c.await(false); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write also gives the answer its time from now on: a read that waits for it may have begun long before.
func (c *impatient) Write(p []byte) (int, error) {
	if err := c.await(true); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *impatient) await(writing bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.Conn.SetReadDeadline(c.sooner(c.read))
	if err == nil && writing {
		err = c.Conn.SetWriteDeadline(c.sooner(c.write))
	}
	return err
}

// SetDeadline implements net.Conn.
func (c *impatient) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *impatient) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.Conn.SetReadDeadline(c.sooner(t))
}

// SetWriteDeadline implements net.Conn.
func (c *impatient) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return c.Conn.SetWriteDeadline(c.sooner(t))
}
