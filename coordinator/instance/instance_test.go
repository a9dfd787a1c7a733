package instance

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/state"
)

var thing = &schema.Schema{Block: &schema.Block{Attributes: map[string]*schema.Attribute{
	"id":     {Type: cty.String, Computed: true},
	"secret": {Type: cty.String, Optional: true, Sensitive: true},
}}}

func object(id, secret cty.Value) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"id": id, "secret": secret})
}

func TestAnObjectWithoutRulesHasNoOutcome(t *testing.T) {
	if got := Outcomes("resource", "a.b", values.Conditions{Address: "a.b"}); got != nil {
		t.Errorf("got %v", got)
	}
	got := Outcomes("resource", "a.b", values.Conditions{Address: "a.b[0]", Rules: 1, Status: state.CheckFail})
	if len(got) != 1 || got[0].Config != "a.b" || got[0].Object.Address != "a.b[0]" ||
		got[0].Object.Status != state.CheckFail {
		t.Errorf("got %v", got)
	}
}

// As in OpenTofu, an object with a failed precondition has failed, whatever the results of its postconditions are.
func TestLaterRulesNeverImproveOnEarlierOnes(t *testing.T) {
	of := func(s state.CheckStatus, failures ...string) state.CheckObject {
		return state.CheckObject{Address: "a", Status: s, Failures: failures}
	}
	for sentence, c := range map[string]struct{ earlier, later, want state.CheckObject }{
		"both hold":           {of(state.CheckPass), of(state.CheckPass), of(state.CheckPass)},
		"the later one fails": {of(state.CheckPass), of(state.CheckFail, "l"), of(state.CheckFail, "l")},
		"the earlier failed":  {of(state.CheckFail, "e"), of(state.CheckPass), of(state.CheckFail, "e")},
		"both fail":           {of(state.CheckFail, "e"), of(state.CheckFail, "l"), of(state.CheckFail, "e", "l")},
		"one is not known":    {of(state.CheckUnknown), of(state.CheckPass), of(state.CheckUnknown)},
		"an error is worst":   {of(state.CheckFail, "e"), of(state.CheckError), of(state.CheckError, "e")},
	} {
		got := Both(c.earlier, c.later)
		if got.Status != c.want.Status || !slices.Equal(got.Failures, c.want.Failures) {
			t.Errorf("%s: %+v, want %+v", sentence, got, c.want)
		}
	}
}

func TestAValueTravelsWithoutItsMarksAndComesBackByTheSchema(t *testing.T) {
	in := &Instance{Schema: thing, Sensitive: []cty.Path{cty.GetAttrPath("id")}}
	v := object(cty.StringVal("i").Mark(marks.Sensitive), cty.StringVal("s"))
	b, err := Encode(v, thing)
	if err != nil {
		t.Fatal(err)
	}
	got, err := in.Decode(b)
	if err != nil || !got.RawEquals(object(cty.StringVal("i"), cty.StringVal("s"))) {
		t.Errorf("got %#v: %v", got, err)
	}
	marked := in.Marked(got)
	if !marked.GetAttr("id").HasMark(marks.Sensitive) || !marked.GetAttr("secret").HasMark(marks.Sensitive) {
		t.Errorf("the value has lost its marks: %#v", marked)
	}
	if null, err := in.Decode(nil); err != nil || !null.IsNull() {
		t.Errorf("empty data is decoded as %#v: %v", null, err)
	}
	if same, err := in.DecodeUnless(b, b, v); err != nil || !same.RawEquals(v) {
		t.Error("a value that was decoded already was decoded again")
	}
	if other, err := in.DecodeUnless(nil, b, v); err != nil || !other.IsNull() {
		t.Error("a missing value was treated as the known one")
	}
	if id, err := in.DecodeIdentity(b); err != nil || id != cty.NilVal {
		t.Error("a type without identities has one")
	}
	if _, err := in.Decode([]byte{0xc1}); err == nil {
		t.Error("invalid data was decoded")
	}
}

func TestATypeThatIsNotThereIsNamedByItsKind(t *testing.T) {
	p := addr.Provider{Host: "registry.opentofu.org", Namespace: "hashicorp", Type: "fake"}
	for mode, want := range map[addr.Mode]string{
		addr.Managed: `does not support resource type "fake_x"`, addr.Data: `does not support data source "fake_x"`,
		addr.Ephemeral: `does not support ephemeral resource "fake_x"`,
	} {
		if d := UnknownType(p, addr.Resource{Mode: mode, Type: "fake_x", Name: "a"}, nil); !strings.Contains(
			d.Detail, want) {
			t.Errorf("got %s, want %s", d.Detail, want)
		}
	}
	step := Broken("decoding a.b", errors.New("odd"))
	if !step.Diags.HasErrors() || !strings.Contains(step.Diags[0].Detail, "decoding a.b: odd.") {
		t.Errorf("got %v", step.Diags)
	}
	n := Notes("create", object(cty.StringVal("i"), cty.NullVal(cty.String)))
	if n.ID != "i" || n.IDKey != "id" || n.Action != "create" {
		t.Errorf("got %+v", n)
	}
}
