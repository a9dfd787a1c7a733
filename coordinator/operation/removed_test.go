package operation_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

// The first of several removed blocks that cover an object decided about it, and between modules it was a random one,
// because a map was ranged over: destroy = false was ignored. The expected changes are those of OpenTofu 1.12.
func TestTheLastOfSeveralRemovedBlocksDecides(t *testing.T) {
	const (
		inside = "resource \"fake_thing\" \"in\" { name = \"in\" }\n"
		module = "module \"m\" { source = \"./child\" }\n"
	)
	removed := func(from, destroy string) string {
		return "removed {\n  from = " + from + "\n  lifecycle {\n    destroy = " + destroy + "\n  }\n}\n"
	}
	for sentence, c := range map[string]struct {
		text, child string
		want        string
	}{
		"of the module, then of the resource": {
			removed("module.m", "true") + removed("module.m.fake_thing.in", "false"), "", "forget"},
		"of the resource, then of the module": {
			removed("module.m.fake_thing.in", "true") + removed("module.m", "false"), "", "forget"},
		"of the module, then of the resource, the other way round": {
			removed("module.m", "false") + removed("module.m.fake_thing.in", "true"), "", "delete"},
		"twice the same": {
			removed("module.m.fake_thing.in", "true") + removed("module.m.fake_thing.in", "false"), "", "forget"},
		"in the root and in the module": {
			module + removed("module.m.fake_thing.in", "true"), removed("fake_thing.in", "false"), "forget"},
		"in the root and in the module, the other way round": {
			module + removed("module.m.fake_thing.in", "false"), removed("fake_thing.in", "true"), "delete"},
	} {
		t.Run(sentence, func(t *testing.T) {
			for range 5 { // an order of chance would differ
				e := newEstate(t)
				e.apply(module, inside)
				e.configure(c.text, c.child)
				e.equal("plan", changes(e.plan(plan.Options{})), []string{c.want + " module.m.fake_thing.in"})
			}
		})
	}
}

// The destroy-time provisioners of an object were those of a random one of several removed blocks in different modules.
// OpenTofu runs those of the first.
func TestTheFirstOfSeveralRemovedBlocksHasTheProvisioners(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	removed := func(from, name string) string {
		return strings.NewReplacer("FROM", from, "NAME", name, "LOG", log).Replace(`removed {
  from = FROM
  lifecycle {
    destroy = true
  }
  provisioner "local-exec" {
    when    = destroy
    command = "echo NAME >> LOG"
  }
}
`)
	}
	const module = "module \"m\" { source = \"./child\" }\n"
	e := newEstate(t)
	for range 5 {
		e.apply(module, "resource \"fake_thing\" \"in\" { name = \"in\" }\n")
		e.apply(module+removed("module.m.fake_thing.in", "root"), removed("fake_thing.in", "child"))
	}
	text, err := os.ReadFile(log)
	e.check(err)
	e.equal("ran", strings.Fields(string(text)), slices.Repeat([]string{"root"}, 5))
}

// The errors of removed blocks whose targets still have a block came in a random order.
func TestErrorsOfRemovedBlocksHaveAFixedOrder(t *testing.T) {
	var text strings.Builder
	for _, name := range []string{"c", "a", "d", "b"} {
		text.WriteString("module \"" + name + "\" { source = \"./child\" }\n")
	}
	e := newEstate(t)
	e.configure(text.String(), "resource \"fake_thing\" \"x\" { name = \"x\" }\nremoved {\n  from = fake_thing.x\n}\n")
	for range 10 {
		_, diags := e.session.Plan(t.Context(), e.state(), plan.Options{})
		var got []string
		for _, d := range diags {
			for _, word := range strings.Fields(d.Detail) {
				if strings.HasPrefix(word, "module.") {
					got = append(got, word)
				}
			}
		}
		e.equal("errors", got, []string{"module.a.fake_thing.x", "module.b.fake_thing.x", "module.c.fake_thing.x",
			"module.d.fake_thing.x"})
	}
}
