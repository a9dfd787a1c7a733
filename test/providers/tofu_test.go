// Package providers_test runs the built test providers under an OpenTofu binary, which TOFU names in the environment.
//
// Without TOFU it tests nothing; the packages of the module have tests of their own.
package providers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/providers/cloud"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// built is where the providers are; the first test that needs them builds them.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		if err := os.RemoveAll(built.dir); err != nil {
			panic(err)
		}
	}
	os.Exit(code)
}

// workspace is a folder with a configuration, a record and a cloud.
type workspace struct {
	t    *testing.T
	dir  string
	env  []string
	tofu string
}

const header = `
terraform {
  required_providers {
    fleet  = { source = "millipede/fleet" }
    fleet5 = { source = "millipede/fleet5" }
    legacy = { source = "millipede/legacy" }
    unruly = { source = "millipede/unruly" }
    time   = { source = "hashicorp/time" }
  }
}
`

func newWorkspace(t *testing.T, config string) *workspace {
	t.Helper()
	tofu := os.Getenv("TOFU")
	if tofu == "" {
		t.Skip("TOFU names no OpenTofu binary")
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "providers"); built.err != nil {
			return
		}
		command := exec.Command("go", "run", "./cmd/mirror", "-out", built.dir)
		var said []byte
		if said, built.err = command.CombinedOutput(); built.err != nil {
			t.Logf("%s", said)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	w := &workspace{t: t, dir: t.TempDir(), tofu: tofu}
	w.env = append(os.Environ(),
		"TF_CLI_CONFIG_FILE="+filepath.Join(built.dir, "cli.tfrc"), "TF_IN_AUTOMATION=1", "TF_INPUT=0",
		"FLEET_RECORD="+w.path("record"), "FLEET_CLOUD="+w.path("cloud"), "MILLIPEDE_WORKER=w1", "MILLIPEDE_POOL=eu",
	)
	w.write(config)
	w.must("init")
	return w
}

func (w *workspace) path(name string) string { return filepath.Join(w.dir, name) }

func (w *workspace) write(config string) {
	w.t.Helper()
	if err := os.WriteFile(w.path("main.tf"), []byte(header+config), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// command prepares a tofu command; its output goes to said.
func (w *workspace) command(ctx context.Context, said *bytes.Buffer, args ...string) *exec.Cmd {
	args = append(args, "-no-color")
	c := exec.CommandContext(ctx, w.tofu, args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = w.dir, w.env, said, said
	return c
}

// run returns a command's output and its exit code.
func (w *workspace) run(args ...string) (string, int) {
	w.t.Helper()
	var said bytes.Buffer
	c := w.command(w.t.Context(), &said, args...)
	err := c.Run()
	if c.ProcessState == nil {
		w.t.Fatal(err)
	}
	return said.String(), c.ProcessState.ExitCode()
}

func (w *workspace) must(args ...string) string {
	w.t.Helper()
	said, code := w.run(args...)
	if code != 0 {
		w.t.Fatalf("tofu %s: exit code %d\n%s", strings.Join(args, " "), code, said)
	}
	return said
}

func (w *workspace) apply(args ...string) string {
	w.t.Helper()
	return w.must(append([]string{"apply", "-auto-approve"}, args...)...)
}

// fails runs a command that must fail and say all of the words.
func (w *workspace) fails(args []string, words ...string) {
	w.t.Helper()
	said, code := w.run(args...)
	if code != 1 {
		w.t.Errorf("tofu %s: exit code %d, want 1\n%s", strings.Join(args, " "), code, said)
	}
	flat := strings.Join(strings.Fields(said), " ")
	for _, word := range words {
		if !strings.Contains(flat, word) {
			w.t.Errorf("tofu %s does not say %q:\n%s", strings.Join(args, " "), word, said)
		}
	}
}

// unchanged checks that a plan has no changes.
func (w *workspace) unchanged() {
	w.t.Helper()
	if said, code := w.run("plan", "-detailed-exitcode"); code != 0 {
		w.t.Errorf("the plan has changes (exit code %d):\n%s", code, said)
	}
}

func (w *workspace) record() record.Record {
	w.t.Helper()
	r, err := record.ReadFile(w.path("record"))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// one returns the only object of a type.
func (w *workspace) one(typeName string) cloud.Object {
	w.t.Helper()
	all, err := cloud.Open(w.path("cloud"), nil, time.Now).All(typeName)
	if err != nil || len(all) != 1 {
		w.t.Fatalf("the cloud has %d objects of %s, want 1 (%v)", len(all), typeName, err)
	}
	return all[0]
}

// attributes returns the state's attributes of a resource instance.
func (w *workspace) attributes(address string) map[string]any {
	w.t.Helper()
	var state struct {
		Values struct {
			Root struct {
				Resources []struct {
					Address string
					Values  map[string]any
				}
			} `json:"root_module"`
		}
	}
	if err := json.Unmarshal([]byte(w.must("show", "-json")), &state); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range state.Values.Root.Resources {
		if r.Address == address {
			return r.Values
		}
	}
	w.t.Fatalf("the state has no %s", address)
	return nil
}

func TestEveryProviderLives(t *testing.T) {
	config, err := os.ReadFile("testdata/everything.tf")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorkspace(t, string(config))
	w.must("validate")
	w.apply()
	w.unchanged()
	w.apply("-var", "size=big")
	w.must("destroy", "-auto-approve", "-var", "size=big")
	r := w.record()
	if again := r.Repeated(record.Create, record.Types("fleet_machine", "legacy_item")); len(again) > 0 {
		t.Errorf("created more than once: %v", again)
	}
	created, deleted := r.Count(record.Create), r.Count(record.Delete)
	if created == 0 || created != deleted {
		t.Errorf("%d objects created, %d deleted", created, deleted)
	}
	if n := len(r.Calls(record.Outcomes(record.Unfinished, record.Error))); n > 0 {
		t.Errorf("%d calls failed or did not end", n)
	}
	if opened, renewed, closed := r.Count(record.Open), r.Count(record.Renew),
		r.Count(record.Close); opened != closed || renewed == 0 {
		t.Errorf("%d tokens opened, %d renewals, %d closed", opened, renewed, closed)
	}
	meta := slices.ContainsFunc(r, func(e record.Entry) bool { return e.Op == record.Create && e.Meta == "root" })
	if !meta {
		t.Error("provider_meta did not arrive")
	}
	for _, c := range r.Calls(record.Ops(record.Delete), record.Providers("fleet", "fleet5")) {
		if c.Private == "" || c.Worker != "w1" || c.Pool != "eu" {
			t.Errorf("the deletion of %s came with private %q, worker %q, pool %q", c.Name, c.Private, c.Worker, c.Pool)
		}
	}
}

func TestObjectsDriftAndVanish(t *testing.T) {
	w := newWorkspace(t, `
resource "fleet_machine" "a" { name = "a" }
resource "legacy_item" "b" { name = "b" }
`)
	w.apply()
	for _, typeName := range []string{"fleet_machine", "legacy_item"} {
		file := filepath.Join(w.path("cloud"), typeName, w.one(typeName).ID+".json")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, bytes.Replace(text, []byte(`"small"`), []byte(`"drifted"`), 1),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	if said, code := w.run("plan", "-detailed-exitcode"); code != 2 ||
		strings.Count(said, `"drifted" -> "small"`) != 2 {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	if err := os.RemoveAll(w.path("cloud")); err != nil {
		t.Fatal(err)
	}
	if said, _ := w.run("plan"); !strings.Contains(said, "2 to add, 0 to change, 0 to destroy") {
		t.Errorf("after deletion out of band:\n%s", said)
	}
}

func TestTroubleOnCommand(t *testing.T) {
	for moment, want := range map[string]struct {
		trouble string
		says    string
		exists  bool
	}{
		"failing before the effect":  {`fail_on = ["create"]`, "was told to fail", false},
		"failing after the effect":   {`fail_on = ["create_after"]`, "was told to fail", true},
		"crashing before the effect": {`crash_on = ["create"]`, "Plugin did not respond", false},
		"crashing after the effect":  {`crash_on = ["create_after"]`, "Plugin did not respond", true},
		"failing to plan":            {`fail_on = ["plan"]`, "was told to fail", false},
		"an unknown moment":          {`fail_on = ["never"]`, "is no moment", false},
	} {
		t.Run(moment, func(t *testing.T) {
			for _, typeName := range []string{"fleet_machine", "fleet5_machine", "legacy_item"} {
				w := newWorkspace(t, `resource "`+typeName+`" "a" {
					name = "a"
					`+want.trouble+`
				}`)
				w.fails([]string{"apply", "-auto-approve"}, want.says)
				all, err := cloud.Open(w.path("cloud"), nil, time.Now).All(typeName)
				if err != nil || (len(all) == 1) != want.exists {
					t.Errorf("%s: there are %d objects (%v)", typeName, len(all), err)
				}
			}
		})
	}
}

func TestTroubleEnds(t *testing.T) {
	w := newWorkspace(t, `resource "fleet_machine" "a" {
		name = "a"
		fail_on = ["create"]
		times = 1
	}`)
	w.fails([]string{"apply", "-auto-approve"}, "was told to fail")
	w.apply()
	if n := w.record().Count(record.Create); n != 2 {
		t.Errorf("%d creations were started, want 2", n)
	}
}

func TestStopEndsSlowAndHangingCalls(t *testing.T) {
	w := newWorkspace(t, `
resource "fleet_machine" "a" {
  name = "a"
  create_ms = 600000
}
resource "fleet5_machine" "b" {
  name = "b"
  hang_on = ["create"]
}
resource "legacy_item" "c" {
  name = "c"
  hang_on = ["create"]
}
`)
	var said bytes.Buffer
	c := w.command(t.Context(), &said, "apply", "-auto-approve")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for w.record().Count(record.Create) < 3 {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Error("the interrupted apply succeeded")
	}
	if n := strings.Count(strings.Join(strings.Fields(said.String()), " "), "was cancelled"); n != 3 {
		t.Errorf("%d calls were cancelled, want 3:\n%s", n, said.String())
	}
	if n := w.record().Count(record.Stop); n < 3 {
		t.Errorf("%d providers were asked to stop, want 3 at least", n)
	}
}

func TestWriteOnlySecretsArriveAndStayOut(t *testing.T) {
	config := func(version string) string {
		return `resource "fleet_machine" "a" {
			name = "a"
			secret_wo = "hush-` + version + `"
			secret_wo_version = ` + version + `
		}`
	}
	w := newWorkspace(t, config("1"))
	w.apply()
	first := w.attributes("fleet_machine.a")
	if first["secret_wo"] != nil || first["secret_hash"] == "" {
		t.Errorf("the state has %v", first)
	}
	w.write(config("2"))
	w.apply()
	if second := w.attributes("fleet_machine.a"); second["secret_hash"] == first["secret_hash"] {
		t.Error("the new secret did not arrive")
	}
}

func TestObjectsAreImported(t *testing.T) {
	w := newWorkspace(t, `
resource "fleet_machine" "a" { name = "a" }
resource "fleet_identity" "b" { name = "b" }
resource "legacy_item" "c" { name = "c" }
resource "unruly_thing" "d" { name = "d" }
`)
	w.apply()
	machine, item := w.one("fleet_machine").ID, w.one("legacy_item").ID
	w.must("state", "rm", "fleet_machine.a", "fleet_identity.b", "legacy_item.c", "unruly_thing.d")
	w.write(`
resource "fleet_machine" "a" { name = "a" }
resource "fleet_identity" "b" { name = "b" }
resource "legacy_item" "c" { name = "c" }
resource "unruly_thing" "d" { name = "d" }
import {
  to = fleet_identity.b
  identity = { name = "b" }
}
import {
  to = fleet_machine.a
  id = "` + machine + `"
}
import {
  to = legacy_item.c
  id = "` + item + `"
}
import {
  to = unruly_thing.d
  id = "d"
}
`)
	if said := w.apply(); !strings.Contains(said, "4 imported, 0 added") {
		t.Errorf("the import:\n%s", said)
	}
	w.unchanged()
	if n := w.record().Count(record.Import); n < 3 {
		t.Errorf("%d imports are on the record", n)
	}
}

func TestAMachineBecomesAnotherType(t *testing.T) {
	w := newWorkspace(t, `resource "fleet_machine" "a" { name = "a" }`)
	w.apply()
	id := w.one("fleet_machine").ID
	w.write(`
resource "fleet_moved" "a" {
  name  = "a"
  grade = "big"
}
moved {
  from = fleet_machine.a
  to   = fleet_moved.a
}
`)
	if said := w.apply(); !strings.Contains(said, "0 added, 1 changed, 0 destroyed") {
		t.Errorf("the move:\n%s", said)
	}
	if got := w.attributes("fleet_moved.a"); got["id"] != id || got["from"] != "fleet_machine" ||
		got["grade"] != "big" {
		t.Errorf("the state has %v", got)
	}
	w.unchanged()
	w.must("destroy", "-auto-approve")
	if n := w.record().Count(record.Create); n != 1 {
		t.Errorf("%d creations, want 1", n)
	}
}

// TestOlderStatesAreUpgraded hands the providers states that an older schema version wrote.
func TestOlderStatesAreUpgraded(t *testing.T) {
	w := newWorkspace(t, `
resource "fleet_moved" "a" {
  name  = "a"
  grade = "small"
}
resource "legacy_item" "b" { name = "b" }
`)
	w.env = append(w.env, "FLEET_CLOUD=") // the objects in the states
	instance := func(typeName, name, provider, attributes string) string {
		return `{"mode": "managed", "type": "` + typeName + `", "name": "` + name + `",
			"provider": "provider[\"registry.opentofu.org/millipede/` + provider + `\"]",
			"instances": [{"schema_version": 0, "attributes": ` + attributes + `}]}`
	}
	state := `{"version": 4, "terraform_version": "1.8.0", "serial": 1, "lineage": "l", "outputs": {}, "resources": [` +
		instance("fleet_moved", "a", "fleet",
			`{"title": "a", "size": "small", "id": "a-1", "ip": "10.0.0.1", "region": "global", `+
				`"serial": 5, "revision": 1}`) + "," +
		instance("legacy_item", "b", "legacy",
			`{"title": "b", "size": "small", "id": "b-1", "region": "legacy-1", "enabled": true, `+
				`"kind": "plain", "revision": 1}`) + `]}`
	if err := os.WriteFile(w.path("terraform.tfstate"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	w.apply()
	if got := w.attributes("fleet_moved.a"); got["id"] != "a-1" || got["name"] != "a" || got["grade"] != "small" ||
		got["from"] != "version 0" {
		t.Errorf("the state has %v", got)
	}
	if got := w.attributes("legacy_item.b"); got["id"] != "b-1" || got["name"] != "b" {
		t.Errorf("the state has %v", got)
	}
	if n := w.record().Count(record.Create); n != 0 {
		t.Errorf("%d objects were created", n)
	}
}

func TestUnrulyAnswersAreNoticed(t *testing.T) {
	for command, says := range map[string]string{
		"plan:change_value":   "Provider produced invalid plan",
		"plan:null":           "Provider produced invalid plan",
		"plan:extra_part":     "Provider produced invalid plan",
		"plan:reveal_secret":  "write-only attribute",
		"plan:garbage":        "object is required",
		"plan:grpc":           "unruly inside",
		"plan:panic":          "Plugin did not respond",
		"apply:change_value":  "Provider produced inconsistent result after apply",
		"apply:unknown_id":    "Provider returned invalid result object after apply",
		"apply:null":          "Provider produced inconsistent result after apply",
		"apply:drop_part":     "Provider produced inconsistent result after apply",
		"apply:crash":         "Plugin did not respond",
		"apply:wrong_type":    "string is required",
		"apply:error_nowhere": "told to complain",
		"validate:error":      "told to complain",
		"nosuch:error":        "is no stage",
		"plan:nosuch":         "is not a known fault",
	} {
		t.Run(command, func(t *testing.T) {
			w := newWorkspace(t, `resource "unruly_thing" "a" {
				name = "a"
				value = "v"
				misbehave = "`+command+`"
				part { key = "k" }
			}`)
			w.fails([]string{"apply", "-auto-approve"}, says)
		})
	}
}

func TestBadHandshakesAndSchemas(t *testing.T) {
	w := newWorkspace(t, `resource "unruly_thing" "a" { name = "a" }`)
	env := w.env
	for variable, says := range map[string]string{
		"UNRULY_HANDSHAKE=exit":     "unruly",
		"UNRULY_HANDSHAKE=garbage":  "Unrecognized remote plugin message",
		"UNRULY_HANDSHAKE=core":     "incompatible core API version",
		"UNRULY_HANDSHAKE=protocol": "version",
		"UNRULY_SCHEMA=error":       "told to complain",
		"UNRULY_SCHEMA=panic":       "Plugin did not respond",
	} {
		w.env = append(slices.Clone(env), variable)
		w.fails([]string{"plan"}, says)
	}
	w.env = append(slices.Clone(env), "UNRULY_SCHEMA=many:200")
	w.must("plan")
	w.env = append(slices.Clone(env), "UNRULY_HANDSHAKE=late:50ms")
	w.must("plan")
}

func TestProviderConfigurationsAreChecked(t *testing.T) {
	for config, says := range map[string]string{
		`provider "fleet" { region = "nowhere" }`:             "No such region",
		`provider "fleet" { endpoint = "down" }`:              "Endpoint is down",
		`provider "legacy" { region = "nowhere" }`:            "there is no region",
		`provider "unruly" { misbehave = "configure:error" }`: "told to complain",
	} {
		w := newWorkspace(t, config+`
resource "fleet_machine" "a" { name = "a" }
resource "legacy_item" "a" { name = "a" }
resource "unruly_thing" "a" { name = "a" }
`)
		w.fails([]string{"plan"}, says)
	}
}
