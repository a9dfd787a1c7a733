// Package nats runs real NATS servers for tests.
//
// A server is a process of its own, built from the module of the test tooling, with the settings of deploy/nats, on a
// port of loopback that the system chooses. The package speaks no NATS.
package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/test/stage/process"
)

// Build builds the server into a directory. root is the directory of this repository. It returns the path of the
// program.
func Build(ctx context.Context, root, dir string) (string, error) {
	program := filepath.Join(dir, "nats-server")
	build := exec.CommandContext(ctx, "go", "-C", filepath.Join(root, "test", "tools"), "build", "-o", program,
		"github.com/nats-io/nats-server/v2")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building nats-server: %w\n%s", err, out)
	}
	return program, nil
}

// shippedStore is the setting of JetStream's files in the configuration that the project ships.
const shippedStore = `store_dir: "/var/lib/nats"`

// configure writes the configuration that the project ships, with the files in o.Dir, into o.Dir.
func configure(o Options) (string, error) {
	dir := o.Dir
	shipped, err := os.ReadFile(filepath.Join(o.Root, "deploy", "nats", "nats-server.conf"))
	if err != nil {
		return "", fmt.Errorf("reading the server's configuration: %w", err)
	}
	before, after, found := strings.Cut(string(shipped), shippedStore)
	if !found {
		return "", fmt.Errorf("the server's configuration does not say %s", shippedStore)
	}
	config := filepath.Join(dir, "nats-server.conf")
	text := before + fmt.Sprintf("store_dir: %q", Store(dir)) + after
	if o.Guard != nil {
		if text, err = guarded(o.Root, dir, text, o.Guard); err != nil {
			return "", err
		}
	}
	text += o.cluster
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing the server's configuration: %w", err)
	}
	return config, nil
}

// shippedInclude is the comment by which the configuration that the project ships offers its accounts.
const shippedInclude = `# include "accounts.conf"`

// guarded returns the configuration with the accounts that the project ships, over TLS, with client certificates.
func guarded(root, dir, text string, c *Certificates) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, "deploy", "nats", "*.conf"))
	if err != nil {
		return "", err
	}
	for _, name := range files {
		if filepath.Base(name) == "nats-server.conf" {
			continue
		}
		account, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("reading the server's accounts: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), account, 0o600); err != nil {
			return "", fmt.Errorf("writing the server's accounts: %w", err)
		}
	}
	before, after, found := strings.Cut(text, shippedInclude)
	if !found {
		return "", fmt.Errorf("the server's configuration does not say %s", shippedInclude)
	}
	return before + shippedInclude[2:] + after + fmt.Sprintf("\ntls {\n  cert_file: %q\n  key_file: %q\n  ca_file: "+
		"%q\n  verify: true\n}\n", c.ServerCert, c.ServerKey, c.CA), nil
}

// Options are the options of a server.
type Options struct {
	// Program is the result of Build; Root is the directory of this repository.
	Program, Root string
	// Dir is where the server keeps its files.
	Dir string
	// Guard, if it is set, makes the server use TLS with these certificates, require client certificates, and use the
	// accounts of deploy/nats, in which each user's password is its name.
	Guard *Certificates

	cluster string // the part of the configuration that makes it one of several
}

// Cluster starts n servers that are one cluster, each with a directory of its own below o.Dir, and returns when they
// take connections.
func Cluster(ctx context.Context, o Options, n int) (all []*Server, err error) {
	defer func() {
		for _, s := range all {
			if err != nil {
				err = errors.Join(err, s.Close())
			}
		}
	}()
	var listens, routes []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listens = append(listens, l.Addr().String())
		routes = append(routes, "nats-route://"+l.Addr().String())
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	starting := make([]*Server, n)
	var group errgroup.Group
	for i := range n {
		one := o
		one.Dir = filepath.Join(o.Dir, fmt.Sprint("n", i))
		one.cluster = fmt.Sprintf("\nserver_name: n%d\ncluster {\n  name: three\n  listen: %q\n  routes: [\"%s\"]\n}\n", i,
			listens[i], strings.Join(routes, `", "`))
		group.Go(func() (err error) {
			if err := os.MkdirAll(one.Dir, 0o700); err != nil {
				return err
			}
			starting[i], err = Start(ctx, one)
			return err
		})
	}
	err = group.Wait()
	for _, s := range starting {
		if s != nil {
			all = append(all, s)
		}
	}
	return all, err
}

// Store is where a server with its files in dir keeps its streams.
func Store(dir string) string { return filepath.Join(dir, "store") }

// Server is a server and its successors at the same address. It is for one goroutine. Close it.
type Server struct {
	program, config string
	address         string
	cluster         bool
	process         *process.Process
}

// Start starts a server, and returns when it takes connections.
func Start(ctx context.Context, o Options) (*Server, error) {
	config, err := configure(o)
	if err != nil {
		return nil, err
	}
	s := &Server{program: o.Program, config: config, address: "127.0.0.1:-1", cluster: o.cluster != ""}
	return s, s.Restart(ctx)
}

// announcement precedes the address in the server's log.
const announcement = "Listening for client connections on "

// Command is the call that starts a server with the files and at the address of the one before, for a caller that runs
// it itself: with the one before having ended, and before Restart.
func (s *Server) Command() *exec.Cmd {
	host, port, _ := strings.Cut(s.address, ":")
	server := exec.Command(s.program, "-c", s.config, "-a", host, "-p", port)
	for variable, user := range map[string]string{"COORDINATOR": "coordinator", "WORKER_EU": "worker-eu",
		"WORKER_US": "worker-us", "WORKER_AP": "worker-ap", "OBSERVER": "observer"} {
		server.Env = append(server.Environ(), "MILLIPEDE_"+variable+"_PASSWORD="+user)
	}
	return server
}

// Restart starts a server with the files and at the address of the one before, which must have ended. It returns when
// it takes connections.
func (s *Server) Restart(ctx context.Context) error {
	p, err := process.Start("nats-server", s.Command())
	if err != nil {
		return err
	}
	s.process = p
	if s.cluster { // it is ready when it has found the others
		_, err := p.Await(ctx, announcement)
		if line := p.Output(); err == nil {
			_, line, _ = strings.Cut(line, announcement)
			s.address, _, _ = strings.Cut(line, "\n")
		}
		return err
	}
	line, err := p.Await(ctx, announcement)
	if err == nil {
		_, err = p.Await(ctx, "Server is ready")
	}
	if err != nil {
		return errors.Join(err, p.Kill())
	}
	_, s.address, _ = strings.Cut(line, announcement)
	return nil
}

// URL is where the server is.
func (s *Server) URL() string { return "nats://" + s.address }

// Log returns the output of the running server so far.
func (s *Server) Log() string { return s.process.Output() }

// Kill ends the server as a power cut of its process would: without warning.
func (s *Server) Kill() error { return s.process.Kill() }

// Stop ends the server in order.
func (s *Server) Stop(ctx context.Context) error {
	if err := s.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_, err := s.process.Wait(ctx)
	return err
}

// Close ends the server if it still runs.
func (s *Server) Close() error { return s.process.Kill() }
