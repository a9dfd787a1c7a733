// Package backends tests every backend with the commands of a user: the real coordinator stores states in the fakes of
// test/stage/clouds and in a real PostgreSQL.
package backends

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/process"
)

// program is the path of the coordinator. tofu is the path of an OpenTofu 1.12 that takes turns with it on one state,
// from the variable TOFU; empty for none.
var (
	program string
	tofu    = os.Getenv("TOFU")
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

// together is how many tests run at the same time: they wait more than they compute.
const together = 6

func run(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(together)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "millipede-backends-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	program = filepath.Join(dir, "coordinator")
	out, err := exec.Command("go", "build", "-trimpath", "-o", program, "../../cmd/coordinator").CombinedOutput()
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		err = fmt.Errorf("%w: %s", err, out)
	}
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// timeout is how long a test waits for the end of a command, or for another event that should come soon.
const timeout = 2 * time.Minute

// directory is a working directory, with the program that runs in it.
type directory struct {
	t       *testing.T
	program string
	dir     string
	env     map[string]string
}

// directory makes a working directory with a configuration and a backend block that has the given arguments.
func (w *world) directory(t *testing.T, body, configuration string) *directory {
	t.Helper()
	d := &directory{t: t, program: program, dir: t.TempDir(), env: w.env}
	d.write("main.tf", configuration)
	d.write("backend.tf", "terraform {\n  backend \""+w.kind+"\" {\n"+body+"\n  }\n}\n")
	return d
}

func (d *directory) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d *directory) path(name string) string { return filepath.Join(d.dir, name) }

func (d *directory) start(args ...string) *process.Process {
	d.t.Helper()
	cmd := exec.Command(d.program, args...)
	cmd.Dir = d.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir, "TMPDIR=" + os.TempDir(), "TF_IN_AUTOMATION=1",
		"NO_COLOR=1"}
	if d.program != program {
		cmd.Env = append(cmd.Env, "TF_CLI_ARGS=-no-color")
	}
	for name, value := range d.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	p, err := process.Start(d.program+" "+strings.Join(args, " "), cmd)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			d.t.Error(err)
		}
	})
	return p
}

// ends waits for the end of a command.
func (d *directory) ends(p *process.Process) (code int, text string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), timeout)
	defer cancel()
	code, err := p.Wait(ctx)
	if err != nil {
		d.t.Fatalf("%v\n%s", err, p.Output())
	}
	return code, p.Output()
}

// must runs a command that must succeed, and returns its output.
func (d *directory) must(args ...string) string {
	d.t.Helper()
	code, text := d.ends(d.start(args...))
	if code != 0 {
		d.t.Fatalf("%s %s: exit status %d\n%s", d.program, strings.Join(args, " "), code, text)
	}
	return text
}

// fails runs a command that must fail, and whose output must contain the text says.
func (d *directory) fails(says string, args ...string) string {
	d.t.Helper()
	code, text := d.ends(d.start(args...))
	if code == 0 || !strings.Contains(text, says) {
		d.t.Fatalf("%s %s: exit status %d, want a failure that says %q\n%s", d.program, strings.Join(args, " "), code,
			says, text)
	}
	return text
}

// unchanged checks that a plan finds no changes.
func (d *directory) unchanged(args ...string) {
	d.t.Helper()
	d.must(append([]string{"plan", "-detailed-exitcode"}, args...)...)
}

var serialLine = regexp.MustCompile(`"serial": ?(\d+)`)

// serial returns the serial of the state in the backend.
func (d *directory) serial() int {
	d.t.Helper()
	m := serialLine.FindStringSubmatch(d.must("state", "pull"))
	if m == nil {
		d.t.Fatal("the state that was pulled has no serial")
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

var idLine = regexp.MustCompile(`(?m)^\W*ID: +(\S+)`)

// lockID reads the ID of a lock from the error message of a command that did not get it.
func (d *directory) lockID(text string) string {
	d.t.Helper()
	m := idLine.FindStringSubmatch(text)
	if m == nil {
		d.t.Fatalf("the error message names no lock:\n%s", text)
	}
	return m[1]
}

// holds starts an apply that holds the lock until release is called.
func (d *directory) holds(value string) (p *process.Process, release func()) {
	d.t.Helper()
	for _, name := range []string{"begun", "go"} {
		if err := os.RemoveAll(d.path(name)); err != nil {
			d.t.Fatal(err)
		}
	}
	p = d.start("apply", "-auto-approve", "-var=value="+value, "-var=wait=true")
	eventually(d.t, "the apply creates its object", func() bool {
		select {
		case <-p.Done():
			d.t.Fatalf("the apply ended:\n%s", p.Output())
		default:
		}
		_, err := os.Stat(d.path("begun"))
		return err == nil
	})
	return p, func() { d.write("go", "") }
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("after %s it is still not true that %s", timeout, what)
		case <-tick.C:
		}
	}
}
