package main

import (
	"os"
	"os/user"
	"time"

	"crypto/rand"

	"github.com/millipede-iac/millipede/cmd/adapters"
	"github.com/millipede-iac/millipede/cmd/hosting"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/state/snapshot"
)

// newEstate returns the estate of the working directory, for the command that is run.
func (a *app) newEstate(use estate.Use) *estate.Estate {
	return estate.New(estate.Options{
		Dir: a.dir, Here: true, Cwd: a.cwd, Temp: os.TempDir(), Environ: a.environ, Version: version,
		EngineVersion: engineVersion, Platform: hosting.Platform,
		Who: who, PID: os.Getpid(), Now: time.Now, NewID: rand.Text,
		Stores: adapters.Stores{}, Connector: a.connector, Own: hosting.Own, Reattached: a.connector.Reattached, CLI: a.cli,
		Services: a.services,
		Memory:   snapshot.NewMemory(), Stop: a.interrupts.Stop, Process: a.interrupts, Ask: a.ask,
		Tell: a.tell, Use: use,
	})
}

// who is the user, on this machine.
func who() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		name += "@" + h
	}
	return name
}
