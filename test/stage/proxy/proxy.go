// Package proxy is a TCP connection that tests can cut: everything between a client and a server goes through it.
//
// It does not interpret the data.
package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Proxy passes connections on to an address. It is safe for concurrent use. Close it.
type Proxy struct {
	listener net.Listener
	target   string
	group    sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	cut   bool       // new connections are closed at once
	held  chan struct{}
	delay time.Duration // of all data, each way
	conns map[net.Conn]struct{}
}

// Start listens on a port of loopback that the system chooses, and passes all data to the target, host:port.
func Start(target string) (*Proxy, error) { return StartAt("127.0.0.1:0", target) }

// StartAt is Start at an address of the caller's choice.
func StartAt(address, target string) (*Proxy, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for connections to %s: %w", target, err)
	}
	p := &Proxy{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	p.group.Go(p.accept)
	return p, nil
}

// Address is where the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Delay delays all data that arrives from now on, each way, as a long line does: what follows is not held up by it.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut closes all connections, and each new one at once, until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.conns {
		_ = c.Close() // connections that are closed already
	}
}

// Hold passes no data on until Mend. Data that is sent meanwhile arrives then.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// Mend ends Cut and Hold.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// Close closes everything, and returns when nothing runs any more.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Mend()
	p.Cut()
	p.group.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.group.Go(func() { p.serve(c) })
	}
}

// serve passes one connection on, until either side or the proxy ends it.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.keep(client, server) {
		return
	}
	defer p.drop(client, server)
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			p.pass(way[1], way[0])
			_ = client.Close() // so that the other way ends too
			_ = server.Close()
		})
	}
	both.Wait()
}

// sent is data on its way through the proxy.
type sent struct {
	data []byte
	due  time.Time
}

// onTheWay is how many pieces of data a connection may have in the proxy, each way.
const onTheWay = 4096

// pass copies from one side to the other, and waits while the proxy holds.
func (p *Proxy) pass(to io.Writer, from io.Reader) {
	way := make(chan sent, onTheWay)
	var reader sync.WaitGroup
	defer reader.Wait()
	reader.Go(func() {
		defer close(way)
		for {
			buffer := make([]byte, 64<<10)
			n, err := from.Read(buffer)
			p.mu.Lock()
			due := time.Now().Add(p.delay)
			p.mu.Unlock()
			if n > 0 {
				way <- sent{buffer[:n], due}
			}
			if err != nil {
				return
			}
		}
	})
	broken := false
	for s := range way {
		if broken {
			continue // its other end is closed, so the reader ends
		}
		if wait := time.Until(s.due); wait > 0 {
			<-time.After(wait)
		}
		p.mu.Lock()
		held := p.held
		p.mu.Unlock()
		if held != nil {
			<-held
		}
		if _, err := to.Write(s.data); err != nil {
			broken = true
			if c, ok := from.(io.Closer); ok {
				_ = c.Close()
			}
		}
	}
}

// keep notes the connections to be cut. It reports false when they are cut already.
func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return true
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}
