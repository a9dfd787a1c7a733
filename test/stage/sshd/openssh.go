//go:build unix

package sshd

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/process"
)

// openSSH starts OpenSSH's server, which ends with the test.
func openSSH(t *testing.T, program string) *Server {
	t.Helper()
	s, _, client, hostPEM := newServer(t)
	dir := t.TempDir()
	if os.Getuid() == 0 { // where it separates its privileges, as its package would have made it
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.Port = freePort(t)
	config := write(t, dir, "sshd_config", fmt.Sprintf(`
ListenAddress 127.0.0.1:%d
HostKey %s
AuthorizedKeysFile %s
TrustedUserCAKeys %s
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
AllowTcpForwarding yes
AllowAgentForwarding yes
MaxStartups 100
SetEnv HOME=%s
`, s.Port, write(t, dir, "host", hostPEM), write(t, dir, "authorized_keys", Public(client)),
		write(t, dir, "ca.pub", Public(s.CA)), t.TempDir())) // not the user's, whose .bashrc may take seconds
	p, err := process.Start("sshd", exec.Command(program, "-D", "-e", "-f", config))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("sshd wrote:\n%s", p.Output())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := p.Await(ctx, "Server listening on 127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	return s
}

// freePort finds a port that nobody listens on. sshd takes none that the system chooses.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
