package remote

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
)

// dialTimeout bounds each attempt to connect to one host.
const dialTimeout = 15 * time.Second

// dial logs in to the target, through the proxy and the bastion if there are any. If ctx ends before dial has
// returned, the connection is closed.
func (c *Client) dial(ctx context.Context) (*ssh.Client, error) {
	s := c.settings
	first := s.Target
	if s.Bastion.Host != "" {
		first = s.Bastion
	}
	conn, err := connect(ctx, s.Proxy, first.address())
	if err != nil {
		return nil, err
	}
	if s.Bastion.Host == "" {
		return login(ctx, conn, s.Target, c.target)
	}
	bastion, err := login(ctx, conn, s.Bastion, c.bastion)
	if err != nil {
		return nil, fmt.Errorf("connecting to the bastion: %w", err)
	}
	inner, err := bastion.DialContext(ctx, "tcp", s.Target.address())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connecting from the bastion to %s: %w", s.Target.address(), err),
			bastion.Close())
	}
	client, err := login(ctx, through{inner, bastion}, s.Target, c.target)
	if err != nil {
		return nil, err
	}
	return client, nil
}

// through is a connection that is closed together with the bastion through which it goes.
type through struct {
	net.Conn
	bastion *ssh.Client
}

func (t through) Close() error { return errors.Join(t.Conn.Close(), t.bastion.Close()) }

// login starts SSH on a connection, which it owns.
func login(ctx context.Context, conn net.Conn, l Login, config *ssh.ClientConfig) (*ssh.Client, error) {
	defer context.AfterFunc(ctx, func() { conn.Close() })() // unblocks the handshake
	c, channels, requests, err := ssh.NewClientConn(conn, l.address(), config)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("SSH authentication failed (%s@%s): %w", l.User, l.address(), err)
	}
	return ssh.NewClient(c, channels, requests), nil
}

// connect opens a connection, through an HTTP proxy if there is one.
func connect(ctx context.Context, p Proxy, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var dialer net.Dialer // it enables TCP keep-alive
	if p.Host == "" {
		return dialer.DialContext(ctx, "tcp", address)
	}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(p.Host, strconv.Itoa(p.Port)))
	if err != nil {
		return nil, fmt.Errorf("connecting to the proxy: %w", err)
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if p.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: p.Host})
	}
	tunnel, err := p.open(conn, address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("asking the proxy to connect to %s: %w", address, err), conn.Close())
	}
	return tunnel, nil
}

// open asks the proxy of a connection to connect to an address.
func (p Proxy) open(conn net.Conn, address string) (net.Conn, error) {
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address,
		Header: http.Header{}}
	if p.User != "" || p.Password != "" {
		request.Header.Set("Proxy-Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(p.User+":"+p.Password)))
	}
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, request)
	if err != nil {
		return nil, err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", answer.Status)
	}
	return buffered{conn, in}, nil
}

// buffered is a connection with some bytes that were already read: a server may speak first.
type buffered struct {
	net.Conn
	in *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.in.Read(p) }
