package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/millipede-iac/millipede/cmd/internal/adapters"
	"github.com/millipede-iac/millipede/cmd/internal/build"
	"github.com/millipede-iac/millipede/cmd/internal/command"
	"github.com/millipede-iac/millipede/cmd/internal/logflags"
	"github.com/millipede-iac/millipede/cmd/internal/serving"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/environ"
)

// driven returns a command that only a service starts.
func driven(name string, run func(context.Context, *app, []string) int) command.Command {
	return command.Command{Name: name, Run: own(run), Apart: true, Document: true, Lasts: true, Hidden: true,
		Driven: true}
}

const engineUsage = `
Usage: coordinator [global options] engine-process -seat=N

  Carries out phases of runs for the service that has started it. It cannot be started by hand.

Options:
  -seat=N  The number of its seat, for people who list processes.
`

func runEngine(ctx context.Context, a *app, args []string) int {
	f := a.NewFlags()
	f.Int("seat", 0, "")
	if code, done := a.Parse(f, engineUsage, args); done {
		return code
	}
	err := serving.RunEngine(ctx, serving.EngineOptions{
		Version: build.Version(), EngineVersion: engineVersion, Who: command.Who,
		Settle: settling(a),
		Log: func(level, format string) (*slog.Logger, error) {
			settings := logflags.Of(level, format)
			return settings.New(a.Stderr)
		},
	})
	if err != nil {
		fmt.Fprintf(a.Stderr, "Error: the engine has ended: %s\n", err)
		return 1
	}
	return 0
}

// settling returns a function that replaces the environment of a command.
func settling(a *app) func(environ.Variables) (*cliconfig.Config, *services.Services, *adapters.Connector) {
	return func(env environ.Variables) (*cliconfig.Config, *services.Services, *adapters.Connector) {
		a.Settle(env)
		return a.CLI, a.Services, a.Connector
	}
}

const workerUsage = `
Usage: coordinator [global options] worker-process

  Carries out the operations of runs for the service that has started it. It cannot be started by hand.
`

func runEmbeddedWorker(ctx context.Context, a *app, args []string) int {
	if code, done := a.Parse(a.NewFlags(), workerUsage, args); done {
		return code
	}
	err := serving.RunWorker(ctx, serving.WorkerOptions{Version: build.Version(), Settle: settling(a), Tell: a.Tell})
	if err != nil {
		fmt.Fprintf(a.Stderr, "Error: the worker has ended: %s\n", err)
		return 1
	}
	return 0
}
