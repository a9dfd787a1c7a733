// Package balance is a plain TCP balancer for tests: it passes each connection to the next server that is healthy.
//
// It knows nothing of what it passes on; its caller says which server is healthy.
package balance

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Balancer passes connections on. Close it.
type Balancer struct {
	listener net.Listener
	servers  []string
	healthy  []atomic.Bool
	next     atomic.Int64
	group    sync.WaitGroup
	ctx      context.Context //nolint:containedctx // Close ends it
	end      context.CancelFunc
}

// interval is the time between two checks of a server.
const interval = 250 * time.Millisecond

// New listens at a port of loopback, and passes connections on to the servers, in turn. healthy is asked about each of
// them regularly, and must return when ctx ends.
func New(servers []string, healthy func(ctx context.Context, server string) bool) (*Balancer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &Balancer{listener: l, servers: servers, healthy: make([]atomic.Bool, len(servers))}
	b.ctx, b.end = context.WithCancel(context.Background())
	for i, server := range servers {
		b.healthy[i].Store(true)
		b.group.Go(func() {
			for b.ctx.Err() == nil {
				ctx, cancel := context.WithTimeout(b.ctx, 4*interval)
				b.healthy[i].Store(healthy(ctx, server))
				cancel()
				select {
				case <-time.After(interval):
				case <-b.ctx.Done():
				}
			}
		})
	}
	b.group.Go(b.accept)
	return b, nil
}

// Address is where it listens: HOST:PORT.
func (b *Balancer) Address() string { return b.listener.Addr().String() }

func (b *Balancer) accept() {
	for {
		c, err := b.listener.Accept()
		if err != nil {
			return // it is closed
		}
		b.group.Go(func() { b.pass(c) })
	}
}

// pass passes a connection on to the next server that takes it.
func (b *Balancer) pass(client net.Conn) {
	defer client.Close()
	first := b.next.Add(1)
	for i := range b.servers {
		n := (int(first) + i) % len(b.servers)
		if !b.healthy[n].Load() {
			continue
		}
		at := b.servers[n]
		server, err := (&net.Dialer{Timeout: time.Second}).DialContext(b.ctx, "tcp", at)
		if err != nil {
			continue
		}
		both(b.ctx, client, server)
		return
	}
}

// both copies between two connections until one of them ends.
func both(ctx context.Context, a, b net.Conn) {
	var closing sync.Once
	over := func() { closing.Do(func() { _ = errors.Join(a.Close(), b.Close()) }) } // nobody reads them any more
	defer context.AfterFunc(ctx, over)()
	var group sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		group.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // the other side notices
			over()
		})
	}
	group.Wait()
}

// Close ends all connections.
func (b *Balancer) Close() error {
	b.end()
	err := b.listener.Close()
	b.group.Wait()
	return err
}
