package operation_test

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// drop removes an object from the state, and returns its ID.
func (e *estate) drop(address string) (addr.Instance, string) {
	e.t.Helper()
	at, diags := addr.ParseInstance(address)
	e.clean(diags)
	id := e.attribute(address, "id").(string)
	e.check(e.store.Commit(e.t.Context(), journal.Commit{Workspace: "default", EndVersion: true,
		Changes: []state.Change{state.SetObject{Addr: at}}}))
	return at, id
}

// The import command read the whole state: an object that was gone was dropped from the state without a word, and one
// that could not be read made the import fail.
func TestTheImportCommandTouchesTheImportedObjectAlone(t *testing.T) {
	e := newEstate(t)
	e.apply(`
resource "fake_thing" "gone" { name = "gone" }
resource "fake_thing" "unreadable" { name = "unreadable" }
resource "fake_thing" "old" { name = "old" }
resource "fake_thing" "new" { name = "new" }
output "gone" { value = fake_thing.gone.name }
`)
	at, id := e.drop("fake_thing.new")
	e.cloud.mu.Lock()
	for id, o := range e.cloud.objects {
		if o.GetAttr("name").AsString() == "gone" {
			delete(e.cloud.objects, id)
		}
	}
	e.cloud.mu.Unlock()
	e.cloud.onRead = func(name string) error {
		if name == "unreadable" {
			return errNoRoom
		}
		return nil
	}
	e.configure(`
resource "fake_thing" "gone" { name = "gone" }
resource "fake_thing" "unreadable" { name = "unreadable" }
resource "fake_thing" "moved" { name = "old" }
moved {
  from = fake_thing.old
  to   = fake_thing.moved
}
resource "fake_thing" "new" { name = "new" }
output "gone" { value = fake_thing.gone.name }
output "new" { value = fake_thing.new.id }
`)
	p := e.plan(plan.Options{Mode: plan.RefreshOnly,
		Imports: map[addr.Instance]string{at: id}})
	e.equal("found", existing(p.Prior), []string{"fake_thing.gone", "fake_thing.new", "fake_thing.old",
		"fake_thing.unreadable"})
	if got := e.attribute("fake_thing.gone", "name"); got != "gone" {
		t.Errorf("the object that is gone has become %v", got)
	}
	for _, o := range p.Outputs {
		if want := map[string]string{"gone": "gone", "new": id}[o.Name]; !o.After.RawEquals(cty.StringVal(want)) {
			t.Errorf("the output %q is %#v", o.Name, o.After)
		}
	}
}

// An object that was imported into a block with sensitive values was updated, although only the marks differed.
func TestSensitiveValuesAloneAreNoChangeOfAnImportedObject(t *testing.T) {
	text := `
variable "note" { sensitive = true }
resource "fake_thing" "a" {
  name   = "a"
  note   = var.note
  secret = "s"
}
`
	for how, asBlock := range map[string]bool{"by a block": true, "by the command": false} {
		t.Run(how, func(t *testing.T) {
			e := newEstate(t)
			e.session.Inputs = map[string]values.Input{"note": {Value: cty.StringVal("n")}}
			e.apply(text)
			at, id := e.drop("fake_thing.a")
			o := plan.Options{}
			if asBlock {
				e.configure(text + "import {\n  to = fake_thing.a\n  id = \"" + id + "\"\n}\n")
			} else {
				o.Mode, o.Imports = plan.RefreshOnly, map[addr.Instance]string{at: id}
			}
			p := e.plan(o)
			e.equal("changes", changes(p), nil)
			_, diags := e.tryApply(p)
			e.clean(diags)
			if n := len(e.object("fake_thing.a").Sensitive); n != 2 {
				t.Errorf("%d paths are stored as sensitive", n)
			}
			if next := e.plan(plan.Options{}); next.Applyable() {
				t.Errorf("the next plan has the changes %v", changes(next))
			}
		})
	}
}

// -generate-config-out wrote blocks also for imports that -target or -exclude left out of the plan.
func TestBlocksAreGeneratedForTheImportsInThePlan(t *testing.T) {
	e := newEstate(t)
	e.apply(`
resource "fake_thing" "x" { name = "x" }
resource "fake_thing" "y" { name = "y" }
`)
	_, x := e.drop("fake_thing.x")
	_, y := e.drop("fake_thing.y")
	importing := func(name, id string) string {
		return "import {\n  to = fake_thing." + name + "\n  id = \"" + id + "\"\n}\n"
	}
	text := importing("a", x) + importing("b", y)
	for _, o := range []plan.Options{{Targets: targets("fake_thing.a")}, {Excludes: targets("fake_thing.b")}} {
		e.configure(text)
		operation.LeaveOut(e.session.Tree, o.Targets, o.Excludes)
		generated, diags := e.session.Generate(t.Context())
		e.clean(diags)
		if len(generated) != 1 || !strings.Contains(generated[0].Text, `resource "fake_thing" "a"`) {
			t.Fatalf("generated: %v", generated)
		}
		e.configure(text + generated[0].Text)
		operation.LeaveOut(e.session.Tree, o.Targets, o.Excludes)
		e.equal("the plan", changes(e.plan(o)), nil)
	}
}
