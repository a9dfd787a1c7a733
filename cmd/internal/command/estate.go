package command

import (
	"os"
	"os/user"
	"time"

	"crypto/rand"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/cmd/internal/adapters"
	"github.com/millipede-iac/millipede/cmd/internal/hosting"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/state/features"
)

// newEstate returns the estate of the working directory for the current command.
func (a *App) newEstate(use estate.Use) *estate.Estate {
	connector := estate.Connector(a.Connector)
	if a.Shared != nil {
		connector = a.Shared
	}
	level := 0
	if use.Raises {
		level = features.Own().Newest
	}
	return estate.New(estate.Options{
		Dir: a.Dir, Here: a.chdir == "", Cwd: a.cwd, Temp: a.Environ.TempDir(), Environ: a.Environ,
		Isolated: a.Shared != nil, Version: a.program.Version,
		EngineVersion: a.program.EngineVersion, Platform: hosting.Platform,
		Who: Who, PID: os.Getpid(), Now: time.Now, NewID: rand.Text,
		Stores: adapters.Stores{Level: level}, Connector: connector, Own: hosting.Own,
		Reattached: a.Connector.Reattached, CLI: a.CLI, Services: a.Services,
		Memory: backend.NewMemory(), Stop: a.Interrupts.Stop, Process: a.Interrupts, Ask: a.ask,
		Tell: a.Tell, Use: use,
	})
}

// Who returns the user and the host name.
func Who() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		name += "@" + h
	}
	return name
}
