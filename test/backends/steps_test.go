package backends

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func idOf(info []byte) string {
	var out struct{ ID string }
	_ = json.Unmarshal(info, &out) // other texts have no ID
	return out.ID
}

// configuration has a resource whose apply can be made to wait for the file "go".
const configuration = `
variable "value" {
  default = "1"
}
variable "wait" {
  default = false
}
resource "terraform_data" "a" {
  input            = var.value
  triggers_replace = var.value
  provisioner "local-exec" {
    command = var.wait ? "touch begun; while [ ! -e go ]; do sleep 0.05; done" : "true"
  }
}
resource "terraform_data" "b" {
  input = "b"
}
output "value" {
  value = terraform_data.a.output
}
output "secret" {
  value     = "secret of ${var.value}"
  sensitive = true
}
`

// The coordinator runs in both directories; with the variable TOFU, OpenTofu runs in the second one.
func TestEveryBackendSupportsEveryStepOfAUser(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of commands are run")
	}
	for kind, make := range worlds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := make(t)
			w.kind = kind
			walk(t, w)
		})
	}
}

// walk takes the steps with a storage service.
func walk(t *testing.T, w *world) {
	t.Helper()
	a, b := w.directory(t, w.body, configuration), w.directory(t, w.body, configuration)
	if tofu != "" {
		b.program = tofu
	}
	for _, s := range steps {
		if s.workspaces && w.oneState {
			continue // backend/backendtest checks that the backend reports this
		}
		if !t.Run(s.claim, func(t *testing.T) {
			c, d := *a, *b
			c.t, d.t = t, t
			s.take(t, w, &c, &d)
		}) {
			return // the steps build on each other
		}
	}
}

// steps are taken with every backend, one after the other, in two directories that share one state.
var steps = []struct {
	claim      string
	workspaces bool
	take       func(t *testing.T, w *world, a, b *directory)
}{
	{claim: "init and apply by one, a plan without changes by the other, and back", take: turns},
	{claim: "the serial grows by one with each change, and only then", take: serials},
	{claim: "outputs are the same, sensitive ones too", take: outputs},
	{claim: "state mv and rm by either", take: stateCommands},
	{claim: "state push, which refuses an older serial and another lineage", take: pushes},
	{claim: "workspaces are created, listed, selected and deleted by either", workspaces: true, take: workspaces},
	{claim: "the name of a deleted workspace comes back empty", workspaces: true, take: emptyAgain},
	{claim: "a refused lock names its holder, both ways", take: refusals},
	{claim: "-lock-timeout waits and succeeds, both ways", take: waiting},
	{claim: "-lock=false ignores the lock, both ways", take: lockless},
	{claim: "a wrong ID releases nothing, both ways", take: wrongID},
	{claim: "when its holder is killed, a lock stays, is released or expires, depending on the backend", take: killed},
	{claim: "force-unlock by the other releases the lock of a killed process", take: released},
	{claim: "the state is encrypted, and then unencrypted again", take: encryption},
	{claim: "two engines work in one directory", take: oneDirectory},
	{claim: "the backend's arguments may come from a file", take: partial},
	{claim: "other configurations read the outputs with terraform_remote_state", take: remoteState},
	{claim: "the state moves to local files, and back", take: migration},
	{claim: "a plan is applied where it was made, and a switched directory finds its state again", take: switching},
	{claim: "everything is destroyed", take: destroy},
}

func turns(t *testing.T, _ *world, a, b *directory) {
	a.must("init", "-input=false")
	a.must("apply", "-auto-approve")
	b.must("init", "-input=false")
	b.unchanged()
	b.must("apply", "-auto-approve", "-var=value=2")
	a.unchanged("-var=value=2")
	if one, other := a.must("state", "pull"), b.must("state", "pull"); one != other {
		t.Errorf("the directories pull different states:\n%s\n%s", one, other)
	}
}

func serials(t *testing.T, _ *world, a, b *directory) {
	for _, d := range ways(a, b) {
		d := d[0]
		before := d.serial()
		for _, step := range []struct {
			value string
			grown int
		}{{"2", 0}, {"9", 1}, {"9", 1}, {"2", 2}} {
			d.must("apply", "-auto-approve", "-var=value="+step.value)
			if s := d.serial(); s != before+step.grown {
				t.Errorf("with the value %s the serial is %d, it was %d", step.value, s, before)
			}
		}
	}
}

func outputs(t *testing.T, _ *world, a, b *directory) {
	for _, d := range []*directory{a, b} {
		if text := d.must("output", "-json"); !strings.Contains(text, `"secret of 2"`) || !strings.Contains(text,
			`"sensitive": true`) {
			t.Errorf("the outputs are %s", text)
		}
	}
}

func stateCommands(t *testing.T, _ *world, a, b *directory) {
	a.must("state", "mv", "terraform_data.b", "terraform_data.c")
	if text := b.must("state", "list"); !strings.Contains(text, "terraform_data.c") || strings.Contains(text,
		"terraform_data.b") {
		t.Errorf("after the move the other directory lists %s", text)
	}
	b.must("state", "mv", "terraform_data.c", "terraform_data.b")
	b.must("state", "rm", "terraform_data.b")
	a.must("apply", "-auto-approve", "-var=value=2")
	b.unchanged("-var=value=2")
}

func pushes(t *testing.T, _ *world, a, b *directory) {
	old := a.must("state", "pull")
	b.must("taint", "terraform_data.b")
	b.must("untaint", "terraform_data.b")
	a.write("old.tfstate", old)
	a.fails("serial", "state", "push", "old.tfstate")
	lineage := strings.Index(old, `"lineage": "`) + len(`"lineage": "`)
	if lineage < len(`"lineage": "`) {
		lineage = strings.Index(old, `"lineage":"`) + len(`"lineage":"`)
	}
	a.write("other.tfstate", old[:lineage]+"0"+old[lineage:])
	a.fails("lineage", "state", "push", "other.tfstate")
	a.must("state", "push", "-force", "old.tfstate")
	b.unchanged("-var=value=2")
}

func workspaces(t *testing.T, _ *world, a, b *directory) {
	for _, d := range ways(a, b) {
		one, other := d[0], d[1]
		one.must("workspace", "new", "w1")
		if text := other.must("workspace", "list"); !strings.Contains(text, "w1") {
			t.Errorf("the other directory lists the workspaces %s", text)
		}
		other.must("workspace", "select", "w1")
		other.must("apply", "-auto-approve", "-var=value=3")
		one.unchanged("-var=value=3")
		one.must("destroy", "-auto-approve")
		one.must("workspace", "select", "default")
		other.must("workspace", "select", "default")
		other.must("workspace", "delete", "w1")
		if text := one.must("workspace", "list"); strings.Contains(text, "w1") {
			t.Errorf("after the workspace w1 was deleted the other directory lists %s", text)
		}
	}
	a.unchanged("-var=value=2")
}

func emptyAgain(t *testing.T, _ *world, a, b *directory) {
	a.must("workspace", "new", "w2")
	b.must("workspace", "select", "w2")
	b.must("apply", "-auto-approve")
	b.must("workspace", "select", "default")
	b.must("workspace", "delete", "-force", "w2")
	a.must("workspace", "select", "default")
	a.must("workspace", "new", "w2")
	if text := a.must("state", "list"); strings.Contains(text, "terraform_data") {
		t.Errorf("the new workspace has the objects of the deleted one:\n%s", text)
	}
	a.must("workspace", "select", "default")
	a.must("workspace", "delete", "w2")
}

// ways returns who does something to whom. The other way round is another case only if another engine is in b.
func ways(a, b *directory) [][2]*directory {
	if a.program == b.program {
		return [][2]*directory{{a, b}}
	}
	return [][2]*directory{{a, b}, {b, a}}
}

// contention calls do while one directory holds the lock, and then while another engine does. do calls end, which lets
// the holder finish.
func contention(t *testing.T, a, b *directory, do func(holder, other *directory, end func())) {
	t.Helper()
	for _, d := range ways(a, b) {
		holder, other := d[0], d[1]
		p, release := holder.holds("3")
		do(holder, other, func() {
			release()
			if code, text := holder.ends(p); code != 0 {
				t.Fatalf("the holder ended with %d\n%s", code, text)
			}
		})
		other.must("apply", "-auto-approve", "-var=value=2")
	}
}

func refusals(t *testing.T, w *world, a, b *directory) {
	contention(t, a, b, func(_, other *directory, end func()) {
		text := other.fails("Error acquiring the state lock", "plan")
		if !w.holderUnknown && (other.lockID(text) == "" || !strings.Contains(text, "OperationTypeApply")) {
			t.Errorf("the error message does not say who holds the lock:\n%s", text)
		}
		end()
	})
}

var holderLine = regexp.MustCompile(`Waiting for the state lock \S+, which \S+ has held since 20\d\d-`)

func waiting(t *testing.T, _ *world, a, b *directory) {
	contention(t, a, b, func(_, other *directory, end func()) {
		waits := other.start("plan", "-lock-timeout=90s")
		if other.program == program {
			eventually(t, "the waiting command names the holder of the lock", func() bool {
				return holderLine.MatchString(waits.Output())
			})
		}
		end()
		if code, text := other.ends(waits); code != 0 {
			t.Fatalf("the waiting command ended with %d\n%s", code, text)
		}
	})
}

func lockless(t *testing.T, _ *world, a, b *directory) {
	contention(t, a, b, func(_, other *directory, end func()) {
		other.must("plan", "-lock=false")
		end()
	})
}

func wrongID(t *testing.T, w *world, a, b *directory) {
	contention(t, a, b, func(_, other *directory, end func()) {
		// With pg OpenTofu does nothing and reports success; with consul it releases the lock, regardless of the ID.
		if other.program == program || w.kind != "pg" && w.kind != "consul" {
			other.fails("", "force-unlock", "-force", "00000000-0000-0000-0000-000000000000")
			other.fails("Error acquiring the state lock", "plan")
		}
		end()
	})
}

// killHolder kills the holder of the lock, and returns the lock's ID as the other directory sees it.
func killHolder(t *testing.T, w *world, a, b *directory) (id string) {
	t.Helper()
	p, release := a.holds("4")
	text := b.fails("Error acquiring the state lock", "plan")
	if !w.holderUnknown {
		id = b.lockID(text)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	release() // ends the provisioner, which has outlived its parent
	return id
}

// recovers resolves the interrupted run in a directory, and applies there again.
func recovers(a, b *directory) {
	a.fails("in doubt", "runs", "resume")
	a.must("runs", "resolve", "terraform_data.a", "-not-created")
	a.must("apply", "-auto-approve", "-var=value=2")
	b.unchanged("-var=value=2")
}

func killed(t *testing.T, w *world, a, b *directory) {
	w.dead = killHolder(t, w, a, b)
	if !w.diesWithHolder && !w.expires {
		if id := b.lockID(b.fails("Error acquiring the state lock", "plan")); id != w.dead {
			t.Errorf("the lock has the ID %s; before its holder was killed it was %s", id, w.dead)
		}
		return
	}
	eventually(t, "the lock is released", func() bool {
		code, _ := b.ends(b.start("plan", "-lock-timeout=10s"))
		return code == 0
	})
	recovers(a, b)
}

func released(t *testing.T, w *world, a, b *directory) {
	switch {
	case w.diesWithHolder: // no lock is left; that of a running process cannot be released
		contention(t, a, b, func(_, other *directory, end func()) {
			if other.program == program {
				other.fails("pg_terminate_backend", "force-unlock", "-force", "00000000-0000-0000-0000-000000000000")
			}
			other.fails("Error acquiring the state lock", "plan")
			end()
		})
		return
	case w.expires:
		w.dead = killHolder(t, w, a, b)
	}
	b.must("force-unlock", "-force", w.dead)
	eventually(t, "the lock is free", func() bool { // consul delays that by some seconds
		code, _ := b.ends(b.start("plan", "-lock-timeout=10s"))
		return code == 0
	})
	recovers(a, b)
}

// oneDirectory runs another engine in the first directory: OpenTofu; or a coordinator in a copy that has only the files
// that every engine writes, which are the configuration and the record of the backend.
func oneDirectory(t *testing.T, w *world, a, b *directory) {
	other := *a
	if tofu != "" {
		other.program = tofu
		other.must("init", "-input=false")
	} else {
		other.dir = t.TempDir()
		for _, name := range []string{"main.tf", "backend.tf", filepath.Join(".terraform", "terraform.tfstate")} {
			text, err := os.ReadFile(a.path(name))
			if err == nil {
				err = os.MkdirAll(filepath.Dir(other.path(name)), 0o700)
			}
			if err != nil {
				t.Fatal(err)
			}
			other.write(name, string(text))
		}
	}
	other.unchanged("-var=value=2")
	other.must("apply", "-auto-approve", "-var=value=8")
	a.unchanged("-var=value=8")
	a.must("apply", "-auto-approve", "-var=value=2")
	other.unchanged("-var=value=2")
	b.unchanged("-var=value=2")
}

// encrypted is the value of TF_ENCRYPTION, with placeholders for the names of two methods.
const encrypted = `
key_provider "pbkdf2" "k" {
  passphrase = "a passphrase that is long enough"
  iterations = 200000 # the smallest number: each command derives the key anew
}
method "aes_gcm" "m" {
  keys = key_provider.pbkdf2.k
}
method "unencrypted" "u" {}
state {
  method = METHOD
  fallback {
    method = FALLBACK
  }
}
`

func encryption(t *testing.T, _ *world, a, b *directory) {
	plain := a.env
	with := func(method, fallback string) map[string]string {
		env := map[string]string{"TF_ENCRYPTION": strings.NewReplacer("METHOD", method, "FALLBACK",
			fallback).Replace(encrypted)}
		for k, v := range plain {
			env[k] = v
		}
		return env
	}
	a.env = with("method.aes_gcm.m", "method.unencrypted.u")
	a.must("apply", "-auto-approve", "-var=value=6")
	b.fails("encrypted", "plan")
	b.env = a.env
	b.unchanged("-var=value=6")
	a.env = with("method.unencrypted.u", "method.aes_gcm.m")
	a.must("apply", "-auto-approve", "-var=value=2")
	b.env = a.env // its store is encrypted, too
	b.must("apply", "-auto-approve", "-var=value=2")
	a.env, b.env = plain, plain
	a.unchanged("-var=value=2")
	b.unchanged("-var=value=2")
}

func remoteState(t *testing.T, w *world, _, _ *directory) {
	d := w.directory(t, "", `
data "terraform_remote_state" "r" {
  backend = "`+w.kind+`"
  config = {
`+w.body+`
  }
}
output "seen" {
  value = data.terraform_remote_state.r.outputs.value
}
`)
	if err := os.Remove(d.path("backend.tf")); err != nil {
		t.Fatal(err)
	}
	d.must("init")
	d.must("apply", "-auto-approve")
	if text := d.must("output", "-raw", "seen"); strings.TrimSpace(text) != "2" {
		t.Errorf("the other configuration reads the output as %q", text)
	}
}

func migration(t *testing.T, w *world, a, b *directory) {
	block, err := os.ReadFile(a.path("backend.tf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(a.path("backend.tf")); err != nil {
		t.Fatal(err)
	}
	a.must("init", "-migrate-state", "-force-copy")
	a.unchanged("-var=value=2")
	if _, err := os.Stat(a.path("terraform.tfstate")); err != nil {
		t.Error(err)
	}
	a.must("apply", "-auto-approve", "-var=value=7")
	a.write("backend.tf", string(block))
	a.must("init", "-migrate-state", "-force-copy")
	b.unchanged("-var=value=7")
	b.must("apply", "-auto-approve", "-var=value=2")
	a.unchanged("-var=value=2")
}

// Regression: a directory had one store for all its backends. The plan was applied to the backend to which the
// directory had been switched, and after switching back the store had another state.
func switching(t *testing.T, _ *world, a, b *directory) {
	block, err := os.ReadFile(a.path("backend.tf"))
	if err != nil {
		t.Fatal(err)
	}
	a.must("plan", "-out=here.plan", "-var=value=8")
	a.write("backend.tf", "terraform {\n  backend \"local\" {\n    path = \"elsewhere.tfstate\"\n  }\n}\n")
	a.must("init", "-reconfigure")
	a.must("apply", "here.plan")
	if _, err := os.Stat(a.path("elsewhere.tfstate")); !os.IsNotExist(err) {
		t.Errorf("the plan was applied elsewhere: %v", err)
	}
	b.unchanged("-var=value=8")
	b.must("apply", "-auto-approve", "-var=value=2")
	a.write("backend.tf", string(block))
	a.must("init", "-reconfigure")
	a.unchanged("-var=value=2")
}

func partial(t *testing.T, w *world, _, _ *directory) {
	d := w.directory(t, "", configuration)
	d.write("place.tfbackend", w.body)
	d.must("init", "-backend-config=place.tfbackend")
	d.unchanged("-var=value=2")
}

func destroy(t *testing.T, _ *world, a, b *directory) {
	a.must("destroy", "-auto-approve")
	if text := b.must("state", "list"); strings.Contains(text, "terraform_data") {
		t.Errorf("after the destroy the state still has\n%s", text)
	}
}
