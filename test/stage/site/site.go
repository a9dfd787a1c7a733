// Package site is the environment of tests of the whole system: a working directory, the programs as users run
// them, a real NATS server, real plugins, and a simulated cloud.
//
// Tests check the outputs of the programs: their exit codes and texts, the state, the providers' record of every
// call, the providers' cloud. The package uses no internals of the project.
package site

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/nats"
	"github.com/millipede-iac/millipede/test/stage/process"
)

// Timeout is how long a test waits for an event that should come soon. A test that runs alone, and creates many
// objects, may set it.
var Timeout = Slowness * 90 * time.Second

// Waiting returns a context that ends after Timeout.
func Waiting(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), Timeout, errors.New("the time limit of the test has passed"))
	t.Cleanup(cancel)
	return ctx
}

// Site is a working directory, and the environment of its resources.
type Site struct {
	T   *testing.T
	Dir string
	// Cloud and Record are where the test providers store objects and record calls; the workers' environment
	// contains them.
	Cloud, Record string
	// NATS is the URL of the server; empty for the embedded default. Store is the directory of its streams.
	NATS, Store string
	// Guard, if set before Server, makes the server use TLS and the users of deploy/nats; the programs connect as
	// those.
	Guard *nats.Certificates
	// Env is added to the environment of the started processes.
	Env []string
}

// New creates a directory with a configuration. Everything runs inside the coordinator's process unless nats is
// set.
func New(t *testing.T, configuration string) *Site {
	t.Helper()
	dir := t.TempDir()
	s := &Site{T: t, Dir: filepath.Join(dir, "site"), Cloud: filepath.Join(dir, "cloud"),
		Record: filepath.Join(dir, "record")}
	for _, d := range []string{s.Dir, s.Cloud} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.Write("main.tf", configuration)
	return s
}

// Neighbour creates another directory with the same cloud and server.
func (s *Site) Neighbour(configuration string) *Site {
	s.T.Helper()
	n := *s
	n.Dir = filepath.Join(s.T.TempDir(), "site")
	if err := os.MkdirAll(n.Dir, 0o755); err != nil {
		s.T.Fatal(err)
	}
	n.Write("main.tf", configuration)
	return &n
}

func (s *Site) Write(name, text string) {
	s.T.Helper()
	path := filepath.Join(s.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.T.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.T.Fatal(err)
	}
}

func (s *Site) Read(name string) string {
	s.T.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, name))
	if err != nil {
		s.T.Fatal(err)
	}
	return string(text)
}

// Environment returns the environment of all programs of the site: nothing of the tester's own that could affect
// them.
func (s *Site) Environment() []string {
	var env []string
	for _, v := range os.Environ() {
		switch name, _, _ := strings.Cut(v, "="); {
		case strings.HasPrefix(name, "TF_"), strings.HasPrefix(name, "TOFU_"), strings.HasPrefix(name, "MILLIPEDE_"),
			strings.HasPrefix(name, "NATS_"), strings.HasPrefix(name, "FLEET_"):
		default:
			env = append(env, v)
		}
	}
	env = append(env, "TF_CLI_CONFIG_FILE="+Built.CLIConfig, "TF_IN_AUTOMATION=1", "FLEET_CLOUD="+s.Cloud,
		"FLEET_RECORD="+s.Record)
	return append(env, s.Env...)
}

// Command returns a command of the coordinator in the site's directory.
func (s *Site) Command(args ...string) *exec.Cmd {
	if s.NATS != "" {
		args = append([]string{"-nats=" + s.NATS}, args...)
	}
	c := exec.Command(Built.Coordinator, args...)
	c.Dir, c.Env = s.Dir, s.Environment()
	if g := s.Guard; g != nil {
		c.Args = slices.Insert(c.Args, 1, "-nats-user=coordinator", "-nats-ca="+g.CA, "-nats-cert="+g.ClientCert,
			"-nats-key="+g.ClientKey)
		c.Env = append(c.Env, "MILLIPEDE_NATS_PASSWORD=coordinator")
	}
	return c
}

// Start starts a command of the coordinator, which is killed with the test if it still runs.
func (s *Site) Start(args ...string) *process.Process {
	s.T.Helper()
	return Started(s.T, "coordinator "+strings.Join(args, " "), s.Command(args...))
}

// Started starts a process that is killed with the test if it still runs. A failed test shows its output.
func Started(t *testing.T, name string, c *exec.Cmd) *process.Process {
	t.Helper()
	p, err := process.Start(name, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		// A test may bound the memory of a process.
		text := regexp.MustCompile("fatal error: runtime: (cannot allocate|out of) memory").ReplaceAllString(p.Output(), "")
		if bug := regexp.MustCompile(`(?m)^(WARNING: DATA RACE|panic: |fatal error: )`); bug.MatchString(text) {
			t.Errorf("%s has a bug", name)
		}
		if t.Failed() {
			t.Logf("---- %s wrote:\n%s", name, Tail(p.Output()))
		}
	})
	return p
}

// Tail shortens the output of a process to the part that is needed to understand a failure.
func Tail(text string) string {
	const enough = 12_000
	if len(text) <= enough {
		return text
	}
	return text[:enough/3] + "\n[...]\n" + text[len(text)-enough*2/3:]
}

// Exit waits for the end of a process and returns its exit status.
func Exit(t *testing.T, p *process.Process) int {
	t.Helper()
	code, err := p.Wait(Waiting(t))
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// Succeeds waits for the end of a process and checks that its exit status is 0. what describes the process.
func Succeeds(t *testing.T, p *process.Process, what string) {
	t.Helper()
	if code := Exit(t, p); code != 0 {
		t.Errorf("%s ended with exit status %d", what, code)
	}
}

// Result is the result of a command: its exit status and its output.
type Result struct {
	Code int
	Text string
}

// Run runs a command to its end.
func (s *Site) Run(args ...string) Result {
	s.T.Helper()
	p := s.Start(args...)
	return Result{Exit(s.T, p), p.Output()}
}

// Must runs a command that must succeed, and returns its output.
func (s *Site) Must(args ...string) string {
	s.T.Helper()
	r := s.Run(args...)
	if r.Code != 0 {
		s.T.Fatalf("coordinator %s: exit status %d", strings.Join(args, " "), r.Code)
	}
	return r.Text
}

// Unchanged checks that a plan has no changes.
func (s *Site) Unchanged() {
	s.T.Helper()
	if r := s.Run("plan", "-no-color", "-detailed-exitcode"); r.Code != 0 || !strings.Contains(r.Text, "No changes.") {
		s.T.Errorf("a plan finds changes (exit status %d):\n%s", r.Code, Tail(r.Text))
	}
}

// Server starts a NATS server for the test, which the site then uses.
func (s *Site) Server() *nats.Server {
	s.T.Helper()
	dir := s.T.TempDir()
	n, err := nats.Start(Waiting(s.T), nats.Options{Program: Built.NATSServer, Root: Built.Root, Dir: dir,
		Guard: s.Guard})
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() {
		if err := n.Close(); err != nil {
			s.T.Error(err)
		}
	})
	s.NATS, s.Store = n.URL(), nats.Store(dir)
	return n
}

// Servers starts a cluster of NATS servers for the programs, which is stopped with the test.
func (s *Site) Servers(n int) []*nats.Server {
	s.T.Helper()
	all, err := nats.Cluster(Waiting(s.T), nats.Options{Program: Built.NATSServer, Root: Built.Root, Dir: s.T.TempDir(),
		Guard: s.Guard}, n)
	if err != nil {
		s.T.Fatal(err)
	}
	var urls []string
	for _, one := range all {
		s.T.Cleanup(func() {
			if err := one.Close(); err != nil {
				s.T.Error(err)
			}
		})
		urls = append(urls, one.URL())
	}
	s.NATS = strings.Join(urls, ",")
	return all
}

// Worker is a worker process with its own directory, in which it can be restarted.
type Worker struct {
	*process.Process
	// ID is its name in the record, in claims and in heartbeats; it is the same after a restart.
	ID string
	// Dir contains its journal.
	Dir string
	// Env is added to its environment, and URL replaces the site's server, from the next Start on.
	Env []string
	URL string
	// Args are additional options, and Prefix is a program with arguments that executes the worker.
	Args, Prefix []string
	// Program replaces Built.Worker, from the next Start on.
	Program string

	site *Site
	pool string
}

// Worker starts a worker of a pool, and returns when it is ready.
func (s *Site) Worker(pool string) *Worker {
	s.T.Helper()
	w := s.NewWorker(pool)
	w.Start()
	return w
}

// NewWorker returns a worker that is not started yet.
func (s *Site) NewWorker(pool string) *Worker {
	s.T.Helper()
	return &Worker{site: s, pool: pool, Dir: s.T.TempDir()}
}

// Start starts the worker, again perhaps, and returns when it works.
func (w *Worker) Start() {
	t := w.site.T
	t.Helper()
	w.Process = Started(t, "worker of "+w.pool, w.Command())
	line, err := w.Await(Waiting(t), "msg=working")
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(line, " worker=")
	w.ID, _, _ = strings.Cut(id, " ")
}

// Command returns a command of the worker.
func (w *Worker) Command() *exec.Cmd {
	url := w.URL
	if url == "" {
		url = w.site.NATS
	}
	args := append([]string{"-nats=" + url, "-pool=" + w.pool, "-cache=" + w.Dir, "-slots=16"}, w.Args...)
	call := slices.Concat(w.Prefix, []string{cmp.Or(w.Program, Built.Worker)}, args)
	c := exec.Command(call[0], call[1:]...)
	c.Env = append(w.site.Environment(), w.Env...)
	if g := w.site.Guard; g != nil { // with the variables of all NATS programs
		user := "worker-" + w.pool
		c.Env = append(c.Env, "NATS_USER="+user, "NATS_PASSWORD="+user, "NATS_CA="+g.CA, "NATS_CERT="+g.ClientCert,
			"NATS_KEY="+g.ClientKey)
	}
	return c
}

// Eventually waits until a condition is true.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx := Waiting(t)
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

// Objects returns the objects in the cloud: id to type.
func (s *Site) Objects() map[string]string {
	s.T.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(s.Cloud, func(path string, d fs.DirEntry, err error) error {
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
		s.T.Fatal(err)
	}
	return out
}
