// Command worker hosts provider plugins, and executes the tasks that coordinators dispatch to its pools.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/millipede-iac/millipede/cmd/internal/build"
	"github.com/millipede-iac/millipede/cmd/internal/handover"
	"github.com/millipede-iac/millipede/cmd/internal/hosting"
	"github.com/millipede-iac/millipede/cmd/internal/logflags"
	"github.com/millipede-iac/millipede/cmd/internal/metrics"
	"github.com/millipede-iac/millipede/cmd/internal/natsconn"
	"github.com/millipede-iac/millipede/cmd/internal/tracing"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/provider/plugin"
	"github.com/millipede-iac/millipede/wire/jet"
)

const usage = `Usage: worker -nats URL [options]

  Carries out what coordinators dispatch: hosts the provider plugins, calls them, reports.

Options:
  -nats=URL          The NATS server, or several separated by commas. MILLIPEDE_NATS and NATS_URL do the same.
  -pool=NAME[,NAME]  The pools that this worker serves, usually a region. Default: default.
  -domain=NAME       The JetStream domain of the NATS server in this region, if its pools have their message store there
                     (coordinator pools set POOL -domain=NAME). Default: the store is that of all.
  -slots=N           How many operations it executes at a time. Default: 10.
  -cache=DIR         Where the journal and the provider packages are kept. One directory for each worker.
                     Default: millipede/worker in the user's cache directory.
  -environment=own   Start plugins and provisioners in this worker's environment alone: operations that bring variables of
                     their own (the attribute environment of millipede.hcl) are refused. Default: any.
  -log-level=LEVEL   ` + logflags.UsageLevel + `
  -log-format=FORMAT ` + logflags.UsageFormat + `
  -metrics=ADDRESS   Serve Prometheus metrics there, at /metrics, without a token and without TLS; and for probes
                     /healthz, which fails if only a restart can help, and /readyz, which fails while the worker takes
                     no tasks. Use an address that only the scraper can reach, such as 127.0.0.1:9464. Default: none.
  -version           Show the version.
` + natsconn.Usage + `
  The first SIGTERM or Ctrl-C drains: the worker takes no new tasks, and finishes and reports those in progress. The
  second one leaves at once; operations in progress are then in doubt.

  OTEL_TRACES_EXPORTER=otlp sends traces, as the other OTEL_ variables say (docs/observability.md).
`

func main() {
	environment, err := handover.Environ(os.Environ(), natsconn.Secret)
	if err != nil {
		fmt.Fprintf(os.Stderr, "Warning: provisioners may be able to read this process's environment in /proc: %s\n", err)
		environment = os.Environ()
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, environ.Variables(environment).Get))
}

// run executes the command line. getenv also has the variables that others cannot see in the environment.
func run(args []string, stdout, stderr io.Writer, getenv func(string) string) int {
	f := flag.NewFlagSet("worker", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	var (
		pools   = f.String("pool", "default", "")
		domain  = f.String("domain", "", "")
		slots   = f.Int("slots", 10, "")
		cache   = f.String("cache", "", "")
		scraped = f.String("metrics", "", "")
		foreign = f.String("environment", "any", "")
		showVer = f.Bool("version", false, "")
	)
	var logs logflags.Settings
	logs.Flags(f)
	var named natsconn.Settings
	named.Flags(f)
	err := f.Parse(args)
	server := named.Over(natsconn.Own(getenv)).Over(natsconn.Shared(getenv))
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "Error: %s\n\nFor the options, run: worker -help\n", err)
		return 1
	case *showVer:
		fmt.Fprintf(stdout, "Millipede worker v%s\n", build.Version())
		return 0
	case f.NArg() > 0:
		fmt.Fprintf(stderr, "Error: unexpected argument %q\n", f.Arg(0))
		return 1
	case server.URL == "":
		fmt.Fprintln(stderr, "Error: no NATS server\n\nSay which one with -nats=URL, or in MILLIPEDE_NATS.")
		return 1
	case *slots < 1:
		fmt.Fprintln(stderr, "Error: -slots must be at least 1")
		return 1
	}
	if *foreign != "any" && *foreign != "own" {
		fmt.Fprintf(stderr, "Error: -environment=%s: write any or own\n", *foreign)
		return 1
	}
	log, err := logs.New(stderr)
	if err != nil {
		fmt.Fprintf(stderr, "Error: %s\n", err)
		return 1
	}
	if err := hideMemory(); err != nil {
		log.Warn("plugins and provisioners may be able to read this process's memory", "error", err)
	}
	if os.Geteuid() == 0 {
		log.Warn("this worker runs as root, and so do the provisioners that it starts: they can read its memory and its " +
			"files, with its access to NATS. Start it as a user of its own")
	}
	dir, err := directory(*cache)
	if err != nil {
		fmt.Fprintf(stderr, "Error: no cache directory: %s\n\nName one with -cache=DIR.\n", err)
		return 1
	}
	o := server.Options()
	o.Name, o.Log = "millipede-worker", func(line string) { log.Warn(line) }
	o.Domain, o.Pools = *domain, split(*pools)
	ctx, sent, err := tracing.Begin(context.Background(), cloud.Environment{Environ: os.Environ()}, "millipede-worker",
		build.Version(), func(line string) { log.Warn(line) })
	if err != nil {
		fmt.Fprintf(stderr, "Error: %s\n", err)
		return 1
	}
	err = work(ctx, settings{
		nats: o, pools: split(*pools), slots: *slots, dir: dir, own: *foreign == "own", metrics: *scraped, log: log,
	})
	if unsent := sent(); unsent != nil {
		log.Warn("the trace is not complete", "error", unsent)
	}
	if err != nil {
		fmt.Fprintf(stderr, "Error: %s\n", err)
		return 1
	}
	return 0
}

// directory returns the absolute path of the worker's directory: the one named, or the default. Plugins are started
// in directories of their own, where a relative path would not be found.
func directory(named string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	base, err := os.UserCacheDir()
	return filepath.Join(base, "millipede", "worker"), err
}

func split(list string) []string {
	var out []string
	for _, p := range strings.Split(list, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// settings are the values of the options.
type settings struct {
	nats         jet.Options
	pools        []string
	slots        int
	dir, metrics string
	own          bool
	log          *slog.Logger
}

// work runs a worker until it is told to leave.
func work(ctx context.Context, o settings) error {
	log := o.log
	taking, drain := context.WithCancelCause(ctx)
	defer drain(nil)
	working, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	done := make(chan struct{})
	defer close(done)
	go func() { // ends with done
		for i := 0; ; i++ {
			select {
			case s := <-signals:
				if i == 0 {
					log.Info("draining: no new tasks are taken, those in progress are finished", "signal", s.String())
					drain(fmt.Errorf("%s", s))
					continue
				}
				log.Warn("leaving: what runs is in doubt", "signal", s.String())
				leave(fmt.Errorf("%s", s))
			case <-done:
				return
			}
		}
	}()
	conn, err := jet.Connect(taking, o.nats)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // others repeat what was not sent
	missing, err := conn.Probe(taking, o.pools)
	if err != nil {
		return fmt.Errorf("looking at what the NATS server permits: %w", err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("the NATS server does not permit what a worker of the pools %s needs: %s",
			strings.Join(o.pools, ", "), strings.Join(missing, "; "))
	}
	user, err := o.nats.UserKey()
	if err != nil {
		return err
	}
	numbers := metrics.New("worker", build.Version())
	hosted, err := hosting.New(hosting.Options{
		Transport: conn, User: user, Pools: o.pools, Slots: o.slots, Version: build.Version(), Dir: o.dir, Log: log,
		PluginLog:  plugin.LogFromEnvironment(os.Getenv, os.Stderr),
		DisableTLS: os.Getenv("TF_DISABLE_PLUGIN_TLS") != "",
		Environ:    os.Environ(), Connects: true, OwnEnvironment: o.own,
		Done: numbers.Tasks(),
	})
	if err != nil {
		return err
	}
	hosted.Measure(numbers, o.slots)
	numbers.RoundTrips(conn.RoundTrip)
	unserved, err := numbers.Listen(ctx, o.metrics, log,
		metrics.Probe{Path: "/healthz", Check: func(context.Context) error { return hosted.Worker.Alive() }},
		metrics.Probe{Path: "/readyz", Check: func(ctx context.Context) error {
			if err := hosted.Worker.Ready(); err != nil {
				return err
			}
			// What was handed over before has reached the server when it answers.
			if _, err := conn.RoundTrip(ctx); err != nil {
				return fmt.Errorf("the NATS server does not answer: %w", err)
			}
			return nil
		}})
	if err != nil {
		return errors.Join(err, hosted.Close())
	}
	log.Info("working", "worker", hosted.ID, "pools", o.pools, "slots", o.slots)
	return errors.Join(hosted.Worker.Run(taking, working), unserved(), hosted.Close())
}
