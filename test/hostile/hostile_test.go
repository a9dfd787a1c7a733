//go:build unix

package hostile

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/site"
)

var all = flag.Bool("all", false, "all configurations, on the command line and in a service, instead of a selection")

var binary = flag.String("bin", "", "the coordinator to test; by default it is built")

// TestMain builds the coordinator alone: no configuration here has a provider or a worker of its own.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if testing.Short() {
		fmt.Println("not in short mode: the tests build the coordinator")
		return 0
	}
	dir, err := os.MkdirTemp("", "millipede-hostile-")
	if err == nil {
		site.Built.CLIConfig, site.Built.Coordinator = filepath.Join(dir, "cli.tfrc"), *binary
		err = os.WriteFile(site.Built.CLIConfig, nil, 0o600)
	}
	if err == nil && *binary == "" {
		site.Built.Coordinator = filepath.Join(dir, "coordinator")
		var out []byte
		build := exec.Command("go", "build", "-o", site.Built.Coordinator, "../../cmd/coordinator")
		if out, err = build.CombinedOutput(); err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
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

// These are the limits for each configuration. The memory is that of the whole process. If other programs keep the
// processors busy, CPU time counts instead of elapsed time.
const (
	maxTime   = 10 * time.Second
	maxMemory = 500 << 20
)

// few are the cases that are tested every time.
var few = map[string]bool{
	"parentheses": true, "a sum": true, "a template in JSON syntax": true, "a type of 5,000 lists": true, "jsondecode": true,
	"a product": true, "loops": true, "locals that share a list": true, "a YAML bomb": true, "a format's width": true,
	"a chain of resources": true, "digits that are added": true, "a huge number and one": true, "a count of a billion": true,
	"a search of many states": true,
}

// secrets makes a directory with files that no run may read, and replaces their names in a case.
func (c *Case) secrets(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range c.Files {
		c.Files[name] = strings.NewReplacer("SECRETDIR", dir, "SECRET", filepath.Join(dir, "secret")).Replace(text)
	}
}

// write writes the files of a case into a directory.
func (c *Case) write(t *testing.T, dir string) {
	t.Helper()
	for name, text := range c.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// wrong returns the error in the outcome of a case; empty for none.
func (c *Case) wrong(failed bool, text string) string {
	flat := strings.Join(strings.Fields(text), " ")
	switch {
	case strings.Contains(text, "goroutine ") || strings.Contains(text, "fatal error"):
		return "the program crashed"
	case strings.Contains(text, "canary"):
		return "a secret was shown"
	case c.Fine && failed:
		return "it is harmless, and failed"
	case !c.Fine && !failed:
		return "it is hostile, and was planned"
	case !c.Fine && !strings.Contains(text, "Error: "):
		return "there is no diagnostic"
	case !strings.Contains(flat, c.Says):
		return "the diagnostic does not say " + c.Says
	}
	return ""
}

// 100,000 parentheses, brackets in jsondecode, a product of three ranges or a YAML bomb ended the process by an
// overflow of the stack or by memory.
func TestAHostileConfigurationIsRefusedOnTheCommandLine(t *testing.T) {
	for _, c := range Cases() {
		if c.Confined || !*all && !few[c.Name] {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			s := site.New(t, "")
			c.write(t, s.Dir)
			ctx, cancel := context.WithTimeout(t.Context(), 12*maxTime)
			defer cancel()
			command := s.Command("plan", "-input=false", "-no-color")
			p := exec.CommandContext(ctx, command.Path, command.Args[1:]...)
			p.Dir, p.Env = command.Dir, command.Env
			var text bytes.Buffer
			p.Stdout, p.Stderr = &text, &text
			began := time.Now()
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			ended, memory := make(chan struct{}), make(chan int64)
			go func() { memory <- mostMemory(t, p.Process.Pid, ended) }()
			err := p.Wait()
			took := time.Since(began)
			close(ended)
			most := <-memory
			spent := p.ProcessState.UserTime() + p.ProcessState.SystemTime()
			if wrong := c.wrong(err != nil, text.String()); wrong != "" {
				t.Errorf("%s:\n%s", wrong, site.Tail(shortened(text.String())))
			}
			if min(took, spent) > maxTime || most > maxMemory {
				t.Errorf("it took %s of processors, and %d MiB", spent.Round(time.Millisecond), most>>20)
			}
			t.Logf("%s, %s of processors, %d MiB", took.Round(time.Millisecond), spent.Round(time.Millisecond), most>>20)
		})
	}
}

// mostMemory returns the most memory that a process has had until it ended. The system itself counts in what this
// process, which has the texts of all cases, had when it started the other one.
func mostMemory(t *testing.T, pid int, ended <-chan struct{}) (most int64) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		most = max(most, peak(t, pid))
		select {
		case <-tick.C:
		case <-ended:
			return most
		}
	}
}

// shortened cuts the long lines of a text.
func shortened(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if len(line) > 200 {
			line = line[:200] + "...\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// A single plan of any of these ended the service, which began it again after its restart and ended again. Others read
// the key of the service.
func TestAServiceSurvivesHostileConfigurations(t *testing.T) {
	s := site.New(t, "")
	v := s.Service("-plans=1")
	outside := t.TempDir()
	space := v.Workspace("one")
	for _, c := range Cases() {
		if !*all && !few[c.Name] && !c.Confined {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			c.secrets(t, outside)
			dir := t.TempDir()
			c.write(t, dir)
			cv, err := v.Upload(t.Context(), space, dir)
			if err != nil {
				t.Fatal(err)
			}
			engines := v.Engines()
			began, before := time.Now(), spentBy(t, v.PID(), engines)
			only := true
			r, err := v.Client.Runs.Create(t.Context(), client.RunCreateOptions{Workspace: space,
				ConfigurationVersion: cv, PlanOnly: &only})
			for err == nil && !site.Over(r.Status) {
				if time.Since(began) > 12*maxTime {
					t.Fatalf("the run is %s after %s", r.Status, time.Since(began))
				}
				r, err = v.Client.Runs.Read(t.Context(), r.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			text := v.Logs(r)
			if wrong := c.wrong(r.Status == client.RunErrored, text); wrong != "" {
				t.Errorf("%s:\n%s", wrong, site.Tail(shortened(text)))
			}
			memory, spent := peak(t, v.PID()), spentBy(t, v.PID(), engines)-before
			for _, pid := range engines {
				memory = max(memory, peak(t, pid))
			}
			if min(took, spent) > maxTime || memory > maxMemory {
				t.Errorf("it took %s of processors, and a process of the service has had %d MiB", spent, memory>>20)
			}
			if now := v.Engines(); !slices.Equal(now, engines) {
				t.Errorf("it ended an engine: they are %v, and were %v", now, engines)
			}
			t.Logf("%s, %s of processors, %d MiB", took.Round(time.Millisecond), spent, memory>>20)
		})
	}
}

// spentBy returns the time of processors that a service and its engines have taken so far.
func spentBy(t *testing.T, service int, engines []int) time.Duration {
	t.Helper()
	sum := processors(t, service)
	for _, pid := range engines {
		sum += processors(t, pid)
	}
	return sum
}

// processors returns the time of processors that a process has taken so far, where the system tells.
func processors(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	const tick = time.Second / 100
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * tick
}

// peak returns the most memory that a process has had so far, where the system tells.
func peak(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	var kib int64
	if _, rest, ok := strings.Cut(string(text), "VmHWM:"); ok {
		if _, err := fmt.Sscan(rest, &kib); err != nil {
			t.Error(err)
		}
	}
	return kib << 10
}
