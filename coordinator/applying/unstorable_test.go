package applying

import (
	"bytes"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// thing is the schema of the objects of these tests.
var thing = &schema.Schema{Block: &schema.Block{Attributes: map[string]*schema.Attribute{
	"id":     {Type: cty.String, Computed: true},
	"secret": {Type: cty.String, Optional: true, Sensitive: true},
}}}

func created(t *testing.T) (*Applier, *plan.Change, *instance.Instance) {
	t.Helper()
	at, diags := addr.ParseInstance("a_thing.b")
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	a := &Applier{Options: Options{Plan: &plan.Plan{}}, state: state.Empty(), work: make([]work, 1)}
	a.Plan.Graph.Vertices = []plan.Vertex{{Kind: plan.ApplyObject, Address: "a_thing.b"}}
	a.Plan.Changes = []*plan.Change{{Addr: at, Action: plan.Create}}
	return a, a.Plan.Changes[0], &instance.Instance{Schema: thing}
}

// If the coordinator could not decode a provider's response, the operation failed and nothing was recorded, although
// the object had been created: the result was acknowledged, and the next apply created the object again.
func TestAnAnswerThatCannotBeDecodedIsADoubtWithWhatIsKnown(t *testing.T) {
	object := func(ty cty.Type, v cty.Value) []byte {
		text, err := coding.EncodeValue(v, ty)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	id := map[string]cty.Value{"id": cty.StringVal("i-1")}
	for sentence, c := range map[string]struct {
		object []byte
		known  string
	}{
		"no message at all":     {[]byte{0xc1, 0xff}, ""},
		"no bytes":              {nil, ""},
		"an attribute too few":  {object(cty.Object(map[string]cty.Type{"id": cty.String}), cty.ObjectVal(id)), "i-1"},
		"a list for an object":  {object(cty.List(cty.String), cty.ListVal([]cty.Value{cty.StringVal("i-1")})), ""},
		"a null object":         {object(thing.Block.ImpliedType(), cty.NullVal(thing.Block.ImpliedType())), ""},
		"64 KiB of what is not": {bytes.Repeat([]byte{0xc1}, 2*wire.MaxRaw), ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			a, change, ev := created(t)
			res := &wire.Result{Apply: &wire.ApplyResult{Object: c.object, Private: []byte("private")}}
			a.work[0].then = func(r *wire.Result) program.Step { return a.applied(0, change, nil, ev, r) }
			step := a.Complete(t.Context(), 0, res)
			if step.Doubt == nil || len(step.Changes) > 0 || !step.Diags.HasErrors() {
				t.Fatalf("the step is %+v", step)
			}
			answer := step.Doubt.Answer
			if answer == nil || string(answer.Private) != "private" || len(answer.Raw) > wire.MaxRaw ||
				!bytes.HasPrefix(c.object, answer.Raw) || len(c.object) > 0 && len(answer.Raw) == 0 {
				t.Fatalf("the stored part of the response is %+v", answer)
			}
			if !strings.Contains(string(answer.Known), c.known) {
				t.Errorf("the known part is %s, without %q", answer.Known, c.known)
			}
		})
	}
}

func TestAnEmptyResultOfACreateWithoutAProblemIsADoubt(t *testing.T) {
	a, change, ev := created(t)
	a.work[0].then = func(r *wire.Result) program.Step { return a.applied(0, change, nil, ev, r) }
	if step := a.Complete(t.Context(), 0, &wire.Result{}); step.Doubt == nil || !step.Diags.HasErrors() {
		t.Errorf("the step is %+v", step)
	}
	refused := &wire.Result{Diagnostics: []wire.Diagnostic{{Severity: byte(diag.Error), Summary: "refused"}}}
	a.work[0].then = func(r *wire.Result) program.Step { return a.applied(0, change, nil, ev, r) }
	if step := a.Complete(t.Context(), 0, refused); step.Doubt != nil || !step.Diags.HasErrors() {
		t.Errorf("the step of an operation that was not started is %+v", step)
	}
}

// A panic during the decoding of a response ended the run, and the object in the response was lost.
func TestAPanicOverAnAnswerIsADoubtThatReportsTheBug(t *testing.T) {
	a, _, _ := created(t)
	a.work[0].then = func(*wire.Result) program.Step { panic("told to") }
	step := a.Complete(t.Context(), 0, &wire.Result{})
	if step.Doubt == nil || !strings.Contains(step.Doubt.Reason, "told to") || !step.Diags.HasErrors() {
		t.Errorf("the step is %+v", step)
	}
}
