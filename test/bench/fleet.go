package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The shapes regions and workers measure workers in separate processes: NATS is in this process. Their operations
// take a second, which the provider waits, so that one machine can simulate many.

// operationTime is the duration of an operation of these shapes.
const operationTime = time.Second

// crew is the workers of a pool.
type crew struct {
	pool         string
	count, slots int
}

func regions(n int) string {
	return fleet + fmt.Sprintf(`resource "fleet_machine" "eu" {
  count     = %d
  name      = "eu-${count.index}"
  region    = "eu"
  create_ms = 1000
}

resource "fleet_machine" "us" {
  count     = %d
  name      = "us-${count.index}"
  region    = "us"
  create_ms = 1000
}
`, n, n)
}

func slow(n int) string {
	return fleet + fmt.Sprintf("resource \"fleet_machine\" \"m\" {\n  count     = %d\n  name      = "+
		"\"m-${count.index}\"\n  create_ms = 1000\n}\n", n)
}

func provisioned(n int) string {
	return fleet + fmt.Sprintf("resource \"fleet_machine\" \"m\" {\n  count = %d\n  name  = \"m-${count.index}\"\n\n"+
		"  provisioner \"local-exec\" {\n    command = \"sleep 1\"\n  }\n}\n", n)
}

// measureRegions measures a pool of one slot beside one of ten: neither may take longer than necessary.
func measureRegions(ctx context.Context, b *bench, n int) error {
	const parallelism, eu, us = 10, 1, 10
	took, pools, err := b.fleet(ctx, regions(n), parallelism, crew{"eu", 1, eu}, crew{"us", 1, us})
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "regions, n = %d: operations of 1 s each in eu (1 slot) and in us (10 slots), parallelism %d; "+
		"the apply took %s\n",
		n, parallelism, short(took))
	rounds := func(slots int) time.Duration { return time.Duration((n+slots-1)/slots) * operationTime }
	for _, p := range []struct {
		name  string
		bound time.Duration
	}{{"eu", rounds(eu)}, {"us", rounds(min(us, parallelism-eu))}} {
		fmt.Fprintf(b.out, "  %s: %s, bound %s, ratio %.2f\n", p.name, short(pools[p.name]), short(p.bound),
			ratio(pools[p.name], p.bound))
	}
	return nil
}

// measureWorkers measures the same work with an increasing number of workers.
func measureWorkers(ctx context.Context, b *bench, n int) error {
	const slots = 5
	for _, w := range []struct{ what, text string }{{"creations of 1 s", slow(n)},
		{"provisioners of 1 s", provisioned(n)}} {
		fmt.Fprintf(b.out, "workers, n = %d: %s, workers of %d slots\n", n, w.what, slots)
		var alone time.Duration
		for _, count := range []int{1, 2, 4, 8} {
			took, _, err := b.fleet(ctx, w.text, 1000, crew{"default", count, slots})
			if err != nil {
				return err
			}
			if count == 1 {
				alone = took
			}
			bound := time.Duration((n+count*slots-1)/(count*slots)) * operationTime
			fmt.Fprintf(b.out, "  %d: apply %s, bound %s; %.1f times as fast as one\n", count, short(took),
				short(bound), ratio(alone, took))
		}
	}
	return nil
}

// fleet starts workers, plans a configuration and applies the saved plan. It returns how long the apply took, and for
// each pool the time from the first creation of all pools to the end of the pool's last one.
func (b *bench) fleet(ctx context.Context, text string, parallelism int, crews ...crew) (took time.Duration,
	pools map[string]time.Duration, err error) {
	if b.providers == "" {
		return 0, nil, errors.New("the shape needs -providers")
	}
	dir, err := os.MkdirTemp(b.dir, "fleet-")
	if err != nil {
		return 0, nil, err
	}
	ns, err := startServer(filepath.Join(dir, "nats"))
	if err != nil {
		return 0, nil, err
	}
	defer func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	}()
	worker := filepath.Join(b.dir, "bench-worker")
	if err := b.build(ctx, worker, "cmd/worker"); err != nil {
		return 0, nil, err
	}
	record := filepath.Join(dir, "record")
	var stops []func() error
	defer func() {
		for _, stop := range stops {
			err = errors.Join(err, stop())
		}
	}()
	for _, c := range crews {
		for i := range c.count {
			cmd := exec.CommandContext(ctx, worker, "-nats", ns.ClientURL(), "-pool", c.pool, "-slots",
				fmt.Sprint(c.slots),
				"-cache", filepath.Join(dir, fmt.Sprintf("%s-%d", c.pool, i)), "-log-level", "error")
			cmd.Stderr, cmd.Env = os.Stderr, append(os.Environ(), "FLEET_RECORD="+record, "MILLIPEDE_POOL="+c.pool)
			if err := cmd.Start(); err != nil {
				return 0, nil, fmt.Errorf("starting a worker: %w", err)
			}
			stops = append(stops, func() error { return errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()) })
		}
	}
	at := filepath.Join(dir, "config")
	if err := write(at, map[string]string{"main.tf": text}); err != nil {
		return 0, nil, err
	}
	env := []string{"MILLIPEDE_NATS=" + ns.ClientURL(), "TF_CLI_CONFIG_FILE=" + filepath.Join(b.providers, "cli.tfrc")}
	if _, err := b.coordinator.run(ctx, at, env, "init"); err != nil {
		return 0, nil, err
	}
	limit := fmt.Sprintf("-parallelism=%d", parallelism)
	// the first command creates the limit for all
	if _, err := b.coordinator.run(ctx, at, env, "plan", limit, "-compact-warnings", "-out=plan"); err != nil {
		return 0, nil, err
	}
	u, err := b.coordinator.run(ctx, at, env, "apply", limit, "-compact-warnings", "plan")
	if err != nil {
		return 0, nil, err
	}
	pools, err = spans(record)
	return u.wall, pools, err
}

// spans returns, for each first part of the names, the time from the start of the first creation in a record to the end
// of the last one with that part.
func spans(path string) (map[string]time.Duration, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the provider's record: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	var first int64
	last := map[string]int64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e struct {
			Time            int64
			Op, Phase, Name string
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("reading the provider's record: %w", err)
		}
		if e.Op != "create" {
			continue
		}
		if first == 0 || e.Time < first {
			first = e.Time
		}
		group, _, _ := strings.Cut(e.Name, "-")
		last[group] = max(last[group], e.Time)
	}
	if first == 0 {
		return nil, errors.Join(errors.New("the provider's record holds no creation"), lines.Err())
	}
	all := map[string]time.Duration{}
	for group, at := range last {
		all[group] = time.Duration(at - first)
	}
	return all, lines.Err()
}
