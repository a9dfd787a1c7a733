package change

import (
	"context"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// hesitant is a provider that puts off whatever may be put off.
type hesitant struct{ *fake }

func putsOff(ctx context.Context) {
	if d := provider.DeferralOf(ctx); d != nil {
		d.Record(provider.AbsentPrerequisite)
	}
}

func (h hesitant) ReadResource(ctx context.Context, r provider.ReadRequest) (provider.ReadResponse, diag.List) {
	putsOff(ctx)
	r.Prior = obj("id", unknown) // as far as is known
	return h.fake.ReadResource(ctx, r)
}

func (h hesitant) PlanResourceChange(ctx context.Context, r provider.PlanRequest) (provider.PlanResponse, diag.List) {
	putsOff(ctx)
	return h.fake.PlanResourceChange(ctx, r)
}

func (h hesitant) ImportResourceState(ctx context.Context, _ provider.ImportRequest) ([]provider.Imported, diag.List) {
	putsOff(ctx)
	return nil, nil
}

func (h hesitant) ReadDataSource(ctx context.Context, _ string, _, _ cty.Value) (cty.Value, diag.List) {
	putsOff(ctx)
	return cty.UnknownVal(thing().ImpliedType()), nil
}

func (h hesitant) OpenEphemeral(ctx context.Context, _ string, _ cty.Value) (provider.Opened, diag.List) {
	putsOff(ctx)
	return provider.Opened{Object: cty.UnknownVal(thing().ImpliedType())}, nil
}

func TestAnOperationMayBePutOff(t *testing.T) {
	config := enc(obj("name", "a"))
	tasks := map[string]func() *wire.Task{
		"a plan": func() *wire.Task { return &wire.Task{Plan: &wire.PlanTask{Type: "test_thing", Config: config}} },
		"a plan after reading": func() *wire.Task {
			return &wire.Task{Plan: &wire.PlanTask{Type: "test_thing", Config: config, Refresh: true,
				Prior: stored(t, obj("id", "i-1", "name", "old"))}}
		},
		"a plan after an import": func() *wire.Task {
			return &wire.Task{Plan: &wire.PlanTask{Type: "test_thing", Config: config,
				Import: &wire.ImportTask{Type: "test_thing", ID: "i-1"}}}
		},
		"reading data": func() *wire.Task { return &wire.Task{Read: &wire.ReadDataTask{Type: "test_data", Config: config}} },
		"opening": func() *wire.Task {
			return &wire.Task{Ephemeral: &wire.EphemeralTask{Op: "open", Type: "test_secret", Config: config}}
		},
	}
	for claim, task := range tasks {
		t.Run(claim, func(t *testing.T) {
			h := newFake().host()
			h.Provider = hesitant{newFake()}
			it := task()
			it.Provider.MayDefer = true
			out := Do(t.Context(), h, it)
			if out.Deferred != "absent_prereq" || len(out.Diagnostics) > 0 {
				t.Errorf("got %q with %+v", out.Deferred, out.Diagnostics)
			}
			if it.Plan == nil {
				if out.Value != nil || out.Ephemeral != nil {
					t.Errorf("there is an answer: %+v", out)
				}
				return
			}
			if v := dec(t, out.Plan.Planned); v.GetAttr("name").AsString() != "a" {
				t.Errorf("planned: %#v", v)
			}
			want := plan.Create
			if it.Plan.Prior != nil {
				want = plan.Update
				wantValue(t, "the prior object", dec(t, out.Plan.Prior), obj("id", "i-1", "name", "old"))
			}
			if out.Plan.Action != want {
				t.Errorf("the action is %s", out.Plan.Action)
			}
		})
	}
}

func TestNothingIsPutOffWithoutBeingAllowed(t *testing.T) {
	h := newFake().host()
	h.Provider = hesitant{newFake()}
	out := Do(t.Context(), h, &wire.Task{Plan: &wire.PlanTask{Type: "test_thing", Config: enc(obj("name", "a"))}})
	if out.Deferred != "" {
		t.Errorf("got %q", out.Deferred)
	}
}
