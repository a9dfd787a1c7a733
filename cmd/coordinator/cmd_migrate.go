package main

import (
	"context"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/migration"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
)

const migrateUsage = `
Usage: coordinator [global options] migrate [options] NAME

  Migrates the states of this directory to a service with the API of HCP Terraform, such as coordinator serve: the
  states of all workspaces, with the earlier versions in the local store. The default workspace becomes the
  workspace NAME of the service; another one, WORKSPACE, becomes NAME-WORKSPACE. If there are others, all of them get
  the tag NAME.

  The present states and the configuration are not changed: the command prints the block for the configuration,
  and the commands for moving the states back. It compares serial, lineage and content, and makes a plan before and
  after, neither of which may have changes. Interrupted runs and operations in doubt must be settled first. If the
  command is interrupted, run it again: it continues with the missing workspaces.

Options:
  -hostname=HOST        The host of the service. The default is the value of TF_CLOUD_HOSTNAME.
  -organization=NAME    The organization there. The default is the value of TF_CLOUD_ORGANIZATION.
  -project=NAME         The project that new workspaces belong to.
  -execution-mode=MODE  The mode of new workspaces: remote, for runs that the service executes, or local. The default is the
                        service's.
  -skip-plan            Do not make plans; only compare the states.
  -lock-timeout=0s      How long to wait for a lock of another command.
  -var 'NAME=VALUE', -var-file=FILE
                        Variables for the plans. May be given several times.
` + jsonHelp

func runMigrate(ctx context.Context, a *app, args []string) int {
	var sf viewFlags
	var vars variableFlags
	var o migration.TakeOptions
	f := a.NewFlags()
	sf.RegisterJSON(f)
	vars.registerValues(f)
	f.StringVar(&o.Host, "hostname", "", "")
	f.StringVar(&o.Organization, "organization", "", "")
	f.StringVar(&o.Project, "project", "", "")
	f.StringVar(&o.ExecutionMode, "execution-mode", "", "")
	f.BoolVar(&o.SkipPlan, "skip-plan", false, "")
	f.DurationVar(&o.LockTimeout, "lock-timeout", time.Duration(0), "")
	s, code, ok := a.begin(f, migrateUsage, args, &sf)
	if !ok {
		return code
	}
	switch o.Name = f.Arg(0); {
	case f.NArg() != 1 || !estate.ValidWorkspace(o.Name):
		return s.WrongUsage("Invalid arguments list", "The command takes the name that the workspace of the service should "+
			"have.")
	case o.ExecutionMode != "" && o.ExecutionMode != "remote" && o.ExecutionMode != "local":
		return s.WrongUsage("Invalid execution mode", fmt.Sprintf("The mode is remote or local, not %q.", o.ExecutionMode))
	}
	for name, to := range map[string]*string{"TF_CLOUD_HOSTNAME": &o.Host, "TF_CLOUD_ORGANIZATION": &o.Organization} {
		if *to == "" {
			*to = a.Getenv(name)
		}
	}
	o.Each = func(t migration.TakenWorkspace) {
		what := fmt.Sprintf("%d version(s) written", t.Written)
		if t.Written == 0 {
			what = "everything was there"
		}
		s.Print(fmt.Sprintf("%s -> %s/%s: serial %d, lineage %s, %s\n", t.Workspace, o.Organization, t.Target, t.Serial,
			t.Lineage, what))
		s.Message("migrated", t.Workspace+" -> "+t.Target, map[string]any{"workspace": t.Workspace, "target": t.Target,
			"serial": t.Serial, "lineage": t.Lineage, "written": t.Written})
	}
	wd, diags := a.Estate.Configuration(vars.Variables)
	s.From(wd.Sources)
	if diags.HasErrors() {
		return s.End(diags)
	}
	root, more := wd.LoadRoot(false)
	if diags = diags.Append(estate.Errors(more)); diags.HasErrors() {
		return s.End(diags)
	}
	defer a.Interrupts.Hold()()
	taken, more := migration.Take(a.Interrupts.Leaving, wd.Storage(root, vars.Variables), o)
	if diags = diags.Append(more); diags.HasErrors() {
		if taken != nil && len(taken.Workspaces) > 0 {
			diags = diags.Append(diag.New(diag.Warning, "Some workspaces have already been migrated", "Their states "+
				"are also still at their old places. Run the command again to migrate the others. Until then, use the old "+
				"states.",
				nil))
		}
		return s.End(diags)
	}
	s.Print(view.MigratedText(taken, o))
	return s.End(diags)
}
