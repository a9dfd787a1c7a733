// Package process runs the real processes of a test.
//
// A process is started in a separate process group, its output is read line by line, and it is ended by its ID. The
// package does not depend on the programs that the processes execute.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// Process is a started process. End it with Kill, unless it ends by itself; in both cases Done reports it.
type Process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex // guards the fields below
	text  []byte
	grown chan struct{} // closed, and made anew, when text grows
}

// Start starts a command; the package uses its standard streams. On Linux the process ends with the one that started
// it, however that ends.
func Start(name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{name: name, cmd: cmd, done: make(chan struct{}), grown: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p, p
	alone(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() { // ends with the process; Kill and Wait wait for it
		_ = cmd.Wait() // the exit status is read from the process state
		close(p.done)
	}()
	return p, nil
}

// Write implements io.Writer for the process's own output.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = append(p.text, b...)
	close(p.grown)
	p.grown = make(chan struct{})
	return len(b), nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output returns the output of the process so far, on standard output and standard error.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.text)
}

// Await returns the first line that contains the text, as soon as the process has written it.
func (p *Process) Await(ctx context.Context, text string) (string, error) {
	for {
		p.mu.Lock()
		line, found := lineWith(p.text, text)
		grown := p.grown
		p.mu.Unlock()
		if found {
			return line, nil
		}
		select {
		case <-grown:
		case <-p.done:
			if line, found := lineWith([]byte(p.Output()), text); found {
				return line, nil
			}
			return "", fmt.Errorf("%s ended (%s) without saying %q:\n%s", p.name, p.cmd.ProcessState, text, p.Output())
		case <-ctx.Done():
			return "", fmt.Errorf("%s has not said %q: %w\n%s", p.name, text, context.Cause(ctx), p.Output())
		}
	}
}

// lineWith returns the first whole line that contains the text.
func lineWith(output []byte, text string) (string, bool) {
	for {
		line, rest, whole := bytes.Cut(output, []byte{'\n'})
		if !whole {
			return "", false
		}
		if strings.Contains(string(line), text) {
			return string(line), true
		}
		output = rest
	}
}

// Signal sends a signal to the process alone.
func (p *Process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %s to %s: %w", s, p.name, err)
	}
	return nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process. It returns the exit status, -1 when a signal ended it.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%s has not ended: %w\n%s", p.name, context.Cause(ctx), p.Output())
	}
}

// Kill ends the process with SIGKILL, which it cannot handle, and returns when it is gone. If it is already gone, Kill
// does nothing.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.done
	return nil
}
