package main

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// timedOut is the exit code of a command that had not ended in time.
const timedOut = -1

// outcome is a command's output and exit code.
type outcome struct {
	code        int // timedOut, or the exit code; that of a signal is -2
	stdout, err string
}

// execute runs one command, and waits for its end, but not for processes that it has left behind.
func execute(ctx context.Context, limit time.Duration, dir string, env []string, stdin, program string,
	args ...string) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Env, c.Stdin, c.Stdout, c.Stderr = dir, env, strings.NewReader(stdin), &stdout, &stderr
	c.WaitDelay = time.Second
	err := c.Run()
	out := outcome{stdout: stdout.String(), err: stderr.String()}
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		out.code = timedOut
	case ctx.Err() != nil:
		return out, ctx.Err()
	case errors.As(err, &exit):
		if out.code = exit.ExitCode(); out.code < 0 {
			out.code = -2
		}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return out, err
	}
	return out, nil
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// plain returns a text without its colours.
func plain(text string) string { return escapes.ReplaceAllString(text, "") }

// each calls do for each number below n, at most jobs at a time, and returns the first error.
func each(ctx context.Context, n, jobs int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	next := make(chan int)
	for range max(1, jobs) {
		group.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}
