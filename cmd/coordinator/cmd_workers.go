package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/cmd/internal/adapters"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

const workersUsage = `
Usage: coordinator [global options] workers <subcommand>

  Shows the workers, which execute operations.

Subcommands:
  list       List the live workers, with their pools and operations.
`

const workersListUsage = `
Usage: coordinator -nats=URL workers list [options]

  Lists the live workers: their pools, their slots, and their running operations. On standard error, it says by which
  settings the NATS server may lose acknowledged messages.

Options:
  -no-color             Do not use colours.
`

func runWorkersList(ctx context.Context, a *app, args []string) int {
	return a.overNATS(ctx, workersListUsage, args, 0, func(conn *jet.Conn, _ []string) error {
		// Current workers answer this at once; older ones send a heartbeat within a second.
		if err := conn.Control(ctx, "", wire.Control{Kind: "announce"}); err != nil {
			return err
		}
		select {
		case <-time.After(announceWait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		workers, err := conn.Workers(ctx)
		if err != nil {
			return err
		}
		if err := view.WorkersText(view.Clean(a.Stdout, false), workers); err != nil {
			return err
		}
		for _, text := range adapters.Warnings(ctx, conn) {
			a.Tell("\n" + text + "\n")
		}
		return nil
	})
}

// announceWait is how long to wait for the answers of workers.
const announceWait = 300 * time.Millisecond

const limitsUsage = `
Usage: coordinator -nats=URL limits [options] [NAME=SLOTS ...]

  Shows the limits: how many operations may run at the same time, who holds their permits, and who waits. NAME=SLOTS
  changes a limit; runs may be in progress.

Options:
  -no-color             Do not use colours.
`

func runLimits(ctx context.Context, a *app, args []string) int {
	return a.overNATS(ctx, limitsUsage, args, -1, func(conn *jet.Conn, changes []string) error {
		for _, c := range changes {
			l, err := wire.ParseLimit(c)
			if err != nil {
				return err
			}
			if err := conn.ResizeLimit(ctx, l); err != nil {
				return fmt.Errorf("changing the limit %q: %w", l.Name, err)
			}
		}
		limits, err := conn.Limits(ctx)
		if err != nil {
			return err
		}
		return view.LimitsText(view.Clean(a.Stdout, false), limits, time.Now())
	})
}

// overNATS connects to a NATS server for a command that reads from it; most is the maximum number of arguments,
// -1 any.
func (a *app) overNATS(ctx context.Context, usage string, args []string, most int,
	do func(*jet.Conn, []string) error) int {
	check := func(rest []string) diag.List {
		if most >= 0 && len(rest) > most {
			return diag.Errors("Too many command line arguments",
				fmt.Sprintf("The command takes %d at most, and got %q.", most, rest), nil)
		}
		return nil
	}
	return a.overNATSWith(ctx, natsCommand{usage: usage, check: check, do: do}, args)
}

// natsCommand is a command that works on a NATS server alone.
type natsCommand struct {
	usage string
	// declare declares the options of the command; nil if it has none.
	declare func(*flag.FlagSet)
	// check checks the arguments that are no options.
	check func(rest []string) diag.List
	// provision says that the command may create streams.
	provision bool
	do        func(conn *jet.Conn, rest []string) error
}

func (a *app) overNATSWith(ctx context.Context, c natsCommand, args []string) int {
	var vf viewFlags
	f := a.NewFlags()
	f.BoolVar(&vf.NoColor, "no-color", false, "")
	if c.declare != nil {
		c.declare(f)
	}
	if code, done := a.Parse(f, c.usage, args); done {
		return code
	}
	u := a.textScreen(vf)
	fail := func(l diag.List) int {
		u.Diagnostics(l)
		return 1
	}
	rules, diags := a.Estate.Rules(nil)
	if diags.HasErrors() {
		return fail(diags)
	}
	if diags = diags.Append(c.check(f.Args())); diags.HasErrors() {
		return fail(diags)
	}
	server := a.Connector.Server(rules)
	if server.URL == "" {
		return fail(diags.Append(diag.New(diag.Error, "No NATS server", "Workers, pools and limits belong to a NATS "+
			"server: set it with the global option -nats=URL, or in MILLIPEDE_NATS. The default, an embedded server, has "+
			"one worker and its own limits, which exist only while a command runs.", nil)))
	}
	conn, diags := a.Connector.Dial(ctx, server, c.provision)
	if diags.HasErrors() {
		return fail(diags)
	}
	if err := c.do(conn, f.Args()); err != nil {
		diags = diags.Append(diag.New(diag.Error, "The request failed", err.Error()+".", nil))
	}
	diags = diags.Append(adapters.Closing(conn.Close()))
	u.Diagnostics(diags)
	if diags.HasErrors() {
		return 1
	}
	return 0
}
