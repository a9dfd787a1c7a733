package operation_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/builtin"
	"github.com/millipede-iac/millipede/state"
	statemem "github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
	"github.com/millipede-iac/millipede/worker"
	"github.com/millipede-iac/millipede/worker/journal"
	"github.com/millipede-iac/millipede/worker/provision"
)

// estate is a coordinator's session, a worker and a transport in this process.
type estate struct {
	t       *testing.T
	cloud   *cloud
	system  *mem.System
	store   *statemem.Store
	session operation.Session
	// stop and leave end the current operation of the session; see interrupt.
	stop, leave context.CancelCauseFunc
	// faults, if it is not nil, returns the faults of the transport. It is set before the operation.
	faults func(mem.Op) mem.Fault
}

func newEstate(t *testing.T) *estate {
	t.Helper()
	e := &estate{t: t, cloud: newCloud(), store: statemem.New(statemem.Options{})}
	system := mem.New(mem.Options{Fault: func(op mem.Op) mem.Fault {
		if e.faults == nil {
			return mem.Fault{}
		}
		return e.faults(op)
	}})
	e.system = system
	startWorker(t, system.Connect("worker"), e.cloud, operation.DefaultPool)
	conn := system.Connect("coordinator")
	t.Cleanup(func() { e.check(conn.Close()) })
	ring, err := keyring(conn)
	e.check(err)
	e.session = operation.Session{
		Workspace: "default", EngineVersion: "1.12.6", Hub: hub.New(conn, "c"), Keyring: ring, Store: e.store,
		Package:    func(p addr.Provider) wire.Package { return wire.Package{Source: p.String()} },
		WorkerWait: 10 * time.Second, Parallelism: 10, Embedded: true, Cwd: "/", Now: time.Now, NewID: rand.Text,
	}
	e.again()
	return e
}

// again resets the session for another command, which has not been stopped.
func (e *estate) again() {
	e.session.Stop, e.stop, e.leave = operation.NewStop(e.t.Context())
}

// interrupt simulates the first Ctrl-C.
func (e *estate) interrupt() { e.stop(operation.ErrInterrupted) }

// abandon simulates the second Ctrl-C.
func (e *estate) abandon() { e.leave(operation.ErrInterrupted) }

func keyring(keys wire.Keys) (*wire.Keyring, error) {
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		return nil, err
	}
	return wire.NewKeyring(keys, pair, rand.Reader)
}

// startWorker starts a worker of a pool that the end of the test drains.
func startWorker(t *testing.T, conn *mem.Conn, c *cloud, pool string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	j, _, err := journal.Open(t.TempDir())
	check(err)
	ring, err := keyring(conn)
	check(err)
	w := worker.New(worker.Options{
		ID: "w1", Pools: []string{pool}, Slots: 32, Version: "test", Platform: "linux_amd64",
		Queue: conn, Claims: conn, Caller: conn, Parts: conn, Presence: conn, Blobs: conn, Keys: ring, Journal: j,
		Providers: &providers{cloud: c, builtin: builtin.New(builtin.Options{ReadState: noState,
			CheckConfig: anyConfig, NewID: rand.Text})},
		Provisioners: provision.Runner{}, Log: slog.New(slog.DiscardHandler), Now: time.Now, Nonce: rand.Text,
		Rand: rand.Reader,
	})
	taking, drain := context.WithCancel(context.Background())
	worked := make(chan error, 1)
	go func() { worked <- w.Run(taking, context.Background()) }() // the cleanup waits for it
	t.Cleanup(func() {
		drain()
		if err := errors.Join(<-worked, j.Close(), conn.Close()); err != nil {
			t.Error(err)
		}
	})
}

func noState(context.Context, string, cty.Value, string) (map[string]cty.Value, diag.List) {
	return nil, diag.Errors("no remote state", "There is none.", nil)
}

func anyConfig(string, cty.Value) diag.List { return nil }

// providers implements worker.Providers with providers in this process.
type providers struct {
	cloud   *cloud
	builtin provider.Provider
}

func (p *providers) Acquire(ctx context.Context, wp wire.Provider, _ *wire.Variables, configure worker.Configure) (
	worker.Lease, diag.List) {
	if wp.Package.Source == addr.BuiltinTerraform.String() {
		return lease{p.builtin}, nil
	}
	if configure != nil {
		if diags := configure(ctx, p.cloud); diags.HasErrors() {
			return nil, diags
		}
	}
	return lease{p.cloud}, nil
}

type lease struct{ p provider.Provider }

func (l lease) Provider() provider.Provider { return l.p }
func (lease) Release()                      {}

// beside finds every module in the directory "child".
type beside struct{}

func (beside) Locate(config.ModuleRequest) (config.Installed, diag.List) {
	return config.Installed{Dir: "child"}, nil
}

func (e *estate) check(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *estate) clean(diags diag.List) {
	e.t.Helper()
	if diags.HasErrors() {
		e.t.Fatal(diags.Err())
	}
}

// configure makes text the configuration; child is that of the module "child", if there is one.
func (e *estate) configure(text string, child ...string) {
	e.t.Helper()
	dir := e.t.TempDir()
	e.check(os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600))
	if len(child) > 0 {
		e.check(os.Mkdir(filepath.Join(dir, "child"), 0o700))
		e.check(os.WriteFile(filepath.Join(dir, "child", "main.tf"), []byte(child[0]), 0o600))
	}
	tree, diags := config.NewLoader(config.OS{Base: dir}).LoadTree(config.TreeOptions{Locator: beside{}})
	e.clean(diags)
	e.session.Tree = tree
}

func (e *estate) state() *state.State {
	e.t.Helper()
	st, err := e.store.Load(e.t.Context(), "default")
	e.check(err)
	return st
}

// tryPlan plans, and returns the errors.
func (e *estate) tryPlan(o plan.Options) (*plan.Plan, diag.List) {
	e.t.Helper()
	planned, diags := e.session.Plan(e.t.Context(), e.state(), o)
	if planned == nil {
		e.clean(diags)
	}
	return planned.Plan, diags
}

func (e *estate) plan(o plan.Options) *plan.Plan {
	e.t.Helper()
	p, diags := e.tryPlan(o)
	e.clean(diags)
	return p
}

// tryApply applies a plan, and returns the errors.
func (e *estate) tryApply(p *plan.Plan) (*operation.Applied, diag.List) {
	e.t.Helper()
	applied, diags := e.session.Apply(e.t.Context(), operation.ApplyOptions{Plan: p, Command: "apply"})
	if applied == nil {
		e.clean(diags)
	}
	return applied, diags
}

// apply plans and applies a configuration, and clears the record of the cloud's operations.
func (e *estate) apply(text string, child ...string) {
	e.t.Helper()
	e.configure(text, child...)
	_, diags := e.tryApply(e.plan(plan.Options{}))
	e.clean(diags)
	e.cloud.done()
}

// object returns the current object at an address; the test fails if there is none.
func (e *estate) object(address string) *state.Object {
	e.t.Helper()
	at, diags := addr.ParseInstance(address)
	e.clean(diags)
	i := e.state().Instance(at)
	if i == nil || i.Current == nil {
		e.t.Fatalf("the state does not have %s, but %v", address, existing(e.state()))
	}
	return i.Current
}

// attribute returns an attribute of the current object at an address.
func (e *estate) attribute(address, name string) any {
	e.t.Helper()
	var attrs map[string]any
	e.check(json.Unmarshal(e.object(address).Attrs, &attrs))
	return attrs[name]
}

// existing lists the managed objects of a state, sorted, with their unusual properties.
func existing(st *state.State) []string {
	var out []string
	for a, r := range st.Resources {
		if a.Resource.Mode != addr.Managed {
			continue
		}
		for k, i := range r.Instances {
			name := a.Instance(k).String()
			if i.Current != nil {
				switch i.Current.Status {
				case state.Tainted:
					out = append(out, name+" tainted")
				case state.InDoubt:
					out = append(out, name+" in doubt")
				default:
					out = append(out, name)
				}
			}
			for range i.Deposed {
				out = append(out, name+" deposed")
			}
		}
	}
	slices.Sort(out)
	return out
}

// changes lists the changes of a plan, sorted, without unchanged objects.
func changes(p *plan.Plan) []string {
	var out []string
	for _, c := range p.Changes {
		if c.Action != plan.NoOp {
			out = append(out, string(c.Action)+" "+c.Addr.String())
		}
	}
	slices.Sort(out)
	return out
}

func (e *estate) equal(what string, got, want []string) {
	e.t.Helper()
	if !slices.Equal(got, want) {
		e.t.Errorf("%s: got\n\t%s\nwant\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// says reports whether a diagnostic contains the text.
func says(diags diag.List, text string) bool {
	return slices.ContainsFunc(diags, func(d *diag.Diagnostic) bool {
		return strings.Contains(d.Summary, text) || strings.Contains(d.Detail, text)
	})
}
