package serving

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/cmd/internal/hosting"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/reach"
	"github.com/millipede-iac/millipede/service/engine"
	"github.com/millipede-iac/millipede/state/seal"
)

// inherited are the variables of the service's environment that its runs inherit. They contain no credentials: runs
// belong to many people, and use the credentials of their workspaces.
var inherited = []string{
	"PATH", "TMPDIR", "TZ", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY",
	"NO_PROXY", "http_proxy",
	"https_proxy", "no_proxy",
}

// Visible returns the variables of the service's environment that are no secrets: those that runs inherit, and the one
// that package failpoint reads before the program begins.
func Visible() []string { return append(slices.Clone(inherited), "MILLIPEDE_FAILPOINTS") }

// Forget removes all environment variables of the process that runs do not inherit. If an operation has no credentials,
// cloud libraries read those of the process: without Forget, any run could use the credentials of the service. Call it
// before Serve, and only if the process runs nothing else.
func Forget(own environ.Variables) error {
	os.Clearenv()
	for _, name := range inherited {
		if v, ok := own.Lookup(name); ok {
			if err := os.Setenv(name, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// heritage returns the variables that every run inherits; the variables of the run are added to them.
func heritage(all environ.Variables) (out environ.Variables) {
	for _, name := range inherited {
		if v, ok := all.Lookup(name); ok {
			out = out.With(name + "=" + v)
		}
	}
	return out
}

// runEnviron is the environment of all runs in this process.
func (s *serving) runEnviron() environ.Variables {
	if s.temp == "" {
		return heritage(s.Environ)
	}
	return heritage(s.Environ).With("TMPDIR=" + s.temp)
}

// phaseOptions returns the options of the estate of one phase of a run, without what all phases share.
func phaseOptions(p engine.Place) estate.Options {
	home := layout.At("", p.Data)
	return estate.Options{
		Dir: p.Dir, Home: &home, Backend: p.Backend, Temp: os.TempDir(), Files: below(p.Root), Environ: p.Environ,
		Isolated: true, Brought: p.Brought, Platform: hosting.Platform, PID: os.Getpid(), Now: time.Now, NewID: rand.Text,
		Private: true, Own: hosting.Own, Memory: backend.NewMemory(), Stop: p.Stop, Tell: p.Tell,
	}
}

// phaseEstate returns the estate of one phase of a run. All phases share the connection w and the stores.
func (s *serving) phaseEstate(p engine.Place, key *seal.Key, w *sharedConnection, cli *cliconfig.Config,
	stores *sealedStores) *estate.Estate {
	o := phaseOptions(p)
	o.Version, o.EngineVersion, o.Who, o.Seeds = s.Version, s.EngineVersion, s.Who, keyWrapper{key}
	o.Stores, o.Connector = s.instruments.measureStores(stores), phaseConnector{w, p.Stop.Stopping}
	o.Reattached, o.CLI, o.Hashes, o.Services = s.Connector.Reattached, cli, s.hashes, s.Services
	return estate.New(o)
}

// below returns the files below a directory; no files without one.
func below(dir string) *reach.Files {
	if dir == "" {
		return reach.Below()
	}
	return reach.Below(dir)
}

// serviceCLI returns the CLI configuration of runs: that of the user who runs the service, with a directory that caches
// the packages of providers for later runs. Packages in the cache are used even if the lock file does not list them,
// because only the service writes to the cache.
func serviceCLI(of *cliconfig.Config, data string) (*cliconfig.Config, error) {
	cli := *of
	if cli.CacheDir == "" {
		cli.CacheDir, cli.CacheMayBreakLockFile = filepath.Join(data, "packages", "cache"), true
	}
	return &cli, os.MkdirAll(cli.CacheDir, 0o700)
}

// keyWrapper seals the keys of stores.
type keyWrapper struct{ key *seal.Key }

// storeKey is the additional data that authenticates a sealed key.
var storeKey = []byte("key of a store")

// Encrypts implements bolt.Wrapper.
func (keyWrapper) Encrypts() bool { return true }

// Seal implements bolt.Wrapper. The envelope is JSON, as that of configured encryption is.
func (w keyWrapper) Seal(_ context.Context, key []byte) ([]byte, error) {
	return w.key.Seal(storeKey, key), nil
}

// Open implements bolt.Wrapper.
func (w keyWrapper) Open(_ context.Context, wrapped []byte, _ func() error) (key []byte, stale bool, err error) {
	key, err = w.key.Open(storeKey, wrapped)
	return key, false, err
}

// certificatePair is a certificate in files that are read again when they change.
type certificatePair struct {
	cert, key string

	mu      sync.Mutex // guards the fields below
	read    [2]time.Time
	current *tls.Certificate
}

// get returns the current certificate. While the files are being replaced, it returns the previous certificate.
func (p *certificatePair) get() (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var changed [2]time.Time
	for i, name := range []string{p.cert, p.key} {
		info, err := os.Stat(name)
		if err != nil {
			return p.current, p.unless(err)
		}
		changed[i] = info.ModTime()
	}
	if p.current != nil && changed == p.read {
		return p.current, nil
	}
	pair, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		return p.current, p.unless(err)
	}
	p.current, p.read = &pair, changed
	return p.current, nil
}

// unless returns the error, or nil if the previous certificate can be used.
func (p *certificatePair) unless(err error) error {
	if p.current != nil {
		return nil
	}
	return errors.Join(errors.New("the certificate cannot be read"), err)
}
