package drivers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"
)

// asNewer returns a program that is the coordinator, and says that it is Terraform 1.14: terraform-exec calls no query
// of an older one.
func asNewer(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the program is a script")
	}
	script := fmt.Sprintf(`#!/bin/sh
if [ "$1" = version ]; then
	echo '{"terraform_version": "1.14.0", "provider_selections": {}}'
else
	exec %q "$@"
fi
`, binary)
	path := filepath.Join(t.TempDir(), "terraform")
	must(t, os.WriteFile(path, []byte(script), 0o700)) //nolint:gosec // a program
	return path
}

const identities = `
terraform {
  required_providers {
    fleet = { source = "millipede/fleet" }
  }
}

provider "fleet" {
  cloud = %q
}
`

// The objects were made by one configuration, and a second one, in another directory, finds, lists and imports them.
func TestExecQueriesAndImportsWhatItHasFound(t *testing.T) {
	ctx := t.Context()
	head := fmt.Sprintf(identities, filepath.Join(t.TempDir(), "cloud"))
	maker, _ := inDir(t, head+"resource \"fleet_identity\" \"a\" {\n  count = 120\n  name = \"a-${count.index}\"\n"+
		"  region = \"eu-${count.index % 3}\"\n}\n")
	must(t, maker.Apply(ctx))

	_, dir := inDir(t, head)
	must(t, os.WriteFile(filepath.Join(dir, "q.tfquery.hcl"), []byte(`
variable "region" {}
list "fleet_identity" "all" {
  provider         = fleet
  include_resource = true
  config {
    region = var.region
  }
}
`), 0o600))
	tf, err := tfexec.NewTerraform(dir, asNewer(t))
	must(t, err)
	messages, err := tf.QueryJSON(ctx, tfexec.Var("region=eu-1"), tfexec.GenerateConfigOut("generated.tf"))
	must(t, err)
	var names []string
	started, total := false, -1
	for m := range messages {
		must(t, m.Err)
		switch m := m.Msg.(type) {
		case tfjson.ListStartMessage:
			started = m.ListStart.Address == "list.fleet_identity.all" && m.ListStart.ResourceType == "fleet_identity" &&
				m.ListStart.InputConfig["region"] == "eu-1"
		case tfjson.ListResourceFoundMessage:
			f := m.ListResourceFound
			if f.Identity["region"] != "eu-1" || f.IdentityVersion != 1 || f.ResourceObject["name"] != f.Identity["name"] ||
				f.Config == "" || f.ImportConfig == "" || f.DisplayName == "" {
				t.Fatalf("found %+v", f)
			}
			names = append(names, f.Identity["name"].(string))
		case tfjson.ListCompleteMessage:
			total = m.ListComplete.Total
		case tfjson.UnknownLogMessage:
			t.Errorf("not understood: %+v", m)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); !started || total != 40 || len(names) != 40 {
		t.Fatalf("started: %t, total: %d, found: %v", started, total, names)
	}

	tf, err = tfexec.NewTerraform(dir, binary)
	must(t, err)
	schemas, err := tf.ProvidersSchema(ctx)
	must(t, err)
	if l := schemas.Schemas["registry.opentofu.org/millipede/fleet"].ListResourceSchemas["fleet_identity"]; l == nil ||
		l.Block.Attributes["region"] == nil {
		t.Errorf("the schema of the list is %+v", l)
	}
	must(t, tf.Apply(ctx))
	if changes, err := tf.Plan(ctx); err != nil || changes {
		t.Errorf("after the import there is something to do, or %v", err)
	}
	st, err := tf.Show(ctx)
	must(t, err)
	if n := len(st.Values.RootModule.Resources); n != 40 {
		t.Errorf("%d objects were imported", n)
	}
}
