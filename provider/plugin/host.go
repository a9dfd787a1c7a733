// Package plugin runs provider plugins as processes. It does not depend on the calls that are made.
//
// There is one process per package, directory, environment and configuration. It is started when it is first
// leased, and ended after it has been idle for a while. A process that has failed is not leased again. All started
// processes end with Host.Close, and on Linux also if the host's own process is killed.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/rpc"
)

// Options are the host's settings. The zero value is ready for use.
type Options struct {
	// IdleAfter is how long a process without a lease is kept; 0 is a minute. MostIdle is the maximum number of
	// such processes; beyond it the oldest are ended; 0 is 64.
	IdleAfter time.Duration
	MostIdle  int
	// StartTimeout is how long a process may take until it can be called; 0 is a minute.
	StartTimeout time.Duration
	// Log receives the log output of plugins, and events of the processes; nil for nothing. See LogFromEnvironment.
	Log hclog.Logger
	// Env is the environment of the processes; nil is an empty one.
	Env []string
	// DisableTLS makes connections without mutual TLS, for TF_DISABLE_PLUGIN_TLS.
	DisableTLS bool
}

// Package describes the program of a process or, with Reattach, a running process to connect to.
type Package struct {
	// Source is the provider's address, "host/namespace/type".
	Source string
	// Version is used only in messages; it may be empty.
	Version string
	// Executable is the plugin's file. If it is empty, the plugin is looked up in Dir, the unpacked package.
	Executable string
	Dir        string
	// Hash identifies the package. If it is empty, the executable's path, size and modification time do.
	Hash string
	// Env is added to the environment.
	Env []string
	// Environ, if not nil, replaces Options.Env. A process serves only one environment.
	Environ environ.Variables
	// WorkDir is the working directory of the process; empty for the host's own. A process serves only one
	// directory.
	WorkDir string
	// Reattach is a process that was started elsewhere; if set, only Source is used besides.
	Reattach *Reattach
}

// NewHost returns a host without processes. Close must be called.
func NewHost(o Options) *Host {
	if o.IdleAfter == 0 {
		o.IdleAfter = time.Minute
	}
	if o.MostIdle == 0 {
		o.MostIdle = 64
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = time.Minute
	}
	if o.Log == nil {
		o.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Off})
	}
	h := &Host{idleAfter: o.IdleAfter, mostIdle: o.MostIdle, pool: map[string]map[string]*member{},
		members: map[*member]bool{}, schemas: map[string]*rpc.SchemaCache{},
		sockets: sockets{temp: environ.Variables(o.Env).TempDir()}}
	h.launch = func(ctx context.Context, p Package, executable string, schemas *rpc.SchemaCache) (process, error) {
		if p.Reattach != nil {
			return connect(p, o)
		}
		dir, err := h.sockets.open()
		if err != nil {
			return nil, fmt.Errorf("making a directory for its socket: %w", err)
		}
		return start(ctx, p, executable, dir, o, schemas)
	}
	return h
}

// Host runs plugins. It is safe for concurrent use.
type Host struct {
	idleAfter time.Duration
	mostIdle  int
	// launch starts a process; tests replace it.
	launch  func(ctx context.Context, p Package, executable string, schemas *rpc.SchemaCache) (process, error)
	sockets sockets

	// mu guards the fields below, and the members' mutable fields. It is never held during a call to a process.
	mu     sync.Mutex
	closed bool
	// pool contains the members that may be leased, by the identity of their processes and by the digest of the
	// configuration.
	pool map[string]map[string]*member
	// members contains all members that have not ended, including those that may not be leased any more.
	members map[*member]bool
	schemas map[string]*rpc.SchemaCache // by identity of the package
	idling  []*member                   // those with a running timer, longest first
	// work counts starts, ends and timers. It is incremented only under mu while the host is not closed.
	work sync.WaitGroup
}

// Running is a process that the host has started, and that has not ended.
type Running struct {
	Source string // the provider's address
	PID    int
}

// Processes lists the processes that the host has started.
func (h *Host) Processes() (out []Running) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for m := range h.members {
		if s, ours := m.process.(*started); ours && s.alive() {
			out = append(out, Running{m.source, s.runner.pid()})
		}
	}
	return out
}

// Configure configures a newly started provider. Warnings are returned to the caller whose Acquire started the
// process; errors are returned to all callers that wait for it, and end it.
type Configure func(context.Context, provider.Provider) diag.List

// Acquire leases a process of the package with the configuration that has this digest. Concurrent callers with the
// same arguments get the same process; the first one's configure is called, once in the lifetime of the process.
//
// With an empty digest the process may be unconfigured or have any configuration, so only schemas, metadata,
// functions and the Validate and Upgrade families may be called. configure is not used then.
//
// There is only one instance of a process that was started elsewhere (Package.Reattach): acquiring it with another
// digest configures it again, which also replaces the configuration for existing leases. OpenTofu does the same.
//
// The lease must be released if, and only if, there are no errors. If the context ends, Acquire stops waiting, and
// the start is aborted if no one else waits for it.
func (h *Host) Acquire(ctx context.Context, p Package, configDigest string, configure Configure) (*Lease, diag.List) {
	identity, err := p.identity()
	if err != nil {
		return nil, cannotStart(p, err)
	}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, cannotStart(p, errors.New("the plugin host is closed"))
	}
	process := p.process(identity)
	m, started := h.find(process, configDigest, p.Reattach != nil), false
	if m == nil {
		m, started = h.begin(ctx, p, process, identity, configDigest, configure), true
	}
	h.hold(m)
	h.mu.Unlock()

	select {
	case <-m.ready:
	case <-ctx.Done():
		h.release(m)
		return nil, cannotStart(p, context.Cause(ctx))
	}
	if m.problems.HasErrors() {
		h.release(m)
		return nil, slices.Clone(m.problems)
	}
	var warnings diag.List
	if started {
		warnings = slices.Clone(m.problems)
	}
	return &Lease{host: h, member: m}, warnings
}

// Lease is the right to call a process. It is safe for concurrent use.
type Lease struct {
	host   *Host
	member *member
	once   sync.Once
}

// Provider returns the provider. It is valid until Release. Its Close has no effect: the host ends processes.
func (l *Lease) Provider() provider.Provider { return l.member.process.provider() }

// Release returns the lease. Further calls have no effect.
func (l *Lease) Release() { l.once.Do(func() { l.host.release(l.member) }) }

// Stop asks every process to end its calls soon. It returns when all have acknowledged, with their errors. A
// process that was stopped gets no new leases, since plugins do not recover from it; existing leases stay valid.
func (h *Host) Stop(ctx context.Context) error {
	h.mu.Lock()
	var running []process
	for m := range h.members {
		h.retire(m)
		if m.process != nil {
			running = append(running, m.process)
		}
	}
	h.mu.Unlock()
	errs := make([]error, len(running))
	var asked sync.WaitGroup
	for i, p := range running {
		asked.Go(func() { errs[i] = p.provider().Stop(ctx) })
	}
	asked.Wait()
	return errors.Join(errs...)
}

// Close ends all processes that the host started and waits until they have exited. Calls in progress are lost.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	for m := range h.members {
		h.retire(m)
		h.stopIdleTimer(m)
		m.abandon(errors.New("the plugin host is closed"))
		if m.process != nil {
			h.end(m)
		}
	}
	h.mu.Unlock()
	h.work.Wait()
	h.sockets.close()
}

// identity returns the identity of the package, such that equal identities mean equal programs. It is determined for
// each lease, so it looks at files only if the package has no hash.
func (p Package) identity() (string, error) {
	switch r := p.Reattach; {
	case r != nil:
		return fmt.Sprintf("attached %s %d %s %s", p.Source, r.ProtocolVersion, r.Network, r.Address), nil
	case p.Hash != "":
		return fmt.Sprintf("hash %s %s", p.Source, p.Hash), nil
	}
	executable, err := p.executable()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(executable)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("file %s %s %d %d", p.Source, executable, info.Size(), info.ModTime().UnixNano()), nil
}

// executable returns the file to execute; an empty name for a process that was started elsewhere.
func (p Package) executable() (file string, err error) {
	if p.Reattach != nil {
		return "", nil
	}
	if file = p.Executable; file == "" {
		if file, err = findExecutable(p.Dir, p.Source); err != nil {
			return "", err
		}
	}
	if !filepath.IsAbs(file) { // it may be started from another directory
		return "", fmt.Errorf("the file %s of the plugin is not named absolutely", file)
	}
	return file, nil
}

// process returns the identity of the package's processes, such that equal identities mean interchangeable
// processes. identity is that of the package.
func (p Package) process(identity string) string {
	if p.Reattach != nil {
		return identity
	}
	own := ""
	if p.Environ != nil {
		own = p.Environ.Digest()
	}
	return fmt.Sprintf("%s %q %q %s", identity, p.WorkDir, own, environ.Variables(p.Env).Digest())
}

// findExecutable returns the first file in the package whose name is terraform-provider-TYPE, optionally followed
// by a suffix that begins with an underscore or a dot.
func findExecutable(dir, source string) (string, error) {
	name := "terraform-provider-" + source[strings.LastIndex(source, "/")+1:]
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("reading the package: %w", err)
	}
	for _, f := range files {
		rest, ok := strings.CutPrefix(f.Name(), name)
		if ok && !f.IsDir() && (rest == "" || rest[0] == '_' || rest[0] == '.') {
			return filepath.Join(dir, f.Name()), nil
		}
	}
	return "", fmt.Errorf("the package in %s holds no file named %s", dir, name)
}

// cannotStart returns the problem of a provider that cannot be leased.
func cannotStart(p Package, err error) diag.List {
	name := p.Source
	if p.Version != "" {
		name += " " + p.Version
	}
	return diag.Errors(fmt.Sprintf("Failed to instantiate provider %q", p.Source),
		fmt.Sprintf("Provider %s cannot be used: %s", name, err), nil)
}
