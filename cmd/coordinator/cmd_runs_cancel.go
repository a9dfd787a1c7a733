package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/cmd/adapters"
	"github.com/millipede-iac/millipede/cmd/running"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

const cancelUsage = `
Usage: coordinator [global options] runs cancel [options] [RUN]

  Ends a run for good: what nobody has begun yet is never begun, what is under way is awaited, and its outcome is in the
  state. Without a name, the last run that did not end. A run that another process carries out at the moment is told to
  end, over the NATS server that both use.

Options:
` + lockHelp + `  -var 'NAME=VALUE', -var-file=FILE
                        Ephemeral variables, which no plan holds, must be given again.
  -concise              Do not show the refreshing.
` + shownHelp + jsonHelp

func runCancel(ctx context.Context, a *app, args []string) int {
	return a.goOn(ctx, cancelUsage, args, true)
}

// cancelElsewhere has the process that holds the store end its run. Its name is that of the coordinator of this
// directory.
func (a *app) cancelElsewhere(ctx context.Context, u *running.Screen, held diag.List) int {
	fail := func(diags diag.List) int {
		u.Diagnostics(diags)
		return 1
	}
	rules, diags := a.Estate.Rules(nil)
	if diags.HasErrors() {
		return fail(diags)
	}
	server := a.Connector.Server(rules)
	if server.URL == "" {
		return fail(diag.Errors("The run is inside another process",
			"Without a NATS server everything of a run is inside the process that carries it out, and only that can "+
				"end it: press Ctrl-C there, or send it SIGINT.\n\n"+held[0].Detail, nil))
	}
	name, err := a.Estate.Coordinator()
	if err != nil {
		return fail(diag.Errors("Failed to read the coordinator's identity", err.Error()+".", nil))
	}
	conn, diags := a.Connector.Dial(ctx, server, false)
	if diags.HasErrors() {
		return fail(diags)
	}
	if err := conn.Control(ctx, "", wire.Control{Kind: "cancel", Run: name}); err != nil {
		diags = diags.Append(diag.New(diag.Error, "Failed to reach the run", err.Error()+".", nil))
	}
	diags = diags.Append(adapters.Closing(conn.Close()))
	if diags.HasErrors() {
		return fail(diags)
	}
	u.Diagnostics(diags)
	fmt.Fprintln(a.Stdout, "The run that goes on here was told to end: nothing more is begun, what is under way is "+
		"finished.")
	return 0
}
