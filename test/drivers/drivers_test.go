package drivers

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	all       = flag.Bool("all", false, "run the suites: this takes most of an hour")
	only      = flag.String("suite", "", "run this suite only")
	snapshots = flag.String("snapshots", "", "a directory with Git repositories of the providers' sources")
	binary    = flag.String("binary", "", "the binary that is driven; the coordinator is built by default")
	keep      = flag.String("keep", "", "a directory that keeps what was built; a temporary one by default")
)

// Tests of programs that drive the command line failed, and nobody saw it: 40 of terraform-plugin-testing's had failed
// at show since a change of how states are adopted.
func TestTheSuitesOfDriversPass(t *testing.T) {
	if !*all {
		t.Skip("the suites run with -all: make drivers")
	}
	found := sources{snapshots: *snapshots, dir: *keep}
	if found.dir == "" {
		found.dir = t.TempDir()
	}
	if *binary == "" {
		*binary = filepath.Join(found.dir, "coordinator")
		_, err := output(t.Context(), "../..", "go", "build", "-trimpath", "-o", *binary, "./cmd/coordinator")
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range suites {
		if *only != "" && s.name != *only {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			dir, err := found.at(t.Context(), s.name, s.module, s.version, s.commit)
			if errors.Is(err, errNoSnapshot) {
				t.Skipf("%v in %q: name a directory with SNAPSHOTS=DIR", err, *snapshots)
			}
			if err != nil {
				t.Fatal(err)
			}
			mirror, missing, err := found.mirror(t.Context(), s.installs)
			if err != nil {
				t.Fatal(err)
			}
			if len(missing) > 0 {
				t.Logf("there is no source of %s: tests that install it fail", strings.Join(missing, ", "))
			}
			o, err := run(t.Context(), dir, s.packages, mirror)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range o.problems(s) {
				t.Error(p)
			}
			t.Logf("%d tests pass, %d fail", len(o.passed), len(o.failed))
		})
	}
}

// run runs the tests of a suite. It passes on no environment variables that select the program under test.
func run(ctx context.Context, dir string, packages []string, mirror string) (*outcome, error) {
	arguments := append([]string{"test", "-json", "-count=1", "-p=1", "-timeout=2h"}, packages...)
	c := exec.CommandContext(ctx, "go", arguments...)
	c.Dir = dir
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "TF_") || strings.HasPrefix(v, "MILLIPEDE_") || strings.HasPrefix(v, "TFEXEC_")
	})
	c.Env = append(c.Env, "TF_ACC=1", "TF_ACC_TERRAFORM_PATH="+*binary, "TFEXEC_E2ETEST_TERRAFORM_PATH="+*binary,
		"TF_ACC_PROVIDER_HOST=registry.opentofu.org", "TF_CLI_CONFIG_FILE="+mirror, "CHECKPOINT_DISABLE=1")
	c.Stderr = os.Stderr
	events, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	o, err := read(events)
	var failed *exec.ExitError
	if waited := c.Wait(); waited != nil && !errors.As(waited, &failed) {
		err = errors.Join(err, waited)
	}
	return o, err
}
