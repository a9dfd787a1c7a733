package change

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

func TestADataSourceIsValidatedThenRead(t *testing.T) {
	for claim, c := range map[string]struct {
		invalid diag.List
		answer  cty.Value
		diags   diag.List
		want    []string
		calls   []string
	}{
		"whole":            {answer: obj("id", "i-1", "name", "a"), calls: []string{"validate data", "read data"}},
		"an invalid block": {invalid: failed("bad"), want: []string{"bad"}, calls: []string{"validate data"}},
		"a failure": {diags: failed("no access"), want: []string{"no access"},
			calls: []string{"validate data", "read data"}},
		"null": {answer: noObj, want: []string{"Provider produced null object | test_thing.a"},
			calls: []string{"validate data", "read data"}},
		"no value at all": {want: []string{"Provider produced invalid object | no value"},
			calls: []string{"validate data", "read data"}},
		"another type": {answer: cty.True, want: []string{"Provider produced invalid object | object required"},
			calls: []string{"validate data", "read data"}},
		"not wholly known": {answer: obj("id", unknown), want: []string{"Provider produced invalid object | " +
			"test_thing.a.id"}, calls: []string{"validate data", "read data"}},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.validate = func(cty.Value) diag.List { return c.invalid }
			f.readData = func(config cty.Value) (cty.Value, diag.List) {
				wantValue(t, "config", config, obj("name", "a"))
				return c.answer, c.diags
			}
			got, diags := ReadData(context.Background(), f.host(), &wire.ReadDataTask{Type: "test_data",
				Config: enc(obj("name", "a"))})
			wantDiags(t, diags, c.want...)
			wantCalls(t, f, c.calls...)
			if c.want == nil {
				wantValue(t, "object", dec(t, got), c.answer)
			} else if got != nil {
				t.Error("an invalid response was accepted")
			}
		})
	}
}

func TestAnEphemeralObjectIsOpenedRenewedAndClosed(t *testing.T) {
	f := newFake()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.open = func(config cty.Value) (provider.Opened, diag.List) {
		return provider.Opened{Object: obj("id", "i-1", "name", "a"), Private: []byte("p"), RenewAt: at}, nil
	}
	ctx, task := context.Background(), &wire.EphemeralTask{Op: "open", Type: "test_secret",
		Config: enc(obj("name", "a"))}
	opened, diags := Ephemeral(ctx, f.host(), task)
	noErrors(t, diags)
	wantValue(t, "object", dec(t, opened.Object), obj("id", "i-1", "name", "a"))
	if string(opened.Private) != "p" || !opened.RenewAt.Equal(at) {
		t.Errorf("opened %+v", opened)
	}
	renewed, diags := Ephemeral(ctx, f.host(), &wire.EphemeralTask{Op: "renew", Type: "test_secret",
		Private: opened.Private})
	noErrors(t, diags)
	_, diags = Ephemeral(ctx, f.host(), &wire.EphemeralTask{Op: "close", Type: "test_secret", Private: renewed.Private})
	noErrors(t, diags)
	wantCalls(t, f, "validate ephemeral", "open", "renew p", "close renewed")
	_, diags = Ephemeral(ctx, f.host(), &wire.EphemeralTask{Op: "shake", Type: "test_secret"})
	wantDiags(t, diags, `Unknown operation | "shake"`)
}

func TestAnUnlawfulEphemeralObjectIsClosedAgain(t *testing.T) {
	for claim, c := range map[string]struct {
		object cty.Value
		want   string
	}{
		"null":         {object: noObj, want: "Provider produced null object"},
		"unknown":      {object: obj("name", unknown), want: "Provider produced invalid object | .name"},
		"another type": {object: cty.True, want: "Provider produced invalid object | object required"},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.open = func(cty.Value) (provider.Opened, diag.List) {
				return provider.Opened{Object: c.object, Private: []byte("p")}, nil
			}
			got, diags := Ephemeral(context.Background(), f.host(), &wire.EphemeralTask{Op: "open", Type: "test_secret",
				Config: enc(obj())})
			wantDiags(t, diags, c.want)
			wantCalls(t, f, "validate ephemeral", "open", "close p")
			if got != nil {
				t.Error("an invalid response was accepted")
			}
		})
	}
}

func TestEachKindOfBlockIsValidatedByItsOwnCall(t *testing.T) {
	for kind, c := range map[string]struct{ typeName, call string }{
		"managed":   {"test_thing", "validate"},
		"data":      {"test_data", "validate data"},
		"ephemeral": {"test_secret", "validate ephemeral"},
	} {
		t.Run(kind, func(t *testing.T) {
			f := newFake()
			f.validate = func(v cty.Value) diag.List {
				wantValue(t, "config", v, obj("name", unknown))
				return failed("bad")
			}
			_, diags := Validate(context.Background(), f.host(), &wire.ValidateTask{Kind: kind, Type: c.typeName,
				Config: enc(obj("name", unknown))})
			wantDiags(t, diags, "bad")
			wantCalls(t, f, c.call)
			_, diags = Validate(context.Background(), f.host(), &wire.ValidateTask{Kind: kind, Type: "test_nope"})
			if len(diags) != 1 {
				t.Errorf("an unknown type: %v", diags.Err())
			}
		})
	}
	_, diags := Validate(context.Background(), newFake().host(), &wire.ValidateTask{Kind: "odd"})
	wantDiags(t, diags, `Unknown operation | "odd"`)
}

func TestAProviderMayPrepareItsConfiguration(t *testing.T) {
	region := func(s string) cty.Value { return cty.ObjectVal(map[string]cty.Value{"region": cty.StringVal(s)}) }
	f := newFake()
	f.configure = func(cty.Value) (cty.Value, diag.List) { return region("default"), nil }
	task := &wire.ValidateTask{Kind: "provider", Config: encodeValue(region(""), region("").Type())}
	got, diags := Validate(context.Background(), f.host(), task)
	noErrors(t, diags)
	if string(got) != string(encodeValue(region("default"), region("").Type())) {
		t.Errorf("got %x", got)
	}
	f.configure = func(cty.Value) (cty.Value, diag.List) { return cty.True, nil }
	_, diags = Validate(context.Background(), f.host(), task)
	wantDiags(t, diags, "Provider produced invalid object | object required")
}

func TestFunctionsReportTheirOwnErrorsAsResults(t *testing.T) {
	text := func(s string) []byte { return encodeValue(cty.StringVal(s), cty.String) }
	for claim, c := range map[string]struct {
		args     [][]byte
		value    cty.Value
		err      error
		want     string
		errText  string
		errorArg int
	}{
		"a value": {args: [][]byte{text(","), text("a"), text("b")},
			value: cty.StringVal("a,b"), errorArg: -1},
		"an error": {args: [][]byte{text(",")}, err: errors.New("too dark"),
			errText: "too dark", errorArg: -1},
		"an error in argument": {args: [][]byte{text(",")}, err: function.NewArgErrorf(0, "must not be a comma"),
			errText: "must not be a comma", errorArg: 0},
		"a lost plugin": {args: [][]byte{text(",")}, err: failed("Plugin did not respond").Err(),
			want: "Plugin did not respond"},
		"another type": {args: [][]byte{text(",")}, value: cty.True, want: "Provider function returned " +
			"invalid result | string required"},
		"too few arguments": {want: "Wrong number of arguments | 1"},
		"a misfit argument": {args: [][]byte{{0xc1}}, want: "Value does not fit the provider's schema | sep"},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.function = func([]cty.Value) (cty.Value, error) { return c.value, c.err }
			got, diags := Function(context.Background(), f.host(), &wire.FunctionTask{Name: "join", Args: c.args})
			if c.want != "" {
				for i := range diags {
					diags[i] = diags[i].WithAddress("a call")
				}
				wantDiags(t, diags, c.want)
				return
			}
			noErrors(t, diags)
			if got.Error != c.errText || got.ErrorArg != c.errorArg {
				t.Errorf("got %+v", got)
			}
			if c.err == nil {
				v, err := coding.DecodeValue(got.Value, cty.String)
				if err != nil || !v.RawEquals(c.value) {
					t.Errorf("got %#v, %v", v, err)
				}
			}
		})
	}
	_, diags := Function(context.Background(), newFake().host(), &wire.FunctionTask{Name: "nope"})
	wantDiags(t, diags, `Unknown provider function | "nope"`)
}

func TestImports(t *testing.T) {
	one := func(o provider.Imported) []provider.Imported { return []provider.Imported{o} }
	thing := provider.Imported{TypeName: "test_thing", Object: obj("id", "i-1"), Private: []byte("p")}
	for claim, c := range map[string]struct {
		found []provider.Imported
		diags diag.List
		read  *provider.ReadResponse
		want  []string
	}{
		"an object is read after it was found": {found: one(thing)},
		"a failure":                            {diags: failed("no access"), want: []string{"no access"}},
		"nothing found":                        {want: []string{`Import returned no resources | "i-1"`}},
		"two objects for one block": {found: []provider.Imported{thing, thing},
			want: []string{"Multiple import states not supported | 2"}},
		"an object without a type": {found: one(provider.Imported{Object: obj("id", "i-1")}),
			want: []string{"Import returned no resource type"}},
		"an object of another type": {found: one(provider.Imported{TypeName: "test_other",
			Object: obj("id", "i-1")}), want: []string{`Import returned a different resource type | "test_other"`}},
		"null": {found: one(provider.Imported{TypeName: "test_thing", Object: noObj}),
			want: []string{"Import returned null resource"}},
		"another shape": {found: one(provider.Imported{TypeName: "test_thing",
			Object: cty.True}), want: []string{"Provider produced invalid object | object required"}},
		"a write-only value": {found: one(provider.Imported{TypeName: "test_thing",
			Object: obj("once", "hunter2")}), want: []string{"Invalid provider response | .once"}},
		"an object that does not exist": {found: one(thing), read: &provider.ReadResponse{Object: noObj},
			want: []string{"Cannot import non-existent remote object | test_thing.a"}},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFake()
			f.imports = func(provider.ImportRequest) ([]provider.Imported, diag.List) { return c.found, c.diags }
			f.read = func(r provider.ReadRequest) (provider.ReadResponse, diag.List) {
				if c.read != nil {
					return *c.read, nil
				}
				return provider.ReadResponse{Object: obj("id", "i-1", "name", "found"), Private: r.Private}, nil
			}
			got, diags := Plan(context.Background(), f.host(), &wire.PlanTask{
				Type: "test_thing", Import: &wire.ImportTask{Type: "test_thing", ID: "i-1"},
				Config: enc(obj("name", "b")),
			})
			wantDiags(t, diags, c.want...)
			if c.want != nil {
				return
			}
			wantValue(t, "prior", dec(t, got.Prior), obj("id", "i-1", "name", "found"))
			if got.Action != plan.Update || got.Upgraded != nil || string(got.PriorPrivate) != "p" {
				t.Errorf("action %q, upgraded %v, private %q", got.Action, got.Upgraded, got.PriorPrivate)
			}
			wantCalls(t, f, "import i-1", "read", "validate", "plan")
		})
	}
}

func TestAnImportByIdentityNeedsATypeWithOne(t *testing.T) {
	f := newFake()
	arn := cty.ObjectVal(map[string]cty.Value{"arn": cty.StringVal("a")})
	f.imports = func(r provider.ImportRequest) ([]provider.Imported, diag.List) {
		wantValue(t, "identity", r.Identity, arn)
		return []provider.Imported{{TypeName: "test_thing", Object: obj("id", "i-1"), Identity: arn}}, nil
	}
	task := &wire.ImportTask{Type: "test_thing", Identity: encodeValue(arn, arn.Type())}
	got, diags := Import(context.Background(), f.host(), task)
	noErrors(t, diags)
	if len(got.Objects) != 1 || got.Objects[0].Identity == nil || got.Objects[0].Type != "test_thing" ||
		got.Objects[0].SchemaVersion != 3 {
		t.Errorf("got %+v", got)
	}
	task.Type = "test_other"
	_, diags = Import(context.Background(), f.host(), task)
	wantDiags(t, diags, `No identity schema found | "test_other"`)
}

func TestOneImportMayFindObjectsOfSeveralTypes(t *testing.T) {
	f := newFake()
	f.imports = func(provider.ImportRequest) ([]provider.Imported, diag.List) {
		return []provider.Imported{{TypeName: "test_thing", Object: obj("id", "1")},
			{TypeName: "test_other", Object: obj("id", "2")}, {TypeName: "test_nope", Object: obj()}}, nil
	}
	got, diags := Import(context.Background(), f.host(), &wire.ImportTask{Type: "test_thing", ID: "1"})
	wantDiags(t, diags, `Unsupported resource type | "test_nope"`)
	if len(got.Objects) != 2 || got.Objects[1].Type != "test_other" || got.Objects[1].SchemaVersion != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestSchemasAreSentAsFarAsTheyAreAskedFor(t *testing.T) {
	f := newFake()
	for claim, c := range map[string]struct {
		task                     wire.SchemaTask
		managed, data, ephemeral int
	}{
		"nothing of the types": {},
		"one type":             {task: wire.SchemaTask{Managed: []string{"test_thing", "test_nope"}}, managed: 1},
		"of each kind": {task: wire.SchemaTask{Managed: []string{"test_other"}, Data: []string{"test_data"},
			Ephemeral: []string{"test_secret"}}, managed: 1, data: 1, ephemeral: 1},
		"all": {task: wire.SchemaTask{All: true}, managed: 2, data: 1, ephemeral: 1},
	} {
		t.Run(claim, func(t *testing.T) {
			r := Do(context.Background(), f.host(), &wire.Task{Schema: &c.task})
			got, err := wire.DecodeSchemas(r.Schema.Schemas)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Managed) != c.managed || len(got.Data) != c.data || len(got.Ephemeral) != c.ephemeral ||
				len(got.Functions) != 1 || got.Provider.Block == nil {
				t.Errorf("got %d, %d, %d types", len(got.Managed), len(got.Data), len(got.Ephemeral))
			}
			if _, ok := got.Identities["test_thing"]; ok != (got.Managed["test_thing"] != schema.Schema{}) {
				t.Error("the identity has no type")
			}
			if !slices.Equal(r.Schema.Managed, []string{"test_other", "test_thing"}) {
				t.Errorf("the names are %v", r.Schema.Managed)
			}
		})
	}
}

func TestDoRunsTheOperationOfTheTask(t *testing.T) {
	f := newFake()
	r := Do(context.Background(), f.host(), &wire.Task{Apply: create()})
	if r.Apply == nil || r.Doubt != "" || r.Diagnostics != nil {
		t.Errorf("got %+v", r)
	}
	f.apply = func(provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
		return provider.ApplyResponse{},
			diag.List{{Severity: diag.Error, Summary: "gone", Extra: &provider.Lost{Reason: "it died"}}}
	}
	r = Do(context.Background(), f.host(), &wire.Task{Apply: create()})
	if r.Apply != nil || r.Doubt != "it died" || len(r.Diagnostics) != 1 || r.Diagnostics[0].Lost != "it died" {
		t.Errorf("got %+v", r)
	}
}
