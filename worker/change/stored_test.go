package change

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// refreshOnly returns the task that only refreshes a stored object.
func refreshOnly(s *wire.StoredObject) *wire.PlanTask {
	return &wire.PlanTask{Type: "test_thing", Prior: s, Refresh: true, SkipPlan: true}
}

func TestAStoredObjectIsUpgradedByTheProvider(t *testing.T) {
	for claim, c := range map[string]struct {
		stored *wire.StoredObject
		check  func(*testing.T, provider.UpgradeRequest)
	}{
		"of an older version, as it is": {
			stored: &wire.StoredObject{SchemaVersion: 1, Attrs: []byte(`{"id":"i-1","old":true}`)},
			check: func(t *testing.T, r provider.UpgradeRequest) {
				if r.Version != 1 || string(r.JSON) != `{"id":"i-1","old":true}` || r.Flatmap != nil {
					t.Errorf("the provider got version %d of %s", r.Version, r.JSON)
				}
			},
		},
		"of the current version, without attributes that the schema has lost": {
			stored: &wire.StoredObject{SchemaVersion: 3,
				Attrs: []byte(`{"id":"i-1","gone":12345678901234567890,"tags":{"a":"b"}}`)},
			check: func(t *testing.T, r provider.UpgradeRequest) {
				var got map[string]any
				if err := json.Unmarshal(r.JSON, &got); err != nil || len(got) != 2 || got["gone"] != nil {
					t.Errorf("the provider got %s: %v", r.JSON, err)
				}
			},
		},
		"in the flat form of old engines": {
			stored: &wire.StoredObject{SchemaVersion: 0, Flatmap: map[string]string{"id": "i-1"}},
			check: func(t *testing.T, r provider.UpgradeRequest) {
				if r.JSON != nil || r.Flatmap["id"] != "i-1" {
					t.Errorf("the provider got %s, %v", r.JSON, r.Flatmap)
				}
			},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.upgrade = func(r provider.UpgradeRequest) (cty.Value, diag.List) {
				c.check(t, r)
				return obj("id", "i-1", "name", "upgraded"), nil
			}
			got, diags := Plan(context.Background(), f.host(), refreshOnly(c.stored))
			noErrors(t, diags)
			wantValue(t, "upgraded", dec(t, got.Upgraded), obj("id", "i-1", "name", "upgraded"))
		})
	}
}

// 7227701560655103598 has more digits than a float64 can represent.
func TestDroppingAttributesKeepsEveryDigitOfTheOthers(t *testing.T) {
	ty := cty.Object(map[string]cty.Type{"n": cty.Number,
		"l": cty.List(cty.Object(map[string]cty.Type{"a": cty.String})), "any": cty.DynamicPseudoType})
	got := withoutRemoved([]byte(
		`{"n":7227701560655103598,"x":1,"l":[{"a":"1","b":"2"}],`+
			`"any":{"value":{"b":1},"type":["object",{"b":"number"}]}}`), ty)
	want := `{"any":{"type":["object",{"b":"number"}],"value":{"b":1}},"l":[{"a":"1"}],"n":7227701560655103598}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, unchanged := range []string{`{"n": 1}`, `not JSON`, `[]`} {
		if got := withoutRemoved([]byte(unchanged), ty); string(got) != unchanged {
			t.Errorf("%s became %s", unchanged, got)
		}
	}
}

func TestUnlawfulStoredObjects(t *testing.T) {
	current := &wire.StoredObject{SchemaVersion: 3, Attrs: []byte(`{"id":"i-1"}`)}
	for claim, c := range map[string]struct {
		stored *wire.StoredObject
		answer cty.Value
		diags  diag.List
		want   string
	}{
		"of a newer version than the provider knows": {
			stored: &wire.StoredObject{SchemaVersion: 4, Attrs: []byte(`{}`)},
			want:   "Resource instance managed by newer provider version | version 4",
		},
		"that the provider cannot upgrade": {stored: current, diags: failed("bad state"), want: "bad state"},
		"upgraded to another type": {stored: current, answer: cty.StringVal("x"),
			want: "Invalid resource state transformation | object required"},
		"upgraded to nothing": {stored: current, want: "Invalid resource state transformation | no " +
			"value at all"},
		"upgraded to something unknown": {stored: current, answer: obj("id", unknown),
			want: "Invalid resource state transformation | test_thing.a.id"},
		"upgraded with a write-only value": {stored: current, answer: obj("once", "hunter2"),
			want: "Invalid provider response | test_thing.a.once"},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.upgrade = func(provider.UpgradeRequest) (cty.Value, diag.List) { return c.answer, c.diags }
			got, diags := Plan(context.Background(), f.host(), refreshOnly(c.stored))
			wantDiags(t, diags, c.want)
			if got.Prior != nil || got.Upgraded != nil {
				t.Error("an invalid response was accepted")
			}
		})
	}
}

func TestAnObjectOfAnotherTypeOrProviderIsMoved(t *testing.T) {
	for claim, c := range map[string]struct {
		from  wire.MovedFrom
		calls []string
	}{
		"another type": {from: wire.MovedFrom{Provider: "example.com/acme/test", Type: "test_other"},
			calls: []string{"move test_other", "read"}},
		"another provider": {from: wire.MovedFrom{Provider: "example.com/acme/old", Type: "test_thing"},
			calls: []string{"move test_thing", "read"}},
		"the same: only an upgrade": {from: wire.MovedFrom{Provider: "example.com/acme/test", Type: "test_thing"},
			calls: []string{"upgrade 3", "read"}},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.move = func(r provider.MoveRequest) (provider.MoveResponse, diag.List) {
				if r.SourceProvider != c.from.Provider || r.TargetType != "test_thing" || r.SourceVersion != 3 ||
					string(r.SourcePrivate) != "old private" {
					t.Errorf("the provider got %+v", r)
				}
				return provider.MoveResponse{Object: obj("id", "i-1"), Private: []byte("moved private")}, nil
			}
			task := refreshOnly(stored(t, obj("id", "i-1")))
			task.MovedFrom = &c.from
			got, diags := Plan(context.Background(), f.host(), task)
			noErrors(t, diags)
			wantValue(t, "prior", dec(t, got.Prior), obj("id", "i-1"))
			wantCalls(t, f, c.calls...)
		})
	}
}

func TestAMoveThatFailsIsAnError(t *testing.T) {
	f := newFake()
	f.move = func(provider.MoveRequest) (provider.MoveResponse, diag.List) {
		return provider.MoveResponse{}, failed("not supported")
	}
	task := refreshOnly(stored(t, obj("id", "i-1")))
	task.MovedFrom = &wire.MovedFrom{Type: "test_other"}
	_, diags := Plan(context.Background(), f.host(), task)
	wantDiags(t, diags, "not supported")
}

func TestAStoredIdentityIsUpgradedWhenItsVersionIsOlder(t *testing.T) {
	arn := func(s string) cty.Value { return cty.ObjectVal(map[string]cty.Value{"arn": cty.StringVal(s)}) }
	for claim, c := range map[string]struct {
		version int64
		json    string
		calls   []string
		want    cty.Value
		problem string
	}{
		"the current version": {version: 2, json: `{"arn":"a"}`, calls: []string{"upgrade 3"},
			want: arn("a")},
		"an older version": {version: 1, json: `{"name":"a"}`, calls: []string{"upgrade 3",
			"upgrade identity 1"}, want: arn("upgraded")},
		"a newer version": {version: 3, json: `{}`, calls: []string{"upgrade 3"},
			problem: "Resource identity managed by newer provider version | version 3"},
		"the current version, other shape": {version: 2, json: `{"arn":[]}`, calls: []string{"upgrade 3"},
			problem: "Invalid resource identity | test_thing.a"},
		"none": {calls: []string{"upgrade 3"}},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.identity = func(int64, []byte) (cty.Value, diag.List) { return arn("upgraded"), nil }
			s := stored(t, obj("id", "i-1"))
			s.Identity, s.IdentityVersion = []byte(c.json), c.version
			got, diags := Plan(context.Background(), f.host(), &wire.PlanTask{Type: "test_thing", Prior: s,
				SkipPlan: true})
			wantCalls(t, f, c.calls...)
			if c.problem != "" {
				wantDiags(t, diags, c.problem)
				return
			}
			noErrors(t, diags)
			var want []byte
			if c.want != cty.NilVal {
				want = encodeValue(c.want, c.want.Type())
			}
			if string(got.PriorIdentity) != string(want) || got.IdentityVersion != 2 {
				t.Errorf("identity %x of version %d, want %x", got.PriorIdentity, got.IdentityVersion, want)
			}
		})
	}
}

func TestUnlawfulRefreshes(t *testing.T) {
	for claim, c := range map[string]struct {
		answer provider.ReadResponse
		diags  diag.List
		want   string
	}{
		"a failure":       {diags: failed("no access"), want: "no access"},
		"no value at all": {want: "Provider produced invalid object | no value at all"},
		"another type": {answer: provider.ReadResponse{Object: cty.True}, want: "Provider produced invalid " +
			"object | object required"},
		"an unknown value": {answer: provider.ReadResponse{Object: obj("id", unknown)},
			want: "Provider produced invalid object | test_thing.a.id"},
		"a write-only value": {answer: provider.ReadResponse{Object: obj("once", "hunter2")},
			want: "Invalid provider response | test_thing.a.once"},
		"an identity misfits": {answer: provider.ReadResponse{Object: obj(), Identity: cty.True},
			want: "Provider produced invalid object | identity"},
		"the plugin is silent": {diags: diag.List{{Severity: diag.Error, Summary: "Plugin did not respond",
			Extra: &provider.Lost{}}}, want: "Plugin did not respond"},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.read = func(provider.ReadRequest) (provider.ReadResponse, diag.List) { return c.answer, c.diags }
			got, diags := Plan(context.Background(), f.host(), refreshOnly(stored(t, obj("id", "i-1"))))
			wantDiags(t, diags, c.want)
			if got.Prior != nil || got.Upgraded == nil {
				t.Errorf("prior %v, upgraded %v", got.Prior, got.Upgraded)
			}
		})
	}
}
