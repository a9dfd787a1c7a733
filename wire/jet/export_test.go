package jet

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// Link is the link between a connection and an embedded server, which a test can freeze and cut.
type Link struct {
	embedded *Embedded

	mu     sync.Mutex // guards the fields below
	thawed chan struct{}
	cut    bool
	conns  []net.Conn
}

// Subscriptions returns the number of the connection's subscriptions.
func (c *Conn) Subscriptions() int { return c.nc.NumSubscriptions() }

// ConnectOver connects over a separate link.
func (e *Embedded) ConnectOver(ctx context.Context, o Options) (*Conn, *Link, error) {
	l := &Link{embedded: e, thawed: make(chan struct{})}
	close(l.thawed)
	o.inProcess, o.Provision = l, true
	c, err := Connect(ctx, o)
	return c, l, err
}

// InProcessConn implements nats.InProcessConnProvider.
func (l *Link) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, net.ErrClosed
	}
	c, err := l.embedded.InProcessConn()
	if err != nil {
		return nil, err
	}
	f := &frozenConn{Conn: c, link: l}
	l.conns = append(l.conns, c)
	return f, nil
}

// Freeze delays all data in both directions, as if the process were stopped, until Thaw.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.thawed = make(chan struct{})
}

// Thaw ends a Freeze.
func (l *Link) Thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.thawed)
}

// Cut breaks the connection and prevents a new one until Heal.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

// Heal permits connecting again.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

func (l *Link) wait() {
	l.mu.Lock()
	thawed := l.thawed
	l.mu.Unlock()
	<-thawed
}

type frozenConn struct {
	net.Conn
	link *Link
}

func (c *frozenConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.link.wait()
	return n, err
}

func (c *frozenConn) Write(b []byte) (int, error) {
	c.link.wait()
	return c.Conn.Write(b)
}

// SleepAfterFetch makes the connection act as if it had fetched the attempt's task that long ago.
func (c *Conn) SleepAfterFetch(a wire.AttemptID, d time.Duration) {
	c.fetched.mu.Lock()
	defer c.fetched.mu.Unlock()
	c.fetched.at[a] = c.fetched.at[a].Add(-d)
}

// EmptyRegisters removes the registers of runs that ended before the grace period.
func (c *Conn) EmptyRegisters(ctx context.Context, grace time.Duration) error {
	return c.purger.emptyAllRegisters(ctx, grace)
}

// JetStream gives a test the client.
func (c *Conn) JetStream() any { return c.js }

const (
	ClaimWindow = claimWindow
	PurgeGrace  = purgeGrace
)

var Redact = redact

// ClockWentBack is clockWentBack.
var ClockWentBack = clockWentBack

// Authoritative is authoritative.
var Authoritative = authoritative

// RemakeLimit makes the consumer of a limit anew, as after the server's clock was set back.
func (c *Conn) RemakeLimit(ctx context.Context, l wire.Limit) error {
	return c.remake(ctx, admitStream, limitConsumer(l, c.semaphore.wait))
}

// LookAgain makes the next use of each consumer look at it.
func (c *Conn) LookAgain() {
	c.topology.mu.Lock()
	defer c.topology.mu.Unlock()
	for key := range c.topology.looked {
		c.topology.looked[key] = time.Time{}
	}
}

// Replicated returns what creates a stream with that many replicas, if the cluster has the servers.
func Replicated(replicas int, log func(string)) func(stream string, make func(replicas int) error) error {
	c := &Conn{opts: Options{Replicas: replicas, Log: log}}
	c.regions.init(c)
	c.topology.init(c)
	return c.topology.replicated
}

const TaskLife = taskLife
