package main

import (
	"os"
	"os/user"
	"time"

	"github.com/google/uuid"

	"crypto/rand"

	"github.com/millipede-iac/millipede/cmd/hosting"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/snapshot"
)

// newEstate returns the estate of the working directory, for the command that is run.
func (a *app) newEstate(use estate.Use) *estate.Estate {
	return estate.New(estate.Options{
		Dir: a.dir, Here: true, Cwd: a.cwd, Temp: os.TempDir(), Environ: a.environ, Version: version,
		EngineVersion: engineVersion, Platform: hosting.Platform,
		Who: who, PID: os.Getpid(), Now: time.Now, NewID: rand.Text,
		Stores: boltStores{}, Connector: a, Own: hosting.Own, Reattached: a.reattached, CLI: a.cli,
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

// reattached names the providers that run already by where they listen.
func (a *app) reattached() (map[addr.Provider]string, error) {
	all, err := a.reattach()
	out := map[addr.Provider]string{}
	for p, r := range all {
		out[p] = "reattached-" + r.Network + "-" + r.Address
	}
	return out, err
}

// boltStores keeps the stores of workspaces in bbolt.
type boltStores struct{}

// Open implements estate.Stores.
func (boltStores) Open(path string, info journal.LockInfo, timeout time.Duration, o estate.StoreOptions) (
	estate.Store, error) {
	options := bolt.Options{NewID: uuid.NewString, NoSync: o.Volatile}
	if o.Target != nil {
		options.Wrapper = o.Target
	}
	s, err := bolt.OpenOptions(path, info, timeout, options)
	if err != nil {
		return nil, err // not a nil *bolt.Store in an interface
	}
	return s, nil
}

// Copy implements estate.Stores.
func (boltStores) Copy(path, to string) error { return bolt.Copy(path, to) }
