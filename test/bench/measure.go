package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// usage is what one process used, with the processes that it waited for.
type usage struct {
	wall time.Duration
	// cpu is user and system time together.
	cpu time.Duration
	// peak is the largest resident set in bytes, of the process or of one of its children; 0 where the system does not
	// tell.
	peak int64
}

// engine is a program with the commands of OpenTofu.
type engine struct {
	name, path string
	// flags are given to the commands that plan.
	flags []string
}

// run runs a command of the engine in a directory. A failure tells what the command printed last.
func (e engine) run(ctx context.Context, dir string, env []string, args ...string) (usage, error) {
	cmd := exec.CommandContext(ctx, e.path, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "TF_INPUT=0", "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1", "NO_COLOR=1"),
		env...)
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err := cmd.Run()
	if err != nil {
		return usage{}, fmt.Errorf("%s %v in %s: %w\n%s", e.name, args, dir, err, out)
	}
	return usage{
		wall: time.Since(began), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
		peak: peak(cmd.ProcessState),
	}, nil
}

// tail keeps the end of what is written to it. Not more: what this process has ever held in memory counts into the peak
// of those that it starts.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	const enough = 2000
	*t = append(*t, p[max(0, len(p)-enough):]...)
	if over := len(*t) - enough; over > 0 {
		*t = append((*t)[:0], (*t)[over:]...)
	}
	return len(p), nil
}

// step is one command of the life of a configuration.
type step struct {
	name string
	args []string
	// plans tells that the engine's flags belong to it.
	plans bool
}

// steps is the life of a configuration, in order.
var steps = []step{
	{name: "init", args: []string{"init"}},
	{name: "validate", args: []string{"validate"}},
	{name: "plan", args: []string{"plan"}, plans: true},
	{name: "apply", args: []string{"apply", "-auto-approve"}, plans: true},
	{name: "no-op plan", args: []string{"plan"}, plans: true},
	{name: "destroy", args: []string{"destroy", "-auto-approve"}, plans: true},
}

// life takes a configuration through its life in a directory, which is emptied first. wanted tells which steps are
// taken.
func (e engine) life(ctx context.Context, dir string, files map[string]string, env []string,
	wanted func(step string) bool) (map[string]usage, error) {
	if err := errors.Join(os.RemoveAll(dir), write(dir, files)); err != nil {
		return nil, err
	}
	all := map[string]usage{}
	for _, s := range steps {
		if !wanted(s.name) {
			continue
		}
		args := s.args
		if s.plans {
			args = append(append(slices.Clone(args), "-compact-warnings"), e.flags...)
		}
		var err error
		if all[s.name], err = e.run(ctx, dir, env, args...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func write(dir string, files map[string]string) error {
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// median returns the median of each figure by itself: one that was disturbed does not disturb the others.
func median(list []usage) usage {
	return usage{
		wall: middle(list, func(u usage) time.Duration { return u.wall }),
		cpu:  middle(list, func(u usage) time.Duration { return u.cpu }),
		peak: middle(list, func(u usage) int64 { return u.peak }),
	}
}

func middle[T any, N int64 | time.Duration](list []T, of func(T) N) N {
	if len(list) == 0 {
		return 0
	}
	figures := make([]N, len(list))
	for i, x := range list {
		figures[i] = of(x)
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}
