package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/cmd/internal/adapters"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/state/features"
	"github.com/millipede-iac/millipede/wire"
)

const upgradeUsage = `
Usage: coordinator [global options] upgrade <subcommand> [options]

  Prepares for another version of Millipede.

Subcommands:
  check     Show what stands in the way of an upgrade to this version.
  finish    Let the store of this directory use the features of this version.
`

const upgradeCheckUsage = `
Usage: coordinator [global options] upgrade check [options]

  Shows what stands in the way of an upgrade to this version: execute it with the new version. It changes nothing, and
  ends with exit code 1 if there is something.

  In a directory it looks at the store of the selected workspace, at runs of it that have not ended, and, if there is a
  NATS server, at its streams and its live workers. With -address it asks a running service, of which the user must be
  an administrator.

Options:
  -address=URL          The address of a service: https://HOST.
  -no-color             Do not use colours.
` + variablesHelp

const upgradeFinishUsage = `
Usage: coordinator [global options] upgrade finish [options]

  Lets the store of the selected workspace use the features of this version. Until then, the version before can open it,
  too; afterwards it cannot. For a service, use "service finish-upgrade".

Options:
  -no-color             Do not use colours.
` + variablesHelp

const finishUpgradeUsage = `
Usage: coordinator [global options] service finish-upgrade -address=URL

  Lets a service use the features of the version that serves. Until then, the version before can take its place; after
  that it cannot. The stores of workspaces follow when they are next used. The user must be an administrator of the
  service. It is refused while workers of an earlier version are alive.

Options:
  -address=URL   The address of the service: https://HOST.
`

func runFinishUpgrade(ctx context.Context, a *app, args []string) int {
	f := a.NewFlags()
	address := f.String("address", "", "")
	if code, done := a.Parse(f, finishUpgradeUsage, args); done {
		return code
	}
	c, err := a.controls(ctx, *address)
	var now service.Upgrade
	if err == nil {
		now, err = c.FinishUpgrade(ctx)
	}
	if err == nil {
		fmt.Fprintf(a.Stdout, "The service has level %d, which Millipede %s has set.\n", now.Features.Level, now.Features.By)
	}
	return a.operated("Failed to finish the upgrade", err)
}

func runUpgradeFinish(ctx context.Context, a *app, args []string) int {
	var vf viewFlags
	var vars variableFlags
	f := a.NewFlags()
	f.BoolVar(&vf.NoColor, "no-color", false, "")
	vars.registerValues(f)
	if code, done := a.Parse(f, upgradeFinishUsage, args); done {
		return code
	}
	u := a.textScreen(vf)
	if diags := noArguments(f); diags.HasErrors() {
		return u.End(diags)
	}
	runs, diags := a.Estate.OpenRuns(ctx, vars.Variables, true)
	if diags.HasErrors() {
		return u.End(diags)
	}
	if diags = diags.Append(runs.Close()); !diags.HasErrors() {
		fmt.Fprintf(a.Stdout, "The store of the workspace %q has level %d.\n", a.Estate.Workspace(), features.Own().Newest)
	}
	return u.End(diags)
}

func runUpgradeCheck(ctx context.Context, a *app, args []string) int {
	var vf viewFlags
	var vars variableFlags
	f := a.NewFlags()
	f.BoolVar(&vf.NoColor, "no-color", false, "")
	address := f.String("address", "", "")
	vars.registerValues(f)
	if code, done := a.Parse(f, upgradeCheckUsage, args); done {
		return code
	}
	u := a.textScreen(vf)
	diags := noArguments(f)
	var found []string
	switch {
	case diags.HasErrors():
	case *address != "":
		found, diags = a.obstaclesOfService(ctx, *address)
	default:
		found, diags = a.obstaclesHere(ctx, vars)
	}
	switch {
	case diags.HasErrors():
		return u.End(diags)
	case len(found) == 0:
		fmt.Fprintln(a.Stdout, "Nothing stands in the way of an upgrade to this version.")
		return u.End(diags)
	}
	fmt.Fprintf(a.Stdout, "An upgrade to this version has to wait:\n  - %s\n", strings.Join(found, "\n  - "))
	u.Diagnostics(diags)
	return 1
}

// obstaclesOfService asks a service what an upgrade depends on, and returns what this version cannot work with.
func (a *app) obstaclesOfService(ctx context.Context, address string) ([]string, diag.List) {
	c, err := a.controls(ctx, address)
	var u service.Upgrade
	if err == nil {
		u, err = c.Upgrade(ctx)
	}
	if err != nil {
		return nil, diag.Errors("Failed to ask the service", err.Error()+".", nil)
	}
	var found []string
	if err := u.Features.Check(features.Own()); err != nil {
		found = append(found, "the data of the service: "+err.Error())
	}
	for _, r := range u.Runs {
		if !planfile.Applies(r.Format) {
			found = append(found, fmt.Sprintf("the run %s (%s): its plan has format %d, saved by Millipede %s, and this "+
				"version applies plans in the formats %v: apply or discard it first", r.Run,
				strings.ReplaceAll(string(r.Status), "_", " "), r.Format, r.By, planfile.Formats()))
		}
	}
	workers := make([]wire.Worker, 0, len(u.Workers))
	for _, w := range u.Workers {
		workers = append(workers, wire.Worker{Heartbeat: wire.Heartbeat{Worker: w.Name, Pools: []string{w.Pool},
			Version: w.Version, Protocol: w.Highest, Lowest: w.Lowest}})
	}
	return append(found, unsuitedPools(workers)...), nil
}

// obstaclesHere returns what this version cannot work with in this directory and at its NATS server.
func (a *app) obstaclesHere(ctx context.Context, vars variableFlags) ([]string, diag.List) {
	runs, diags := a.Estate.OpenRuns(ctx, vars.Variables, false)
	if diags.HasErrors() {
		return nil, diags
	}
	found, err := runs.Unfit(ctx, a.Estate.Workspace())
	if err != nil {
		diags = diags.Append(diag.New(diag.Error, "Failed to read the runs", err.Error()+".", nil))
	}
	diags = diags.Append(runs.Close())
	rules, more := a.Estate.Rules(nil)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	server := a.Connector.Server(rules)
	if server.URL == "" {
		return found, diags
	}
	// Streams of earlier versions with runs that have not ended are an error of the connection, which names the runs.
	conn, more := a.Connector.Dial(ctx, server, false)
	if diags = diags.Append(more); more.HasErrors() {
		return found, diags
	}
	workers, err := conn.Workers(ctx)
	if err != nil {
		diags = diags.Append(diag.New(diag.Error, "Failed to ask for the workers", err.Error()+".", nil))
	}
	diags = diags.Append(adapters.Closing(conn.Close()))
	live := slices.DeleteFunc(workers, func(w wire.Worker) bool { return w.Silent(time.Minute) })
	return append(found, unsuitedPools(live)...), diags
}

// unsuitedPools returns the pools in which no live worker is of a version that this program can use. A pool with others
// is no obstacle: an unsuited worker is passed over.
func unsuitedPools(workers []wire.Worker) (found []string) {
	suited, why := map[string]bool{}, map[string][]string{}
	for _, w := range workers {
		for _, pool := range w.Pools {
			if text := w.Unsuited(wire.Spoken()); text == "" {
				suited[pool] = true
			} else {
				why[pool] = append(why[pool], text)
			}
		}
	}
	for pool, texts := range why {
		if !suited[pool] {
			slices.Sort(texts)
			found = append(found, fmt.Sprintf("the pool %q would have no worker: %s", pool, strings.Join(texts, "; ")))
		}
	}
	slices.Sort(found)
	return found
}
