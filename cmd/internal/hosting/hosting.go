// Package hosting assembles a worker: its journal, its package cache, the plugin host, the built-in provider.
//
// The worker command and the coordinator's embedded worker are both made here. It parses no flags.
package hosting

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nkeys"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/cmd/internal/build"
	"github.com/millipede-iac/millipede/cmd/internal/metrics"
	"github.com/millipede-iac/millipede/cmd/internal/natsconn"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/builtin"
	"github.com/millipede-iac/millipede/provider/plugin"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker"
	"github.com/millipede-iac/millipede/worker/journal"
	"github.com/millipede-iac/millipede/worker/packages"
	"github.com/millipede-iac/millipede/worker/provision"
)

// warmFor is how long a separate worker keeps a plugin that nobody uses, so that it still runs when a plan has been
// approved.
const warmFor = 10 * time.Minute

// Platform is the platform of this process, as os_arch.
const Platform = runtime.GOOS + "_" + runtime.GOARCH

// Transport has the methods of a connection that a worker needs; *jet.Conn implements it.
type Transport interface {
	wire.Transport
	wire.Keys
}

// Options are the options of a worker.
type Options struct {
	Transport Transport
	Pools     []string
	Slots     int
	Version   string
	// Dir has the journal, the name and the package cache of the worker, and belongs to this worker alone. CacheDir, if
	// set, is the directory of the packages instead; several workers may share it.
	Dir, CacheDir string
	// Local finds packages that need not be transferred; nil for none.
	Local packages.Local
	// Reattach has the providers that already run.
	Reattach map[addr.Provider]*plugin.Reattach
	// DisableTLS speaks to plugins without mutual TLS (TF_DISABLE_PLUGIN_TLS).
	DisableTLS bool
	// KeyTimeout is that of worker.Options.
	KeyTimeout time.Duration
	Log        *slog.Logger
	PluginLog  hclog.Logger
	// User is the nkey with which the process connects to NATS, and which signs the worker's public key; nil for none.
	User nkeys.KeyPair
	// Environ is the environment of the process. Plugins and provisioners get it without the variables for the
	// process's connection to NATS. Connects says that these include the variables of all NATS programs.
	Environ  []string
	Connects bool
	// OwnEnvironment refuses operations that have variables for plugins and provisioners.
	OwnEnvironment bool
	// Done is that of worker.Options.
	Done func(worker.Done)
}

// Hosted is a worker with the parts that it owns.
type Hosted struct {
	Worker  *worker.Worker
	ID      string
	journal *journal.Journal
	host    *plugin.Host
}

// New makes a worker. Call Close after its Run.
func New(o Options) (*Hosted, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the worker's directory: %w", err)
	}
	id, err := identity(o.Dir)
	if err != nil {
		return nil, err
	}
	j, cut, err := journal.Open(filepath.Join(o.Dir, "journal"))
	if err != nil {
		return nil, err
	}
	if cut > 0 {
		o.Log.Warn("the end of the worker's journal was damaged and has been cut off", "bytes", cut)
	}
	ring, err := keyring(o.Transport)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	var who string
	var proof []byte
	if o.User != nil {
		if who, proof, err = wire.Prove(o.User, id, ring.PublicKey()); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	cacheDir := o.CacheDir
	if cacheDir == "" {
		cacheDir = filepath.Join(o.Dir, "packages")
	}
	own := natsconn.Strip(o.Environ, o.Connects)
	var idle time.Duration
	if o.Connects {
		idle = warmFor
	}
	host := plugin.NewHost(plugin.Options{
		IdleAfter: idle,
		Log:       o.PluginLog, DisableTLS: o.DisableTLS,
		Env: append(slices.Clone(own), "MILLIPEDE_WORKER="+id, "MILLIPEDE_POOL="+strings.Join(o.Pools, ",")),
	})
	hostname, _ := os.Hostname() // for people; a machine without a name is fine
	w := worker.New(worker.Options{
		ID: id, Pools: o.Pools, Slots: o.Slots, Version: o.Version, Platform: Platform, Host: hostname,
		EngineVersion: build.EngineVersion, Identity: who, Proof: proof,
		Queue: o.Transport, Claims: o.Transport, Caller: o.Transport, Parts: o.Transport, Presence: o.Transport,
		Blobs: o.Transport, Keys: ring,
		Journal: j,
		Providers: &providers{
			cache: packages.New(cacheDir, Platform, o.Local, o.Transport), host: host, reattach: o.Reattach,
			environ: own, id: []string{"MILLIPEDE_WORKER=" + id, "MILLIPEDE_POOL=" + strings.Join(o.Pools, ",")},
			builtin: builtin.New(builtin.Options{ReadState: refuse, CheckConfig: anyBackend, NewID: uuid.NewString}),
		},
		Provisioners: provision.Runner{Environment: own}, OwnEnvironment: o.OwnEnvironment,
		KeyTimeout: o.KeyTimeout, Done: o.Done, Log: o.Log, Now: time.Now, Nonce: uuid.NewString, Rand: rand.Reader,
	})
	return &Hosted{Worker: w, ID: id, journal: j, host: host}, nil
}

// Plugins lists the processes of providers, with their memory use if the system reports it.
func (h *Hosted) Plugins() (out []metrics.Plugin) {
	for _, p := range h.host.Processes() {
		out = append(out, metrics.Plugin{Source: p.Source, Memory: residentMemory(p.PID)})
	}
	return out
}

// residentMemory returns the memory use of a process, in bytes; 0 if the system does not report it. Only Linux does.
func residentMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}

// Measure adds the worker to the metrics of its process.
func (h *Hosted) Measure(m *metrics.Set, slots int) {
	m.Worker(func() metrics.Load { return metrics.Load{Slots: slots, Running: h.Worker.Load()} }, h.Plugins)
}

// Close ends the plugins and closes the journal.
func (h *Hosted) Close() error {
	h.host.Close()
	return h.journal.Close()
}

// identity returns the name of the worker, which stays the same as long as its directory exists.
func identity(dir string) (string, error) {
	name := filepath.Join(dir, "id")
	text, err := os.ReadFile(name)
	if err == nil && len(strings.TrimSpace(string(text))) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	id := "w-" + uuid.NewString()[:8]
	return id, wholefile.Write(name, wholefile.Private, wholefile.Bytes([]byte(id+"\n")))
}

func keyring(keys wire.Keys) (*wire.Keyring, error) {
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		return nil, fmt.Errorf("making the worker's key pair: %w", err)
	}
	if pair, err = wire.RememberSecrets(pair); err != nil {
		return nil, err
	}
	return wire.NewKeyring(keys, pair, rand.Reader)
}

// providers implements worker.Providers.
type providers struct {
	cache    *packages.Cache
	host     *plugin.Host
	reattach map[addr.Provider]*plugin.Reattach
	builtin  provider.Provider
	environ  environ.Variables // the worker's own
	id       []string          // variables that tell plugins about the worker
}

// in returns the environment of a plugin; nil means that of the host.
func (p *providers) in(env *wire.Variables) environ.Variables {
	switch {
	case env == nil:
		return nil
	case env.Whole:
		return environ.Variables(env.Entries).With(p.id...)
	default:
		return p.environ.With(env.Entries...).With(p.id...)
	}
}

// Acquire implements worker.Providers.
func (p *providers) Acquire(ctx context.Context, wp wire.Provider, env *wire.Variables, configure worker.Configure) (
	worker.Lease, diag.List) {
	source, diags := addr.ParseProviderSource(wp.Package.Source)
	if diags.HasErrors() {
		return nil, diags
	}
	if source == addr.BuiltinTerraform {
		return inProcess{p.builtin}, nil
	}
	pkg := plugin.Package{Source: wp.Package.Source, Version: wp.Package.Version, Hash: wp.Package.Key(),
		WorkDir: present(wp.Dir), Environ: p.in(env)}
	if r := p.reattach[source]; r != nil {
		pkg.Reattach = r
	} else {
		dir, diags := p.cache.Find(ctx, wp.Package)
		if diags.HasErrors() {
			return nil, diags
		}
		pkg.Dir = dir
	}
	lease, diags := p.host.Acquire(ctx, pkg, wp.Digest, plugin.Configure(configure))
	if diags.HasErrors() {
		return nil, diags
	}
	return lease, diags
}

// present returns the coordinator's working directory if this machine has it, or an empty string; then plugins run in
// the working directory of the worker.
func present(dir string) string {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// inProcess is the lease of a provider in this process.
type inProcess struct{ p provider.Provider }

func (l inProcess) Provider() provider.Provider { return l.p }
func (inProcess) Release()                      {}

// refuse is used in workers, which do not answer the tasks that Own answers in the coordinator's process.
func refuse(_ context.Context, backend string, _ cty.Value, _ string) (map[string]cty.Value, diag.List) {
	return nil, diag.Errors("Remote state cannot be read here", fmt.Sprintf("A worker was asked to read the %s "+
		"backend, which is the coordinator's. This is a bug in Millipede.", backend), nil)
}

// anyBackend leaves the check to Own.
func anyBackend(string, cty.Value) diag.List { return nil }
