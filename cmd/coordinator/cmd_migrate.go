package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
)

const migrateUsage = `
Usage: coordinator [global options] migrate [options] NAME

  Takes the states of this directory to a service that speaks the API of HCP Terraform, such as coordinator serve: the
  states of all workspaces, with the earlier versions that the store here has. The default workspace becomes the
  workspace NAME of the service; another one, WORKSPACE, becomes NAME-WORKSPACE. Where there are others, all of them get
  the tag NAME.

  Nothing is changed where the states are now, nor in the configuration: the command prints the block that goes there,
  and the commands that take the states back. Serial, lineage and content are compared, and a plan must have no changes
  before and after. A run that was cut off, or an operation in doubt, has to be settled first. When the command is cut
  off, it can be run again: it goes on with what is missing.

Options:
  -hostname=HOST        The host of the service. The default is what TF_CLOUD_HOSTNAME says.
  -organization=NAME    The organization there. The default is what TF_CLOUD_ORGANIZATION says.
  -project=NAME         The project that new workspaces belong to.
  -execution-mode=MODE  Of new workspaces: remote, for runs that the service carries out, or local. The default is the
                        service's.
  -skip-plan            Do not make plans: compare the states alone.
  -lock-timeout=0s      How long to wait for a lock that another command holds.
  -var 'NAME=VALUE', -var-file=FILE
                        Variables for the plans. May be given often.
` + jsonHelp

func runMigrate(ctx context.Context, a *app, args []string) int {
	var sf showFlags
	var vars variableFlags
	var o estate.ServiceMigration
	f := a.newFlags()
	sf.register(f)
	vars.registerValues(f)
	f.StringVar(&o.Host, "hostname", "", "")
	f.StringVar(&o.Organization, "organization", "", "")
	f.StringVar(&o.Project, "project", "", "")
	f.StringVar(&o.ExecutionMode, "execution-mode", "", "")
	f.BoolVar(&o.SkipPlan, "skip-plan", false, "")
	f.DurationVar(&o.LockTimeout, "lock-timeout", time.Duration(0), "")
	if code, done := a.parse(f, migrateUsage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(sf, nil)
	switch o.Name = f.Arg(0); {
	case diags.HasErrors():
		return s.end(diags)
	case f.NArg() != 1 || !estate.ValidWorkspace(o.Name):
		return s.wrongUsage("Invalid arguments list", "The command takes the name that the workspace of the service is to "+
			"have.")
	case o.ExecutionMode != "" && o.ExecutionMode != "remote" && o.ExecutionMode != "local":
		return s.wrongUsage("Invalid execution mode", fmt.Sprintf("The mode is remote or local, not %q.", o.ExecutionMode))
	}
	for name, to := range map[string]*string{"TF_CLOUD_HOSTNAME": &o.Host, "TF_CLOUD_ORGANIZATION": &o.Organization} {
		if *to == "" {
			*to = a.getenv(name)
		}
	}
	o.Variables = vars.Variables
	o.Each = func(t estate.TakenWorkspace) {
		what := fmt.Sprintf("%d version(s) written", t.Written)
		if t.Written == 0 {
			what = "everything was there"
		}
		s.print(fmt.Sprintf("%s -> %s/%s: serial %d, lineage %s, %s\n", t.Workspace, o.Organization, t.Target, t.Serial,
			t.Lineage, what))
		s.message("migrated", t.Workspace+" -> "+t.Target, map[string]any{"workspace": t.Workspace, "target": t.Target,
			"serial": t.Serial, "lineage": t.Lineage, "written": t.Written})
	}
	wd, diags := a.estate.Configuration(vars.Variables)
	s.from(wd.Sources)
	if diags.HasErrors() {
		return s.end(diags)
	}
	root, more := wd.LoadRoot(false)
	if diags = diags.Append(estate.Errors(more)); diags.HasErrors() {
		return s.end(diags)
	}
	defer a.interrupts.Hold()()
	taken, more := wd.TakeToService(a.interrupts.Leaving, root, o)
	if diags = diags.Append(more); diags.HasErrors() {
		if taken != nil && len(taken.Workspaces) > 0 {
			diags = diags.Append(diag.New(diag.Warning, "Some workspaces are at the service already", "Their states are "+
				"where they were, too. Run the command again for the rest; until then, work with the states that are here.",
				nil))
		}
		return s.end(diags)
	}
	s.print(nextOfMigration(taken, o))
	return s.end(diags)
}

// nextOfMigration is what to do once the states are at a service, and how to take them back.
func nextOfMigration(taken *estate.TakenToService, o estate.ServiceMigration) string {
	var b strings.Builder
	selects := fmt.Sprintf("name = %q", o.Name)
	if taken.Tag != "" {
		selects = fmt.Sprintf("tags = [%q]", taken.Tag)
	}
	project := ""
	if o.Project != "" {
		project = fmt.Sprintf("\n        project = %q", o.Project)
	}
	fmt.Fprintf(&b, `
The states are at the service, and unchanged where they were. To work with those
at the service, put this into the configuration in place of the backend block:

  terraform {
    cloud {
      hostname     = %q
      organization = %q
      workspaces {
        %s%s
      }
    }
  }

and run:

  %[5]s init -reconfigure

The way back, before anything is applied at the service: take the cloud block out,
put the backend block back, and run the same command. Afterwards, also bring back
what was applied there. With the cloud block still in place:

`, o.Host, o.Organization, selects, project, diag.Program())
	for _, t := range taken.Workspaces {
		fmt.Fprintf(&b, "  TF_WORKSPACE=%s %s state pull > %s.tfstate\n", t.Target, diag.Program(), t.Target)
	}
	fmt.Fprintf(&b, "\nthen, with the backend block:\n\n  %s init -reconfigure\n", diag.Program())
	for _, t := range taken.Workspaces {
		fmt.Fprintf(&b, "  TF_WORKSPACE=%s %s state push %s.tfstate\n", t.Workspace, diag.Program(), t.Target)
	}
	return b.String()
}
