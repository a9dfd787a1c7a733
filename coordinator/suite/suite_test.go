package suite_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/suite"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/builtin"
	"github.com/millipede-iac/millipede/state"
	statejournal "github.com/millipede-iac/millipede/state/journal"
	statemem "github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
	"github.com/millipede-iac/millipede/worker"
	"github.com/millipede-iac/millipede/worker/journal"
	"github.com/millipede-iac/millipede/worker/provision"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// builtins provides only the built-in provider.
type builtins struct{ provider.Provider }

func (b builtins) Acquire(context.Context, wire.Provider, *wire.Variables, worker.Configure) (worker.Lease, diag.List) {
	return lease{b.Provider}, nil
}

type lease struct{ p provider.Provider }

func (l lease) Provider() provider.Provider { return l.p }
func (lease) Release()                      {}

// session returns the session for the runs of a suite: a worker and a transport in this process.
func session(t *testing.T) *operation.Session {
	t.Helper()
	system := mem.New(mem.Options{})
	ring := func(conn *mem.Conn) *wire.Keyring {
		pair, err := nkeys.CreateCurveKeys()
		check(t, err)
		ring, err := wire.NewKeyring(conn, pair, rand.Reader)
		check(t, err)
		return ring
	}
	conn := system.Connect("worker")
	j, _, err := journal.Open(t.TempDir())
	check(t, err)
	nothing := func(context.Context, string, cty.Value, string) (map[string]cty.Value, diag.List) {
		return nil, diag.Errors("no remote state", "There is none.", nil)
	}
	w := worker.New(worker.Options{
		ID: "w1", Pools: []string{operation.DefaultPool}, Slots: 8, Version: "test", Platform: "linux_amd64",
		Queue: conn, Claims: conn, Caller: conn, Parts: conn, Presence: conn, Blobs: conn, Keys: ring(conn), Journal: j,
		Providers: builtins{builtin.New(builtin.Options{
			ReadState: nothing, CheckConfig: func(string, cty.Value) diag.List { return nil }, NewID: rand.Text,
		})},
		Provisioners: provision.Runner{}, Log: slog.New(slog.DiscardHandler), Now: time.Now, Nonce: rand.Text,
		Rand: rand.Reader,
	})
	taking, drain := context.WithCancel(context.Background())
	worked := make(chan error, 1)
	go func() { worked <- w.Run(taking, context.Background()) }() // the cleanup waits for it
	own := system.Connect("coordinator")
	t.Cleanup(func() {
		drain()
		check(t, errors.Join(<-worked, j.Close(), conn.Close(), own.Close()))
	})
	return &operation.Session{
		Workspace: "default", EngineVersion: "1.12.6", Hub: hub.New(own, "c"), Keyring: ring(own),
		Package:    func(p addr.Provider) wire.Package { return wire.Package{Source: p.String()} },
		WorkerWait: 10 * time.Second, Parallelism: 10, Embedded: true, Cwd: "/", Now: time.Now, NewID: rand.Text,
	}
}

// view records the messages of a suite.
type view struct {
	said []string
	end  *suite.Suite
}

func (v *view) Begin(*suite.Suite)        { v.said = append(v.said, "begin") }
func (v *view) Ran(f *suite.File)         { v.said = append(v.said, "ran "+f.Name) }
func (v *view) Interrupted()              {}
func (v *view) Cancelled()                {}
func (v *view) Abandoned(suite.Abandoned) {}
func (v *view) End(s *suite.Suite)        { v.end = s }
func (v *view) Cleaned(_ *suite.File, r *suite.Run, left *state.State, problems diag.List) {
	said := "cleaned " + r.Name
	if len(left.Resources) > 0 || problems.HasErrors() {
		said += ", not all"
	}
	v.said = append(v.said, said)
}

// suiteOf runs the test files of a configuration.
func suiteOf(t *testing.T, stop operation.Stop, files map[string]string) (passed bool, v *view) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	tree, diags := config.NewLoader(config.OS{Base: dir}).LoadTree(config.TreeOptions{TestDir: config.DefaultTestDir})
	check(t, diags.Err())
	v = &view{}
	r, diags := suite.New(suite.Options{
		Session: session(t), Tree: tree, Given: &config.GivenValues{}, View: v, Stop: stop,
		NewStore: func() statejournal.Store { return statemem.New(statemem.Options{}) },
	})
	check(t, diags.Err())
	return r.Run(t.Context()), v
}

const module = `
variable "name" { default = "a" }
resource "terraform_data" "a" { input = var.name }
output "name" { value = terraform_data.a.output }
`

// statuses lists the runs of a suite with their results.
func (v *view) statuses() (out []string) {
	for _, f := range v.end.Files {
		for _, r := range f.Runs {
			out = append(out, r.Name+" "+r.Status.String())
		}
	}
	return out
}

// As OpenTofu documents for tests: runs of a file share a state, see the outputs of earlier runs, and their objects are
// destroyed at the end; a false assertion makes its run and the suite fail.
func TestRunsOfAFileShareAStateThatIsDestroyedAtTheEnd(t *testing.T) {
	passed, v := suiteOf(t, operation.Stop{}, map[string]string{"main.tf": module, "a.tftest.hcl": `
run "makes" {
  assert {
    condition     = terraform_data.a.output == "a" && output.name == "a"
    error_message = "not a"
  }
}
run "changes" {
  variables { name = "${run.makes.name}b" }
  assert {
    condition     = output.name == "ab"
    error_message = "it is ${output.name}"
  }
}
run "only_plans" {
  command = plan
  assert {
    condition     = terraform_data.a.input == "a"
    error_message = "the plan has ${terraform_data.a.input}"
  }
}
run "fails" {
  assert {
    condition     = output.name == "x"
    error_message = "it is ${output.name}"
  }
}
`})
	want := []string{"makes pass", "changes pass", "only_plans pass", "fails fail"}
	if passed || !slices.Equal(v.statuses(), want) {
		t.Errorf("passed: %t, the runs are %q, want %q", passed, v.statuses(), want)
	}
	if want := []string{"begin", "ran a.tftest.hcl", "cleaned fails"}; !slices.Equal(v.said, want) {
		t.Errorf("the view got %q, want %q", v.said, want)
	}
	if last := v.end.Files[0].Runs[3]; len(last.Diags) != 1 || last.Diags[0].Detail != "it is a" {
		t.Errorf("the diagnostics of the failure are %v", last.Diags)
	}
}

func TestARunThatExpectsAFailurePassesByIt(t *testing.T) {
	const strict = module + `
check "c" {
  assert {
    condition     = var.name == "a"
    error_message = "another name"
  }
}`
	passed, v := suiteOf(t, operation.Stop{}, map[string]string{"main.tf": strict, "a.tftest.hcl": `
run "expected" {
  variables { name = "b" }
  expect_failures = [check.c]
}
run "missing" { expect_failures = [check.c] }
`})
	if want := []string{"expected pass", "missing error"}; passed || !slices.Equal(v.statuses(), want) {
		t.Errorf("passed: %t, the runs are %q, want %q", passed, v.statuses(), want)
	}
}

func TestAfterAnErrorTheOtherRunsOfItsFileAreSkippedAndThoseOfOthersAreNot(t *testing.T) {
	passed, v := suiteOf(t, operation.Stop{}, map[string]string{"main.tf": module, "a.tftest.hcl": `
run "wrong" {
  assert {
    condition     = terraform_data.nosuch.id == ""
    error_message = "no"
  }
}
run "after" {}
`, "b.tftest.hcl": `run "sound" {}`})
	if want := []string{"wrong error", "after skip", "sound pass"}; passed || !slices.Equal(v.statuses(), want) {
		t.Errorf("passed: %t, the runs are %q, want %q", passed, v.statuses(), want)
	}
}

func TestASuiteThatIsStoppedBeginsNoRunMore(t *testing.T) {
	stop, ask, _ := operation.NewStop(t.Context())
	ask(operation.ErrInterrupted)
	_, v := suiteOf(t, stop, map[string]string{"main.tf": module, "a.tftest.hcl": "run \"never\" {}\n"})
	if want := []string{"never skip"}; !slices.Equal(v.statuses(), want) {
		t.Errorf("the runs are %q, want %q", v.statuses(), want)
	}
}
