package operation_test

import (
	"strings"
	"testing"
)

// If the provider could not find one object, the blocks of all others were not written.
func TestAnObjectThatIsNotFoundKeepsNoOtherBlockBack(t *testing.T) {
	e := newEstate(t)
	e.apply(block("a", `name = "a"`))
	found := "import {\n  to = fake_thing.found\n  id = \"id1\"\n}\n"
	lost := "import {\n  to = fake_thing.lost\n  id = \"nosuch\"\n}\n"
	e.configure(lost + found)
	generated, diags := e.session.Generate(t.Context())
	if !says(diags, "there is no object of that ID") {
		t.Errorf("the diagnostics are %v", diags)
	}
	if len(generated) != 1 || !strings.Contains(generated[0].Text, `resource "fake_thing" "found"`) {
		t.Errorf("the blocks are %v", generated)
	}

	// Errors that can be found without a request are reported before anything is written.
	e.configure(found + "import {\n  to = fake_thing.many[0]\n  id = \"id1\"\n}\n")
	generated, diags = e.session.Generate(t.Context())
	if len(generated) > 0 || !says(diags, "Configuration generation for count and for_each") {
		t.Errorf("the blocks are %v, the diagnostics %v", generated, diags)
	}
}
