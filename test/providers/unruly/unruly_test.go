package unruly

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/millipede-iac/millipede/test/providers/act"
)

func newServer(t *testing.T, schemaFault string) (tfprotov6.ProviderServer, *act.Stage) {
	t.Helper()
	stage, err := act.Env{}.Open("unruly", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stage.Complaints = io.Discard
	stage.Exit = func(int) { panic(errors.New("exit")) }
	return New(stage, schemaFault), stage
}

// proposed is a thing with a part, and a command.
func proposed(t *testing.T, command string) (null, wanted *tfprotov6.DynamicValue) {
	t.Helper()
	o := object{}
	for name, t := range thing.ValueType().(tftypes.Object).AttributeTypes {
		o[name] = tftypes.NewValue(t, nil)
	}
	o["name"], o["value"] = tftypes.NewValue(tftypes.String, "a"), tftypes.NewValue(tftypes.String, "v")
	o["part"] = tftypes.NewValue(o["part"].Type(), []tftypes.Value{newPart("old")})
	if command != "" {
		o["misbehave"] = tftypes.NewValue(tftypes.String, command)
	}
	a := &answer{typ: thing.ValueType()}
	null = a.encode()
	a.object = o
	return null, a.encode()
}

// do plans a thing's creation and, if that succeeds, applies it.
func do(ctx context.Context, t *testing.T, s tfprotov6.ProviderServer, command string) (planned,
	created *tfprotov6.DynamicValue, diags []*tfprotov6.Diagnostic, err error) {
	t.Helper()
	null, wanted := proposed(t, command)
	plan, err := s.PlanResourceChange(ctx, &tfprotov6.PlanResourceChangeRequest{TypeName: "unruly_thing",
		PriorState: null, ProposedNewState: wanted, Config: wanted})
	if err != nil || strings.HasPrefix(command, "plan:") {
		return plan.PlannedState, nil, plan.Diagnostics, err
	}
	applied, err := s.ApplyResourceChange(ctx, &tfprotov6.ApplyResourceChangeRequest{TypeName: "unruly_thing",
		PriorState: null, PlannedState: plan.PlannedState, Config: wanted})
	return plan.PlannedState, applied.NewState, applied.Diagnostics, err
}

func TestWithoutACommandTheAnswersAreLawful(t *testing.T) {
	s, _ := newServer(t, "")
	planned, created, diags, err := do(t.Context(), t, s, "")
	if err != nil || len(diags) > 0 {
		t.Fatal(err, diags)
	}
	before, err1 := decode(thing.ValueType(), planned)
	after, err2 := decode(thing.ValueType(), created)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for name, v := range before {
		if v.IsKnown() && !v.Equal(after[name]) {
			t.Errorf("%s was planned as %s and is %s", name, v, after[name])
		}
		if !after[name].IsFullyKnown() {
			t.Errorf("%s is unknown", name)
		}
	}
	if before["id"].IsKnown() || after.text("id") != "unruly-a" {
		t.Errorf("the id was planned as %s and is %s", before["id"], after["id"])
	}
}

// TestEveryFaultChangesTheAnswer runs all faults that end.
func TestEveryFaultChangesTheAnswer(t *testing.T) {
	s, stage := newServer(t, "")
	_, lawful, _, err := do(t.Context(), t, s, "")
	if err != nil {
		t.Fatal(err)
	}
	for name := range Faults {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			spoken := &strings.Builder{}
			switch name {
			case "hang_deaf", "leave", "replace", "replace_nowhere":
				t.Skip("it never ends, or it is for other stages")
			case "hang":
				cancelled, cancel := context.WithCancel(ctx)
				cancel()
				ctx = cancelled
			case "panic", "crash":
				defer func() {
					if recover() == nil {
						t.Error("the process goes on")
					}
				}()
			case "flood":
				stage.Complaints = spoken
				defer func() { stage.Complaints = io.Discard }()
			}
			_, created, diags, err := do(ctx, t, s, "apply:"+name)
			if err == nil && len(diags) == 0 && alike(lawful, created) && spoken.Len() < 1<<20 {
				t.Error("nothing is unlawful")
			}
			if err := check("apply:" + name); err != nil {
				t.Error(err)
			}
		})
	}
}

// alike reports whether two answers are the same but for the command in them.
func alike(a, b *tfprotov6.DynamicValue) bool {
	first, err1 := decode(thing.ValueType(), a)
	second, err2 := decode(thing.ValueType(), b)
	if err1 != nil || err2 != nil || first == nil || second == nil {
		return false
	}
	delete(first, "misbehave")
	delete(second, "misbehave")
	return maps.EqualFunc(first, second, tftypes.Value.Equal)
}

func TestADestroyedThingMayBeLeft(t *testing.T) {
	s, _ := newServer(t, "")
	null, prior := proposed(t, "destroy:leave")
	resp, err := s.ApplyResourceChange(t.Context(), &tfprotov6.ApplyResourceChangeRequest{TypeName: "unruly_thing",
		PriorState: prior, PlannedState: null, Config: null})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := decode(thing.ValueType(), resp.NewState); err != nil || left.text("id") != "left" {
		t.Errorf("what is left is %v (%v)", left, err)
	}
}

func TestUnknownCommandsAreRefused(t *testing.T) {
	for _, command := range []string{"never:null", "apply:never", "apply"} {
		s, _ := newServer(t, "")
		_, wanted := proposed(t, command)
		resp, err := s.ValidateResourceConfig(t.Context(),
			&tfprotov6.ValidateResourceConfigRequest{TypeName: "unruly_thing", Config: wanted})
		if err != nil || len(resp.Diagnostics) != 1 {
			t.Errorf("%s: %v, %+v", command, err, resp)
		}
	}
}

func TestSchemasOnCommand(t *testing.T) {
	for command, want := range map[string]int{"": 2, "many:1500": 1502, "invalid": 2} {
		s, _ := newServer(t, command)
		all, err := s.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
		if err != nil || len(all.ResourceSchemas) != want {
			t.Errorf("%q: %d resource types, want %d (%v)", command, len(all.ResourceSchemas), want, err)
		}
	}
	s, _ := newServer(t, "never")
	if _, err := s.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{}); err == nil {
		t.Error("an unknown command is obeyed")
	}
}

func TestHandshakesOnCommand(t *testing.T) {
	if spoiled, err := spoilHandshake(""); spoiled || err != nil {
		t.Errorf("without a command: %t, %v", spoiled, err)
	}
	if spoiled, err := spoilHandshake("late:1ns"); spoiled || err != nil {
		t.Errorf("late: %t, %v", spoiled, err)
	}
	if _, err := spoilHandshake("never"); err == nil {
		t.Error("an unknown command is obeyed")
	}
}

func TestTheReadmeNamesEveryDeed(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range Faults {
		if !strings.Contains(string(readme), "| `"+name+"` | "+d.What+" |") {
			t.Errorf("the README does not say what %s does", name)
		}
	}
}
