//go:build unix

package sshd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Start starts a server inside the process, which ends with the test.
func Start(t *testing.T) *Server {
	t.Helper()
	s, host, client, _ := newServer(t)
	s.Password = "correct horse"
	config := &ssh.ServerConfig{
		PasswordCallback: func(_ ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			if string(password) != s.Password {
				return nil, errors.New("wrong password")
			}
			return nil, nil
		},
		PublicKeyCallback: (&ssh.CertChecker{
			IsUserAuthority: func(key ssh.PublicKey) bool {
				return bytes.Equal(key.Marshal(),
					s.CA.PublicKey().Marshal())
			},
			UserKeyFallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
				if !bytes.Equal(key.Marshal(), client.PublicKey().Marshal()) {
					return nil, errors.New("unknown key")
				}
				return nil, nil
			},
		}).Authenticate,
	}
	config.AddHostKey(host)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Port = listener.Addr().(*net.TCPAddr).Port
	in := &inside{config: config, conns: map[net.Conn]bool{}}
	in.work.Go(func() { in.accept(listener) })
	t.Cleanup(func() {
		listener.Close()
		in.hangUp()
		in.work.Wait()
	})
	return s
}

// inside is the server inside the process.
type inside struct {
	config *ssh.ServerConfig
	work   sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns map[net.Conn]bool
}

func (in *inside) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		in.mu.Lock()
		in.conns[conn] = true
		in.mu.Unlock()
		in.work.Go(func() { in.serve(conn) })
	}
}

func (in *inside) hangUp() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for conn := range in.conns {
		conn.Close()
	}
}

func (in *inside) serve(conn net.Conn) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, in.config)
	if err != nil {
		return
	}
	in.work.Go(func() { ssh.DiscardRequests(requests) })
	for c := range channels {
		switch c.ChannelType() {
		case "session":
			in.work.Go(func() { session(c) })
		case "direct-tcpip":
			in.work.Go(func() { forward(c) })
		default:
			c.Reject(ssh.UnknownChannelType, "not here") //nolint:errcheck // the client has gone
		}
	}
}

// session runs one command.
func session(c ssh.NewChannel) {
	channel, requests, err := c.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	for r := range requests {
		if r.Type != "exec" {
			r.Reply(r.Type == "pty-req", nil) //nolint:errcheck // the client has gone
			continue
		}
		var exec struct{ Command string }
		if ssh.Unmarshal(r.Payload, &exec) != nil {
			return
		}
		r.Reply(true, nil) //nolint:errcheck // as above
		ctx, hungUp := context.WithCancel(context.Background())
		var rest sync.WaitGroup
		rest.Go(func() {
			ssh.DiscardRequests(requests)
			hungUp()
		})
		status := run(ctx, exec.Command, channel)
		channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status})) //nolint:errcheck // as above
		channel.Close()
		rest.Wait()
		return
	}
}

// run runs a command in a shell until the client hangs up; scp, which a machine may lack, is part of the server.
func run(ctx context.Context, command string, channel ssh.Channel) uint32 {
	if rest, ok := strings.CutPrefix(command, "scp "); ok {
		flags, target, _ := strings.Cut(rest, " ")
		target = strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(target, "'"), "'"), `'\''`, "'")
		return receive(target, strings.Contains(flags, "r"), channel)
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its children end with it, as with a terminal
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if status := (*exec.ExitError)(nil); errors.As(err, &status) {
		return uint32(status.ExitCode())
	}
	if err != nil {
		return 126
	}
	return 0
}

// forward connects to another machine on the client's behalf.
func forward(c ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if ssh.Unmarshal(c.ExtraData(), &to) != nil {
		return
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		c.Reject(ssh.ConnectionFailed, err.Error()) //nolint:errcheck // the client has gone
		return
	}
	defer conn.Close()
	channel, requests, err := c.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	var both sync.WaitGroup
	both.Go(func() { ssh.DiscardRequests(requests) })
	both.Go(func() {
		io.Copy(conn, channel) //nolint:errcheck // either end may hang up
		conn.Close()
	})
	io.Copy(channel, conn) //nolint:errcheck // as above
	channel.Close()
	both.Wait()
}
