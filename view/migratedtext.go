package view

import (
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
)

// MigratedText says what to do once the states are at a service, and how to take them back.
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
