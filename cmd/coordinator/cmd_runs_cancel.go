package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/cmd/internal/adapters"
	"github.com/millipede-iac/millipede/cmd/internal/running"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

const cancelUsage = `
Usage: coordinator [global options] runs cancel [options] [RUN]

  Cancels a run: operations that have not started will never start, running ones are awaited, and their results are
  stored in the state. Without a name, cancels the last run that has not ended. A run that another process is
  executing is canceled over the NATS server that both use. If a service executes the runs of this directory, it cancels
  the run, or discards it if it waits for approval; without a name, the only such run. RUN can also be the address of
  the run's page at a service.

Options:
  -force                Abandon a run of a service that was canceled at least ten seconds ago and still continues. The
                        outcome of its running operations is then unknown.
` + lockHelp + `  -var 'NAME=VALUE', -var-file=FILE
                        Ephemeral variables, which plans do not store, must be given again.
  -concise              Do not show the refreshing.
` + shownHelp + jsonHelp

func runCancel(ctx context.Context, a *app, args []string) int {
	return a.continueRun(ctx, cancelUsage, args, true)
}

// cancelElsewhere requests the process that holds the store to end its run, which it finds under the name of
// the coordinator of this directory.
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
			"Without a NATS server, only the process that executes a run can "+
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
	fmt.Fprintln(a.Stdout, "The run in progress here was asked to end: nothing more is started, running operations are "+
		"finished.")
	return 0
}
