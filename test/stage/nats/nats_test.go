package nats_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/nats"
)

func TestAServerComesBackAtItsAddress(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	program, err := nats.Build(t.Context(), root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := nats.Start(t.Context(), nats.Options{Program: program, Root: root, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	url := s.URL()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.URL() != url {
		t.Errorf("the server was at %s, and is at %s now", url, s.URL())
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if log := s.Log(); !strings.Contains(log, "JetStream") {
		t.Errorf("the server runs without JetStream:\n%s", log)
	}
}
