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
		Settle: func(env environ.Variables) (*cliconfig.Config, *services.Services, *adapters.Connector) {
			a.Settle(env)
			return a.CLI, a.Services, a.Connector
		},
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
