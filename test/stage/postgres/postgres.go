//go:build unix

// Package postgres runs a real PostgreSQL server for tests.
//
// The server listens only on loopback, stores its data in a directory of the test, and ends with the test. Root cannot
// run PostgreSQL, so if root runs the tests, the server runs as the user postgres, or as nobody.
package postgres

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/process"
)

// Server is a running server with the superuser "postgres", who needs no password, and the database "postgres".
type Server struct {
	Port int

	t       testing.TB
	bin     string
	dir     string
	process *process.Process
}

// Start starts a server for a test. Without PostgreSQL on the machine the test is skipped, or fails where the variable
// MILLIPEDE_REQUIRE_POSTGRES is set.
func Start(t testing.TB) *Server {
	t.Helper()
	bin := programs()
	if bin == "" {
		if os.Getenv("MILLIPEDE_REQUIRE_POSTGRES") != "" {
			t.Fatal("PostgreSQL is not installed, and MILLIPEDE_REQUIRE_POSTGRES is set")
		}
		t.Skip("PostgreSQL is not installed (Debian: postgresql)")
	}
	dir, err := os.MkdirTemp("", "millipede-postgres-") // t.TempDir lies in a directory that another user cannot enter
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, bin: bin, dir: dir, Port: freePort(t)}
	t.Cleanup(func() {
		s.Stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if a := attributes(); a != nil {
		if err := os.Chown(dir, int(a.Credential.Uid), int(a.Credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	initdb := s.command("initdb", "-D", s.data(), "-A", "trust", "-U", "postgres", "-E", "UTF8",
		"--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.Run()
	return s
}

// Run starts the server, again after Stop, with the same data on the same port.
func (s *Server) Run() {
	s.t.Helper()
	cmd := s.command("postgres", "-D", s.data(), "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off")
	p, err := process.Start("postgres", cmd)
	if err != nil {
		s.t.Fatal(err)
	}
	s.process = p
	if _, err := p.Await(s.t.Context(), "database system is ready to accept connections"); err != nil {
		s.t.Fatalf("postgres: %v", err)
	}
}

// Stop ends the server at once: sessions are cut off.
func (s *Server) Stop() {
	s.t.Helper()
	if s.process == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.process.Signal(syscall.SIGQUIT); err == nil { // PostgreSQL's immediate shutdown
		if _, err := s.process.Wait(ctx); err != nil {
			s.t.Error(err)
		}
	}
	if err := s.process.Kill(); err != nil {
		s.t.Error(err)
	}
	s.process = nil
}

// Do executes statements of SQL as the superuser.
func (s *Server) Do(statements string) {
	s.t.Helper()
	cmd := s.command("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", s.URL(), "-c", statements)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("psql: %v\n%s", err, out)
	}
}

// URL is the address of the database, without encryption.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.Port)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	path := filepath.Join(s.bin, name)
	if _, err := os.Stat(path); err != nil { // programs of the client may lie elsewhere
		path = name
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = attributes()
	return cmd
}

// programs is the folder of the server's programs; empty when there is none.
func programs() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // where Debian has them
	if err != nil || len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.Max(found))
}

// attributes make a process another user's where root runs the tests; nil elsewhere.
func attributes() *syscall.SysProcAttr {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		}
	}
	return nil
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it was opened for its port alone
	return l.Addr().(*net.TCPAddr).Port
}
