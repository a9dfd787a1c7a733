package planning

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
)

// OpenTofu compares the value that an element of replace_triggered_by names before and after, regardless of which parts
// are sensitive.
func TestAnAttributeTriggersAReplacementWhenItChanges(t *testing.T) {
	object := func(size int64, tags ...string) cty.Value {
		m := map[string]cty.Value{}
		for _, tag := range tags {
			m[tag] = cty.True
		}
		return cty.ObjectVal(map[string]cty.Value{"size": cty.NumberIntVal(size), "tags": cty.ObjectVal(m)})
	}
	size := hcl.Traversal{hcl.TraverseAttr{Name: "size"}}
	tag := hcl.Traversal{hcl.TraverseAttr{Name: "tags"}, hcl.TraverseAttr{Name: "x"}}
	for sentence, c := range map[string]struct {
		before, after cty.Value
		at            hcl.Traversal
		want          bool
	}{
		"it stays":                     {object(1, "x"), object(1, "x"), size, false},
		"it changes":                   {object(1), object(2), size, true},
		"something else changes":       {object(1, "x"), object(2, "x"), tag, false},
		"it appears":                   {object(1), object(1, "x"), tag, true},
		"it is not there, and was not": {object(1), object(2), tag, false},
		"it is not known yet":          {object(1), cty.UnknownVal(object(1).Type()), size, true},
		"only its marks change":        {object(1), object(1).Mark(marks.Sensitive), size, false},
		"the object is new":            {cty.NullVal(object(1).Type()), object(1), size, true},
		"the object goes":              {object(1), cty.NullVal(object(1).Type()), size, true},
	} {
		if got := attributeChanges(&plan.Change{Before: c.before, After: c.after}, c.at); got != c.want {
			t.Errorf("%s: %t, want %t", sentence, got, c.want)
		}
	}
}

// A creation with an unknown outcome cannot be read, so a plan for it could create its object twice; any other object
// in doubt is read again.
func TestWhatIsInDoubtIsReadAgainUnlessNothingIsKnownOfIt(t *testing.T) {
	at, diags := addr.ParseInstance("fake_thing.a")
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	doubt := func(operation string) *state.Doubt {
		return &state.Doubt{Operation: operation, Attempt: "X1", Worker: "w7"}
	}
	attrs := []byte(`{"id":"i"}`)
	for sentence, c := range map[string]struct {
		object  *state.Object
		planned bool
		read    bool
		says    string
	}{
		"no object":                 {nil, false, false, ""},
		"an object without a doubt": {&state.Object{Status: state.Tainted, Attrs: attrs}, true, false, ""},
		"an update": {
			&state.Object{Status: state.InDoubt, Attrs: attrs, Doubt: doubt("update")}, true, true,
			"an earlier update of fake_thing.a",
		},
		"a deletion": {
			&state.Object{Status: state.InDoubt, Attrs: attrs, Doubt: doubt("delete")}, true, true,
			"an earlier delete of fake_thing.a",
		},
		"a creation": {
			&state.Object{Status: state.InDoubt, Attrs: attrs, Doubt: doubt("create")}, false, false, "attempt:   X1",
		},
		"an update of what is not stored": {
			&state.Object{Status: state.InDoubt, Doubt: doubt("update")}, false, false, "worker:    w7",
		},
		"a doubt of which nothing is recorded": {
			&state.Object{Status: state.InDoubt, Attrs: attrs}, false, false, "is not known",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, read, diags := known(at, c.object)
			if (got != nil) != c.planned || read != c.read {
				t.Errorf("planned: %t, read again: %t", got != nil, read)
			}
			if got != nil && (got.Status == state.InDoubt || got.Doubt != nil) {
				t.Errorf("the planned change is %+v", got)
			}
			said := len(diags) == 1 && strings.Contains(diags[0].Detail, c.says) && diags.HasErrors() != c.planned
			if c.says != "" && !said {
				t.Errorf("no diagnostic contains %q: %v", c.says, diags)
			}
		})
	}
}

func TestAWarningOfADoubtNamesWhatWasSentAndAnswered(t *testing.T) {
	at, _ := addr.ParseInstance("fake_thing.a")
	d := inDoubt(at, &state.Object{Doubt: &state.Doubt{
		Operation: "create", Sent: []byte(`{"name":"n"}`), Answer: &state.Answer{Known: []byte(`{"id":"i"}`)},
	}})
	for _, want := range []string{`sent:      {"name":"n"}`, `answered:  {"id":"i"}`, "-created ID"} {
		if !strings.Contains(d.Detail, want) {
			t.Errorf("the detail does not contain %q: %s", want, d.Detail)
		}
	}
	if d.Severity != diag.Error {
		t.Error("the diagnostic is not an error")
	}
}
