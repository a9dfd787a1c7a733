package backends

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func idOf(info []byte) string {
	var out struct{ ID string }
	_ = json.Unmarshal(info, &out) // what is no lock information has no ID
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

func TestEveryBackendTakesTheStepsOfAUsersState(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of commands are run")
	}
	for kind, make := range worlds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := make(t)
			w.kind = kind
			a, b := w.directory(t, w.body, configuration), w.directory(t, w.body, configuration)
			a.must("init")
			a.must("apply", "-auto-approve")
			b.must("init")
			for _, s := range steps {
				if s.workspaces && w.oneState {
					continue
				}
				if !t.Run(s.claim, func(t *testing.T) {
					c, d := *a, *b
					c.t, d.t = t, t
					s.take(t, w, &c, &d)
				}) {
					return // the steps build on each other
				}
			}
		})
	}
}

// steps are what is done in two directories over one place, one after the other.
var steps = []struct {
	claim      string
	workspaces bool
	take       func(t *testing.T, w *world, a, b *directory)
}{
	{claim: "two directories take turns, and the serial grows with changes alone", take: turns},
	{claim: "outputs are the same, sensitive ones too", take: outputs},
	{claim: "the state can be operated on", take: surgery},
	{claim: "an older state, and one of another lineage, are refused", take: pushes},
	{claim: "workspaces are made, listed, used and deleted by both", workspaces: true, take: workspaces},
	{claim: "one holds the lock, and the other learns who, waits, or does without", take: contention},
	{claim: "the lock of a process that died is released as the place has it", take: crash},
	{claim: "a place that refuses in the middle of an apply costs nothing", take: refusal},
	{claim: "the state is encrypted, and in the clear again", take: encryption},
	{claim: "other configurations read the outputs", take: remoteState},
	{claim: "the state moves to another place, and back", take: migration},
	{claim: "the backend's arguments may come from a file", take: partial},
	{claim: "everything is destroyed", take: destroy},
}

func turns(t *testing.T, _ *world, a, b *directory) {
	b.unchanged()
	before := b.serial()
	b.must("apply", "-auto-approve")
	if s := b.serial(); s != before {
		t.Errorf("without a change the serial became %s, it was %s", s, before)
	}
	b.must("apply", "-auto-approve", "-var=value=2")
	a.unchanged("-var=value=2")
	if s := a.serial(); len(s) > 1 || s[0] != before[0]+1 {
		t.Errorf("after a change the serial is %s, it was %s", s, before)
	}
	if one, other := a.must("state", "pull"), b.must("state", "pull"); one != other {
		t.Errorf("the directories pull different states:\n%s\n%s", one, other)
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

func surgery(t *testing.T, _ *world, a, b *directory) {
	a.must("state", "mv", "terraform_data.b", "terraform_data.c")
	if text := b.must("state", "list"); !strings.Contains(text, "terraform_data.c") || strings.Contains(text,
		"terraform_data.b") {
		t.Errorf("after the move the other sees %s", text)
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
	a.must("workspace", "new", "w1")
	if text := b.must("workspace", "list"); !strings.Contains(text, "w1") {
		t.Errorf("the other lists %s", text)
	}
	b.must("workspace", "select", "w1")
	b.must("apply", "-auto-approve", "-var=value=3")
	a.unchanged("-var=value=3")
	a.must("destroy", "-auto-approve")
	a.must("workspace", "select", "default")
	b.must("workspace", "select", "default")
	b.must("workspace", "delete", "w1")
	if text := a.must("workspace", "list"); strings.Contains(text, "w1") {
		t.Errorf("after it was deleted the other lists %s", text)
	}
	a.must("workspace", "new", "w1")
	if text := a.must("state", "list"); strings.Contains(text, "terraform_data") {
		t.Errorf("the workspace comes back with %s", text)
	}
	a.must("workspace", "select", "default")
	a.must("workspace", "delete", "w1")
	a.unchanged("-var=value=2")
}

func contention(t *testing.T, w *world, a, b *directory) {
	for holder, other := range map[*directory]*directory{a: b, b: a} {
		p, release := holder.holds("3")
		text := other.fails("Error acquiring the state lock", "plan")
		if !w.holderUnknown {
			other.fails("", "force-unlock", "-force", "00000000-0000-0000-0000-000000000000")
			if !strings.Contains(text, "OperationTypeApply") {
				t.Errorf("the refusal does not say who it is:\n%s", text)
			}
		}
		other.must("plan", "-lock=false")
		waits := other.start("plan", "-lock-timeout=90s")
		release()
		if code, text := holder.ends(p); code != 0 {
			t.Fatalf("the holder ended with %d\n%s", code, text)
		}
		if code, text := other.ends(waits); code != 0 {
			t.Fatalf("who waited ended with %d\n%s", code, text)
		}
		other.must("apply", "-auto-approve", "-var=value=2")
	}
}

func crash(t *testing.T, w *world, a, b *directory) {
	p, release := a.holds("4")
	text := b.fails("Error acquiring the state lock", "plan")
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	release() // what the dead process had started
	switch {
	case w.diesWithHolder:
		eventually(t, "the lock has ended with its holder", func() bool {
			code, _ := b.ends(b.start("plan", "-lock-timeout=10s"))
			return code == 0
		})
	default:
		b.fails("Error acquiring the state lock", "plan")
		b.must("force-unlock", "-force", b.lockID(text))
		b.must("plan", "-lock-timeout=60s")
	}
	a.fails("in doubt", "runs", "resume")
	a.must("runs", "resolve", "terraform_data.a", "-not-created")
	a.must("apply", "-auto-approve", "-var=value=2")
	b.unchanged("-var=value=2")
}

func refusal(t *testing.T, w *world, a, b *directory) {
	p, release := a.holds("5")
	w.fail(true)
	release()
	code, text := a.ends(p)
	if code == 0 || !strings.Contains(text, "errored.tfstate") {
		t.Fatalf("the apply ended with %d\n%s", code, text)
	}
	saved, err := os.ReadFile(a.path("errored.tfstate"))
	if err != nil || !strings.Contains(string(saved), `"5"`) {
		t.Errorf("errored.tfstate holds %s: %v", saved, err)
	}
	w.fail(false)
	if !w.diesWithHolder && !w.expires { // the lock could not be released either
		b.must("force-unlock", "-force", b.lockID(b.fails("Error acquiring the state lock", "plan")))
	}
	a.must("state", "push", "-lock-timeout=90s", "errored.tfstate")
	b.unchanged("-var=value=5")
	b.must("apply", "-auto-approve", "-var=value=2")
	a.unchanged("-var=value=2")
}

// encrypted is what TF_ENCRYPTION has, with names of methods in two places.
const encrypted = `
key_provider "pbkdf2" "k" {
  passphrase = "a passphrase that is long enough"
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
		t.Errorf("the other configuration sees %q", text)
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

func partial(t *testing.T, w *world, _, _ *directory) {
	d := w.directory(t, "", configuration)
	d.write("place.tfbackend", w.body)
	d.must("init", "-backend-config=place.tfbackend")
	d.unchanged("-var=value=2")
}

func destroy(t *testing.T, _ *world, a, b *directory) {
	a.must("destroy", "-auto-approve")
	if text := b.must("state", "list"); strings.Contains(text, "terraform_data") {
		t.Errorf("after everything was destroyed there is %s", text)
	}
}
