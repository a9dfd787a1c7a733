package protocol

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
)

// MostCalls and MostRequests bound what is in progress on the connection for calls, and on that for the requests of an
// engine: further ones wait. The service cannot trust an engine, and each request needs its headers, a goroutine and a
// window, together at most about 160 KiB.
const (
	MostCalls    = 100_000
	MostRequests = 4096
)

// maxHeader bounds the headers of a request or of a response, in bytes: the longest has the name of a store.
const maxHeader = 16 << 10

// protocols are those of both directions: HTTP/2 without TLS. The connection is a pair of sockets that only the two
// processes have, or one that is encrypted already.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// streamWindow is how much of one body may be on its way, or received but not read, in bytes. All bodies of a
// connection together have no such bound: those that wait to be read would use it up, and hold the one that they wait
// for.
const (
	streamWindow     = 128 << 10
	connectionWindow = 1 << 30
)

// tuning lets many requests, with large bodies, be in progress.
func tuning(most int) *http.HTTP2Config {
	return &http.HTTP2Config{MaxConcurrentStreams: most, MaxReadFrameSize: 1 << 18,
		MaxReceiveBufferPerConnection: connectionWindow, MaxReceiveBufferPerStream: streamWindow}
}

// errEnded says that the connection to the other side has ended.
var errEnded = errors.New("the connection between the service and the engine has ended")

// NewClient returns a client whose requests all go over one connection. When it has ended, they fail.
func NewClient(conn net.Conn) *http.Client {
	return &http.Client{Transport: &transport{conn: conn}}
}

// transport sends requests over one connection. An ordinary http.Transport would open a second one for requests that
// begin at the same time as the first one.
type transport struct {
	conn net.Conn

	once sync.Once // sets the fields below
	over *http.ClientConn
	err  error
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.once.Do(func() {
		dial := &http.Transport{Protocols: protocols(), HTTP2: tuning(MostCalls), DisableCompression: true,
			MaxResponseHeaderBytes: maxHeader,
			DialContext:            func(context.Context, string, string) (net.Conn, error) { return t.conn, nil }}
		t.over, t.err = dial.NewClientConn(context.WithoutCancel(r.Context()), "http", "peer:80")
	})
	if t.err != nil {
		return nil, t.err
	}
	return t.over.RoundTrip(r)
}

// Serve answers the requests that come over one connection, at most most at a time, until it ends.
func Serve(conn net.Conn, handler http.Handler, most int) error {
	l := &single{addr: conn.LocalAddr(), ended: make(chan struct{})}
	l.conns = make(chan net.Conn, 1)
	l.conns <- &closing{Conn: conn, ended: sync.OnceFunc(func() { close(l.ended) })}
	//nolint:gosec // without a time limit for headers: the first request may come late
	server := &http.Server{Handler: handler, Protocols: protocols(), HTTP2: tuning(most), MaxHeaderBytes: maxHeader}
	err := server.Serve(l)
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// single is a listener that accepts one connection, and ends with it.
type single struct {
	addr  net.Addr
	conns chan net.Conn
	ended chan struct{} // closed when the connection is closed
}

func (l *single) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, errEnded
	}
}

func (l *single) Close() error   { return nil }
func (l *single) Addr() net.Addr { return l.addr }

// closing tells when a connection is closed.
type closing struct {
	net.Conn
	ended func()
}

func (c *closing) Close() error {
	defer c.ended()
	return c.Conn.Close()
}
