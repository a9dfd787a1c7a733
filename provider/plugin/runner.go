package plugin

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	pluginrunner "github.com/hashicorp/go-plugin/runner"

	"github.com/millipede-iac/millipede/internal/launch"
)

// runner starts and ends one process for go-plugin. Unlike go-plugin's own it detects the end of the process
// immediately, even if a child of the process holds its output open, and the process ends with the host.
type runner struct {
	path, dir string
	sockets   string // the directory for the process's socket
	env       []string

	stdin io.Reader
	// stdout and stderr are the host's ends of the pipes, valid after Start.
	stdout, stderr *os.File

	// mu guards cmd and killed between Start and kill.
	mu     sync.Mutex
	cmd    *exec.Cmd
	killed bool

	read     chan struct{} // closed when go-plugin has read both pipes to their end
	readOnce sync.Once
	exited   chan struct{} // closed when the process has ended; err is valid then
	drained  chan struct{} // closed when, in addition, all its output has been read
	err      error
}

var _ pluginrunner.Runner = (*runner)(nil)

func newRunner(path, dir, sockets string, env []string) *runner {
	return &runner{path: path, dir: dir, sockets: sockets, env: env, read: make(chan struct{}),
		exited: make(chan struct{}), drained: make(chan struct{})}
}

// copySettings copies the settings of go-plugin's command, except the directory for the socket: go-plugin makes another
// one for each process, which would make the path longer.
func (r *runner) copySettings(template *exec.Cmd) {
	r.env = append(append(r.env, template.Env...), goplugin.EnvUnixSocketDir+"="+r.sockets)
	r.stdin = template.Stdin
}

// Start starts the process.
func (r *runner) Start(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed {
		return errors.New("it was ended before it was started")
	}
	var outs, errs *os.File
	var err error
	if r.stdout, outs, err = os.Pipe(); err != nil {
		return err
	}
	defer outs.Close() //nolint:errcheck // an end of a pipe
	if r.stderr, errs, err = os.Pipe(); err != nil {
		r.stdout.Close() //nolint:errcheck // an end of a pipe
		return err
	}
	defer errs.Close() //nolint:errcheck // an end of a pipe
	// kill ends it; it serves calls with other contexts
	cmd := launch.Command(context.Background(), r.dir, r.env, r.path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.stdin, outs, errs
	endWithHost(cmd)
	if err := cmd.Start(); err != nil {
		r.stdout.Close() //nolint:errcheck // an end of a pipe
		r.stderr.Close() //nolint:errcheck // an end of a pipe
		return err
	}
	r.cmd = cmd
	go r.reap() // Wait waits for it, and go-plugin's Kill for Wait
	return nil
}

// pid returns the process ID; 0 before the process is started.
func (r *runner) pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return 0
	}
	return r.cmd.Process.Pid
}

// grace is how long the output of an exited process is read.
const grace = time.Second

func (r *runner) reap() {
	r.err = r.cmd.Wait()
	close(r.exited)
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-r.read:
	case <-late.C: // a child holds the pipes open
	}
	r.stdout.Close() //nolint:errcheck // an end of a pipe
	r.stderr.Close() //nolint:errcheck // an end of a pipe
	close(r.drained)
}

// Wait is called by go-plugin after it has read all output.
func (r *runner) Wait(context.Context) error {
	r.readOnce.Do(func() { close(r.read) })
	<-r.drained
	return r.err
}

// Kill kills the process.
func (r *runner) Kill(context.Context) error {
	r.kill()
	return nil
}

func (r *runner) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	if r.cmd != nil {
		r.cmd.Process.Kill() //nolint:errcheck // fails only if the process has exited
	}
}

// ending describes how the process ended. It may be called once exited is closed, for which Client.Kill waits.
func (r *runner) ending() string { return r.cmd.ProcessState.String() }

func (r *runner) Stdout() io.ReadCloser           { return r.stdout }
func (r *runner) Stderr() io.ReadCloser           { return r.stderr }
func (r *runner) Name() string                    { return r.path }
func (r *runner) Diagnose(context.Context) string { return "" }

// ID returns the process ID; empty if there is no process, for which go-plugin has nothing to end.
func (r *runner) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return ""
	}
	return strconv.Itoa(r.cmd.Process.Pid)
}

// PluginToHost and HostToPlugin return addresses unchanged: the plugin runs on this machine.
func (r *runner) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

func (r *runner) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
