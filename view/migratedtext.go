package view

import (
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
)

// MigratedText says what to do after states were migrated to a service, and how to undo the migration.
func MigratedText(taken *estate.TakenToService, o estate.ServiceMigration) string {
	var b strings.Builder
	selects := fmt.Sprintf("name = %q", o.Name)
	if taken.Tag != "" {
		selects = fmt.Sprintf("tags = [%q]", taken.Tag)
	}
	project := ""
	if o.Project != "" {
		project = fmt.Sprintf("\n        project = %q", o.Project)
	}
	reconfigure := diag.Program() + " init -reconfigure\n"
	there, back := "  "+reconfigure, "  "+reconfigure
	// With the variable, init does not ask which of the workspaces to select: the selected one is not there.
	selecting := func(workspace string) string {
		return fmt.Sprintf("  TF_WORKSPACE=%s %s  %s workspace select %[1]s\n", workspace, reconfigure, diag.Program())
	}
	if !taken.Single {
		back = selecting(taken.Selected)
	}
	for _, t := range taken.Workspaces {
		if t.Workspace == taken.Selected && taken.Tag != "" {
			there = selecting(t.Target)
		}
	}
	fmt.Fprintf(&b, `
The states were copied to the service; the originals are unchanged. To work with the
states at the service, replace the backend block of the configuration by this block:

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

%s
To go back before anything is applied at the service, replace the cloud block by the
backend block, and run:

%s
After an apply at the service, also copy the states back. With the cloud block still in
place:

`, o.Host, o.Organization, selects, project, there, back)
	for _, t := range taken.Workspaces {
		fmt.Fprintf(&b, "  TF_WORKSPACE=%s %s state pull > %s.tfstate\n", t.Target, diag.Program(), t.Target)
	}
	fmt.Fprintf(&b, "\nThen, with the backend block:\n\n%s", back)
	for _, t := range taken.Workspaces {
		fmt.Fprintf(&b, "  TF_WORKSPACE=%s %s state push %s.tfstate\n", t.Workspace, diag.Program(), t.Target)
	}
	return b.String()
}
