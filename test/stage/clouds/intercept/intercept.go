// Package intercept is a proxy for tests. A program that uses it reaches one handler under every host name, with TLS
// and without, so that a fake can be reached under the real name of its service.
package intercept

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// Proxy is a running proxy. It is closed at the end of the test.
type Proxy struct {
	server   *httptest.Server
	tunnels  *http.Server
	incoming *listener
	ca       *x509.Certificate
	key      *ecdsa.PrivateKey
	file     string

	mu    sync.Mutex // guards the fields below
	certs map[string]*tls.Certificate
}

// New starts a proxy in front of a handler.
func New(t testing.TB, h http.Handler) *Proxy {
	p := &Proxy{certs: map[string]*tls.Certificate{}, file: filepath.Join(t.TempDir(), "authority.pem")}
	var err error
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	p.ca = &x509.Certificate{
		SerialNumber: big.NewInt(
			1,
		), Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, p.ca, p.ca, &p.key.PublicKey, p.key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(p.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p.incoming = &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	p.tunnels = &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = p.tunnels.Serve(p.incoming) // returns when the proxy is closed
	}()
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			h.ServeHTTP(w, r)
			return
		}
		p.tunnel(w)
	}))
	t.Cleanup(func() {
		_ = p.tunnels.Close()
		<-served
		p.server.Close()
	})
	return p
}

// Env returns the environment of a program that uses the proxy.
func (p *Proxy) Env() map[string]string {
	return map[string]string{"HTTPS_PROXY": p.server.URL, "HTTP_PROXY": p.server.URL, "SSL_CERT_FILE": p.file}
}

// tunnel ends the TLS of a connection with a certificate for the host in the client's greeting, and passes the
// connection to the handler.
func (p *Proxy) tunnel(w http.ResponseWriter) {
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	if _, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		_ = conn.Close()
		return
	}
	config := &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return p.certificate(hello.ServerName)
	}}
	overHTTP2 := config.Clone()
	overHTTP2.NextProtos = []string{"h2"}
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Equal(hello.SupportedProtos, overHTTP2.NextProtos) { // gRPC supports only HTTP/2
			return overHTTP2, nil
		}
		return nil, nil
	}
	secure := tls.Server(buffered{conn, rw.Reader}, config)
	select {
	case p.incoming.conns <- secure:
	case <-p.incoming.closed:
		_ = conn.Close()
	}
}

// certificate returns a certificate for a host.
func (p *Proxy) certificate(host string) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.certs[host]; c != nil {
		return c, nil
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(p.certs) + 2)), Subject: pkix.Name{CommonName: host},
		DNSNames:  []string{host},
		NotBefore: p.ca.NotBefore, NotAfter: p.ca.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if host == "" { // a client that connects to an IP address does not send a host
		of.DNSNames, of.IPAddresses = nil, []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, of, p.ca, &p.key.PublicKey, p.key)
	if err != nil {
		return nil, err
	}
	p.certs[host] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: p.key}
	return p.certs[host], nil
}

// buffered is a connection whose first bytes are in a buffer already.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// listener is a net.Listener that accepts the connections from a channel.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
