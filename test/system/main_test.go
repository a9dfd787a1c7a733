// Package system holds the tests of the whole: the programs as users run them, a real NATS server, real plugins.
//
// What a test claims it reads off what the programs left: their exit codes and their words, the state, the providers'
// record of every call, the providers' cloud. It looks into no package of the project.
package system

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/test/nats"
)

// built are the programs under test and their surroundings, built once for all tests.
var built struct {
	root                            string // of the repository
	coordinator, worker, natsServer string
	record                          string // sums the providers' record up
	cliConfig                       string // installs from the mirror of test providers only
}

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait for providers, and for what is given up after a time, more than they compute.
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		if err := p.Value.Set("4"); err != nil {
			panic(err)
		}
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if testing.Short() {
		fmt.Println("not in short mode: the system's tests build everything")
		return 0
	}
	dir, err := os.MkdirTemp("", "millipede-system-")
	if err == nil {
		err = build(dir)
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// build builds everything into a directory, as a user who has nothing but Go could.
func build(dir string) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	built.root = root
	var group errgroup.Group
	group.SetLimit(2) // the go command itself uses all cores
	program := func(to *string, module, pkg, name string, flags ...string) {
		*to = filepath.Join(dir, name)
		args := append([]string{"-C", filepath.Join(root, module), "build", "-o", *to}, flags...)
		group.Go(func() error { return goCommand(append(args, pkg)...) })
	}
	program(&built.coordinator, ".", "./cmd/coordinator", "coordinator", raceFlags...)
	program(&built.worker, ".", "./cmd/worker", "worker", raceFlags...)
	program(&built.record, "test/providers", "./cmd/record", "record")
	group.Go(func() (err error) {
		built.natsServer, err = nats.Build(context.Background(), root, dir)
		return err
	})
	built.cliConfig = filepath.Join(dir, "cli.tfrc")
	group.Go(func() error {
		return goCommand("-C", filepath.Join(root, "test/providers"), "run", "./cmd/mirror", "-out", dir)
	})
	return group.Wait()
}

func goCommand(args ...string) error {
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %q: %w\n%s", args, err, out)
	}
	return nil
}
