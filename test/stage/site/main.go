package site

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/test/stage/nats"
)

// Built are the programs under test and their environment. Main builds them once, before the first test.
var Built struct {
	// Root is the directory of the repository.
	Root                            string
	Coordinator, Worker, NATSServer string
	// Record is the program that summarises the providers' record.
	Record string
	// CLIConfig is a CLI configuration that installs only from the mirror of test providers.
	CLIConfig string
}

// Main is the TestMain of a package whose tests use sites: it builds everything and runs the tests. tags are build
// tags for the programs.
func Main(m *testing.M, tags ...string) {
	flag.Parse()
	// The tests wait for providers and timeouts more than they compute.
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		if err := p.Value.Set("4"); err != nil {
			panic(err)
		}
	}
	os.Exit(run(m, tags))
}

func run(m *testing.M, tags []string) int {
	if testing.Short() {
		fmt.Println("not in short mode: the system's tests build everything")
		return 0
	}
	dir, err := os.MkdirTemp("", "millipede-system-")
	if err == nil {
		err = build(dir, tags)
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

// moduleRoot returns the folder of the project: the nearest one with a go.mod above the test's own.
func moduleRoot() (string, error) {
	dir, err := filepath.Abs(".")
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == filepath.Dir(dir) {
			return dir, err
		}
	}
	return "", err
}

// build builds everything into a directory, like a user who only has Go.
func build(dir string, tags []string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	Built.Root = root
	flags := raceFlags
	if len(tags) > 0 {
		flags = append([]string{"-tags=" + strings.Join(tags, ",")}, flags...)
	}
	var group errgroup.Group
	group.SetLimit(2) // the go command itself uses all cores
	program := func(to *string, module, pkg, name string, flags ...string) {
		*to = filepath.Join(dir, name)
		args := append([]string{"-C", filepath.Join(root, module), "build", "-o", *to}, flags...)
		group.Go(func() error { return goCommand(append(args, pkg)...) })
	}
	program(&Built.Coordinator, ".", "./cmd/coordinator", "coordinator", flags...)
	program(&Built.Worker, ".", "./cmd/worker", "worker", flags...)
	program(&Built.Record, "test/providers", "./cmd/record", "record")
	group.Go(func() (err error) {
		Built.NATSServer, err = nats.Build(context.Background(), root, dir)
		return err
	})
	Built.CLIConfig = filepath.Join(dir, "cli.tfrc")
	group.Go(func() error {
		return goCommand("-C", filepath.Join(root, "test/providers"), "run", "./cmd/mirror", "-out", dir)
	})
	return group.Wait()
}

// Build builds a program of the repository in another way, with flags of the go command, for one test.
func Build(t *testing.T, pkg string, flags ...string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), filepath.Base(pkg))
	args := append([]string{"-C", Built.Root, "build", "-o", program}, append(raceFlags, flags...)...)
	if err := goCommand(append(args, pkg)...); err != nil {
		t.Fatal(err)
	}
	return program
}

func goCommand(args ...string) error {
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %q: %w\n%s", args, err, out)
	}
	return nil
}
