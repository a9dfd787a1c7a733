package adapters

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nats-io/nkeys"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/millipede-iac/millipede/cmd/internal/hosting"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/install/providers"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
	"github.com/millipede-iac/millipede/worker"
)

// Shared is one connection for all estates of a process, with one hub and the identity of one coordinator. If no NATS
// server is named, it has an embedded server and an embedded worker. It implements estate.Connector; the connections
// that it returns are valid until Close. Safe for concurrent use.
type Shared struct {
	Conn *jet.Conn
	// Worker is the embedded worker; nil if the NATS server is remote.
	Worker *hosting.Hosted

	embedded *jet.Embedded // nil if the NATS server is not in this process
	common   *estate.Common
	packages *sharedPackages
	// announce tells the embedded worker where the packages of a run are; nil if workers are remote.
	announce func(Packages) error

	drain, leave context.CancelCauseFunc
	worked       chan error
}

// SharedOptions are the options of OpenShared.
type SharedOptions struct {
	// Dir has the identity of the coordinator, the streams of the embedded server and the journal of the embedded
	// worker. Each directory below Dir/scratch is removed with its run.
	Dir string
	// Seal encrypts the seed of the coordinator's key pair.
	Seal estate.Sealer
	// Name is the name of the connection at the NATS server.
	Name string
	// Connector names the NATS server, and has the logs of the embedded worker.
	Connector *Connector
	// Slots is the maximum number of operations that the embedded worker carries out at a time. Environ is the
	// environment of the worker, and Done that of worker.Options.
	Slots   int
	Environ environ.Variables
	Done    func(worker.Done)
	// Serves says that the embedded server has a worker in another process, so that none is started here.
	Serves bool
}

// JoinOptions are the options of Join.
type JoinOptions struct {
	// Name and Seed are the name of the coordinator, and the seed of its key pair.
	Name string
	Seed []byte
	// Server is the NATS server. If it has no URL, Dial connects to the embedded server of another process, Trouble
	// returns why that cannot store messages at the moment, and Announce tells the embedded worker where the packages
	// of a run are.
	Server   jet.Options
	Dial     func() (net.Conn, error)
	Trouble  func() error
	Announce func(Packages) error
}

// Join connects to the NATS server that another process of the service has opened, or connects to. The caller calls
// Close when no run uses the connection any more.
func Join(ctx context.Context, o JoinOptions) (*Shared, error) {
	pair, err := nkeys.FromCurveSeed(o.Seed)
	if err == nil {
		pair, err = wire.RememberSecrets(pair)
	}
	if err != nil {
		return nil, fmt.Errorf("reading who the coordinator is: %w", err)
	}
	s := &Shared{}
	o.Server.Provision = true
	if o.Server.URL != "" {
		s.Conn, err = jet.Connect(ctx, o.Server)
	} else {
		o.Server.Workers = 1
		s.Conn, err = jet.Join(ctx, o.Dial, o.Trouble, o.Server)
		s.announce = o.Announce
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	s.common = &estate.Common{Hub: hub.New(s.Conn, o.Name), Pair: pair}
	return s, nil
}

// OpenShared connects to the NATS server, or starts the embedded server and worker. The caller calls Close when no run
// uses the connection any more.
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
	s.announce = s.packages.add
	if o.Serves {
		s.Conn, err = s.embedded.Connect(ctx, jet.Options{Name: o.Name, Provision: true, Workers: 1, Log: log})
		if err != nil {
			return fmt.Errorf("starting the embedded NATS server: %w", err)
		}
		return nil
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

// Warnings returns warnings about the NATS server for its operators; none about the embedded one.
func (s *Shared) Warnings(ctx context.Context) []string {
	if s.embedded != nil {
		return nil
	}
	return Warnings(ctx, s.Conn)
}

// Hub returns the hub that all runs share.
func (s *Shared) Hub() *hub.Hub { return s.common.Hub }

// Close ends everything that OpenShared started. The embedded worker finishes its tasks.
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

// Connect implements estate.Connector: it returns the shared connection.
func (s *Shared) Connect(_ context.Context, o estate.ConnectOptions) (estate.Connection, diag.List) {
	if s.announce != nil {
		if err := s.announce(o.Packages); err != nil {
			return nil, diag.Errors("Failed to read the installed providers", err.Error()+".", nil)
		}
	}
	return share{s}, nil
}

// Elsewhere implements estate.Connector.
func (s *Shared) Elsewhere(*placement.Rules) bool { return s.announce == nil }

// Dial connects to the embedded server, for another process. The caller closes the connection.
func (s *Shared) Dial() (net.Conn, error) { return s.embedded.InProcessConn() }

// Embedded reports whether the NATS server and a worker are in this process.
func (s *Shared) Embedded() bool { return s.embedded != nil }

// Trouble returns why the embedded server cannot store messages at the moment; nil if it can, or if there is none.
func (s *Shared) Trouble() error {
	if s.embedded == nil {
		return nil
	}
	return s.embedded.Trouble()
}

// Announce tells the embedded worker where the packages of a run of another process are.
func (s *Shared) Announce(all Packages) error { return s.packages.add(all) }

// PackageDir returns the directory of a package of a run, for a worker in another process.
func (s *Shared) PackageDir(p wire.Package) (string, bool) { return s.packages.PackageDir(p) }

// Seed returns the seed of the coordinator's key pair.
func (s *Shared) Seed() ([]byte, error) { return s.common.Pair.Seed() }

// share is the shared connection, as one estate uses it.
type share struct{ *Shared }

// Transport implements estate.Connection.
func (s share) Transport() wire.Transport { return s.Conn }

// Embedded implements estate.Connection.
func (s share) Embedded() bool { return s.announce != nil }

// Common implements estate.Connection.
func (s share) Common() *estate.Common { return s.common }

// Warnings implements estate.Connection. The process tells its operator about the server, once. The people whose runs
// it executes cannot change the server.
func (s share) Warnings(context.Context) []string { return nil }

// Close implements estate.Connection. The shared connection stays open for other estates.
func (s share) Close() diag.List { return nil }

// sharedPackages finds the directories of the packages of all runs, for the embedded worker. The directory of a run
// contains links to packages in a cache, and sharedPackages remembers the targets of the links. A package that is part
// of an uploaded configuration is removed with its run; therefore it is copied to a directory that remains.
type sharedPackages struct {
	own     string // has such copies
	scratch string // each directory below it is removed with its run

	mu    sync.Mutex // guards the fields below
	all   map[string]string
	order []string // the keys, the oldest first
	size  int      // of keys and directories, in bytes
}

// maxPackages bounds what sharedPackages remembers, in bytes: thousands of packages. The oldest are forgotten; whoever
// uses one of them again announces it again.
const maxPackages = 16 << 20

// remember records where a package is.
func (s *sharedPackages) remember(key, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.all[key]; known {
		return
	}
	s.all[key] = dir
	s.order = append(s.order, key)
	s.size += len(key) + len(dir)
	for s.size > maxPackages && len(s.order) > 1 {
		oldest := s.order[0]
		s.size -= len(oldest) + len(s.all[oldest])
		s.order = s.order[1:]
		delete(s.all, oldest)
	}
}

// add registers the packages of a run. The key of a package has its name, and the checksums that the run accepts:
// packages with the same name that were uploaded with different configurations may differ.
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
		s.remember(key, dir)
	}
	return nil
}

// keep copies a package to a directory whose name is made from the content of the package.
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
			err = nil // another run has made the same copy
		}
	}
	return kept, err
}

func packageKey(source string, p providers.Package) string {
	return strings.Join(append([]string{source, p.Version, p.Unlocked}, p.Hashes...), "\x00")
}

// PackageDir implements packages.Local.
func (s *sharedPackages) PackageDir(p wire.Package) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, ok := s.all[packageKey(p.Source, providers.Package{Version: p.Version, Unlocked: p.Unlocked, Hashes: p.Hashes})]
	return dir, ok
}
