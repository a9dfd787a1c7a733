package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/internal/environ"
)

// vacate are the ways in which a directory without a backend block comes to have no state any more. Afterwards there is
// no block either.
var vacate = map[string]func(p *pipeline){
	"the file is removed": func(p *pipeline) {
		if err := os.Remove(filepath.Join(p.dir, "terraform.tfstate")); err != nil {
			p.Fatal(err)
		}
	},
	"the state is moved to another backend": func(p *pipeline) {
		p.setBlock(true)
		p.run(0, "init", "-no-color", "-input=false", "-migrate-state", "-force-copy",
			"-backend-config=path=place1/terraform.tfstate")
		p.setBlock(false)
		p.run(0, "init", "-no-color", "-input=false", "-reconfigure")
	},
}

// A plan names the version of the state for which it was made by lineage and serial, and an absent state had neither,
// after a removal as before the first apply. So a plan that was made after the removal counted as made before all of
// the history, and was refused as stale: the objects that it creates "were changed, and changed back".
func TestASavedPlanKnowsARemovedStateFromOneThatNeverWas(t *testing.T) {
	for how, remove := range vacate {
		t.Run(how, func(t *testing.T) {
			p := &pipeline{T: t, dir: t.TempDir(), shared: shared(t), env: environ.Variables{"PATH=" + os.Getenv("PATH"),
				"HOME=" + t.TempDir(), "TF_CLI_CONFIG_FILE=" + os.DevNull}}
			p.write("main.tf", pipelineTF)
			p.run(0, "plan", "-no-color", "-out=before")
			for _, plan := range []string{"after", "again"} {
				p.run(0, "apply", "-no-color", "-auto-approve")
				remove(p)
				p.run(0, "plan", "-no-color", "-out="+plan)
				if code, _ := p.run(-1, "state", "list"); code != 1 {
					t.Errorf("state list ends with %d, and there is no state", code)
				}
			}
			// The objects of these plans have existed since.
			p.run(1, "apply", "-no-color", "before")
			p.run(1, "apply", "-no-color", "after")
			p.run(0, "apply", "-no-color", "again")
			if t.Failed() {
				t.Log(strings.Join(p.log, "\n"))
			}
		})
	}
}
