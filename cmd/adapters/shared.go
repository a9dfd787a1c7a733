package adapters

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/millipede-iac/millipede/cmd/hosting"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/install"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
	"github.com/millipede-iac/millipede/worker"
)

// Shared is one connection for all estates of a process, with one hub, in the name of one coordinator. Where no NATS
// server is named it has one embedded server and one embedded worker. It implements estate.Connector: what an estate
// gets of it lasts until Close. Safe for concurrent use.
type Shared struct {
	Conn *jet.Conn
	// Worker is the embedded worker; nil where the NATS server is elsewhere.
	Worker *hosting.Hosted

	embedded *jet.Embedded // nil where the NATS server is elsewhere
	common   *estate.Common
	packages *sharedPackages
	warned   warned

	drain, leave context.CancelCauseFunc
	worked       chan error
}

// SharedOptions say how to connect for all estates of a process.
type SharedOptions struct {
	// Dir is where the coordinator's identity, the embedded server's streams and the embedded worker's journal are kept.
	// What lies below the directory scratch in it is removed with its run.
	Dir string
	// Seal seals the seed of the coordinator's key pair.
	Seal estate.Sealer
	// Name is what the NATS server is told of the connection.
	Name string
	// Connector says which NATS server is meant, and has the logs of the embedded worker.
	Connector *Connector
	// Slots is how many operations the embedded worker carries out at a time at most. Environ is its environment, and
	// Done that of worker.Options.
	Slots   int
	Environ environ.Variables
	Done    func(worker.Done)
}

// OpenShared connects, or starts the embedded default. The caller calls Close when no run is left.
func OpenShared(ctx context.Context, o SharedOptions) (_ *Shared, err error) {
	s := &Shared{packages: &sharedPackages{
		own: filepath.Join(o.Dir, "packages", "own"), scratch: filepath.Join(o.Dir, "scratch"), all: map[string]string{},
	}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	home := layout.HomeAt(o.Dir)
	name, pair, err := estate.CoordinatorAt(ctx, home, o.Seal, rand.Text)
	if err != nil {
		return s, fmt.Errorf("reading who the coordinator is: %w", err)
	}
	if pair, err = wire.RememberSecrets(pair); err != nil {
		return s, err
	}
	logLine := func(line string) { o.Connector.Tell(line + "\n") }
	if server := o.Connector.Server(nil); server.URL != "" {
		to := server.Options()
		to.Name, to.Provision, to.Log = o.Name, true, logLine
		if s.Conn, err = jet.Connect(ctx, to); err != nil {
			return s, fmt.Errorf("connecting to NATS: %w", err)
		}
	} else if err := s.embed(ctx, o, home, logLine); err != nil {
		return s, err
	}
	s.common = &estate.Common{Hub: hub.New(s.Conn, name), Pair: pair}
	return s, nil
}

// embed starts a NATS server and a worker in this process.
func (s *Shared) embed(ctx context.Context, o SharedOptions, home layout.Home, log func(string)) (err error) {
	if s.embedded, err = jet.Embed(home.Messages(), log); err != nil {
		return fmt.Errorf("starting the embedded NATS server: %w", err)
	}
	s.Conn, err = s.embedded.Connect(ctx, jet.Options{Name: o.Name, Provision: true, Workers: 1, Log: log})
	if err != nil {
		return fmt.Errorf("starting the embedded NATS server: %w", err)
	}
	reattach, err := o.Connector.Reattach()
	if err != nil {
		return fmt.Errorf("TF_REATTACH_PROVIDERS: %w", err)
	}
	s.Worker, err = hosting.New(hosting.Options{
		Transport: s.Conn, Pools: []string{"default"}, Slots: o.Slots, Version: o.Connector.Version,
		Dir: home.Worker(), Local: s.packages, Reattach: reattach,
		DisableTLS: o.Connector.Environ.Get("TF_DISABLE_PLUGIN_TLS") != "",
		Log:        o.Connector.Log, PluginLog: o.Connector.PluginLog, Environ: o.Environ, Done: o.Done,
	})
	if err != nil {
		return fmt.Errorf("starting the embedded worker: %w", err)
	}
	taking, drain := context.WithCancelCause(context.WithoutCancel(ctx))
	working, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	s.drain, s.leave, s.worked = drain, leave, make(chan error, 1)
	go func() { s.worked <- s.Worker.Worker.Run(taking, working) }() // Close waits for it
	return nil
}

// Hub is what the runs of all estates are carried out over.
func (s *Shared) Hub() *hub.Hub { return s.common.Hub }

// Close ends what was started. The embedded worker finishes what it holds.
func (s *Shared) Close() error {
	var errs []error
	if s.worked != nil {
		s.drain(errors.New("the process ends"))
		errs = append(errs, <-s.worked)
		s.leave(nil)
	}
	if s.Worker != nil {
		errs = append(errs, s.Worker.Close())
	}
	if s.Conn != nil {
		errs = append(errs, s.Conn.Close())
	}
	if s.embedded != nil {
		errs = append(errs, s.embedded.Close())
	}
	return errors.Join(errs...)
}

// Connect implements estate.Connector: it gives the estate its share of what is there.
func (s *Shared) Connect(_ context.Context, o estate.ConnectOptions) (estate.Connection, diag.List) {
	if s.embedded != nil {
		if err := s.packages.add(o.Packages); err != nil {
			return nil, diag.Errors("Failed to read the installed providers", err.Error()+".", nil)
		}
	}
	return share{s}, nil
}

// Elsewhere implements estate.Connector.
func (s *Shared) Elsewhere(*placement.Rules) bool { return s.embedded == nil }

// share is what one estate has of a shared connection.
type share struct{ *Shared }

// Transport implements estate.Connection.
func (s share) Transport() wire.Transport { return s.Conn }

// Embedded implements estate.Connection.
func (s share) Embedded() bool { return s.embedded != nil }

// Common implements estate.Connection.
func (s share) Common() *estate.Common { return s.common }

// Warnings implements estate.Connection.
func (s share) Warnings(ctx context.Context) []string {
	if s.embedded != nil {
		return nil
	}
	return s.warned.of(ctx, time.Now(), func(ctx context.Context) []string { return Warnings(ctx, s.Conn) })
}

// warnedFor is how long the warnings about a server are good: to find them takes a request for each of its streams.
const warnedFor = time.Minute

// warned has the warnings about a server, for all estates that use it.
type warned struct {
	mu   sync.Mutex // guards the fields below; not held while the server is asked
	text []string
	at   time.Time
}

// of returns the warnings, which ask finds.
func (w *warned) of(ctx context.Context, now time.Time, ask func(context.Context) []string) []string {
	w.mu.Lock()
	text, at := w.text, w.at
	w.mu.Unlock()
	if !at.IsZero() && now.Sub(at) < warnedFor {
		return text
	}
	text = ask(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text, w.at = text, now
	return text
}

// Close implements estate.Connection: what all share goes on.
func (s share) Close() diag.List { return nil }

// sharedPackages shows the embedded worker where the packages of all runs are. A run has them below its own directory,
// as links to where they stay, which is what is remembered; a package that came with a configuration is copied to a
// place where it stays.
type sharedPackages struct {
	own     string // where such copies are
	scratch string // what lies below it is removed with its run

	mu  sync.Mutex // guards all
	all map[string]string
}

// add makes the packages of a run known. They are found by what the run accepts as well as by their names: what came
// with the configuration of one run is not what another one means by the same name.
func (s *sharedPackages) add(installed Packages) error {
	for source, pkg := range installed {
		key := packageKey(source.String(), pkg)
		s.mu.Lock()
		known := s.all[key]
		s.mu.Unlock()
		if known != "" {
			continue
		}
		dir, err := filepath.EvalSymlinks(pkg.Dir)
		if err == nil && strings.HasPrefix(dir, s.scratch+string(filepath.Separator)) {
			dir, err = s.keep(dir)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", source.Display(), pkg.Version, err)
		}
		s.mu.Lock()
		s.all[key] = dir
		s.mu.Unlock()
	}
	return nil
}

// keep copies a package to a directory that is named by its content.
func (s *sharedPackages) keep(dir string) (string, error) {
	sum, err := dirhash.HashDir(dir, "", dirhash.Hash1)
	if err != nil {
		return "", err
	}
	kept := filepath.Join(s.own, strings.NewReplacer("/", "_", ":", "_").Replace(sum))
	if _, err := os.Stat(kept); err == nil {
		return kept, nil
	}
	if err := os.MkdirAll(s.own, 0o700); err != nil {
		return "", err
	}
	whole, err := os.MkdirTemp(s.own, ".new-*")
	if err != nil {
		return "", err
	}
	err = os.CopyFS(whole, os.DirFS(dir))
	if err == nil {
		err = os.Rename(whole, kept)
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(whole))
		if _, there := os.Stat(kept); there == nil {
			err = nil // another run was faster
		}
	}
	return kept, err
}

func packageKey(source string, p install.Package) string {
	return strings.Join(append([]string{source, p.Version, p.Unlocked}, p.Hashes...), "\x00")
}

// PackageDir implements packages.Local.
func (s *sharedPackages) PackageDir(p wire.Package) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, ok := s.all[packageKey(p.Source, install.Package{Version: p.Version, Unlocked: p.Unlocked, Hashes: p.Hashes})]
	return dir, ok
}
