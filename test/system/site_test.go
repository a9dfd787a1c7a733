package system

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/nats"
	"github.com/millipede-iac/millipede/test/process"
)

// patience is how long a test waits for what should come soon.
const patience = slowness * 90 * time.Second

// waiting returns a context that ends when the patience does.
func waiting(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the test's patience has ended"))
	t.Cleanup(cancel)
	return ctx
}

// site is a working directory, and the world that its resources live in.
type site struct {
	t   *testing.T
	dir string
	// cloud and record are where the test providers keep objects and write calls; the workers' environment has them.
	cloud, record string
	// nats is the URL of the server; empty for the embedded default.
	nats string
}

// newSite makes a directory with a configuration. Everything runs inside the coordinator's process until nats is set.
func newSite(t *testing.T, configuration string) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t: t, dir: filepath.Join(dir, "site"), cloud: filepath.Join(dir, "cloud"), record: filepath.Join(dir, "record")}
	for _, d := range []string{s.dir, s.cloud} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.write("main.tf", configuration)
	return s
}

// neighbour makes another directory in the same world, on the same server.
func (s *site) neighbour(configuration string) *site {
	s.t.Helper()
	n := *s
	n.dir = filepath.Join(s.t.TempDir(), "site")
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	n.write("main.tf", configuration)
	return &n
}

func (s *site) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) read(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// environment is what all programs of the site get: nothing of the tester's own that could change what they do.
func (s *site) environment() []string {
	var env []string
	for _, v := range os.Environ() {
		switch name, _, _ := strings.Cut(v, "="); {
		case strings.HasPrefix(name, "TF_"), strings.HasPrefix(name, "TOFU_"), strings.HasPrefix(name, "MILLIPEDE_"), strings.HasPrefix(name, "FLEET_"):
		default:
			env = append(env, v)
		}
	}
	return append(env, "TF_CLI_CONFIG_FILE="+built.cliConfig, "TF_IN_AUTOMATION=1", "FLEET_CLOUD="+s.cloud, "FLEET_RECORD="+s.record)
}

// command is a call of the coordinator in the site's directory.
func (s *site) command(args ...string) *exec.Cmd {
	if s.nats != "" {
		args = append([]string{"-nats=" + s.nats}, args...)
	}
	c := exec.Command(built.coordinator, args...)
	c.Dir, c.Env = s.dir, s.environment()
	return c
}

// start starts a command of the coordinator, which is killed with the test if it still runs.
func (s *site) start(args ...string) *process.Process {
	s.t.Helper()
	return started(s.t, "coordinator "+strings.Join(args, " "), s.command(args...))
}

// started starts a process that is killed with the test if it still runs. A failed test shows what it wrote.
func started(t *testing.T, name string, c *exec.Cmd) *process.Process {
	t.Helper()
	p, err := process.Start(name, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if bug := regexp.MustCompile(`(?m)^(WARNING: DATA RACE|panic: |fatal error: )`); bug.MatchString(p.Output()) {
			t.Errorf("%s has a bug", name)
		}
		if t.Failed() {
			t.Logf("---- %s wrote:\n%s", name, tail(p.Output()))
		}
	})
	return p
}

// tail shortens what a process wrote to what a reader of a failure needs.
func tail(text string) string {
	const enough = 12_000
	if len(text) <= enough {
		return text
	}
	return text[:enough/3] + "\n[...]\n" + text[len(text)-enough*2/3:]
}

// exit waits for the end of a process and returns its exit status.
func exit(t *testing.T, p *process.Process) int {
	t.Helper()
	code, err := p.Wait(waiting(t))
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// result is what a command came to: its exit status and all that it wrote.
type result struct {
	code int
	text string
}

// run runs a command to its end.
func (s *site) run(args ...string) result {
	s.t.Helper()
	p := s.start(args...)
	return result{exit(s.t, p), p.Output()}
}

// must runs a command that has to succeed, and returns what it wrote.
func (s *site) must(args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	if r.code != 0 {
		s.t.Fatalf("coordinator %s: exit status %d", strings.Join(args, " "), r.code)
	}
	return r.text
}

// unchanged claims that nothing is left to do.
func (s *site) unchanged() {
	s.t.Helper()
	if r := s.run("plan", "-no-color", "-detailed-exitcode"); r.code != 0 || !strings.Contains(r.text, "No changes.") {
		s.t.Errorf("a plan finds changes (exit status %d):\n%s", r.code, tail(r.text))
	}
}

// server starts a NATS server for the test, and has the site use it.
func (s *site) server() *nats.Server {
	s.t.Helper()
	n, err := nats.Start(waiting(s.t), nats.Options{Program: built.natsServer, Root: built.root, Dir: s.t.TempDir()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := n.Close(); err != nil {
			s.t.Error(err)
		}
	})
	s.nats = n.URL()
	return n
}

// worker is a worker process with a directory of its own, in which it can be started again.
type worker struct {
	*process.Process
	site *site
	pool string
	dir  string
	id   string
}

// worker starts a worker of a pool, and returns when it works.
func (s *site) worker(pool string) *worker {
	s.t.Helper()
	w := &worker{site: s, pool: pool, dir: s.t.TempDir()}
	w.start()
	return w
}

// start starts the worker, again perhaps, and returns when it works.
func (w *worker) start() {
	t := w.site.t
	t.Helper()
	c := exec.Command(built.worker, "-nats="+w.site.nats, "-pool="+w.pool, "-cache="+w.dir, "-slots=16")
	c.Env = w.site.environment()
	w.Process = started(t, "worker of "+w.pool, c)
	line, err := w.Await(waiting(t), "msg=working")
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(line, " worker=")
	w.id, _, _ = strings.Cut(id, " ")
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx := waiting(t)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("it never came true that %s", what)
		}
	}
}

// objects returns the objects in the cloud: id to type.
func (s *site) objects() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(s.cloud, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), "."): // the turns of the knobs
			return filepath.SkipDir
		case !d.IsDir() && !strings.HasPrefix(d.Name(), "."): // else its writer was killed
			out[strings.TrimSuffix(d.Name(), ".json")] = filepath.Base(filepath.Dir(path))
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}
