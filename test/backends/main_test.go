// Package backends takes the steps that a user's state goes through over every backend, with the coordinator as users
// run it: against the fakes of test/clouds, and a real PostgreSQL.
package backends

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/process"
)

// program is the coordinator.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
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

// patience is how long a test waits for what should come soon.
const patience = 2 * time.Minute

// directory is a working directory over a place.
type directory struct {
	t   *testing.T
	dir string
	env map[string]string
}

// directory makes a directory with a backend block around the body, and a configuration.
func (w *world) directory(t *testing.T, body, configuration string) *directory {
	t.Helper()
	d := &directory{t: t, dir: t.TempDir(), env: w.env}
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
	cmd := exec.Command(program, args...)
	cmd.Dir = d.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir, "TMPDIR=" + os.TempDir(), "TF_IN_AUTOMATION=1",
		"NO_COLOR=1"}
	for name, value := range d.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	p, err := process.Start("coordinator "+strings.Join(args, " "), cmd)
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
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	code, err := p.Wait(ctx)
	if err != nil {
		d.t.Fatalf("%v\n%s", err, p.Output())
	}
	return code, p.Output()
}

// must runs a command that has to succeed.
func (d *directory) must(args ...string) string {
	d.t.Helper()
	code, text := d.ends(d.start(args...))
	if code != 0 {
		d.t.Fatalf("coordinator %s: exit status %d\n%s", strings.Join(args, " "), code, text)
	}
	return text
}

// fails runs a command that has to fail, and to say something.
func (d *directory) fails(says string, args ...string) string {
	d.t.Helper()
	code, text := d.ends(d.start(args...))
	if code == 0 || !strings.Contains(text, says) {
		d.t.Fatalf("coordinator %s: exit status %d, want a failure that says %q\n%s", strings.Join(args, " "), code,
			says,
			text)
	}
	return text
}

// unchanged claims that a plan has nothing to do.
func (d *directory) unchanged(args ...string) {
	d.t.Helper()
	d.must(append([]string{"plan", "-detailed-exitcode"}, args...)...)
}

var serialLine = regexp.MustCompile(`"serial": ?(\d+)`)

// serial returns the serial of the state in the backend.
func (d *directory) serial() string {
	d.t.Helper()
	m := serialLine.FindStringSubmatch(d.must("state", "pull"))
	if m == nil {
		d.t.Fatal("the state that was pulled has no serial")
	}
	return m[1]
}

var idLine = regexp.MustCompile(`ID: +(\S+)`)

// lockID reads the ID of a lock from a refusal.
func (d *directory) lockID(text string) string {
	d.t.Helper()
	m := idLine.FindStringSubmatch(text)
	if m == nil {
		d.t.Fatalf("the refusal names no lock:\n%s", text)
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
	eventually(d.t, "the apply is at work", func() bool {
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
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}
