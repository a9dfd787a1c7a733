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

// usage is the resource usage of one process, including the children that it waited for.
type usage struct {
	wall time.Duration
	// cpu is the sum of user and system time.
	cpu time.Duration
	// peak is the largest resident set in bytes, of the process or of one of its children; 0 if the system does not
	// provide it.
	peak int64
}

// engine is a program with OpenTofu's commands.
type engine struct {
	name, path string
	// flags are added to commands that plan.
	flags []string
}

// run runs a command of the engine in a directory. The error contains the end of the command's output.
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

// tail is a writer that keeps the end of its input. It does not keep more, because the memory of this process
// counts in the peak of its children.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	const enough = 2000
	*t = append(*t, p[max(0, len(p)-enough):]...)
	if over := len(*t) - enough; over > 0 {
		*t = append((*t)[:0], (*t)[over:]...)
	}
	return len(p), nil
}

// step is one command in the life cycle of a configuration.
type step struct {
	name string
	args []string
	// plans is set if the engine's flags apply to it.
	plans bool
}

// steps is the life cycle of a configuration, in order.
var steps = []step{
	{name: "init", args: []string{"init"}},
	{name: "validate", args: []string{"validate"}},
	{name: "plan", args: []string{"plan"}, plans: true},
	{name: "apply", args: []string{"apply", "-auto-approve"}, plans: true},
	{name: "no-op plan", args: []string{"plan"}, plans: true},
	{name: "destroy", args: []string{"destroy", "-auto-approve"}, plans: true},
}

// life takes a configuration through its life cycle in a directory, which is emptied first. wanted selects the
// steps.
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

// median returns the median of each figure separately, so that a disturbed one does not affect the others.
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
