package gate_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/gate"
)

// Behind a proxy every request had the proxy's address: the audit log said nothing about who was where, and all people
// shared one limit for failed logins.
func TestTheClientBehindATrustedProxyIsFound(t *testing.T) {
	proxies, err := gate.ParseProxies("10.0.0.0/8, 192.0.2.7,2001:db8::/32")
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct{ what, peer, forwarded, want string }{
		{"no proxy", "203.0.113.5:80", "198.51.100.1", "203.0.113.5"},
		{"a proxy", "10.1.2.3:80", "198.51.100.1", "198.51.100.1"},
		{"two proxies", "10.1.2.3:80", "198.51.100.1, 192.0.2.7", "198.51.100.1"},
		{"a client that claims to be somebody else", "10.1.2.3:80", "1.1.1.1, 198.51.100.1", "198.51.100.1"},
		{"a proxy that names ports", "10.1.2.3:80", "198.51.100.1:5555", "198.51.100.1"},
		{"the sixth version", "[2001:db8::1]:80", "[2606:4700::1]", "2606:4700::1"},
		{"the fourth version in the sixth", "[::ffff:10.1.2.3]:80", "198.51.100.1", "198.51.100.1"},
		{"a proxy that says nothing", "10.1.2.3:80", "", "10.1.2.3"},
		{"nonsense", "10.1.2.3:80", "1.1.1.1, unknown", "10.1.2.3"},
		{"a check of the proxy itself", "10.1.2.3:80", "10.1.2.4", "10.1.2.4"},
	} {
		var from string
		h := gate.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			from, _, _ = net.SplitHostPort(r.RemoteAddr)
		}), gate.Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler), Proxies: proxies})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v2/x", nil)
		r.RemoteAddr = try.peer
		for part := range strings.SplitSeq(try.forwarded, ", ") { // several headers are one list
			r.Header.Add("X-Forwarded-For", part)
		}
		if h.ServeHTTP(httptest.NewRecorder(), r); from != try.want {
			t.Errorf("%s: %s, not %s", try.what, from, try.want)
		}
	}
	for _, bad := range []string{"10.0.0.0/99", "proxy.example.org"} {
		if _, err := gate.ParseProxies(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if none, err := gate.ParseProxies(""); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}

// A client without a token could send a form byte by byte, or not at all, and kept its connection for ever.
func TestABodyThatDoesNotArriveIsNotAwaitedForEver(t *testing.T) {
	read := make(chan error, 1)
	server := httptest.NewServer(gate.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		read <- err
	}), gate.Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler), BodyTime: 100 * time.Millisecond}))
	defer server.Close()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST /oauth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\ncode=")
	select {
	case err := <-read:
		if err == nil {
			t.Error("an incomplete body was accepted")
		}
	case <-t.Context().Done():
		t.Error("the request still waits for its body")
	}
}

// The time limit for reading a body must not apply to the rest of the request: a slow request would be canceled as if
// its client had disconnected.
func TestARequestMayTakeLongerThanItsBody(t *testing.T) {
	const most = 50 * time.Millisecond
	server := httptest.NewServer(gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		select {
		case <-r.Context().Done():
			t.Error("the request was canceled")
		case <-time.After(4 * most):
		}
		fmt.Fprint(w, "done")
	}), gate.Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler), BodyTime: most}))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	reply, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if text, err := io.ReadAll(reply.Body); err != nil || string(text) != "done" {
		t.Errorf("%q, %v", text, err)
	}
}
