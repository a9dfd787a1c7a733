package estate

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// Engine is a session with everything that was opened for it. It is closed before the state.
type Engine struct {
	*operation.Session
	connection Connection
	providers  *Providers
	// environment is the part of the environment for remote workers; nil for nothing.
	environment *operation.Environment
	// stop ends the display of interrupts by this engine; undecide removes its function that decides about orphaned
	// permits.
	stop, undecide func()
}

// EngineOptions are the options of OpenEngine.
type EngineOptions struct {
	Tree   *config.Tree
	Loader *config.Loader
	Inputs map[string]values.Input
	Prior  *state.State
	// State is the state that is changed; nil for operations without one. If this process has exclusive use of the
	// state's store, the embedded server, its worker and the coordinator's identity are stored beside it. Otherwise
	// they are in a temporary directory and are removed with the engine.
	State *Opened
	// Store replaces the store of State; nil for that.
	Store    journal.Store
	Observer coordinator.Observer
	// Timeline is that of operation.Session; may be nil.
	Timeline    func(timeline.Head) *timeline.Recorder
	Events      func(wire.Event)  // live events of workers; may be nil
	Note        func(text string) // shows messages during the operation; nil for Options.Tell
	Parallelism placement.Parallelism
	// Background is that of operation.Session.
	Background bool
	// AnyVersion uses the installed providers although the configuration asks for other versions.
	AnyVersion bool
}

// OpenEngine selects the providers, connects, and makes the session. The caller closes the engine.
func (e *Estate) OpenEngine(ctx context.Context, o EngineOptions) (*Engine, diag.List) {
	providers, diags := e.selectProviders(o.Tree, o.Prior, o.AnyVersion)
	if diags.HasErrors() {
		return nil, diags
	}
	rules, more := e.Rules(o.Loader)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return nil, diags
	}
	depth, more := e.templateDepth()
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	if e.Stop.Asked() {
		return nil, diags.Append(diag.New(diag.Error, "Operation interrupted", "Nothing was started.", nil))
	}
	var store journal.Store
	var home *layout.Home
	if o.State != nil {
		store, home = o.State.runStore(), o.State.store.ownHome()
	}
	if o.Store != nil {
		store = o.Store
	}
	c, more := e.Connector.Connect(ctx, ConnectOptions{Rules: rules, Home: home, Packages: providers.packages})
	diags = diags.Append(more)
	if diags.HasErrors() {
		return nil, diags
	}
	t := c.Transport()
	engine := &Engine{connection: c, providers: providers}
	if !c.Embedded() {
		if more := providers.share(ctx, t, e.Platform); more.HasErrors() {
			return nil, diags.Append(more, c.Close())
		}
	}
	runs, ring, err := e.coordinator(ctx, c, home)
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to read the coordinator's identity", err.Error()+".",
			nil), c.Close())
	}
	engine.undecide = func() {}
	if store != nil && home != nil { // readers make no decisions
		orphans := &coordinator.Orphans{Store: store, Claims: t, Rules: rules, Workers: t.Workers, Now: e.Now,
			NewID: e.NewID}
		engine.undecide = runs.Decide(orphans.Decide)
	}
	note := o.Note
	if note == nil {
		note = e.Tell
	}
	for _, w := range c.Warnings(ctx) {
		note(w + "\n\n")
	}
	engine.stop = e.Process.Say(note)
	switch {
	case e.Isolated && (c.Embedded() || e.Brought == nil):
		engine.environment = operation.NewEnvironment(e.Environ.Travelling(), true)
	case e.Isolated:
		engine.environment = operation.NewEnvironment(e.Brought.Travelling(), false)
	case !c.Embedded() && rules != nil:
		if named := e.Environ.Selected(rules.Environment); len(named) > 0 {
			engine.environment = operation.NewEnvironment(named, false)
		}
	}
	engine.Session = &operation.Session{
		Tree: o.Tree, Inputs: o.Inputs, Workspace: e.Workspace(), EngineVersion: e.EngineVersion,
		Hub: runs, Keyring: ring, Store: store, Prior: o.Prior, Places: new(operation.Places),
		Package: providers.wirePackage, Selections: providers.selections(),
		WorkerWait: 10 * time.Second, Parallelism: o.Parallelism, Rules: rules,
		Background: o.Background,
		OwnSlots:   c.Common() != nil, Sole: c.Embedded(), Embedded: c.Embedded() && c.Common() == nil,
		Dir: e.Dir, Cwd: e.Cwd, Env: e.Environ, Files: e.Files, Environment: engine.environment,
		Observer: o.Observer, Timeline: o.Timeline,
		Events: o.Events, Own: e.Own(e.readRemoteState, e.checkBackend), Compute: e.Compute,
		Stop: e.Stop, Now: e.Now,
		NewID:         e.NewID,
		TemplateDepth: depth,
	}
	return engine, diags
}

// coordinator returns the hub of the runs' coordinator, and the keyring that seals its messages.
func (e *Estate) coordinator(ctx context.Context, c Connection, home *layout.Home) (*hub.Hub, *wire.Keyring, error) {
	if j := c.Common(); j != nil {
		ring, err := wire.NewKeyring(c.Transport(), j.Pair, rand.Reader)
		return j.Hub, ring, err
	}
	name, pair, err := e.identity(ctx, home)
	if err != nil {
		return nil, nil, err
	}
	ring, err := wire.NewKeyring(c.Transport(), pair, rand.Reader)
	return hub.New(c.Transport(), name), ring, err
}

// templateDepth returns the maximum depth of nested templates from TF_TEMPLATE_RECURSION_DEPTH; 0 if it is not set.
func (e *Estate) templateDepth() (int, diag.List) {
	text := e.Environ.Get("TF_TEMPLATE_RECURSION_DEPTH")
	if text == "" {
		return 0, nil
	}
	depth, err := strconv.Atoi(text)
	if err != nil || depth < 1 {
		return 0, diag.Errors("Invalid TF_TEMPLATE_RECURSION_DEPTH",
			fmt.Sprintf("The environment variable says how many templates may be nested in each other: %q is no "+
				"whole number from 1 on.", text), nil)
	}
	return depth, nil
}

// Close ends the connection and the embedded worker.
func (e *Engine) Close() diag.List {
	e.stop()
	e.undecide()
	diags := closing(e.environment.Close(context.Background()))
	return diags.Append(e.connection.Close())
}
