package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// perVertex measures the CPU time of the coordinator's process only: NATS is in this process, the worker with its
// provider in another one. Two sizes are measured, to eliminate constant costs.
func (t *table) perVertex(ctx context.Context) (string, bool, error) {
	ns, err := startServer(filepath.Join(t.dir, "nats"))
	if err != nil {
		return "", false, err
	}
	defer func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	}()
	worker := filepath.Join(t.dir, "bench-worker")
	if err := t.build(ctx, worker, "cmd/worker"); err != nil {
		return "", false, err
	}
	stop, err := startWorkerProcess(ctx, worker, filepath.Join(t.dir, "worker"), ns.ClientURL())
	if err != nil {
		return "", false, err
	}
	plan, apply, err := t.slopes(ctx, "MILLIPEDE_NATS="+ns.ClientURL())
	if err := errors.Join(err, stop()); err != nil {
		return "", false, err
	}
	const limit = 100 * time.Microsecond
	return fmt.Sprintf("%s; %s", short(plan), short(apply)), plan <= limit && apply <= limit, nil
}

// slopes returns the CPU time per instance of a no-op plan, and of an apply without the plan before it.
func (t *table) slopes(ctx context.Context, env ...string) (plan, apply time.Duration, err error) {
	const small, large = 1_000, 10_000
	s, err := shapeOf("wide")
	if err != nil {
		return 0, 0, err
	}
	var lives [2]results
	for i, n := range []int{small, large} {
		all, err := t.lives(ctx, s, n, t.runs, []engine{t.coordinator}, env...)
		if err != nil {
			return 0, 0, err
		}
		lives[i] = all[0]
	}
	grown := func(step string) time.Duration { return median(lives[1][step]).cpu - median(lives[0][step]).cpu }
	return grown("no-op plan") / (large - small), (grown("apply") - grown("plan")) / (large - small), nil
}

// startServer starts a NATS server with JetStream on the loopback interface.
func startServer(dir string) (*server.Server, error) {
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
		MaxPayload: 8 << 20,
	})
	if err != nil {
		return nil, fmt.Errorf("starting a NATS server: %w", err)
	}
	ns.Start()
	if !ns.ReadyForConnections(10 * time.Second) {
		ns.Shutdown()
		return nil, errors.New("the NATS server did not become ready")
	}
	return ns, nil
}

// startWorkerProcess starts a worker, which stop drains.
func startWorkerProcess(ctx context.Context, path, dir, url string) (stop func() error, err error) {
	cmd := exec.CommandContext(ctx, path, "-nats", url, "-slots", "64", "-cache", dir, "-log-level", "error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	return func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			return fmt.Errorf("draining the worker: %w", err)
		}
		return cmd.Wait()
	}, nil
}
