package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/millipede-iac/millipede/bounds"
	"github.com/millipede-iac/millipede/cmd/hosting"
	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/wire"
)

// engine is a session with all that was opened for it. Close it before the state.
type engine struct {
	*operation.Session
	transport *transport
	providers *providers
	// stop gives the telling of interrupts back.
	stop func()
}

// engineOptions say what session to open.
type engineOptions struct {
	tree   *config.Tree
	loader *config.Loader
	inputs map[string]values.Input
	prior  *state.State
	store  journal.Store // nil for operations that touch no state
	// home is where the embedded server, its worker and the coordinator's identity are kept: that of the store, when this
	// process has it to itself. nil: what the engine needs is in a temporary directory and goes with it.
	home        *layout.Home
	observer    coordinator.Observer
	events      func(wire.Event)  // live events of workers; may be nil
	note        func(text string) // tells people something meanwhile; nil for on standard error
	parallelism placement.Parallelism
	// anyVersion takes the installed providers whatever versions the configuration asks for.
	anyVersion bool
}

// openEngine selects the providers, connects, and makes the session.
func (a *app) openEngine(ctx context.Context, o engineOptions) (*engine, diag.List) {
	providers, diags := a.selectProviders(o.tree, o.prior, o.anyVersion)
	if diags.HasErrors() {
		return nil, diags
	}
	rules, more := readRules(o.loader)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return nil, diags
	}
	depth, more := a.templateDepth()
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	if a.interrupts.Asked() {
		return nil, diags.Append(diag.New(diag.Error, "Operation interrupted", "Nothing was begun.", nil))
	}
	t, more := a.connect(ctx, a.server(rules), o.home, providers.packages, providers.reattach)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return nil, diags
	}
	e := &engine{transport: t, providers: providers}
	if t.embedded == nil {
		if more := providers.share(ctx, t.conn); more.HasErrors() {
			return nil, diags.Append(more, t.close())
		}
	}
	name, pair, err := a.identity(ctx, o.home)
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to read the coordinator's identity", err.Error()+".", nil), t.close())
	}
	ring, err := wire.NewKeyring(t.conn, pair, rand.Reader)
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to read the coordinator's identity", err.Error()+".", nil), t.close())
	}
	if o.store != nil && o.home != nil { // whoever reads decides nothing
		orphans := &coordinator.Orphans{Store: o.store, Claims: t.conn, Now: time.Now, NewID: newID}
		t.conn.OnOrphan(orphans.Decide)
	}
	note := o.note
	if note == nil {
		note = a.tell
	}
	tellDurability(ctx, t, note)
	e.stop = a.interrupts.say(note)
	e.Session = &operation.Session{
		Tree: o.tree, Inputs: o.inputs, Workspace: a.workspace(), EngineVersion: engineVersion,
		Transport: t.conn, Coordinator: name, Keyring: ring, Store: o.store,
		Package: providers.wirePackage, Selections: providers.selections(),
		WorkerWait: 10 * time.Second, Parallelism: o.parallelism, Rules: rules, Embedded: t.embedded != nil,
		Dir: a.dir, Cwd: a.cwd, Env: a.environ, Observer: o.observer, Events: o.events, Own: hosting.Own(a.readRemoteState, a.checkBackend), Stop: a.interrupts.Stop, Now: time.Now, NewID: newID,
		TemplateDepth: depth,
	}
	return e, diags
}

// templateDepth is how many templates may be nested in each other, as TF_TEMPLATE_RECURSION_DEPTH says; 0 when it does not.
func (a *app) templateDepth() (int, diag.List) {
	text := a.getenv("TF_TEMPLATE_RECURSION_DEPTH")
	if text == "" {
		return 0, nil
	}
	depth, err := strconv.Atoi(text)
	if err != nil || depth < 1 {
		return 0, diag.Errors("Invalid TF_TEMPLATE_RECURSION_DEPTH",
			fmt.Sprintf("The environment variable says how many templates may be nested in each other: %q is no whole number from 1 on.", text), nil)
	}
	return depth, nil
}

// tellDurability notes when the NATS server may lose what it has acknowledged. That is no diagnostic: a configuration has the
// same ones wherever its runs are carried out.
func tellDurability(ctx context.Context, t *transport, note func(string)) {
	if t.embedded != nil {
		return
	}
	d, err := t.conn.Durability(ctx)
	if err != nil {
		note(fmt.Sprintf("It cannot be told how safe the NATS server's streams are: %s.\n\n", err))
		return
	}
	for _, w := range d.Warnings() {
		note(w + "\n\n")
	}
}

// close ends the connection and the embedded worker.
func (e *engine) close() diag.List {
	e.stop()
	return e.transport.close()
}

// selections are the packages as a plan remembers them.
func (p *providers) selections() []plan.ProviderSelection {
	var out []plan.ProviderSelection
	for source, pkg := range p.packages {
		out = append(out, plan.ProviderSelection{Source: source, Version: pkg.Version, Hashes: pkg.Hashes})
	}
	return out
}

// readRules reads millipede.hcl, if there is one.
func readRules(loader *config.Loader) (*placement.Rules, diag.List) {
	text, err := bounds.ReadFile(placement.FileName, bounds.Text)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, diag.Errors("Failed to read "+placement.FileName, err.Error()+".", nil)
	}
	if loader != nil {
		loader.AddSource(placement.FileName, text)
	}
	return placement.Parse(text, placement.FileName)
}

// tell tells people something on standard error.
func (a *app) tell(text string) { fmt.Fprint(view.Clean(a.stderr, false), text) }
