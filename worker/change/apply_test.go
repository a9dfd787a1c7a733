package change

import (
	"context"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// create returns the task that creates a thing named a.
func create() *wire.ApplyTask {
	return &wire.ApplyTask{
		Type: "test_thing", Action: plan.Create,
		Planned: enc(obj("id", unknown, "name", "a", "size", unknown)), Config: enc(obj("name", "a")),
	}
}

// update returns the task that renames the thing i-1 from a to b.
func update() *wire.ApplyTask {
	return &wire.ApplyTask{
		Type: "test_thing", Action: plan.Update, PriorPrivate: []byte("old private"),
		Prior:   enc(obj("id", "i-1", "name", "a", "size", "big")),
		Planned: enc(obj("id", "i-1", "name", "b", "size", "big")), Config: enc(obj("name", "b")),
	}
}

// deletion returns the task that deletes the thing i-1.
func deletion() *wire.ApplyTask {
	return &wire.ApplyTask{
		Type: "test_thing", Action: plan.Delete, PriorPrivate: []byte("old private"),
		Prior: enc(obj("id", "i-1", "name", "a", "size", "big")),
	}
}

func failed(summary string) diag.List { return diag.List{{Severity: diag.Error, Summary: summary}} }

func TestTheAppliedObjectIsWhatTheProviderMade(t *testing.T) {
	f := newFake()
	f.apply = func(r provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
		wantValue(t, "config", r.Config, obj("name", "a"))
		wantValue(t, "prior", r.Prior, noObj)
		identity := cty.ObjectVal(map[string]cty.Value{"arn": cty.StringVal("arn:1")})
		return provider.ApplyResponse{Object: lawfulApply(r.Planned), Private: []byte("new private"),
			Identity: identity}, nil
	}
	got, diags := Apply(context.Background(), f.host(), create())
	noErrors(t, diags)
	if got.Result == nil || got.Doubt != "" {
		t.Fatalf("got %+v", got)
	}
	wantValue(t, "object", dec(t, got.Result.Object), obj("id", "done", "name", "a", "size", "done"))
	if r := got.Result; string(r.Private) != "new private" || r.Identity == nil || r.Tainted || r.SchemaVersion != 3 ||
		r.IdentityVersion != 2 {
		t.Errorf("the result is %+v", r)
	}
	wantCalls(t, f, "validate", "plan", "apply")
}

func TestAWriteOnlyValueIsSentAndNotKept(t *testing.T) {
	f := newFake()
	task := create()
	task.Config = enc(obj("name", "a", "once", "hunter2"))
	f.apply = func(r provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
		wantValue(t, "config", r.Config, obj("name", "a", "once", "hunter2"))
		wantValue(t, "planned", r.Planned, obj("id", unknown, "name", "a", "size", unknown))
		return provider.ApplyResponse{Object: lawfulApply(r.Planned)}, nil
	}
	got, diags := Apply(context.Background(), f.host(), task)
	noErrors(t, diags)
	wantValue(t, "object", dec(t, got.Result.Object), obj("id", "done", "name", "a", "size", "done"))
}

func TestAnswersToAnApply(t *testing.T) {
	was := obj("id", "i-1", "name", "a", "size", "big")
	made := obj("id", "i-1", "name", "a", "size", "big")
	for claim, c := range map[string]struct {
		task    *wire.ApplyTask
		answer  provider.ApplyResponse
		diags   diag.List
		want    []string
		object  cty.Value
		tainted bool
		// doubt is the reason why the response cannot be stored, and known is its readable part.
		doubt, known string
	}{
		"a creation that failed halfway leaves a tainted object": {
			task: create(), answer: provider.ApplyResponse{Object: obj("id", "i-1", "name", "a")},
			diags: failed("quota"),
			want:  []string{"quota"}, object: obj("id", "i-1", "name", "a"), tainted: true,
		},
		"a creation that failed without a trace leaves nothing": {
			task: create(), answer: provider.ApplyResponse{Object: noObj}, diags: failed("quota"),
			want: []string{"quota"}, object: noObj,
		},
		"a creation that failed without a value leaves nothing": {
			task: create(), diags: failed("quota"), want: []string{"quota"}, object: noObj,
		},
		"an update that failed with null leaves what was": {
			task: update(), answer: provider.ApplyResponse{Object: noObj}, diags: failed("busy"),
			want: []string{"busy"}, object: was,
		},
		"an update that failed without a value leaves what was": {
			task: update(), diags: failed("busy"), want: []string{"busy"}, object: was,
		},
		"an update that failed halfway leaves what the provider says": {
			task: update(), answer: provider.ApplyResponse{Object: obj("id", "i-1", "name", "half", "size", "big")},
			diags: failed("busy"),
			want:  []string{"busy"}, object: obj("id", "i-1", "name", "half", "size", "big"),
		},
		"a deletion that failed keeps the object": {
			task: deletion(), answer: provider.ApplyResponse{Object: was}, diags: failed("locked"),
			want: []string{"locked"}, object: was,
		},
		"a deletion that failed with null keeps the object too: the next refresh will tell": {
			task: deletion(), answer: provider.ApplyResponse{Object: noObj}, diags: failed("locked"),
			want: []string{"locked"}, object: was,
		},
		"a deletion leaves nothing": {task: deletion(), answer: provider.ApplyResponse{Object: noObj}, object: noObj},
		"a warning is told": {
			task: deletion(), answer: provider.ApplyResponse{Object: noObj},
			diags: diag.List{{Severity: diag.Warning, Summary: "slow"}},
			want:  []string{"slow"}, object: noObj,
		},
		"an object after a deletion is unlawful, and kept": {
			task: deletion(), answer: provider.ApplyResponse{Object: was},
			want: []string{"Provider returned invalid result object after apply | test_thing.a"}, object: was,
		},
		// If the response to a creation could not be stored, it counted as a response without an object. So the object was
		// lost, and the next apply created it again.
		"null after a creation that has not failed is unlawful, and leaves open what was made": {
			task: create(), answer: provider.ApplyResponse{Object: noObj, Private: []byte("p")},
			want: []string{"Provider produced inconsistent result after apply | root object was present, but " +
				"now absent"},
			doubt: "returned none",
		},
		"null after a legacy creation is unlawful, and leaves open what was made": {
			task: create(), answer: provider.ApplyResponse{Object: noObj, LegacyTypeSystem: true},
			want: []string{"Provider returned invalid result object after apply | null"}, doubt: "returned none",
		},
		"no value after a creation leaves open what was made": {
			task: create(), want: []string{"Provider produced invalid object | no value at all"},
			doubt: "returned none",
		},
		"a creation's answer without some attributes": {
			task: create(), answer: provider.ApplyResponse{
				Object: cty.ObjectVal(map[string]cty.Value{"id": cty.StringVal("i-1")})},
			want: []string{
				`Provider produced invalid object | attribute "name"`,
				`Provider produced invalid object | attribute "once"`,
				`Provider produced invalid object | attribute "secret"`,
				`Provider produced invalid object | attribute "size"`,
				`Provider produced invalid object | attribute "tags"`,
			},
			doubt: "does not fit its schema", known: `{"id":"i-1"}`,
		},
		"a failed creation's answer of another type": {
			task: create(), answer: provider.ApplyResponse{Object: cty.StringVal("x")}, diags: failed("quota"),
			want:  []string{"quota", "Provider produced invalid object | object required"},
			doubt: "does not fit its schema",
		},
		"a creation's answer that no plugin could be understood by": {
			task: create(), diags: diag.List{{Severity: diag.Error, Summary: "Invalid provider response",
				Extra: &provider.Lost{
					Reason: "the answer could not be read", Answer: &provider.Answer{Raw: []byte("\xdd"),
						Attributes: map[string]cty.Value{
							"id": cty.StringVal("i-1"), "secret": cty.StringVal("hunter2"),
							"name": cty.UnknownVal(cty.String)}},
				}}},
			want: []string{"Invalid provider response"}, doubt: "could not be read", known: `{"id":"i-1"}`,
		},
		"null after an update is unlawful, and what was is kept": {
			task: update(), answer: provider.ApplyResponse{Object: noObj},
			want: []string{"Provider produced inconsistent result after apply | absent"}, object: was,
		},
		"no value at all is unlawful": {
			task: update(), want: []string{`Provider produced invalid object | provider[\"example.com`}, object: was,
		},
		"no value after a deletion is taken for null, and unlawful": {
			task: deletion(), want: []string{`Provider produced invalid object | no value at all`}, object: was,
		},
		"another value than the planned one": {
			task: create(), answer: provider.ApplyResponse{Object: obj("id", "i-1", "name", "x", "size", "big")},
			want: []string{`Provider produced inconsistent result after apply | produced an unexpected new value for ` +
				`test_thing.a.name: was cty.StringVal("a"), but now cty.StringVal("x")`},
			object: obj("id", "i-1", "name", "x", "size", "big"), tainted: true,
		},
		"another value than the planned one, from a legacy provider": {
			task: create(), answer: provider.ApplyResponse{Object: obj("id", "i-1", "name", "x"),
				LegacyTypeSystem: true},
			object: obj("id", "i-1", "name", "x"),
		},
		"another value, beside a failure that explains it": {
			task: create(), answer: provider.ApplyResponse{Object: obj("id", "i-1", "name", "x")},
			diags: failed("quota"),
			want:  []string{"quota"}, object: obj("id", "i-1", "name", "x"), tainted: true,
		},
		"what is still unknown is kept as null": {
			task: create(), answer: provider.ApplyResponse{Object: obj("id", "i-1", "name", "a", "size", unknown,
				"tags", cty.UnknownVal(cty.Map(cty.String)))},
			want: []string{
				"Provider returned invalid result object after apply | test_thing.a.size",
				"Provider returned invalid result object after apply | test_thing.a.tags",
			},
			object: obj("id", "i-1", "name", "a"), tainted: true,
		},
		"what is still unknown, beside a failure": {
			task: update(), answer: provider.ApplyResponse{Object: obj("id", "i-1", "name", unknown)},
			diags:  failed("busy"),
			want:   []string{"busy", "Provider returned invalid result object after apply | test_thing.a.name"},
			object: obj("id", "i-1"),
		},
		"a write-only value comes back": {
			task: create(), answer: provider.ApplyResponse{Object: obj("id", "i-1", "name", "a", "size", "big",
				"once", "hunter2")},
			want: []string{"Invalid provider response | test_thing.a.once"}, object: made, tainted: true,
		},
		"an object of another type": {
			task: update(), answer: provider.ApplyResponse{Object: cty.StringVal("x")},
			want: []string{"Provider produced invalid object | object required"}, doubt: "does not fit its schema",
		},
		"after a deletion, something of another type": {
			task: deletion(), answer: provider.ApplyResponse{Object: cty.StringVal("x")},
			want: []string{"Provider produced invalid object | object required"}, doubt: "does not fit its schema",
		},
		"an identity of another type": {
			task: create(), answer: provider.ApplyResponse{Object: made, Identity: cty.True},
			want: []string{"Provider produced invalid object | identity"}, object: made, tainted: true,
		},
		"an identity that is still unknown": {
			task: create(), answer: provider.ApplyResponse{Object: made,
				Identity: cty.ObjectVal(map[string]cty.Value{"arn": unknown})},
			want:   []string{"Provider returned invalid result object after apply | test_thing.a.arn"},
			object: made, tainted: true,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.apply = func(provider.ApplyRequest) (provider.ApplyResponse, diag.List) { return c.answer, c.diags }
			got, diags := Apply(context.Background(), f.host(), c.task)
			wantDiags(t, diags, c.want...)
			if c.doubt != "" {
				if got.Result != nil || !strings.Contains(got.Doubt, c.doubt) {
					t.Errorf("got %+v", got)
				}
				if known := got.Answer; c.known != "" && (known == nil || string(known.Known) != c.known) {
					t.Errorf("the known part of the response is %+v, want %s", known, c.known)
				}
				return
			}
			if got.Doubt != "" || got.Result == nil {
				t.Fatalf("got %+v", got)
			}
			wantValue(t, "object", dec(t, got.Result.Object), c.object)
			if got.Result.Tainted != c.tainted {
				t.Errorf("tainted: %t, want %t", got.Result.Tainted, c.tainted)
			}
		})
	}
}

func TestWhatTheConfigurationMarksAsSensitiveIsNotTold(t *testing.T) {
	f := newFake()
	f.apply = func(provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
		return provider.ApplyResponse{Object: obj("id", "i-1", "name", "hunter2", "size", "big", "tags",
			map[string]string{"a": "hunter2"})}, nil
	}
	task := create()
	task.Sensitive = paths(t, cty.GetAttrPath("name"), cty.GetAttrPath("tags").IndexString("a"))
	_, diags := Apply(context.Background(), f.host(), task)
	wantDiags(t, diags, "Provider produced inconsistent result after apply | test_thing.a.name: the value is wrong",
		"Provider produced inconsistent result after apply | test_thing.a.tags: the value is wrong")
}

func TestSilenceDuringAnApplyIsDoubt(t *testing.T) {
	for claim, task := range map[string]*wire.ApplyTask{"create": create(), "update": update(), "delete": deletion()} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.apply = func(provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
				return provider.ApplyResponse{}, diag.List{{Severity: diag.Error, Summary: "Plugin did not respond",
					Extra: &provider.Lost{Reason: "the process exited"}}}
			}
			got, diags := Apply(context.Background(), f.host(), task)
			wantDiags(t, diags, "Plugin did not respond")
			if got.Result != nil || got.Doubt != "the process exited" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestSilenceBeforeAnApplyIsAnErrorThatChangedNothing(t *testing.T) {
	f := newFake()
	f.plan = func(provider.PlanRequest) (provider.PlanResponse, diag.List) {
		return provider.PlanResponse{}, diag.List{{Severity: diag.Error, Summary: "Plugin did not respond",
			Extra: &provider.Lost{}}}
	}
	got, diags := Apply(context.Background(), f.host(), create())
	wantDiags(t, diags, "Plugin did not respond")
	if got.Result != nil || got.Doubt != "" {
		t.Errorf("got %+v", got)
	}
	wantCalls(t, f, "validate", "plan")
}

func TestTheFinalPlanMustKeepWhatWasApproved(t *testing.T) {
	answering := func(p provider.PlanResponse) func(*fake) {
		return func(f *fake) {
			f.plan = func(provider.PlanRequest) (provider.PlanResponse, diag.List) { return p, nil }
		}
	}
	for claim, c := range map[string]struct {
		task *wire.ApplyTask
		fake func(*fake)
		want []string
	}{
		"a known value differs": {
			task: func() *wire.ApplyTask {
				task := create()
				task.Planned = enc(obj("id", "i-7", "name", "a", "size", unknown))
				return task
			}(),
			fake: answering(provider.PlanResponse{Planned: obj("id", "i-8", "name", "a", "size", unknown)}),
			want: []string{`Provider produced inconsistent final plan | test_thing.a.id: was cty.StringVal("i-7"), ` +
				`but now cty.StringVal("i-8")`},
		},
		"an update has become a replacement": {
			task: update(),
			fake: answering(provider.PlanResponse{Planned: obj("id", "i-1", "name", "b", "size", "big"),
				RequiresReplace: []cty.Path{cty.GetAttrPath("name")}}),
			want: []string{`Provider produced inconsistent final plan | provider "example.com/acme/test" changed it from ` +
				`update to delete-create`},
		},
		"a sensitive value differs": {
			task: func() *wire.ApplyTask {
				task := create()
				task.Planned, task.Config = enc(obj("id", unknown, "secret", "hunter2")), enc(obj("secret", "hunter22"))
				return task
			}(),
			want: []string{`Provider produced inconsistent final plan | test_thing.a.secret: `,
				`Provider produced inconsistent final plan | test_thing.a.size: was null`},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			if c.fake != nil {
				c.fake(f)
			}
			got, diags := Apply(context.Background(), f.host(), c.task)
			wantDiags(t, diags, c.want...)
			if got.Result != nil || got.Doubt != "" {
				t.Errorf("got %+v", got)
			}
			for _, call := range f.calls {
				if call == "apply" {
					t.Error("an inconsistent plan was applied")
				}
			}
		})
	}
}

func TestAnUpdateThatTurnsOutToChangeNothingIsNotApplied(t *testing.T) {
	f := newFake()
	task := update()
	task.Planned, task.Config = enc(obj("id", "i-1", "name", unknown, "size", "big")), enc(obj("name", "a"))
	got, diags := Apply(context.Background(), f.host(), task)
	noErrors(t, diags)
	wantValue(t, "object", dec(t, got.Result.Object), obj("id", "i-1", "name", "a", "size", "big"))
	if string(got.Result.Private) != "old private" {
		t.Errorf("private %q", got.Result.Private)
	}
	wantCalls(t, f, "validate", "plan")
}

func TestAnUnknownConfigurationIsNotApplied(t *testing.T) {
	f := newFake()
	task := create()
	task.Config = enc(obj("name", unknown))
	got, diags := Apply(context.Background(), f.host(), task)
	wantDiags(t, diags, "Configuration contains unknown value | .name")
	if got.Result != nil {
		t.Errorf("got %+v", got)
	}
	wantCalls(t, f)
}

func TestADeletionCarriesThePrivateDataOfThePlanElseOfTheObject(t *testing.T) {
	for claim, c := range map[string]struct{ planned, want string }{
		"planned":     {planned: "planned private", want: "planned private"},
		"not planned": {want: "old private"},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.apply = func(r provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
				if string(r.PlannedPrivate) != c.want || !r.Config.IsNull() || !r.Planned.IsNull() {
					t.Errorf("private %q, config %#v, planned %#v", r.PlannedPrivate, r.Config, r.Planned)
				}
				return provider.ApplyResponse{Object: noObj}, nil
			}
			task := deletion()
			if c.planned != "" {
				task.PlannedPrivate = []byte(c.planned)
			}
			_, diags := Apply(context.Background(), f.host(), task)
			noErrors(t, diags)
		})
	}
}

func TestADeposedObjectIsUpgradedAndPlannedBeforeItIsDeleted(t *testing.T) {
	f := newFake()
	f.plan = func(provider.PlanRequest) (provider.PlanResponse, diag.List) {
		return provider.PlanResponse{Planned: noObj, Private: []byte("planned private")}, nil
	}
	f.apply = func(r provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
		wantValue(t, "prior", r.Prior, obj("id", "i-0"))
		if string(r.PlannedPrivate) != "planned private" {
			t.Errorf("private %q", r.PlannedPrivate)
		}
		return provider.ApplyResponse{Object: noObj}, nil
	}
	got, diags := Apply(context.Background(), f.host(), &wire.ApplyTask{Type: "test_thing", Action: plan.Delete,
		Stored: stored(t, obj("id", "i-0"))})
	noErrors(t, diags)
	if got.Result == nil || got.Result.Object != nil {
		t.Errorf("got %+v", got)
	}
	wantCalls(t, f, "upgrade 3", "plan", "apply")
}

func TestATaskOfAnotherSchemaIsADiagnostic(t *testing.T) {
	f := newFake()
	task := create()
	task.Config, task.Planned, task.IgnorePaths = []byte{0xc1}, []byte{0xc1}, [][]byte{{0xc1}}
	_, diags := Apply(context.Background(), f.host(), task)
	wantDiags(t, diags, "Value does not fit the provider's schema | configuration", "Value does not fit the "+
		"provider's schema | planned object",
		"Value does not fit the provider's schema | ignore_changes")
}

// The coordinator has compared the inputs, so the worker does not ask again; see instance.Instance.Inputs.
func TestAPlanThatIsSettledIsAppliedAsItIs(t *testing.T) {
	for claim, task := range map[string]*wire.ApplyTask{"create": create(), "update": update()} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			task.Settled, task.PlannedPrivate = true, []byte("planned private")
			f.apply = func(r provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
				wantValue(t, "planned", r.Planned, dec(t, task.Planned))
				if string(r.PlannedPrivate) != "planned private" {
					t.Errorf("the private data of the plan are %q", r.PlannedPrivate)
				}
				return provider.ApplyResponse{Object: lawfulApply(r.Planned)}, nil
			}
			got, diags := Apply(context.Background(), f.host(), task)
			noErrors(t, diags)
			if got.Result == nil || got.Result.Unchanged {
				t.Errorf("the result is %+v", got.Result)
			}
			wantCalls(t, f, "apply")
		})
	}
}
