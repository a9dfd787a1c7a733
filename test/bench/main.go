// Command bench measures the commands of the coordinator on configurations of given shapes and sizes.
//
//	go run ./test/bench -shape layers -n 2000
//
// It runs init, validate, plan, apply, a plan without changes and destroy on a configuration, and prints the wall time,
// CPU time and peak memory of each. If -tofu or the variable TOFU names an OpenTofu binary, it runs the same commands
// with it and prints the ratios. -budget measures every row of the table of budgets instead. The figures are in
// docs/performance.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench has the options that all measurements share.
type bench struct {
	coordinator engine
	tofu        engine // its path is empty if OpenTofu is not measured
	runs        int
	dir         string // the directory of configurations
	providers   string // folder with the test providers, as test/providers/cmd/mirror writes it; may be empty
	steps       []string
	out, log    io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	b := &bench{out: stdout, log: stderr}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	var names []string
	for _, s := range shapes {
		names = append(names, s.name)
	}
	shapeList := f.String("shape", "layers", "the shapes to measure, separated by commas: "+strings.Join(names, ", "))
	n := f.Int("n", 0, "the size; 0 is the usual size of the shape")
	f.IntVar(&b.runs, "runs", 3, "how often the commands run on a configuration; medians are printed")
	stepList := f.String("steps", "", "measure only these of the steps validate, plan, apply, no-op plan, destroy, "+
		"separated by commas; a step needs those before it")
	coordinator := f.String("coordinator", "", "the coordinator's binary; without it, the coordinator is built")
	f.StringVar(&b.tofu.path, "tofu", os.Getenv("TOFU"), "an OpenTofu binary to compare with")
	parallelism := f.Int("parallelism", 0, "the option -parallelism for both programs; 0 is their default")
	f.StringVar(&b.providers, "providers", "", "the folder that `go run ./cmd/mirror -out FOLDER` in test/providers "+
		"wrote, for shapes with plugins")
	keep := f.String("dir", "", "work in this folder and keep it, instead of a temporary one")
	writeTo := f.String("write", "", "only write the configuration of the first shape into this folder")
	budget := f.Bool("budget", false, "measure the rows of the table of budgets")
	only := f.String("lines", "", "with -budget: measure only the rows whose description contains this text")
	large := f.Bool("large", false, "with -budget: measure 100,000 instances, too")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if *stepList != "" {
		b.steps = strings.Split(*stepList, ",")
	}
	if b.runs < 1 {
		return errors.New("-runs must be at least 1")
	}
	if *writeTo != "" {
		s, size, err := choose(strings.Split(*shapeList, ",")[0], *n)
		if err != nil {
			return err
		}
		return write(*writeTo, s.files(size))
	}
	done, err := b.prepare(ctx, *keep, *coordinator, *parallelism)
	if err != nil {
		return err
	}
	defer done()
	if *budget {
		return b.budget(ctx, *large, *only)
	}
	for _, name := range strings.Split(*shapeList, ",") {
		s, size, err := choose(name, *n)
		if err != nil {
			return err
		}
		measure := s.measure
		if measure == nil {
			measure = func(ctx context.Context, b *bench, n int) error { return b.compare(ctx, s, n) }
		}
		if err := measure(ctx, b, size); err != nil {
			return err
		}
	}
	return nil
}

// choose returns a shape by its name, and its usual size if none is given.
func choose(name string, n int) (shape, int, error) {
	s, err := shapeOf(name)
	if n == 0 {
		n = s.usual
	}
	return s, n, err
}

// prepare finds or builds the programs to measure. The caller calls done at the end.
func (b *bench) prepare(ctx context.Context, dir, coordinator string, parallelism int) (done func(), err error) {
	done = func() {}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "millipede-bench-"); err != nil {
			return nil, err
		}
		done = func() { os.RemoveAll(dir) } //nolint:errcheck // remains of a temporary directory do no harm
	}
	if b.dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if coordinator == "" {
		coordinator = filepath.Join(b.dir, "coordinator")
		if err := b.build(ctx, coordinator, "cmd/coordinator"); err != nil {
			return nil, err
		}
	}
	b.coordinator = engine{name: "coordinator", path: coordinator}
	b.tofu.name = "tofu"
	for _, e := range []*engine{&b.coordinator, &b.tofu} {
		if e.path != "" {
			if e.path, err = filepath.Abs(e.path); err != nil {
				return nil, err
			}
		}
		if parallelism > 0 {
			e.flags = []string{fmt.Sprintf("-parallelism=%d", parallelism)}
		}
	}
	if b.providers != "" {
		if b.providers, err = filepath.Abs(b.providers); err != nil {
			return nil, err
		}
	}
	return done, nil
}

// build builds a package of this module with the go command on the path.
func (b *bench) build(ctx context.Context, to, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", to, "github.com/millipede-iac/millipede/"+pkg)
	cmd.Stdout, cmd.Stderr = b.log, b.log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s: %w", pkg, err)
	}
	return nil
}

// results are the figures of one engine on one configuration, by step.
type results map[string][]usage

// lives runs the given number of life cycles of a configuration with each engine, alternating, so that disturbances
// of the machine affect all of them.
func (b *bench) lives(ctx context.Context, s shape, n, runs int, engines []engine, env ...string) ([]results, error) {
	if s.plugins {
		if b.providers == "" {
			return nil, fmt.Errorf("the shape %s needs -providers", s.name)
		}
		env = append(env, "TF_CLI_CONFIG_FILE="+filepath.Join(b.providers, "cli.tfrc"))
	}
	all := make([]results, len(engines))
	for range runs {
		for i, e := range engines {
			dir := filepath.Join(b.dir, fmt.Sprintf("%s-%d-%s", s.name, n, e.name))
			life, err := e.life(ctx, dir, s.files(n), env, b.wants)
			if err != nil {
				return nil, err
			}
			if all[i] == nil {
				all[i] = results{}
			}
			for name, u := range life {
				all[i][name] = append(all[i][name], u)
			}
		}
	}
	return all, nil
}

func (b *bench) wants(step string) bool {
	return step == "init" || len(b.steps) == 0 || slices.Contains(b.steps, step)
}

// engines returns the engines to measure.
func (b *bench) engines() []engine {
	if b.tofu.path == "" {
		return []engine{b.coordinator}
	}
	return []engine{b.coordinator, b.tofu}
}

// compare measures a shape and prints a table.
func (b *bench) compare(ctx context.Context, s shape, n int) error {
	all, err := b.lives(ctx, s, n, b.runs, b.engines())
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%s, n = %d: %s; medians of %d\n", s.name, n, s.about, b.runs)
	fmt.Fprintf(b.out, "  %-12s %-12s %10s %10s %10s", "", "", "wall", "user+sys", "peak")
	if len(all) > 1 {
		fmt.Fprintf(b.out, "   %s", "tofu takes")
	}
	fmt.Fprintln(b.out)
	for _, st := range steps[1:] {
		if !b.wants(st.name) {
			continue
		}
		ours := median(all[0][st.name])
		for i, e := range b.engines() {
			u := median(all[i][st.name])
			fmt.Fprintf(b.out, "  %-12s %-12s %10s %10s %10s", st.name, e.name, seconds(u.wall), seconds(u.cpu),
				mebibytes(u.peak))
			if i > 0 {
				fmt.Fprintf(b.out, "   %.1fx time, %.1fx CPU, %.1fx memory", ratio(u.wall, ours.wall),
					ratio(u.cpu, ours.cpu), ratio(u.peak, ours.peak))
			}
			fmt.Fprintln(b.out)
		}
	}
	return nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

func ratio[N int64 | time.Duration](a, b N) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
