package main

import (
	"net"
	"strings"
	"testing"
)

// Errors of handshakes were written by net/http itself, as lines that no reader of the log understands.
func TestAHandshakeThatFailsIsALineOfTheLog(t *testing.T) {
	said := new(safe)
	s, _ := serveTo(t, t.TempDir(), "", said, "-log-format=json")
	c, err := net.Dial("tcp", strings.TrimPrefix(s.address, "https://"+"localhost"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	said.awaits(t, "the log", "TLS handshake error")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(said.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("it is no line of the log: %s", line)
		}
	}
}
