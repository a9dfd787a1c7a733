package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/millipede-iac/millipede/cmd/internal/adapters"
	"github.com/millipede-iac/millipede/cmd/internal/build"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// place is a directory with a configuration, and the command lines that are executed there.
type place struct {
	name  string
	dir   string
	files map[string]string
	env   []string
	lines [][]string
}

// said is the result of a command line.
type said struct {
	Code           int
	Stdout, Stderr string
}

// left is the result of all command lines of a place: their output, and the files that exist afterwards.
type left struct {
	Said  []said
	Files map[string]string
}

// configured is the configuration of all places, with everything in which they may differ: the environment of
// provisioners, variables in the environment, files that are read, modules, limits, the data directory.
const configured = `
variable "own" {}
module "m" {
  source = "./m"
  own    = var.own
}
resource "terraform_data" "a" {
  count = %d
  input = "${var.own} ${trimspace(file("own.txt"))} ${basename(abspath(path.root))} ${count.index}"
  provisioner "local-exec" {
    command = "echo $OWN >> made && test \"$OWN\" = '${var.own}'"
  }
}
output "all" { value = concat(terraform_data.a[*].output, [module.m.own]) }
output "hidden" {
  value     = var.own
  sensitive = true
}
`

const moduleOfPlaces = `
variable "own" {}
resource "terraform_data" "b" { input = "module of ${var.own}" }
output "own" { value = terraform_data.b.output }
check "named" {
  assert {
    condition     = terraform_data.b.output != "module of 9"
    error_message = "this is nine"
  }
}
`

const testsOfPlaces = `
run "applied" {
  assert {
    condition     = output.all[0] == "${var.own} text of ${var.own} %s 0"
    error_message = "it is ${output.all[0]}"
  }
}
run "fails" {
  command = plan
  assert {
    condition     = var.own == "nobody"
    error_message = "it is ${var.own}"
  }
}
`

// places creates the directories: plans, applies, destroys, tests, and some that fail, in turn.
func places(t *testing.T, n int) []*place {
	t.Helper()
	base, home := t.TempDir(), t.TempDir()
	var out []*place
	for i := range n {
		p := &place{name: fmt.Sprintf("p%d", i), dir: filepath.Join(base, fmt.Sprintf("p%d", i))}
		p.files = map[string]string{
			"main.tf": fmt.Sprintf(configured, 1+i%3), "own.txt": fmt.Sprintf("text of %d\n", i),
			"m/main.tf": moduleOfPlaces, "a.tftest.hcl": fmt.Sprintf(testsOfPlaces, p.name),
		}
		p.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, fmt.Sprintf("TF_VAR_own=%d", i),
			fmt.Sprintf("OWN=%d", i), "SSL_CERT_FILE=" + os.Getenv("SSL_CERT_FILE")}
		if i%2 == 0 {
			p.files["millipede.hcl"] = "limit \"l\" {\n  max   = 1\n  types = [\"terraform_data\"]\n}\n"
		}
		if i%4 == 1 {
			p.env = append(p.env, "TF_DATA_DIR=data")
		}
		p.lines = [][]string{{"init", "-no-color"}}
		switch i % 5 {
		case 0:
			p.lines = append(p.lines, []string{"plan", "-no-color", "-out=p"}, []string{"show", "-json", "p"})
		case 1:
			p.lines = append(p.lines, []string{"apply", "-auto-approve", "-json"}, []string{"output", "-json"})
		case 2:
			p.lines = append(p.lines, []string{"apply", "-auto-approve", "-no-color", "-state=other.tfstate"},
				[]string{"destroy", "-auto-approve", "-no-color", "-state=other.tfstate"})
		case 3:
			p.lines = append(p.lines, []string{"test", "-no-color", "-junit-xml=report.xml"})
		case 4:
			p.env = append(p.env, "OWN=another's") // the provisioners fail
			p.lines = append(p.lines, []string{"apply", "-auto-approve", "-no-color"},
				[]string{"apply", "-auto-approve", "-no-color", "-var-file=nosuch.tfvars"})
		}
		out = append(out, p)
	}
	return out
}

// lay writes the files of a place again.
func (p *place) lay(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(p.dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range p.files {
		file := filepath.Join(p.dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// alone executes the command lines in separate processes, in the directory.
func (p *place) alone(t *testing.T) left {
	t.Helper()
	var out left
	for _, line := range p.lines {
		var stdout, stderr bytes.Buffer
		c := exec.Command("coordinator", line...)
		c.Dir, c.Env, c.Stdout, c.Stderr = p.dir, p.env, &stdout, &stderr
		err := c.Run()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Error(err)
		}
		out.Said = append(out.Said, settled(c.ProcessState.ExitCode(), &stdout, &stderr))
	}
	out.Files = p.left(t)
	return out
}

// line executes a command line in this process, whose working directory is another one.
func (p *place) line(connector estate.Connector, line []string) (code int, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	a := newApp(strings.NewReader(""), stdout, stderr, environ.Variables(p.env))
	a.Shared = connector
	return a.Run(context.Background(), append([]string{"-chdir=" + p.dir}, line...)), stdout, stderr
}

// together executes the command lines in this process.
func (p *place) together(t *testing.T, connector estate.Connector) left {
	t.Helper()
	var out left
	for _, line := range p.lines {
		out.Said = append(out.Said, settled(p.line(connector, line)))
	}
	out.Files = p.left(t)
	return out
}

// chances match texts that differ between executions: IDs, times, and the order of concurrent events.
var chances = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\bafter \d+s`), "after a while"},
	{regexp.MustCompile(`("elapsed_seconds"|"duration_ms"): ?[\d.]+`), "$1:0"},
	{regexp.MustCompile(`time="[\d.]+"`), `time="0"`},
	{regexp.MustCompile(`\b[A-Z2-7]{26}\b`), "ID"},
}

func withoutChance(text string) string {
	for _, c := range chances {
		text = c.pattern.ReplaceAllString(text, c.by)
	}
	return text
}

// settled returns the result of a command line without random differences: lines about concurrent operations come in
// any order, and some only on a slow machine.
func settled(code int, stdout, stderr *bytes.Buffer) said {
	sorted := func(b *bytes.Buffer) string {
		lines := slices.DeleteFunc(strings.Split(withoutChance(b.String()), "\n"), func(line string) bool {
			return strings.Contains(line, ": Waiting for ") || strings.Contains(line, ": Still ")
		})
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	return said{code, sorted(stdout), sorted(stderr)}
}

// left returns the existing files, except those that only the coordinator reads.
func (p *place) left(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		switch name := strings.TrimPrefix(path, p.dir); {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".millipede" || name == "/data/millipede"):
			out[name] = "is there"
			return fs.SkipDir
		case d.IsDir():
			return nil
		case name == "/p": // a saved plan, which is shown
			out[name] = "is there"
			return nil
		}
		text, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, p.dir)] = withoutChance(string(text))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return out
}

// mined is a connection on which one call panics.
type mined struct{ estate.Connector }

func planted() { panic("planted") }

// Connect implements estate.Connector.
func (m mined) Connect(ctx context.Context, o estate.ConnectOptions) (estate.Connection, diag.List) {
	c, diags := m.Connector.Connect(ctx, o)
	return minedConnection{c}, diags
}

type minedConnection struct{ estate.Connection }

// Transport implements estate.Connection.
func (m minedConnection) Transport() wire.Transport { return minedTransport{m.Connection.Transport()} }

type minedTransport struct{ wire.Transport }

// PutKeys implements wire.Keys. A run shares its key with it.
func (minedTransport) PutKeys(context.Context, string, string, []wire.SealedKey) error {
	planted()
	return nil
}

// minedAtOnce is a connector that panics in the command itself.
type minedAtOnce struct{ estate.Connector }

// Connect implements estate.Connector.
func (minedAtOnce) Connect(context.Context, estate.ConnectOptions) (estate.Connection, diag.List) {
	planted()
	return nil, nil
}

// keeps encrypts nothing: the coordinator of a test has no secrets.
type keeps struct{}

func (keeps) Seal(_ context.Context, key []byte) ([]byte, error) { return key, nil }
func (keeps) Open(_ context.Context, sealed []byte, _ func() error) ([]byte, bool, error) {
	return sealed, false, nil
}

// shared returns the connection of all command lines of this process.
func shared(t *testing.T) *adapters.Shared {
	t.Helper()
	s, err := adapters.OpenShared(t.Context(), adapters.SharedOptions{
		Dir: t.TempDir(), Seal: keeps{}, Name: "test", Slots: adapters.Slots,
		Connector: &adapters.Connector{Version: build.Version(), Tell: func(line string) { t.Log(line) },
			Log: slog.New(slog.DiscardHandler), PluginLog: hclog.NewNullLogger()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Operations used the working directory, the environment, the streams and the connection of the process: -chdir changed
// the directory of every operation in it, and a panic anywhere ended them all.
func TestTwentyOperationsInOneProcessGiveWhatTwentyProcessesGive(t *testing.T) {
	all := places(t, 20)
	want := make([]left, len(all))
	var group sync.WaitGroup
	processors := make(chan struct{}, 2) // processes do not know of each other
	for i, p := range all {
		p.lay(t)
		group.Go(func() {
			processors <- struct{}{}
			defer func() { <-processors }()
			want[i] = p.alone(t)
		})
	}
	group.Wait()
	for _, p := range all {
		p.lay(t)
	}
	before, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}

	connection := shared(t)
	ruined := map[string]estate.Connector{"in a run": mined{connection}, "in a command": minedAtOnce{connection}}
	for where, connector := range ruined {
		p := places(t, 2)[1] // applies
		p.lay(t)
		if code, _, stderr := p.line(connection, p.lines[0]); code != 0 {
			t.Fatalf("init: %s", stderr)
		}
		group.Go(func() {
			code, stdout, stderr := p.line(connector, p.lines[1])
			if text := stdout.String() + stderr.String(); code != 11 || !strings.Contains(text, ".planted(") {
				t.Errorf("%s: with the bug the exit code is %d: %s", where, code, text)
			}
			if code, stdout, stderr := p.line(connection, p.lines[1]); code != 0 {
				t.Errorf("%s: without the bug the exit code is %d: %s%s", where, code, stdout, stderr)
			}
		})
	}
	for i, p := range all {
		group.Go(func() { same(t, p, p.together(t, connection), want[i]) })
	}
	group.Wait()

	after, err := os.ReadDir(".")
	if err != nil || len(after) != len(before) {
		t.Errorf("where the process works there are %d entries now, and %d before: %v", len(after), len(before), err)
	}
}

// same checks that two executions have the same results.
func same(t *testing.T, p *place, got, want left) {
	t.Helper()
	for i, line := range p.lines {
		if got.Said[i] != want.Said[i] {
			t.Errorf("%s: %q: exit code %d\n--- stdout\n%s\n--- stderr\n%s\na process of its own: %d\n--- stdout\n%s\n"+
				"--- stderr\n%s", p.name, line, got.Said[i].Code, got.Said[i].Stdout, got.Said[i].Stderr, want.Said[i].Code,
				want.Said[i].Stdout, want.Said[i].Stderr)
		}
	}
	if a, b := asJSON(got.Files), asJSON(want.Files); a != b {
		t.Errorf("%s: the files are\n%s\na process of its own leaves\n%s", p.name, a, b)
	}
}

func asJSON(files map[string]string) string {
	text, err := json.MarshalIndent(files, "", "  ")
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), `\n`, "\n    ")
}
