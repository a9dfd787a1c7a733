package view

import (
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/migration"
	"github.com/millipede-iac/millipede/lang/diag"
)

// MigratedText names the next steps after states were migrated to a service, and the commands that undo the migration.
// OpenTofu accepts these commands, too, with one exception, which the text names. Without the other commands, it would
// migrate again, from the backend that init has recorded, or from files that it finds.
func MigratedText(taken *migration.Taken, o migration.TakeOptions) string {
	var b strings.Builder
	selects := fmt.Sprintf("name = %q", o.Name)
	if taken.Tag != "" {
		selects = fmt.Sprintf("tags = [%q]", taken.Tag)
	}
	project := ""
	if o.Project != "" {
		project = fmt.Sprintf("\n        project = %q", o.Project)
	}
	there, back := moving(taken)
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
OpenTofu needs the same commands, but refuses -reconfigure with a cloud block: leave it out.

To go back before anything is applied at the service, replace the cloud block by the
backend block, and run:

%s
After an apply at the service, also copy the states back. With the cloud block still in
place:

`, o.Host, o.Organization, selects, project, there, back)
	for _, t := range taken.Workspaces {
		fmt.Fprintf(&b, "  %s%s state pull > %s.tfstate\n", in(taken.Tag != "", t.Target), diag.Program(), t.Target)
	}
	fmt.Fprintf(&b, "\nThen, with the backend block:\n\n%s", back)
	for _, t := range taken.Workspaces {
		fmt.Fprintf(&b, "  %s%s state push %s.tfstate\n", in(!taken.Single, t.Workspace), diag.Program(), t.Target)
	}
	return b.String()
}

// moving returns the commands with which a directory begins to use the service, and those with which it uses its former
// backend again.
func moving(taken *migration.Taken) (there, back string) {
	forget := "  rm -f " + taken.Record + "\n"
	there, back = forget, forget
	if taken.Local {
		for _, name := range []string{"terraform.tfstate", "terraform.tfstate.d"} {
			if name == "terraform.tfstate.d" && taken.Tag == "" {
				continue // there are no other workspaces
			}
			there += fmt.Sprintf("  [ ! -e %[1]s ] || mv %[1]s %[1]s.migrated\n", name)
			back += fmt.Sprintf("  [ ! -e %[1]s.migrated ] || mv %[1]s.migrated %[1]s\n", name)
		}
	}
	// With the variable, init does not ask which of the workspaces to select: the selected one is not there.
	selecting := func(workspace string) string {
		return fmt.Sprintf("  %s%s init -reconfigure\n  %[2]s workspace select %[3]s\n", in(true, workspace),
			diag.Program(), workspace)
	}
	if taken.Single {
		back += "  " + diag.Program() + " init -reconfigure\n"
	} else {
		back += selecting(taken.Selected)
	}
	if taken.Tag == "" {
		return there + "  " + diag.Program() + " init -reconfigure\n", back
	}
	for _, t := range taken.Workspaces {
		if t.Workspace == taken.Selected {
			there += selecting(t.Target)
		}
	}
	return there, back
}

// in returns the assignment before a command that makes it work on a workspace; empty if there is nothing to select.
func in(selects bool, workspace string) string {
	if !selects {
		return ""
	}
	return fmt.Sprintf("TF_WORKSPACE=%s ", workspace)
}
