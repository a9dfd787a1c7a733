package planfile

import (
	"archive/zip"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
)

func instance(t testing.TB, text string) addr.Instance {
	t.Helper()
	a, diags := addr.ParseInstance(text)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return a
}

func target(t testing.TB, text string) addr.Target {
	t.Helper()
	a, diags := addr.ParseTarget(text)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return a
}

// everyField is a change in which no field has its zero value.
func everyField(t testing.TB) *plan.Change {
	before := cty.ObjectVal(map[string]cty.Value{
		"id":     cty.StringVal("i-1"),
		"secret": cty.StringVal("hush").Mark(marks.Sensitive),
		"list":   cty.ListVal([]cty.Value{cty.NumberIntVal(1), cty.NumberIntVal(2).Mark(marks.Sensitive)}),
	})
	after := cty.ObjectVal(map[string]cty.Value{
		"id":     cty.UnknownVal(cty.String).RefineNotNull(),
		"secret": cty.UnknownVal(cty.String).Mark(marks.Sensitive),
		"list":   cty.NullVal(cty.List(cty.Number)),
	})
	who := func(id string) cty.Value { return cty.ObjectVal(map[string]cty.Value{"arn": cty.StringVal(id)}) }
	return &plan.Change{
		Addr:     instance(t, `module.a["x"].test_thing.new[3]`),
		Previous: instance(t, `module.a["x"].test_thing.old["k\"q"]`),
		Deposed:  "0123abcd",
		Provider: addr.ProviderInstance{
			Module:   addr.ModuleInstanceOf(addr.Step{Name: "a", Key: addr.StringKey("x")}),
			Provider: addr.Provider{Host: "registry.example", Namespace: "n", Type: "test"}, Alias: "second",
			Key: addr.StringKey("eu"),
		},
		Action: plan.CreateThenDelete, Reason: plan.ReplaceBecauseCannotUpdate, Kept: true,
		Before: before, After: after,
		ReplacePaths: []cty.Path{cty.GetAttrPath("id"), cty.GetAttrPath("list").IndexInt(1)},
		PriorPrivate: []byte("prior"), PlannedPrivate: []byte{0, 0xff},
		BeforeIdentity: who("one"), AfterIdentity: cty.UnknownVal(who("").Type()),
		SchemaVersion: 7, IdentityVersion: 3, CreateBeforeDestroy: true, SkipDestroy: true,
		Importing:       &plan.Importing{ID: "given", Identity: who("imported"), Unknown: true},
		GeneratedConfig: "resource {}\n", Legacy: true, Tainted: true,
		Inputs: plan.Inputs{1, 2, 3},
	}
}

// deferredExamples has an instance that is deferred, and instances that are unknown.
func deferredExamples(t testing.TB) []*plan.Deferred {
	one := &plan.Deferred{Reason: plan.DeferProviderConfig, Detail: "d", On: []string{"test_thing.b"},
		Change: everyField(t)}
	one.Addr = one.Change.Addr
	unknown := *everyField(t)
	in := addr.ModuleInstanceOf(addr.Step{Name: "a", Key: addr.IntKey(2)}, addr.Step{Name: "b", Key: addr.WildcardKey})
	unknown.Addr = unknown.Addr.Resource.Absolute(in).Instance(addr.WildcardKey)
	unknown.Previous = unknown.Addr
	return []*plan.Deferred{one, {Addr: unknown.Addr, Reason: plan.DeferCountUnknown, Change: &unknown},
		{Addr: instance(t, `ephemeral.test_token.t["k"]`), Reason: plan.DeferAbsent}}
}

// everything is a plan in which no field has its zero value.
func everything(t testing.TB) Saved {
	t.Helper()
	c := everyField(t)
	prior := state.Empty()
	prior.Lineage, prior.Serial, prior.EngineVersion = "line", 4, "1.2.3"
	prior.Apply(state.SetObject{
		Addr: instance(t, "test_thing.b[0]"), Provider: addr.ProviderInstance{Provider: c.Provider.Provider},
		Object: &state.Object{
			Status: state.Tainted, SchemaVersion: 1, Attrs: []byte(`{"id":"b"}`), Private: []byte("p"),
			Dependencies:        state.DependenciesOn(state.DependOn(instance(t, "test_thing.a").Config())),
			CreateBeforeDestroy: true,
		},
	}, state.SetOutput{Name: "o", Output: &state.Output{Value: cty.StringVal("v"), Sensitive: true}})
	same := *everyField(t)
	same.Action, same.Previous, same.After = plan.NoOp, same.Addr, same.Before
	bare := &plan.Change{Addr: instance(t, "test_thing.bare"), Previous: instance(t, "test_thing.bare"),
		Action: plan.Create,
		Before: cty.NullVal(cty.EmptyObject), After: cty.EmptyObjectVal, BeforeIdentity: cty.NilVal,
		AfterIdentity: cty.NilVal}
	return Saved{
		Engine: "0.9.1",
		Plan: &plan.Plan{
			Mode: plan.RefreshOnly, EngineVersion: "1.2.3", Timestamp: time.Date(2024, 5, 6, 7, 8, 9, 10, time.UTC),
			Workspace: "w",
			Variables: map[string]plan.Variable{
				"given":     {Value: cty.StringVal("x"), Sensitive: true},
				"ephemeral": {Value: cty.NilVal, Ephemeral: true},
				"null":      {Value: cty.NullVal(cty.DynamicPseudoType)},
			},
			Targets: []addr.Target{target(t, "test_thing.a"), target(t, `module.a["x"]`),
				target(t, "test_thing.a[1]")},
			Excludes: []addr.Target{target(t, "module.b"), target(t, "module.b.data.test_thing.c")},
			Replace:  []addr.Instance{instance(t, `test_thing.a["k"]`)},
			Invoke:   []addr.Target{target(t, `action.test_thing.i["k"]`)},
			Invocations: []*plan.Invocation{{Addr: instance(t, `action.test_thing.i["k"]`), Provider: c.Provider,
				Config: cty.ObjectVal(map[string]cty.Value{"m": cty.StringVal("s").Mark(marks.Sensitive),
					"n": cty.UnknownVal(cty.String)}),
				Trigger: &plan.Trigger{Resource: c.Addr, Event: "after_create", Block: 1, Index: 2, Conditional: true}}},
			Changes: []*plan.Change{c, &same, bare}, Drift: []*plan.Change{everyField(t)},
			Outputs: []*plan.OutputChange{{
				Name: "o", Action: plan.Update, Before: cty.StringVal("v").Mark(marks.Sensitive),
				After: cty.UnknownVal(cty.DynamicPseudoType), Sensitive: true, BeforeSensitive: true,
			}},
			Checks: []state.CheckResult{{Kind: "check", Config: "check.c", Status: state.CheckFail,
				Objects: []state.CheckObject{
					{Address: "check.c", Status: state.CheckFail, Failures: []string{"no"}},
				}}},
			Relevant: []plan.Relevant{{Resource: instance(t, "test_thing.b[0]"), Attribute: cty.GetAttrPath("id")}},
			Prior:    prior, BaseLineage: "line", BaseSerial: 3, BackendType: "local",
			BackendConfig: []byte(`{"path":"p"}`),
			Graph: plan.Graph{
				Vertices: []plan.Vertex{{Kind: plan.ApplyObject, Change: 2, Address: "test_thing.bare"}, {
					Kind: plan.EvalOutput, Change: -1, Address: "module.a.output.o",
					Node: plan.Node{Kind: "output", Module: addr.ModuleOf("a"), Name: "output.o"},
				}, {Kind: plan.Sync, Change: -1}, {Kind: plan.InvokeAction, Change: -2, Address: `action.test_thing.i["k"]`}},
				Edges: [][2]int32{{1, 0}, {2, 1}}, Values: 1,
			},
			Dependencies: &plan.Dependencies{
				Writes:  []addr.Instance{instance(t, "test_thing.bare")},
				Outputs: []string{"o"},
				Reads:   []addr.Instance{instance(t, "data.test_thing.d"), same.Addr},
				Keeps:   []addr.ConfigResource{c.Addr.Config()},
				Found:   []plan.Found{{Addr: instance(t, "test_thing.b[0]"), Stored: state.Digest{1, 2}}},
			},
			Untouched: []string{"check.c"},
			Unread:    &plan.Unread{Objects: 3, Since: time.Date(2024, 5, 6, 0, 0, 0, 0, time.UTC), Verdicts: 2},
			Errored:   true, EndsDoubts: true, Defers: true, Deferred: deferredExamples(t),
			Circle: []string{"fake_thing.a", "fake_thing.b"},
			Providers: []plan.ProviderSelection{{Source: c.Provider.Provider, Version: "1.0.0",
				Hashes: []string{"h1:x"}}},
		},
		Config: Config{
			Files: map[string][]byte{"main.tf": []byte("locals {}\n")}, Manifest: []byte("{}"), Dir: "dir",
			Lock: []byte("lock"),
		},
	}
}

// exactly compares values with their marks and their unknown parts.
var exactly = cmp.Options{
	cmp.Exporter(func(reflect.Type) bool { return true }),
	cmp.Comparer(func(a, b cty.Value) bool {
		if a == cty.NilVal || b == cty.NilVal {
			return a == b
		}
		return a.RawEquals(b)
	}),
	cmp.Comparer(func(a, b cty.Path) bool { return a.Equals(b) }),
}

func mustEncode(t testing.TB, s Saved) []byte {
	t.Helper()
	data, err := Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTheExamplePlanLeavesNoFieldOut(t *testing.T) {
	s := everything(t)
	for _, v := range []any{*s.Plan, *s.Plan.Changes[0], *s.Plan.Changes[0].Importing, *s.Plan.Outputs[0],
		*s.Plan.Invocations[0], *s.Plan.Invocations[0].Trigger,
		s.Plan.Relevant[0], s.Plan.Providers[0], s.Config, s.Plan.Graph.Vertices[1].Node, s.Plan.Graph,
		*s.Plan.Dependencies, s.Plan.Dependencies.Found[0], *s.Plan.Unread} {
		r := reflect.ValueOf(v)
		for i := range r.NumField() {
			if r.Type().Field(i).Name == "Digest" {
				continue // the digest of the file itself, which the file cannot contain
			}
			if r.Field(i).IsZero() {
				t.Errorf("%s.%s is empty, so nothing proves that it is saved", r.Type(), r.Type().Field(i).Name)
			}
		}
	}
}

func TestEveryFieldOfAPlanIsReadAsItWasSaved(t *testing.T) {
	want := everything(t)
	got, err := Decode(mustEncode(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, exactly); diff != "" {
		t.Error(diff)
	}
}

func TestAPlanOfEachModeAndActionIsReadAsItWasSaved(t *testing.T) {
	s := everything(t)
	for _, mode := range []plan.Mode{plan.Normal, plan.Destroy, plan.RefreshOnly} {
		for _, action := range []plan.Action{plan.Create, plan.Read, plan.Update, plan.Delete, plan.DeleteThenCreate,
			plan.CreateThenDelete, plan.Forget, plan.ForgetThenCreate} {
			s.Plan.Mode, s.Plan.Changes[0].Action = mode, action
			got, err := Decode(mustEncode(t, s))
			if err != nil {
				t.Fatal(err)
			}
			if got.Plan.Mode != mode || got.Plan.Changes[0].Action != action {
				t.Errorf("%d, %s became %d, %s", mode, action, got.Plan.Mode, got.Plan.Changes[0].Action)
			}
		}
	}
}

func TestANoOpIsSavedOnceForBeforeAndAfter(t *testing.T) {
	s := everything(t)
	c := s.Plan.Changes[1]
	c.Before = cty.StringVal("x").Mark(marks.Sensitive)
	c.After = c.Before
	coded := (&encoder{index: map[string]int{}}).change(c)
	if coded.After != nil || !coded.Same {
		t.Error("it is saved twice")
	}
	got, err := Decode(mustEncode(t, s))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got.Plan.Changes[1], exactly); diff != "" {
		t.Error(diff)
	}
}

func TestAFileThatIsCutAnywhereIsAnError(t *testing.T) {
	data := mustEncode(t, everything(t))
	for n := range data {
		if _, err := Decode(data[:n]); err == nil {
			t.Fatalf("%d of %d bytes were read as a plan", n, len(data))
		}
	}
}

func TestAPlanEntryThatIsCutAnywhereIsAnError(t *testing.T) {
	data, err := encodePlan(everything(t).Plan, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		if _, _, err := decodePlan(data[:n]); err == nil {
			t.Fatalf("%d of %d bytes were read as a plan", n, len(data))
		}
	}
}

func TestAPlanEntryWithAnyByteAlteredIsNoPanic(t *testing.T) {
	data, err := encodePlan(everything(t).Plan, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		for _, flip := range []byte{0x01, 0x80} {
			altered := bytes.Clone(data)
			altered[n] ^= flip
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Errorf("byte %d ^ %x: %v", n, flip, r)
					}
				}()
				_, _, _ = decodePlan(altered) // some bytes are free text: both outcomes are right
			}()
		}
	}
}

// archive makes an archive of entries.
func archive(t *testing.T, entries map[string]string) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, text := range entries {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAnotherVersionIsRefused(t *testing.T) {
	for _, version := range []string{"0", "6", "", "1 ", "x"} {
		for _, read := range []func([]byte) (Saved, error){Decode, DecodeRecorded} {
			_, err := read(archive(t, map[string]string{versionEntry: version, engineEntry: "0.7.0"}))
			var other *VersionError
			if !errors.As(err, &other) || other.Found != version || !strings.Contains(err.Error(), "Millipede 0.7.0") {
				t.Errorf("%q: %v", version, err)
			}
		}
	}
}

func TestWhatIsNoPlan(t *testing.T) {
	for sentence, data := range map[string][]byte{
		"an empty file is no plan":                   nil,
		"a text is no plan":                          []byte("resource {}"),
		"an archive of something else is no plan":    archive(t, map[string]string{"tfplan": "x"}),
		"an empty archive is no plan":                archive(t, nil),
		"a plan of another engine's JSON is no plan": []byte(`{"format_version":"1.2"}`),
	} {
		t.Run(sentence, func(t *testing.T) {
			if _, err := Decode(data); !errors.Is(err, ErrNoPlan) {
				t.Error(err)
			}
		})
	}
}

func TestAnEntryThatIsMissingIsAnError(t *testing.T) {
	coded, err := encodePlan(everything(t).Plan, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for sentence, entries := range map[string]map[string]string{
		"the plan":          {versionEntry: "2", configEntry: "\x80"},
		"the configuration": {versionEntry: "2", planEntry: string(coded)},
	} {
		t.Run(sentence, func(t *testing.T) {
			if _, err := Decode(archive(t, entries)); err == nil {
				t.Error("it was read")
			}
		})
	}
}

func TestAReferenceThatLeadsOutOfThePlanIsAnError(t *testing.T) {
	for sentence, breakIt := range map[string]func(*plan.Graph){
		"a change that is not there": func(g *plan.Graph) { g.Vertices[0].Change = 3 },
		"a change before the first":  func(g *plan.Graph) { g.Vertices[0].Change = -2 },
		"an edge to no vertex":       func(g *plan.Graph) { g.Edges[0][1] = 4 },
		"an edge from no vertex":     func(g *plan.Graph) { g.Edges[0][0] = -1 },
		"an object of no change":     func(g *plan.Graph) { g.Vertices[0].Change = -1 },
		"an output without a name":   func(g *plan.Graph) { g.Vertices[1].Node = plan.Node{} },
		"more values than edges":     func(g *plan.Graph) { g.Values = 3 },
	} {
		t.Run(sentence, func(t *testing.T) {
			s := everything(t)
			breakIt(&s.Plan.Graph)
			if _, err := Decode(mustEncode(t, s)); !errors.Is(err, errReference) {
				t.Error(err)
			}
		})
	}
}

func TestAFileIsForTheUserAlone(t *testing.T) {
	name := filepath.Join(t.TempDir(), "p.tfplan")
	if err := os.WriteFile(name, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := everything(t)
	if err := Write(name, mustEncode(t, want)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %o", info.Mode().Perm())
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, exactly); diff != "" {
		t.Error(diff)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(name), ".*")); len(left) > 0 {
		t.Errorf("%v were left behind", left)
	}
}

func TestAFileThatCannotBeWrittenIsAnError(t *testing.T) {
	name := filepath.Join(t.TempDir(), "missing", "p")
	if err := Write(name, nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A part of a plan must not be decoded as a whole plan: it would remove everything else.
func TestAReducedPlanIsOnlyForWhoKnowsIt(t *testing.T) {
	saved := everything(t)
	saved.BaseAt = time.Date(2026, 11, 23, 9, 10, 11, 123456789, time.UTC)
	for _, c := range saved.Plan.Changes {
		c.Kept = false
	}
	data, err := Encode(saved)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeRecorded(data)
	if err != nil || !got.Reduced() || !got.BaseAt.Equal(saved.BaseAt) {
		t.Errorf("%v, %v", got.BaseAt, err)
	}
	var other *VersionError
	if _, err := Decode(data); !errors.As(err, &other) || !other.Reduced {
		t.Error(err)
	}
	saved.BaseAt = time.Time{}
	if data, err = Encode(saved); err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(data); err != nil || got.Reduced() {
		t.Errorf("%v, %v", got.BaseAt, err)
	}
}

func TestAPlanWithKeptChangesIsReadAsItWasSaved(t *testing.T) {
	for _, at := range []time.Time{{}, time.Date(2026, 11, 25, 9, 10, 11, 0, time.UTC)} {
		saved := everything(t)
		saved.BaseAt = at
		c := saved.Plan.Changes[0]
		saved.Plan.Changes = []*plan.Change{{Addr: c.Addr, Previous: c.Addr, Provider: c.Provider, Action: plan.NoOp,
			Kept: true, SchemaVersion: 1}}
		saved.Plan.Graph, saved.Plan.Dependencies = plan.Graph{}, nil
		data := mustEncode(t, saved)
		got, err := DecodeRecorded(data)
		if err != nil || !reflect.DeepEqual(got.Plan.Changes, saved.Plan.Changes) || !got.BaseAt.Equal(at) {
			t.Errorf("%v: %+v, %v", at, got.Plan, err)
		}
		_, err = Decode(data)
		if other := (*VersionError)(nil); errors.As(err, &other) != saved.Reduced() {
			t.Error(err)
		}
	}
}
