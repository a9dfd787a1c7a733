package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/builtin"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
	"github.com/millipede-iac/millipede/worker"
	workerjournal "github.com/millipede-iac/millipede/worker/journal"
)

// estate is a configuration with a coordinator, a message server and a worker in this process. It is the coordinator
// command with the embedded default, but without a process of its own, so that it can be profiled.
type estate struct {
	b       *testing.B
	store   *bolt.Store
	session operation.Session
	refresh string // how much plans read; empty for everything
}

// newEstate starts everything on a configuration in the working directory, which is changed to a new one.
func newEstate(b *testing.B, files map[string]string) *estate {
	b.Helper()
	dir := b.TempDir()
	b.Chdir(dir)
	check(b, write(dir, files))
	log := func(line string) { b.Log(line) }

	embedded, err := jet.Embed(filepath.Join(dir, "nats"), log)
	check(b, err)
	b.Cleanup(func() { check(b, embedded.Close()) })
	conn, err := embedded.Connect(b.Context(), jet.Options{Name: "bench", Log: log})
	check(b, err)
	b.Cleanup(func() { check(b, conn.Close()) })
	startWorker(b, conn, filepath.Join(dir, "worker"))
	store, err := bolt.Open(filepath.Join(dir, "state.db"), journal.LockInfo{Who: "bench"}, 0)
	check(b, err)
	b.Cleanup(func() { check(b, store.Close()) })
	pair, err := nkeys.CreateCurveKeys()
	check(b, err)
	ring, err := wire.NewKeyring(conn, pair, rand.Reader)
	check(b, err)
	return &estate{b: b, store: store, session: operation.Session{
		Workspace: "default", EngineVersion: "1.12.6", Hub: hub.New(conn, "bench"), Keyring: ring, Store: store,
		Package:    func(p addr.Provider) wire.Package { return wire.Package{Source: p.String()} },
		WorkerWait: 10 * time.Second, Parallelism: 10, Embedded: true, Now: time.Now, NewID: rand.Text,
	}}
}

// startWorker starts a worker that the benchmark's end drains. It has no plugins, only the built-in provider.
func startWorker(b *testing.B, conn *jet.Conn, dir string) {
	check(b, os.MkdirAll(dir, 0o700))
	kept, _, err := workerjournal.Open(filepath.Join(dir, "journal"))
	check(b, err)
	pair, err := nkeys.CreateCurveKeys()
	check(b, err)
	ring, err := wire.NewKeyring(conn, pair, rand.Reader)
	check(b, err)
	w := worker.New(worker.Options{
		ID: "bench", Pools: []string{"default"}, Slots: 256, Version: "bench",
		Queue: conn, Claims: conn, Caller: conn, Parts: conn, Presence: conn, Blobs: conn, Keys: ring, Journal: kept,
		Providers: builtinOnly{builtin.New(builtin.Options{
			ReadState: func(context.Context, string, cty.Value, string) (map[string]cty.Value, diag.List) {
				return nil, diag.Errors("No shape reads another state", "", nil)
			},
			CheckConfig: func(string, cty.Value) diag.List { return nil }, NewID: rand.Text,
		})},
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Nonce: rand.Text, Rand: rand.Reader,
	})
	taking, drain := context.WithCancel(context.WithoutCancel(b.Context()))
	worked := make(chan error, 1)
	go func() { worked <- w.Run(taking, context.WithoutCancel(b.Context())) }() // the cleanup waits for it
	b.Cleanup(func() {
		drain()
		check(b, errors.Join(<-worked, kept.Close()))
	})
}

// builtinOnly implements worker.Providers and worker.Lease with the built-in provider.
type builtinOnly struct{ p provider.Provider }

func (o builtinOnly) Acquire(context.Context, wire.Provider, *wire.Variables, worker.Configure) (worker.Lease,
	diag.List) {
	return o, nil
}

func (o builtinOnly) Provider() provider.Provider { return o.p }
func (builtinOnly) Release()                      {}

// load loads the configuration and the state.
func (e *estate) load(o coordinator.Observer) *state.State {
	e.b.Helper()
	loader := config.NewLoader(config.OS{})
	tree, diags := loader.LoadTree(config.TreeOptions{Locator: beside{}})
	e.session.Tree, e.session.Observer = tree, o
	clean(e.b, diags)
	prior, err := e.store.Load(e.b.Context(), "default")
	check(e.b, err)
	return prior
}

// compare reads the first n objects; none of them has changed.
func (e *estate) compare(n int) {
	e.b.Helper()
	prior := e.load(nil)
	drifted, diags := e.session.Compare(e.b.Context(), prior, prior.Addrs()[:n])
	clean(e.b, diags)
	if len(drifted) > 0 {
		e.b.Fatalf("%d objects have drifted", len(drifted))
	}
}

// plan loads the configuration and plans it, as a command does.
func (e *estate) plan(o coordinator.Observer) *plan.Plan {
	e.b.Helper()
	planned, diags := e.session.Plan(e.b.Context(), e.load(o), plan.Options{Mode: plan.Normal,
		Refresh: e.refresh})
	clean(e.b, diags)
	return planned.Plan
}

// apply plans and applies, and returns the number of objects that were made.
func (e *estate) apply() int {
	e.b.Helper()
	applied, diags := e.session.Apply(e.b.Context(), operation.ApplyOptions{Plan: e.plan(nil), Command: "apply"})
	clean(e.b, diags)
	return applied.Counts.Added
}

// beside finds the modules of the shapes, which all lie beside the configuration that calls them.
type beside struct{}

func (beside) Locate(r config.ModuleRequest) (config.Installed, diag.List) {
	return config.Installed{Dir: "child"}, nil
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func clean(b *testing.B, diags diag.List) {
	b.Helper()
	if diags.HasErrors() {
		b.Fatal(diags.Err())
	}
}
