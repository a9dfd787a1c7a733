package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/test/stage/process"
)

// The load of 50 runs of 50 resources in 10 workspaces.
const (
	loadSpaces, loadRuns, loadObjects = 10, 5, 50
)

// changing is a configuration whose objects all change in each run.
func changing(run int) string {
	return fmt.Sprintf("resource \"terraform_data\" \"a\" {\n  count = %d\n  input = \"run %d of ${count.index}\"\n}\n",
		loadObjects, run)
}

// works is a NATS server in this process and workers in others.
type works struct {
	url   string
	stops []func() error
}

func (t *table) works(ctx context.Context, workers, slots int) (w *works, err error) {
	dir, err := os.MkdirTemp(t.dir, "works-")
	if err != nil {
		return nil, err
	}
	ns, err := startServer(filepath.Join(dir, "nats"))
	if err != nil {
		return nil, err
	}
	w = &works{url: ns.ClientURL(), stops: []func() error{func() error {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil
	}}}
	path := filepath.Join(t.dir, "bench-worker")
	if err := t.build(ctx, path, "cmd/worker"); err != nil {
		return w, err
	}
	for i := range workers {
		cmd := exec.CommandContext(ctx, path, "-nats", w.url, "-slots", strconv.Itoa(slots), "-cache",
			filepath.Join(dir, strconv.Itoa(i)), "-log-level", "error")
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			return w, fmt.Errorf("starting a worker: %w", err)
		}
		w.stops = append(w.stops, func() error { return errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()) })
	}
	return w, nil
}

// end ends the workers, and then the server.
func (w *works) end() error {
	var errs []error
	for i := len(w.stops) - 1; i >= 0; i-- {
		errs = append(errs, w.stops[i]())
	}
	return errors.Join(errs...)
}

// serviceRuns compares the cost of runs in the service with that of the same plans and applies as commands. Workers
// and the NATS server are in separate processes, so neither figure includes them. The start of the program, which
// the service needs once, is subtracted from the commands' figure.
func (t *table) serviceRuns(ctx context.Context) (text string, within bool, err error) {
	w, err := t.works(ctx, 1, 64)
	if w != nil {
		defer func() { err = errors.Join(err, w.end()) }()
	}
	if err != nil {
		return "", false, err
	}
	h, done, err := t.service()
	if err != nil {
		return "", false, err
	}
	defer done()
	h.env = []string{"MILLIPEDE_NATS=" + w.url}
	if _, err := h.start(ctx); err != nil {
		return "", false, err
	}
	before, err := process.Spent(h.PID())
	if err != nil {
		return "", false, err
	}
	began := time.Now()
	if err := h.load(ctx); err != nil {
		return "", false, err
	}
	took := time.Since(began)
	after, err := process.Spent(h.PID())
	if err != nil {
		return "", false, err
	}
	engine, err := t.commands(ctx, w.url)
	if err != nil {
		return "", false, err
	}
	service := after - before
	return fmt.Sprintf("%.2f (%s, the commands %s; the runs took %s)", ratio(service, engine), short(service),
		short(engine), short(took)), ratio(service, engine) <= 1.15, nil
}

// load simulates a person in each workspace who applies one configuration after the other: queue a run, wait for
// its plan, approve it, wait for its end. Requests to an unavailable service are retried.
func (h *host) load(ctx context.Context) error {
	var group errgroup.Group
	for i := range loadSpaces {
		group.Go(func() error {
			space, err := h.workspace(ctx, fmt.Sprintf("load-%d", i))
			if err != nil {
				return err
			}
			for j := range loadRuns {
				if err := h.person(ctx, space, j); err != nil {
					return fmt.Errorf("run %d of workspace %d: %w", j, i, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// pause waits. It returns an error if ctx ends earlier.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// person applies one configuration.
func (h *host) person(ctx context.Context, space string, n int) error {
	again := func(fn func() error) error {
		for began := time.Now(); ; {
			err := fn()
			if err == nil || !away(err) || time.Since(began) > time.Minute {
				return err
			}
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	var c string
	var r *thing
	if err := again(func() (err error) { c, err = h.upload(ctx, space, changing(n)); return err }); err != nil {
		return err
	}
	if err := again(func() (err error) {
		r, err = h.queue(ctx, space, c, strconv.Itoa(n), false)
		return err
	}); err != nil {
		return err
	}
	if err := again(func() (err error) { _, err = h.becomes(ctx, r.ID, "planned"); return err }); err != nil {
		return err
	}
	if err := again(func() error {
		_, err := h.ask(ctx, http.MethodPost, "/runs/"+r.ID+"/actions/apply", nil)
		if err != nil && strings.Contains(err.Error(), " 409 ") {
			return nil // the approval had succeeded, but its response was lost
		}
		return err
	}); err != nil {
		return err
	}
	return again(func() error { _, err := h.becomes(ctx, r.ID, "applied"); return err })
}

// away reports whether an error means that the service is unavailable.
func away(err error) bool {
	text := err.Error()
	return strings.Contains(text, "connection refused") || strings.Contains(text, "EOF") ||
		strings.Contains(text, "connection reset") || strings.Contains(text, "broken pipe")
}

// commands returns the CPU time of the same plans and applies as commands.
func (t *table) commands(ctx context.Context, url string) (time.Duration, error) {
	env := []string{"MILLIPEDE_NATS=" + url}
	var total time.Duration
	for i := range loadSpaces {
		dir := filepath.Join(t.dir, fmt.Sprintf("commands-%d", i))
		for j := range loadRuns {
			if err := write(dir, map[string]string{"main.tf": changing(j)}); err != nil {
				return 0, err
			}
			for _, args := range [][]string{{"init"}, {"plan", "-out=plan"}, {"apply", "plan"}} {
				u, err := t.coordinator.run(ctx, dir, env, args...)
				if err != nil {
					return 0, err
				}
				start, err := t.coordinator.run(ctx, dir, env, "version")
				if err != nil {
					return 0, err
				}
				if args[0] != "init" { // a service installs providers in each phase; commands install them once
					total += u.cpu - start.cpu
				}
			}
		}
	}
	return total, nil
}

// serviceKilled kills the service during these runs.
func (t *table) serviceKilled(ctx context.Context) (text string, within bool, err error) {
	const kills = 3
	w, err := t.works(ctx, 1, 64)
	if w != nil {
		defer func() { err = errors.Join(err, w.end()) }()
	}
	if err != nil {
		return "", false, err
	}
	h, done, err := t.service()
	if err != nil {
		return "", false, err
	}
	defer done()
	h.env = []string{"MILLIPEDE_NATS=" + w.url}
	if _, err := h.start(ctx); err != nil {
		return "", false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- h.load(ctx) }()
	var most time.Duration
	for range kills {
		select {
		case err := <-ended:
			return "", false, errors.Join(errors.New("the runs were over before the service was killed"), err)
		case <-time.After(1500 * time.Millisecond):
		}
		if err := h.Kill(); err != nil {
			return "", false, err
		}
		took, err := h.start(ctx)
		if err != nil {
			return "", false, err
		}
		most = max(most, took)
	}
	if err := <-ended; err != nil {
		return "", false, err
	}
	return short(most) + ", all 50 applied", most <= 2*time.Second, nil
}

// stamped is a configuration with an object whose creation writes its start time into a file.
func stamped(file string) string {
	return fmt.Sprintf("resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = "+
		"\"date +%%s%%N >> %s\"\n  }\n}\n", file)
}

// serviceBurst queues a run in each of many workspaces at once. The first operation of a run counts as started when
// the provisioner of its only object runs: plan, approval and the transport to the worker come before.
func (t *table) serviceBurst(ctx context.Context) (text string, within bool, err error) {
	const spaces, workers, slots = 120, 8, 10
	w, err := t.works(ctx, workers, slots)
	if w != nil {
		defer func() { err = errors.Join(err, w.end()) }()
	}
	if err != nil {
		return "", false, err
	}
	h, done, err := t.service()
	if err != nil {
		return "", false, err
	}
	defer done()
	h.env = []string{"MILLIPEDE_NATS=" + w.url}
	if _, err := h.start(ctx); err != nil {
		return "", false, err
	}
	type one struct{ space, configuration, file string }
	all := make([]one, spaces)
	// Each client prepares its run over a connection of its own, which is still open when it queues the run.
	var prepared errgroup.Group
	for i := range all {
		prepared.Go(func() (err error) {
			o := &all[i]
			o.file = filepath.Join(h.dir, fmt.Sprintf("stamp-%d", i))
			if o.space, err = h.workspace(ctx, fmt.Sprintf("burst-%d", i)); err != nil {
				return err
			}
			o.configuration, err = h.upload(ctx, o.space, stamped(o.file))
			return err
		})
	}
	if err := prepared.Wait(); err != nil {
		return "", false, err
	}
	var (
		mu            sync.Mutex // guards the fields below
		lines, starts []time.Duration
		group         errgroup.Group
	)
	for _, o := range all {
		group.Go(func() error {
			began := time.Now()
			r, err := h.queue(ctx, o.space, o.configuration, "burst", true)
			if err != nil {
				return err
			}
			if err := h.firstLine(ctx, r); err != nil {
				return err
			}
			line := time.Since(began)
			if _, err := h.becomes(ctx, r.ID, "applied"); err != nil {
				return err
			}
			stamp, err := os.ReadFile(o.file)
			if err != nil {
				return err
			}
			at, err := strconv.ParseInt(strings.TrimSpace(string(stamp)), 10, 64)
			if err != nil {
				return fmt.Errorf("an operation has begun twice: %w", err)
			}
			mu.Lock()
			defer mu.Unlock()
			lines, starts = append(lines, line), append(starts, time.Unix(0, at).Sub(began))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return "", false, err
	}
	last := quantile(starts, 100)
	return fmt.Sprintf("%s (median %s; first lines of logs: median %s, last %s)", short(last), short(half(starts)),
		short(half(lines)), short(quantile(lines, 100))), last <= 3*time.Second, nil
}
