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

func TestTheActionFollowsFromPriorConfigurationAndPlan(t *testing.T) {
	was := obj("id", "i-1", "name", "a", "size", "big")
	replaceOn := func(attr string) func(f *fake) {
		return func(f *fake) {
			f.plan = func(r provider.PlanRequest) (provider.PlanResponse, diag.List) {
				out := f.lawfulPlan(r)
				out.RequiresReplace = []cty.Path{cty.GetAttrPath(attr), cty.GetAttrPath(attr)}
				return out, nil
			}
		}
	}
	for claim, c := range map[string]struct {
		prior   cty.Value
		config  cty.Value
		tainted bool
		forced  string
		fake    func(*fake)
		action  plan.Action
		reason  string
		paths   int
		planned cty.Value
	}{
		"nothing before: create": {
			prior: noObj, config: obj("name", "a"),
			action: plan.Create, planned: obj("id", unknown, "name", "a", "size", unknown),
		},
		"the same again: no-op": {
			prior: was, config: obj("name", "a"),
			action: plan.NoOp, planned: was,
		},
		"another value: update": {
			prior: was, config: obj("name", "b"),
			action: plan.Update, planned: obj("id", "i-1", "name", "b", "size", "big"),
		},
		"an unknown value: update": {
			prior: was, config: obj("name", unknown),
			action: plan.Update, planned: obj("id", "i-1", "name", unknown, "size", "big"),
		},
		"a changed attribute that cannot be updated: replace": {
			prior: was, config: obj("name", "b"), fake: replaceOn("name"),
			action: plan.DeleteThenCreate, reason: ReasonCannotUpdate, paths: 1,
			planned: obj("id", unknown, "name", "b", "size", unknown),
		},
		"an unchanged attribute that could not be updated: no replacement": {
			prior: was, config: obj("name", "b"), fake: replaceOn("size"),
			action: plan.Update, planned: obj("id", "i-1", "name", "b", "size", "big"),
		},
		"a write-only attribute that cannot be updated: replace, although both values are null": {
			prior: was, config: obj("name", "a", "once", "hunter2"), fake: replaceOn("once"),
			action: plan.DeleteThenCreate, reason: ReasonCannotUpdate, paths: 1,
			planned: obj("id", unknown, "name", "a", "size", unknown),
		},
		"a replacement that the user asked for": {
			prior: was, config: obj("name", "a"), forced: ReplaceRequested,
			action: plan.DeleteThenCreate, reason: ReasonRequested,
			planned: obj("id", unknown, "name", "a", "size", unknown),
		},
		"a replacement that another change triggers": {
			prior: was, config: obj("name", "b"), forced: ReplaceTriggered, fake: replaceOn("name"),
			action: plan.DeleteThenCreate, reason: ReasonTriggers, paths: 1,
			planned: obj("id", unknown, "name", "b", "size", unknown),
		},
		"nothing to replace: a forced replacement is a creation": {
			prior: noObj, config: obj("name", "a"), forced: ReplaceRequested,
			action: plan.Create, planned: obj("id", unknown, "name", "a", "size", unknown),
		},
		"a tainted object: replace": {
			prior: was, config: obj("name", "a"), tainted: true,
			action: plan.DeleteThenCreate, reason: ReasonTainted,
			planned: obj("id", unknown, "name", "a", "size", unknown),
		},
		"a tainted object whose replacement was asked for: tainted is the reason": {
			prior: was, config: obj("name", "a"), tainted: true, forced: ReplaceRequested,
			action: plan.DeleteThenCreate, reason: ReasonTainted,
			planned: obj("id", unknown, "name", "a", "size", unknown),
		},
		"a tainted object whose replacement was triggered: the trigger is the reason": {
			prior: was, config: obj("name", "a"), tainted: true, forced: ReplaceTriggered,
			action: plan.DeleteThenCreate, reason: ReasonTriggers,
			planned: obj("id", unknown, "name", "a", "size", unknown),
		},
		"an object that is gone: create": {
			prior: was, config: obj("name", "a"),
			fake: func(f *fake) {
				f.read = func(provider.ReadRequest) (provider.ReadResponse, diag.List) {
					return provider.ReadResponse{Object: noObj}, nil
				}
			},
			action: plan.Create, planned: obj("id", unknown, "name", "a", "size", unknown),
		},
		"a tainted object that is gone: create": {
			prior: was, config: obj("name", "a"), tainted: true,
			fake: func(f *fake) {
				f.read = func(provider.ReadRequest) (provider.ReadResponse, diag.List) {
					return provider.ReadResponse{Object: noObj}, nil
				}
			},
			action: plan.Create, planned: obj("id", unknown, "name", "a", "size", unknown),
		},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			if c.fake != nil {
				c.fake(f)
			}
			task := &wire.PlanTask{Type: "test_thing", Config: enc(c.config), Replace: c.forced, Refresh: true}
			if !c.prior.IsNull() {
				task.Prior = stored(t, c.prior)
				task.Prior.Tainted = c.tainted
			}
			got, diags := Plan(context.Background(), f.host(), task)
			noErrors(t, diags)
			if got.Action != c.action || got.Reason != c.reason || len(got.ReplacePaths) != c.paths {
				t.Errorf("action %q, reason %q, %d paths; want %q, %q, %d", got.Action, got.Reason,
					len(got.ReplacePaths), c.action, c.reason, c.paths)
			}
			wantValue(t, "planned", dec(t, got.Planned), c.planned)
		})
	}
}

func TestAPlanTellsThePriorObjectBeforeAndAfterTheRefresh(t *testing.T) {
	f := newFake()
	f.read = func(r provider.ReadRequest) (provider.ReadResponse, diag.List) {
		if string(r.Private) != "old private" {
			t.Errorf("private %q", r.Private)
		}
		return provider.ReadResponse{Object: obj("id", "i-1", "name", "drifted"), Private: []byte("read private")}, nil
	}
	got, diags := Plan(context.Background(), f.host(), &wire.PlanTask{
		Type: "test_thing", Refresh: true, Prior: stored(t, obj("id", "i-1", "name", "a")),
		Config: enc(obj("name", "a")),
	})
	noErrors(t, diags)
	wantValue(t, "upgraded", dec(t, got.Upgraded), obj("id", "i-1", "name", "a"))
	wantValue(t, "prior", dec(t, got.Prior), obj("id", "i-1", "name", "drifted"))
	if string(got.PriorPrivate) != "read private" || got.SchemaVersion != 3 || got.Action != plan.Update {
		t.Errorf("private %q, version %d, action %q", got.PriorPrivate, got.SchemaVersion, got.Action)
	}
	wantCalls(t, f, "upgrade 3", "read", "validate", "plan")
}

func TestWithoutRefreshNothingIsReadAndWithSkipPlanNothingIsPlanned(t *testing.T) {
	f := newFake()
	got, diags := Plan(context.Background(), f.host(), &wire.PlanTask{
		Type: "test_thing", Prior: stored(t, obj("id", "i-1", "name", "a")), SkipPlan: true,
	})
	noErrors(t, diags)
	if got.Action != plan.NoOp || got.Planned != nil {
		t.Errorf("action %q, planned %v", got.Action, got.Planned)
	}
	wantCalls(t, f, "upgrade 3")
}

func TestAReplacementIsPlannedAgainWithoutThePriorObjectAndWithoutIgnoring(t *testing.T) {
	f := newFake()
	var asked []provider.PlanRequest
	f.plan = func(r provider.PlanRequest) (provider.PlanResponse, diag.List) {
		asked = append(asked, r)
		out := f.lawfulPlan(r)
		out.Private = []byte{byte(len(asked))}
		return out, diag.List{diag.New(diag.Warning, "careful", "", nil)}
	}
	got, diags := Plan(context.Background(), f.host(), &wire.PlanTask{
		Type: "test_thing", Prior: stored(t, obj("id", "i-1", "name", "a")), Config: enc(obj("name", "b")),
		IgnorePaths: paths(t, cty.GetAttrPath("name")), Replace: ReplaceRequested,
	})
	if len(asked) != 2 {
		t.Fatalf("planned %d times", len(asked))
	}
	wantValue(t, "config of the first plan", asked[0].Config, obj("id", cty.NullVal(cty.String), "name", "a"))
	wantValue(t, "config of the second plan", asked[1].Config, obj("name", "b"))
	wantValue(t, "prior of the second plan", asked[1].Prior, noObj)
	if string(asked[1].PriorPrivate) != "\x01" || string(got.PlannedPrivate) != "\x02" {
		t.Errorf("private data: %v into the second plan, %v out of it", asked[1].PriorPrivate, got.PlannedPrivate)
	}
	wantDiags(t, diags, "careful") // once
}

func TestAPlannedDeletionIsShownToProvidersThatWantToSeeIt(t *testing.T) {
	for claim, c := range map[string]struct {
		capable bool
		answer  cty.Value
		private string
		calls   []string
		want    []string
	}{
		"one that wants to gives private data": {capable: true, answer: noObj, private: "from the plan",
			calls: []string{"upgrade 3", "plan"}},
		"one that does not is not asked": {capable: false, private: "old private", calls: []string{"upgrade 3"}},
		"a planned object is unlawful": {
			capable: true, answer: obj("id", "i-1"), calls: []string{"upgrade 3", "plan"},
			want: []string{`Provider produced invalid plan | test_thing.a, provider "provider[\"example.com/acme/test\"]" ` +
				`planned an object`},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.schemas.Capabilities.PlanDestroy = c.capable
			f.plan = func(r provider.PlanRequest) (provider.PlanResponse, diag.List) {
				if !r.Proposed.IsNull() || !r.Config.IsNull() {
					t.Error("a planned deletion proposes and configures null")
				}
				return provider.PlanResponse{Planned: c.answer, Private: []byte("from the plan")}, nil
			}
			got, diags := Plan(context.Background(), f.host(), &wire.PlanTask{Type: "test_thing", Destroy: true,
				Prior: stored(t, obj("id", "i-1"))})
			wantDiags(t, diags, c.want...)
			wantCalls(t, f, c.calls...)
			if c.want == nil && (got.Action != plan.Delete || got.Planned != nil ||
				string(got.PlannedPrivate) != c.private) {
				t.Errorf("action %q, planned %v, private %q", got.Action, got.Planned, got.PlannedPrivate)
			}
		})
	}
}

func TestDeletingWhatIsGoneIsNoChange(t *testing.T) {
	f := newFake()
	f.read = func(provider.ReadRequest) (provider.ReadResponse, diag.List) {
		return provider.ReadResponse{Object: noObj}, nil
	}
	got, diags := Plan(context.Background(), f.host(), &wire.PlanTask{Type: "test_thing", Destroy: true, Refresh: true,
		Prior: stored(t, obj("id", "i-1"))})
	noErrors(t, diags)
	if got.Action != plan.NoOp || got.Prior != nil || got.Upgraded == nil {
		t.Errorf("action %q, prior %v, upgraded %v", got.Action, got.Prior, got.Upgraded)
	}
	wantCalls(t, f, "upgrade 3", "read")
}

func TestUnlawfulPlansAreRejected(t *testing.T) {
	was := obj("id", "i-1", "name", "a")
	for claim, c := range map[string]struct {
		prior  cty.Value
		config cty.Value
		answer provider.PlanResponse
		want   []string
	}{
		"another value than the configured one": {
			config: obj("name", "a"), answer: provider.PlanResponse{Planned: obj("id", unknown, "name", "x")},
			want: []string{`Provider produced invalid plan | provider[\"example.com/acme/test\"]" planned an invalid value ` +
				`for test_thing.a.name: `},
		},
		"a value for what is neither configured nor computed": {
			config: obj(), answer: provider.PlanResponse{Planned: obj("id", unknown, "name", "x")},
			want: []string{`Provider produced invalid plan | test_thing.a.name: cty.StringVal("x") is planned`},
		},
		"a sensitive value is not shown": {
			config: obj("secret", "hunter2"), answer: provider.PlanResponse{Planned: obj("id", unknown,
				"secret", "hunter22")},
			want: []string{`Provider produced invalid plan | .secret: `},
		},
		"a write-only value in the plan": {
			config: obj("once", "hunter2"), answer: provider.PlanResponse{Planned: obj("id", unknown,
				"once", "hunter2")},
			want: []string{`Invalid provider response | .once: `},
		},
		"null": {
			prior: was, config: obj("name", "a"), answer: provider.PlanResponse{Planned: noObj},
			want: []string{`Provider produced invalid plan | absent`},
		},
		"null, from a legacy provider": {
			prior: was, config: obj("name", "a"), answer: provider.PlanResponse{Planned: noObj, LegacyTypeSystem: true},
			want: []string{`Provider produced invalid plan | absent`},
		},
		"an unknown object": {
			config: obj("name", "a"), answer: provider.PlanResponse{Planned: cty.UnknownVal(noObj.Type())},
			want: []string{`Provider produced invalid plan | unknown as a whole`},
		},
		"no value at all": {
			config: obj("name", "a"),
			want:   []string{`Provider produced invalid plan | no value at all`},
		},
		"another type": {
			config: obj("name", "a"),
			answer: provider.PlanResponse{Planned: cty.ObjectVal(map[string]cty.Value{"id": cty.True})},
			want: []string{
				`Provider produced invalid plan | name`, `Provider produced invalid plan | once`,
				`Provider produced invalid plan | secret`,
				`Provider produced invalid plan | size`, `Provider produced invalid plan | tags`,
				`Provider produced invalid plan | .id: string required`,
			},
		},
		"another type, from a legacy provider": {
			config: obj("name", "a"), answer: provider.PlanResponse{Planned: cty.StringVal("x"),
				LegacyTypeSystem: true},
			want: []string{`Provider produced invalid plan | object required`},
		},
		"a replacement because of an attribute that does not exist": {
			prior: was, config: obj("name", "b"),
			answer: provider.PlanResponse{Planned: obj("id", "i-1", "name", "b"),
				RequiresReplace: []cty.Path{cty.GetAttrPath("nope")}},
			want: []string{`Provider produced invalid plan | test_thing.a.nope`},
		},
		"an identity of another type": {
			config: obj("name", "a"), answer: provider.PlanResponse{Planned: obj("id", unknown, "name", "a"),
				Identity: cty.StringVal("x")},
			want: []string{`Provider produced invalid object | identity`},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.plan = func(provider.PlanRequest) (provider.PlanResponse, diag.List) { return c.answer, nil }
			task := &wire.PlanTask{Type: "test_thing", Config: enc(c.config)}
			if c.prior != cty.NilVal {
				task.Prior = stored(t, c.prior)
			}
			got, diags := Plan(context.Background(), f.host(), task)
			wantDiags(t, diags, c.want...)
			if got.Action != "" || got.Planned != nil {
				t.Errorf("a rejected plan has action %q", got.Action)
			}
		})
	}
}

func TestALegacyProviderMayPlanOtherValuesButIgnoredOnesStay(t *testing.T) {
	f := newFake()
	f.plan = func(provider.PlanRequest) (provider.PlanResponse, diag.List) {
		return provider.PlanResponse{Planned: obj("id", "i-1", "name", "hashed", "tags", map[string]string{"a": "2"}),
			LegacyTypeSystem: true}, nil
	}
	task := &wire.PlanTask{
		Type: "test_thing", Prior: stored(t, obj("id", "i-1", "name", "old", "tags", map[string]string{"a": "1"})),
		Config: enc(obj("name", "new")), IgnorePaths: paths(t, cty.GetAttrPath("tags")),
	}
	got, diags := Plan(context.Background(), f.host(), task)
	noErrors(t, diags)
	wantValue(t, "planned", dec(t, got.Planned), obj("id", "i-1", "name", "hashed", "tags",
		map[string]string{"a": "1"}))
	if !got.Legacy {
		t.Error("the result does not say that the provider uses the legacy type system")
	}
	task.IgnorePaths, task.IgnoreAll = nil, true
	got, diags = Plan(context.Background(), f.host(), task)
	noErrors(t, diags)
	if got.Action != plan.NoOp {
		t.Errorf("with everything ignored the action is %q", got.Action)
	}
}

func TestAnInvalidConfigurationEndsThePlanWithTheProvidersOwnWords(t *testing.T) {
	f := newFake()
	f.validate = func(cty.Value) diag.List {
		return diag.List{{Severity: diag.Error, Summary: "bad name", Path: cty.GetAttrPath("name")}}
	}
	got, diags := Plan(context.Background(), f.host(), &wire.PlanTask{Type: "test_thing",
		Prior: stored(t, obj("id", "i-1")), Config: enc(obj("name", "!"))})
	wantDiags(t, diags, "bad name")
	if diags[0].Path == nil {
		t.Error("the diagnostic has lost its path in the configuration")
	}
	if got.Prior == nil {
		t.Error("the result does not have the prior object")
	}
	wantCalls(t, f, "upgrade 3", "validate")
}

func TestAnUnknownResourceTypeIsADiagnostic(t *testing.T) {
	f := newFake()
	_, diags := Plan(context.Background(), f.host(), &wire.PlanTask{Type: "test_nope"})
	wantDiags(t, diags, `Unsupported resource type | "test_nope"`)
}

func paths(t *testing.T, ps ...cty.Path) [][]byte {
	t.Helper()
	return encodePaths(ps)
}

// If the task permits it, an object is read only if the plan against the stored object has a change.
func TestAnObjectThatNeedNotBeReadIsReadOnlyIfSomethingChanges(t *testing.T) {
	was := obj("id", "i-1", "name", "a", "size", "big")
	for sentence, c := range map[string]struct {
		name   string // in the configuration
		fails  bool   // whether planning fails until the object was read
		read   string // the result of reading
		action plan.Action
		unread bool
		calls  []string
	}{
		"nothing changes": {
			name: "a", action: plan.NoOp, unread: true, calls: []string{"upgrade 3", "validate", "plan"},
		},
		"something changes": {
			name: "b", read: "a", action: plan.Update,
			calls: []string{"upgrade 3", "validate", "plan", "upgrade 3", "read", "validate", "plan"},
		},
		"it had been changed outside as the configuration says": {
			name: "b", read: "b", action: plan.NoOp,
			calls: []string{"upgrade 3", "validate", "plan", "upgrade 3", "read", "validate", "plan"},
		},
		"what is stored cannot be planned against": {
			name: "a", fails: true, read: "a", action: plan.NoOp,
			calls: []string{"upgrade 3", "validate", "plan", "upgrade 3", "read", "validate", "plan"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := newFake()
			read := false
			f.read = func(r provider.ReadRequest) (provider.ReadResponse, diag.List) {
				read = true
				return provider.ReadResponse{Object: obj("id", "i-1", "name", c.read, "size", "big")}, nil
			}
			f.plan = func(r provider.PlanRequest) (provider.PlanResponse, diag.List) {
				if c.fails && !read {
					return provider.PlanResponse{}, diag.Errors("No such object", "", nil)
				}
				return f.lawfulPlan(r), nil
			}
			got, diags := Plan(context.Background(), f.host(), &wire.PlanTask{
				Type: "test_thing", Refresh: true, IfChanged: true, Prior: stored(t, was),
				Config: enc(obj("name", c.name)),
			})
			noErrors(t, diags)
			if got.Action != c.action || got.Unread != c.unread {
				t.Errorf("action %q, unread %v", got.Action, got.Unread)
			}
			wantValue(t, "upgraded", dec(t, got.Upgraded), was)
			wantCalls(t, f, c.calls...)
		})
	}
}
