package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/millipede-iac/millipede/cmd/hosting"
	"github.com/millipede-iac/millipede/cmd/natsconn"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/install"
	"github.com/millipede-iac/millipede/provider/plugin"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// embeddedSlots is how many operations the embedded worker carries out at a time: enough that the limits decide.
const embeddedSlots = 256

// transport is a connection with what was started for it: with the embedded default, a NATS server and a worker in
// this process.
type transport struct {
	conn     *jet.Conn
	embedded *jet.Embedded
	hosted   *hosting.Hosted
	// retire ends the use of the embedded server.
	retire func() error
	// temporary is the directory of what was started; empty when that is in the home of a store.
	temporary string

	drain, leave context.CancelCauseFunc
	worked       chan error
	kept         func() bool // ends what has the worker leave with the command
}

// Connect implements estate.Connector: it connects to the NATS server that is named, or starts the embedded default: in
// the home of a store, or in a temporary directory where there is none.
func (a *app) Connect(ctx context.Context, o estate.ConnectOptions) (estate.Connection, diag.List) {
	server, home := a.server(o.Rules), o.Home
	logLine := func(line string) { a.tell(line + "\n") }
	if server.URL != "" {
		conn, diags := a.dial(ctx, server, true)
		if diags.HasErrors() {
			return nil, diags
		}
		return &transport{conn: conn}, nil
	}
	for _, e := range a.retired { // this process goes on with a store that it was about to leave
		if err := e.Close(); err != nil {
			return nil, diag.Errors("Failed to stop the embedded NATS server", err.Error()+".", nil)
		}
	}
	a.retired = nil
	reattach, err := a.reattach()
	if err != nil {
		return nil, diag.Errors("Invalid TF_REATTACH_PROVIDERS", err.Error()+".", nil)
	}
	t := &transport{}
	if home == nil {
		dir, err := os.MkdirTemp("", "millipede-")
		if err != nil {
			return nil, diag.Errors("Failed to start the embedded NATS server", err.Error()+".", nil)
		}
		t.temporary = dir
		a.interrupts.AtEnd(func(context.Context) { removing(dir) })
		h := layout.At("", dir).Workspace("default")
		home = &h
	}
	failed := func(what string, err error, more ...error) (estate.Connection, diag.List) {
		return nil, diag.Errors(what, err.Error()+".", nil).Append(closing(errors.Join(more...)), removing(t.temporary))
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
		a.retired = append(a.retired, embedded)
		return embedded.Retire()
	}
	if t.conn, err = embedded.Connect(ctx, jet.Options{Name: "millipede-coordinator", Provision: true, Workers: 1,
		Log: logLine}); err != nil {
		return failed("Failed to start the embedded NATS server", err, embedded.Close())
	}
	t.hosted, err = hosting.New(hosting.Options{
		Transport: t.conn, Pools: []string{"default"}, Slots: embeddedSlots, Version: version,
		Dir: home.Worker(), Local: localPackages(o.Packages), Reattach: reattach,
		DisableTLS: a.getenv("TF_DISABLE_PLUGIN_TLS") != "",
		Log:        a.logs.core, PluginLog: a.logs.plugins,
		Environ: a.environ,
	})
	if err != nil {
		return failed("Failed to start the embedded worker", err, t.conn.Close(), embedded.Close())
	}
	taking, drain := context.WithCancelCause(context.WithoutCancel(ctx))
	working, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	t.kept = context.AfterFunc(a.interrupts.Leaving, func() { leave(context.Cause(a.interrupts.Leaving)) })
	t.drain, t.leave, t.worked = drain, leave, make(chan error, 1)
	go func() { t.worked <- t.hosted.Worker.Run(taking, working) }() // close waits for it
	return t, nil
}

// Elsewhere implements estate.Connector.
func (a *app) Elsewhere(rules *placement.Rules) bool { return a.server(rules).URL != "" }

// reattach returns the providers that run already.
func (a *app) reattach() (map[addr.Provider]*plugin.Reattach, error) {
	return plugin.ParseReattach(a.getenv("TF_REATTACH_PROVIDERS"))
}

// Transport implements estate.Connection.
func (t *transport) Transport() wire.Transport { return t.conn }

// Embedded implements estate.Connection.
func (t *transport) Embedded() bool { return t.embedded != nil }

// Joint implements estate.Connection: a command has its connection to itself.
func (t *transport) Joint() *estate.Joint { return nil }

// Warnings implements estate.Connection: they say that the NATS server may lose what it has acknowledged. They are no
// diagnostics, because a configuration has the same ones wherever its runs are carried out.
func (t *transport) Warnings(ctx context.Context) []string {
	if t.embedded != nil {
		return nil
	}
	d, err := t.conn.Durability(ctx)
	if err != nil {
		return []string{fmt.Sprintf("It cannot be told how safe the NATS server's streams are: %s.", err)}
	}
	return d.Warnings()
}

// server says which NATS server is meant: by options, by the variables MILLIPEDE_NATS..., by the nats block of
// millipede.hcl, then by the variables of all NATS programs. NATS_URL alone does not name one, because many a shell has
// it for something else; a nats block, even an empty one, asks for it. Without a URL everything runs in this process.
func (a *app) server(rules *placement.Rules) natsconn.Settings {
	s := a.nats.Over(natsconn.Own(a.getenv))
	shared := natsconn.Shared(a.getenv)
	if rules == nil || rules.NATS == nil {
		shared.URL = ""
		return s.Over(shared)
	}
	n := rules.NATS
	return s.Over(natsconn.Settings{
		URL: n.URL, Credentials: n.Credentials, NKey: n.NKey, User: n.User, CA: n.CA,
		Certificate: n.Certificate, Key: n.Key,
	}).Over(shared)
}

// dial connects to a NATS server. Without provision nothing is created there.
func (a *app) dial(ctx context.Context, server natsconn.Settings, provision bool) (*jet.Conn, diag.List) {
	o := server.Options()
	o.Name, o.Provision, o.Log = "millipede-coordinator", provision, func(line string) { a.tell(line + "\n") }
	conn, err := jet.Connect(ctx, o)
	if err != nil {
		return nil, diag.Errors("Cannot reach NATS",
			"The connection failed: "+err.Error()+".\n\nCheck that the server runs, with JetStream, that the URL is "+
				"right, and that the user may do what a coordinator does; without -nats (and MILLIPEDE_NATS, and a "+
				"nats block in millipede.hcl) everything runs inside this process.", nil)
	}
	return conn, nil
}

// Close implements estate.Connection. It ends what Connect started. The worker finishes what it holds, unless it was
// told to leave.
func (t *transport) Close() diag.List {
	var diags diag.List
	if t.hosted != nil {
		t.drain(errors.New("the command has ended"))
		diags = diags.Append(closing(<-t.worked), closing(t.hosted.Close()))
		t.kept()
		t.leave(nil)
	}
	diags = diags.Append(closing(t.conn.Close()))
	if t.embedded != nil {
		diags = diags.Append(closing(t.retire()))
	}
	return diags.Append(removing(t.temporary))
}

// removing removes a temporary directory; empty for none.
func removing(dir string) diag.List {
	if dir == "" {
		return nil
	}
	return closing(os.RemoveAll(dir))
}

func closing(err error) diag.List {
	if err == nil {
		return nil
	}
	return diag.List{diag.New(diag.Warning, "Failed to close down cleanly", err.Error()+".", nil)}
}

// localPackages shows the embedded worker where the installed packages are.
type localPackages map[addr.Provider]install.Package

// PackageDir implements packages.Local.
func (l localPackages) PackageDir(p wire.Package) (string, bool) {
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
