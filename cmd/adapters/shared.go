package serving

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

	"github.com/millipede-iac/millipede/cmd/adapters"
	"github.com/millipede-iac/millipede/cmd/hosting"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/install"
	"github.com/millipede-iac/millipede/state/seal"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// works is what all runs of the service are carried out with: one connection and one hub, in the name of one
// coordinator, and, without a NATS server elsewhere, one embedded server and one embedded worker. It implements
// estate.Connector. What an estate gets of it lasts as long as the service does.
type works struct {
	conn     *jet.Conn
	embedded *jet.Embedded // nil where the NATS server is elsewhere
	hosted   *hosting.Hosted
	joint    *estate.Joint
	packages *sharedPackages

	drain, leave context.CancelCauseFunc
	worked       chan error
}

// openWorks connects, or starts the embedded default in the directory. slots is how many operations the embedded worker
// carries out at a time at most. The caller calls close when no run is left.
func (s *serving) openWorks(ctx context.Context, dir string, key *seal.Key, slots int) (_ *works, err error) {
	w := &works{packages: &sharedPackages{
		own: filepath.Join(dir, "packages", "own"), scratch: filepath.Join(dir, "scratch"), all: map[string]string{},
	}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	home := layout.HomeAt(dir)
	name, pair, err := estate.CoordinatorAt(ctx, home, keyWrapper{key}, rand.Text)
	if err != nil {
		return w, fmt.Errorf("reading who the coordinator is: %w", err)
	}
	logLine := func(line string) { s.Tell(line + "\n") }
	if server := s.Connector.Server(nil); server.URL != "" {
		o := server.Options()
		o.Name, o.Provision, o.Log = "millipede-service", true, logLine
		if w.conn, err = jet.Connect(ctx, o); err != nil {
			return w, fmt.Errorf("connecting to NATS: %w", err)
		}
	} else if err := s.embed(ctx, w, home, slots, logLine); err != nil {
		return w, err
	}
	w.joint = &estate.Joint{Hub: hub.New(w.conn, name), Pair: pair}
	return w, nil
}

// embed starts a NATS server and a worker in this process.
func (s *serving) embed(ctx context.Context, w *works, home layout.Home, slots int, log func(string)) (err error) {
	if w.embedded, err = jet.Embed(home.Messages(), log); err != nil {
		return fmt.Errorf("starting the embedded NATS server: %w", err)
	}
	w.conn, err = w.embedded.Connect(ctx, jet.Options{Name: "millipede-service", Provision: true, Workers: 1, Log: log})
	if err != nil {
		return fmt.Errorf("starting the embedded NATS server: %w", err)
	}
	reattach, err := s.Connector.Reattach()
	if err != nil {
		return fmt.Errorf("TF_REATTACH_PROVIDERS: %w", err)
	}
	w.hosted, err = hosting.New(hosting.Options{
		Transport: w.conn, Pools: []string{"default"}, Slots: slots, Version: s.Version,
		Dir: home.Worker(), Local: w.packages, Reattach: reattach,
		DisableTLS: s.Environ.Get("TF_DISABLE_PLUGIN_TLS") != "",
		Log:        s.Connector.Log, PluginLog: s.Connector.PluginLog, Environ: s.serviceEnviron(),
		Done: s.numbers.done(),
	})
	if err != nil {
		return fmt.Errorf("starting the embedded worker: %w", err)
	}
	taking, drain := context.WithCancelCause(context.WithoutCancel(ctx))
	working, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	w.drain, w.leave, w.worked = drain, leave, make(chan error, 1)
	go func() { w.worked <- w.hosted.Worker.Run(taking, working) }() // close waits for it
	return nil
}

// close ends what was started. The embedded worker finishes what it holds.
func (w *works) close() error {
	var errs []error
	if w.worked != nil {
		w.drain(errors.New("the service ends"))
		errs = append(errs, <-w.worked)
		w.leave(nil)
	}
	if w.hosted != nil {
		errs = append(errs, w.hosted.Close())
	}
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
	}
	if w.embedded != nil {
		errs = append(errs, w.embedded.Close())
	}
	return errors.Join(errs...)
}

// awayFor is how long a phase waits for a NATS server that is away before it goes on, and fails.
const awayFor = time.Minute

// phaseWorks are the works for one phase of a run.
type phaseWorks struct {
	*works
	stopping context.Context //nolint:containedctx // of the phase; that of Connect ends when it is left
}

// Connect implements estate.Connector. A server that is started again is waited for.
func (p phaseWorks) Connect(ctx context.Context, o estate.ConnectOptions) (estate.Connection, diag.List) {
	p.awaitServer(p.stopping)
	return p.works.Connect(ctx, o)
}

// Connect implements estate.Connector: it gives the estate its share of what is there.
func (w *works) Connect(_ context.Context, o estate.ConnectOptions) (estate.Connection, diag.List) {
	if w.embedded != nil {
		if err := w.packages.add(adapters.Packages(o.Packages)); err != nil {
			return nil, diag.Errors("Failed to read the installed providers", err.Error()+".", nil)
		}
	}
	return share{w}, nil
}

// awaitServer returns when the server is connected, ctx ends, or the server is away for too long.
func (w *works) awaitServer(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, awayFor)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for w.conn.Connected() == 0 {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// Elsewhere implements estate.Connector.
func (w *works) Elsewhere(*placement.Rules) bool { return w.embedded == nil }

// share is what one estate has of the works.
type share struct{ *works }

// Transport implements estate.Connection.
func (s share) Transport() wire.Transport { return s.conn }

// Embedded implements estate.Connection.
func (s share) Embedded() bool { return s.embedded != nil }

// Joint implements estate.Connection.
func (s share) Joint() *estate.Joint { return s.joint }

// Warnings implements estate.Connection.
func (s share) Warnings(ctx context.Context) []string {
	if s.embedded != nil {
		return nil
	}
	return adapters.Warnings(ctx, s.conn)
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
func (s *sharedPackages) add(installed adapters.Packages) error {
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
