package serving

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/cmd/hosting"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/environ"
	"github.com/millipede-iac/millipede/provider/cliconfig"
	"github.com/millipede-iac/millipede/service/engine"
	"github.com/millipede-iac/millipede/state/seal"
	"github.com/millipede-iac/millipede/state/snapshot"
)

// handedOn are the variables of the service's own environment that its runs see. Credentials are not among them: runs
// are of many people, and bring their own.
var handedOn = []string{
	"PATH", "TMPDIR", "TZ", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY",
	"NO_PROXY", "http_proxy",
	"https_proxy", "no_proxy",
}

// Forget leaves the process with the variables that runs see, too. The libraries of clouds ask the process where an
// operation gives them no credentials: they would use those of the service for whoever's run it is. Call it before
// Serve, where the process is the service's alone.
func Forget(own environ.Variables) error {
	os.Clearenv()
	for _, name := range handedOn {
		if v, ok := own.Lookup(name); ok {
			if err := os.Setenv(name, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// serviceEnviron is what every run sees, before its own variables.
func (s *serving) serviceEnviron() environ.Variables {
	var out environ.Variables
	for _, name := range handedOn {
		if v, ok := s.Environ.Lookup(name); ok {
			out = out.With(name + "=" + v)
		}
	}
	return out
}

// phaseEstate returns the estate of one phase of a run. Its runs are carried out with what all phases share.
func (s *serving) phaseEstate(p engine.Place, key *seal.Key, w *sharedConnection, cli *cliconfig.Config,
	stores *sealedStores) *estate.Estate {
	home := layout.At("", p.Data)
	return estate.New(estate.Options{
		Dir: p.Dir, Home: &home, Backend: p.Backend, Seeds: keyWrapper{key},
		Temp: os.TempDir(), Environ: p.Environ, Isolated: true, Brought: p.Brought, Version: s.Version,
		EngineVersion: s.EngineVersion,
		Platform:      hosting.Platform, Who: s.Who, PID: os.Getpid(), Now: time.Now, NewID: rand.Text,
		Stores:    s.instruments.measureStores(stores),
		Connector: phaseConnector{w, p.Stop.Stopping},
		Own:       hosting.Own, Reattached: s.Connector.Reattached, CLI: cli, Hashes: s.hashes, Services: s.Services,
		Memory: snapshot.NewMemory(),
		Stop:   p.Stop, Tell: p.Tell,
	})
}

// serviceCLI is the CLI configuration of runs: that of the service's user, with a directory in which the packages of
// providers stay from one run to the next. No lock file is needed to use what is in there, because nobody else writes
// to it.
func (s *serving) serviceCLI(data string) (*cliconfig.Config, error) {
	cli := *s.CLI
	if cli.CacheDir == "" {
		cli.CacheDir, cli.CacheMayBreakLockFile = filepath.Join(data, "packages", "cache"), true
	}
	return &cli, os.MkdirAll(cli.CacheDir, 0o700)
}

// keyWrapper seals the keys of stores.
type keyWrapper struct{ key *seal.Key }

// storeKey is what a sealed key is bound to.
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

	mu      sync.Mutex // guards what follows
	read    [2]time.Time
	current *tls.Certificate
}

// get returns the certificate as it is now. While the files are being replaced, it is the one of before.
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

// unless returns the error where there is no certificate to go on with.
func (p *certificatePair) unless(err error) error {
	if p.current != nil {
		return nil
	}
	return errors.Join(errors.New("the certificate cannot be read"), err)
}
