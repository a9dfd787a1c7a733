// Package adapters provides estates with stores in bbolt, and with connections to NATS servers and workers, remote or
// in this process.
//
// It knows no commands and prints nothing: messages for people go to Connector.Tell.
package adapters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/millipede-iac/millipede/cmd/internal/hosting"
	"github.com/millipede-iac/millipede/cmd/internal/natsconn"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/install/providers"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/plugin"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// Slots is the number of operations that the embedded worker carries out at a time. It is so large that only the limits
// of runs matter.
const Slots = 256

// Connector connects the estates of one process to the NATS server that the options, the environment or the rules name.
// If none is named, it starts a server and a worker in this process. It implements estate.Connector.
type Connector struct {
	// NATS has the options of the command line; see Server.
	NATS    natsconn.Settings
	Environ environ.Variables
	Version string
	// Path returns the path of a file that a setting names; nil: relative to the working directory of the process.
	Path func(name string) string
	// Tell shows a text to people.
	Tell func(text string)
	// Log and PluginLog are the logs of the embedded worker.
	Log       *slog.Logger
	PluginLog hclog.Logger
	// Leaving ends when the process is told to leave at once. AtEnd registers a function that is called if the process
	// exits without closing its connections.
	Leaving context.Context //nolint:containedctx // it lives as long as the process
	AtEnd   func(fn func(context.Context)) (forget func())

	retired []*jet.Embedded // servers that no estate uses any more; they end with the process
}

// transport is a connection and the parts that Connect started for it: with the embedded default, these are a NATS
// server and a worker in this process.
type transport struct {
	conn     *jet.Conn
	embedded *jet.Embedded
	hosted   *hosting.Hosted
	// retire ends the use of the embedded server.
	retire func() error
	// temporary is the directory of the embedded server and worker; empty if they use the home of a store.
	temporary string

	drain, leave context.CancelCauseFunc
	worked       chan error
	kept         func() bool // unregisters the function that makes the worker leave with the command
}

// Connect implements estate.Connector. It connects to the named NATS server. If none is named, it starts the embedded
// server and worker in the home of the store, or in a temporary directory if there is no home.
func (c *Connector) Connect(ctx context.Context, o estate.ConnectOptions) (estate.Connection, diag.List) {
	server, home := c.Server(o.Rules), o.Home
	logLine := func(line string) { c.Tell(line + "\n") }
	if server.URL != "" {
		conn, diags := c.Dial(ctx, server, true)
		if diags.HasErrors() {
			return nil, diags
		}
		return &transport{conn: conn}, nil
	}
	for _, e := range c.retired { // this process uses a store again whose server it has retired
		if err := e.Close(); err != nil {
			return nil, diag.Errors("Failed to stop the embedded NATS server", err.Error()+".", nil)
		}
	}
	c.retired = nil
	reattach, err := c.Reattach()
	if err != nil {
		return nil, diag.Errors("Invalid TF_REATTACH_PROVIDERS", err.Error()+".", nil)
	}
	t := &transport{}
	if home == nil {
		removeRemains(os.TempDir(), time.Now())
		dir, err := os.MkdirTemp("", temporaryPrefix)
		if err != nil {
			return nil, diag.Errors("Failed to start the embedded NATS server", err.Error()+".", nil)
		}
		t.temporary = dir
		c.AtEnd(func(context.Context) { removing(dir) })
		h := temporaryHome(dir)
		home = &h
	}
	failed := func(what string, err error, more ...error) (estate.Connection, diag.List) {
		return nil, diag.Errors(what, err.Error()+".", nil).Append(Closing(errors.Join(more...)), removing(t.temporary))
	}
	embed := jet.Embed
	if t.temporary != "" {
		embed = jet.EmbedVolatile
	}
	embedded, err := embed(home.Messages(), logLine)
	var locked *jet.LockedError
	if errors.As(err, &locked) {
		return nil, diag.Errors("Another process works here", locked.Error()+". Wait until it has ended.", nil)
	}
	if err != nil {
		return failed("Failed to start the embedded NATS server", err)
	}
	t.embedded = embedded
	t.retire = func() error {
		if t.temporary != "" { // it is removed
			return embedded.Close()
		}
		c.retired = append(c.retired, embedded)
		return embedded.Retire()
	}
	if t.conn, err = embedded.Connect(ctx, jet.Options{Name: "millipede-coordinator", Provision: true, Workers: 1,
		Log: logLine}); err != nil {
		return failed("Failed to start the embedded NATS server", err, embedded.Close())
	}
	t.hosted, err = hosting.New(hosting.Options{
		Transport: t.conn, Pools: []string{"default"}, Slots: Slots, Version: c.Version,
		Dir: home.Worker(), Local: Packages(o.Packages), Reattach: reattach,
		DisableTLS: c.Environ.Get("TF_DISABLE_PLUGIN_TLS") != "",
		Log:        c.Log, PluginLog: c.PluginLog,
		Environ: c.Environ,
	})
	if err != nil {
		return failed("Failed to start the embedded worker", err, t.conn.Close(), embedded.Close())
	}
	taking, drain := context.WithCancelCause(context.WithoutCancel(ctx))
	working, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	t.kept = context.AfterFunc(c.Leaving, func() { leave(context.Cause(c.Leaving)) })
	t.drain, t.leave, t.worked = drain, leave, make(chan error, 1)
	go func() { t.worked <- t.hosted.Worker.Run(taking, working) }() // close waits for it
	return t, nil
}

// Elsewhere implements estate.Connector.
func (c *Connector) Elsewhere(rules *placement.Rules) bool { return c.Server(rules).URL != "" }

// Reattach returns the providers that already run.
func (c *Connector) Reattach() (map[addr.Provider]*plugin.Reattach, error) {
	return plugin.ParseReattach(c.Environ.Get("TF_REATTACH_PROVIDERS"))
}

// Reattached returns names for the providers that already run, made from the addresses at which they listen.
func (c *Connector) Reattached() (map[addr.Provider]string, error) {
	all, err := c.Reattach()
	out := map[addr.Provider]string{}
	for p, r := range all {
		out[p] = "reattached-" + r.Network + "-" + r.Address
	}
	return out, err
}

// Transport implements estate.Connection.
func (t *transport) Transport() wire.Transport { return t.conn }

// Embedded implements estate.Connection.
func (t *transport) Embedded() bool { return t.embedded != nil }

// Common implements estate.Connection: a command shares its connection with no other estate.
func (t *transport) Common() *estate.Common { return nil }

// Warnings implements estate.Connection: it warns if the NATS server loses acknowledged messages in a power failure.
// Settings that may be intended, such as a single server, are reported by the function Warnings alone: nobody reads a
// warning that comes with each plan. The warnings are not diagnostics, because diagnostics must not depend on where a
// configuration is applied.
func (t *transport) Warnings(ctx context.Context) []string {
	if t.embedded != nil {
		return nil
	}
	return t.conn.Dangers(ctx)
}

// Warnings returns everything by which a NATS server may lose acknowledged messages, for its operators.
func Warnings(ctx context.Context, conn *jet.Conn) []string {
	d, err := conn.Durability(ctx)
	if err != nil {
		return []string{fmt.Sprintf("The durability of the NATS server's streams is unknown: %s.", err)}
	}
	return d.Warnings()
}

// Server returns the settings of the NATS server. In the order of precedence they come from the options, the variables
// MILLIPEDE_NATS..., the nats block of millipede.hcl, and the variables of all NATS programs. NATS_URL alone has no
// effect, because it is often set for other programs; a nats block, even an empty one, makes it count. Without a URL,
// everything runs in this process.
func (c *Connector) Server(rules *placement.Rules) natsconn.Settings {
	s := c.NATS.Over(natsconn.Own(c.Environ.Get))
	shared := natsconn.Shared(c.Environ.Get)
	if rules == nil || rules.NATS == nil {
		shared.URL = ""
	} else {
		n := rules.NATS
		s = s.Over(natsconn.Settings{
			URL: n.URL, Credentials: n.Credentials, NKey: n.NKey, User: n.User, CA: n.CA,
			Certificate: n.Certificate, Key: n.Key,
		})
	}
	s = s.Over(shared)
	if c.Path != nil {
		s = s.Resolved(c.Path)
	}
	return s
}

// Dial connects to a NATS server. Without provision nothing is created there.
func (c *Connector) Dial(ctx context.Context, server natsconn.Settings, provision bool) (*jet.Conn, diag.List) {
	o := server.Options()
	o.Name, o.Provision, o.Log = "millipede-coordinator", provision, func(line string) { c.Tell(line + "\n") }
	conn, err := jet.Connect(ctx, o)
	if err != nil {
		return nil, diag.Errors("Cannot reach NATS",
			"The connection failed: "+err.Error()+".\n\nCheck that the server runs, with JetStream, that the URL is "+
				"right, and that the user may do what a coordinator does; without -nats (and MILLIPEDE_NATS, and a "+
				"nats block in millipede.hcl) everything runs inside this process.", nil)
	}
	return conn, nil
}

// Close implements estate.Connection: it closes everything that Connect started. The worker finishes its tasks, unless
// it was told to leave.
func (t *transport) Close() diag.List {
	var diags diag.List
	if t.hosted != nil {
		t.drain(errors.New("the command has ended"))
		diags = diags.Append(Closing(<-t.worked), Closing(t.hosted.Close()))
		t.kept()
		t.leave(nil)
	}
	diags = diags.Append(Closing(t.conn.Close()))
	if t.embedded != nil {
		diags = diags.Append(Closing(t.retire()))
	}
	return diags.Append(removing(t.temporary))
}

// removing removes a temporary directory, if there is one.
func removing(dir string) diag.List {
	if dir == "" {
		return nil
	}
	return Closing(os.RemoveAll(dir))
}

// Closing returns a warning that something could not be closed, or nothing if err is nil.
func Closing(err error) diag.List {
	if err == nil {
		return nil
	}
	return diag.List{diag.New(diag.Warning, "Failed to close down cleanly", err.Error()+".", nil)}
}

// Packages implements packages.Local: the directories of installed packages, for the embedded worker.
type Packages map[addr.Provider]providers.Package

// PackageDir implements packages.Local.
func (l Packages) PackageDir(p wire.Package) (string, bool) {
	source, diags := addr.ParseProviderSource(p.Source)
	if diags.HasErrors() {
		return "", false
	}
	pkg, ok := l[source]
	if !ok || (pkg.Version != p.Version && pkg.Unlocked != p.Unlocked) {
		return "", false
	}
	return pkg.Dir, true
}
