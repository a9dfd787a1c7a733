package change

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// fake is a provider that follows the rules: it plans the proposed object, with unknown values for unset computed
// attributes, and applies the planned one. A test replaces the method whose response it needs.
type fake struct {
	provider.Provider // methods that are not faked panic

	schemas *provider.Schemas
	calls   []string

	validate  func(cty.Value) diag.List
	upgrade   func(provider.UpgradeRequest) (cty.Value, diag.List)
	identity  func(version int64, json []byte) (cty.Value, diag.List)
	move      func(provider.MoveRequest) (provider.MoveResponse, diag.List)
	read      func(provider.ReadRequest) (provider.ReadResponse, diag.List)
	plan      func(provider.PlanRequest) (provider.PlanResponse, diag.List)
	apply     func(provider.ApplyRequest) (provider.ApplyResponse, diag.List)
	imports   func(provider.ImportRequest) ([]provider.Imported, diag.List)
	readData  func(config cty.Value) (cty.Value, diag.List)
	open      func(config cty.Value) (provider.Opened, diag.List)
	function  func(args []cty.Value) (cty.Value, error)
	configure func(cty.Value) (cty.Value, diag.List)
}

func (f *fake) note(call string, args ...any) { f.calls = append(f.calls, fmt.Sprintf(call, args...)) }

func (f *fake) ValidateProviderConfig(_ context.Context, v cty.Value) (cty.Value, diag.List) {
	f.note("validate provider")
	if f.configure != nil {
		return f.configure(v)
	}
	return v, nil
}

func (f *fake) ValidateResourceConfig(_ context.Context, _ string, v cty.Value) diag.List {
	f.note("validate")
	if f.validate != nil {
		return f.validate(v)
	}
	return nil
}

func (f *fake) ValidateDataConfig(_ context.Context, _ string, v cty.Value) diag.List {
	f.note("validate data")
	if f.validate != nil {
		return f.validate(v)
	}
	return nil
}

func (f *fake) ValidateEphemeralConfig(_ context.Context, _ string, v cty.Value) diag.List {
	f.note("validate ephemeral")
	if f.validate != nil {
		return f.validate(v)
	}
	return nil
}

func (f *fake) UpgradeResourceState(_ context.Context, r provider.UpgradeRequest) (cty.Value, diag.List) {
	f.note("upgrade %d", r.Version)
	if f.upgrade != nil {
		return f.upgrade(r)
	}
	v, err := ctyjson.Unmarshal(r.JSON, f.schemas.Managed[r.TypeName].Block.ImpliedType())
	if err != nil {
		return cty.NilVal, diag.Errors("upgrade failed", err.Error(), nil)
	}
	return v, nil
}

func (f *fake) UpgradeResourceIdentity(_ context.Context, _ string, version int64, json []byte) (cty.Value, diag.List) {
	f.note("upgrade identity %d", version)
	return f.identity(version, json)
}

func (f *fake) MoveResourceState(_ context.Context, r provider.MoveRequest) (provider.MoveResponse, diag.List) {
	f.note("move %s", r.SourceType)
	return f.move(r)
}

func (f *fake) ReadResource(_ context.Context, r provider.ReadRequest) (provider.ReadResponse, diag.List) {
	f.note("read")
	if f.read != nil {
		return f.read(r)
	}
	return provider.ReadResponse{Object: r.Prior, Private: r.Private, Identity: r.Identity}, nil
}

func (f *fake) PlanResourceChange(_ context.Context, r provider.PlanRequest) (provider.PlanResponse, diag.List) {
	f.note("plan")
	if f.plan != nil {
		return f.plan(r)
	}
	return f.lawfulPlan(r), nil
}

// lawfulPlan plans the proposed object. Computed attributes that are not set are unknown.
func (f *fake) lawfulPlan(r provider.PlanRequest) provider.PlanResponse {
	out := provider.PlanResponse{Planned: r.Proposed, Private: r.PriorPrivate}
	if r.Proposed.IsNull() {
		return out
	}
	b := f.schemas.Managed[r.TypeName].Block
	vals := r.Proposed.AsValueMap()
	for name, a := range b.Attributes {
		if a.WriteOnly {
			vals[name] = cty.NullVal(a.ImpliedType())
		}
		if a.Computed && vals[name].IsNull() {
			vals[name] = cty.UnknownVal(a.ImpliedType())
		}
	}
	out.Planned = cty.ObjectVal(vals)
	return out
}

func (f *fake) ApplyResourceChange(_ context.Context, r provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
	f.note("apply")
	if f.apply != nil {
		return f.apply(r)
	}
	return provider.ApplyResponse{Object: lawfulApply(r.Planned), Private: r.PlannedPrivate}, nil
}

// lawfulApply makes every unknown string "done".
func lawfulApply(planned cty.Value) cty.Value {
	out, _ := cty.Transform(planned, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if !v.IsKnown() && v.Type() == cty.String {
			return cty.StringVal("done"), nil
		}
		return v, nil
	})
	return out
}

func (f *fake) ImportResourceState(_ context.Context, r provider.ImportRequest) ([]provider.Imported, diag.List) {
	f.note("import %s", r.ID)
	return f.imports(r)
}

func (f *fake) ReadDataSource(_ context.Context, _ string, config, _ cty.Value) (cty.Value, diag.List) {
	f.note("read data")
	return f.readData(config)
}

func (f *fake) OpenEphemeral(_ context.Context, _ string, config cty.Value) (provider.Opened, diag.List) {
	f.note("open")
	return f.open(config)
}

func (f *fake) RenewEphemeral(_ context.Context, _ string, private []byte) (provider.Renewed, diag.List) {
	f.note("renew %s", private)
	return provider.Renewed{Private: []byte("renewed")}, nil
}

func (f *fake) CloseEphemeral(_ context.Context, _ string, private []byte) diag.List {
	f.note("close %s", private)
	return nil
}

func (f *fake) CallFunction(_ context.Context, _ string, args []cty.Value) (cty.Value, error) {
	f.note("call")
	return f.function(args)
}

// thing is the block that most tests use. It has a computed id, and an ordinary, a sensitive, a write-only and an
// optional computed attribute.
func thing() *schema.Block {
	return &schema.Block{Attributes: map[string]*schema.Attribute{
		"id":     {Type: cty.String, Computed: true},
		"name":   {Type: cty.String, Optional: true},
		"size":   {Type: cty.String, Optional: true, Computed: true},
		"secret": {Type: cty.String, Optional: true, Sensitive: true},
		"once":   {Type: cty.String, Optional: true, WriteOnly: true},
		"tags":   {Type: cty.Map(cty.String), Optional: true},
	}}
}

func newFake() *fake {
	return &fake{schemas: &provider.Schemas{
		Provider: schema.Schema{Block: &schema.Block{Attributes: map[string]*schema.Attribute{
			"region": {Type: cty.String, Optional: true}}}},
		Managed: map[string]schema.Schema{"test_thing": {Version: 3, Block: thing()},
			"test_other": {Block: thing()}},
		Data:      map[string]schema.Schema{"test_data": {Block: thing()}},
		Ephemeral: map[string]schema.Schema{"test_secret": {Block: thing()}},
		Identities: map[string]schema.Identity{"test_thing": {Version: 2,
			Body: &schema.Object{Nesting: schema.NestingSingle,
				Attributes: map[string]*schema.Attribute{"arn": {Type: cty.String, Required: true}}}}},
		Functions: map[string]provider.Function{"join": {
			Parameters:        []provider.Parameter{{Name: "sep", Type: cty.String}},
			VariadicParameter: &provider.Parameter{Name: "parts", Type: cty.String},
			Return:            cty.String,
		}},
		Capabilities: provider.Capabilities{PlanDestroy: true},
	}}
}

func (f *fake) host() Host {
	return Host{Provider: f, Schemas: f.schemas, Name: `provider["example.com/acme/test"]`,
		Source: "example.com/acme/test", Address: "test_thing.a"}
}

// obj returns a value of thing's type; attributes that are not given are null.
func obj(vals ...any) cty.Value {
	m := map[string]cty.Value{}
	for name, a := range thing().Attributes {
		m[name] = cty.NullVal(a.Type)
	}
	for i := 0; i < len(vals); i += 2 {
		m[vals[i].(string)] = val(vals[i+1])
	}
	return cty.ObjectVal(m)
}

var noObj = cty.NullVal(thing().ImpliedType())

func val(v any) cty.Value {
	switch v := v.(type) {
	case string:
		return cty.StringVal(v)
	case cty.Value:
		return v
	case map[string]string:
		m := map[string]cty.Value{}
		for k, s := range v {
			m[k] = cty.StringVal(s)
		}
		if len(m) == 0 {
			return cty.MapValEmpty(cty.String)
		}
		return cty.MapVal(m)
	default:
		panic("unexpected value in a test")
	}
}

var unknown = cty.UnknownVal(cty.String)

func enc(v cty.Value) []byte { return encodeValue(v, thing().ImpliedType()) }

func dec(t *testing.T, data []byte) cty.Value {
	t.Helper()
	v, diags := Host{}.decode(data, thing().ImpliedType(), "value of the test")
	noErrors(t, diags)
	return v
}

// stored returns an object as in the state, in the current version of thing.
func stored(t *testing.T, v cty.Value) *wire.StoredObject {
	t.Helper()
	attrs, err := ctyjson.Marshal(v, thing().ImpliedType())
	if err != nil {
		t.Fatal(err)
	}
	return &wire.StoredObject{SchemaVersion: 3, Attrs: attrs, Private: []byte("old private")}
}

func noErrors(t *testing.T, diags diag.List) {
	t.Helper()
	for _, d := range diags {
		t.Errorf("unexpected diagnostic: %s", d.Error())
	}
}

// wantDiags compares summaries, each followed by texts that its detail must contain, in any order.
func wantDiags(t *testing.T, diags diag.List, want ...string) {
	t.Helper()
	left := slices.Clone(diags)
	for _, w := range want {
		summary, part, _ := strings.Cut(w, " | ")
		i := slices.IndexFunc(left, func(d *diag.Diagnostic) bool {
			return d.Summary == summary && strings.Contains(d.Detail, part)
		})
		if i < 0 {
			t.Errorf("no diagnostic %q with %q", summary, part)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, d := range left {
		t.Errorf("unexpected diagnostic: %s\n%s", d.Summary, d.Detail)
	}
	for _, d := range diags {
		if d.Address == "" {
			t.Errorf("the diagnostic %q names no address", d.Summary)
		}
		if strings.Contains(d.Detail, "hunter2") {
			t.Errorf("the diagnostic shows a secret: %s", d.Detail)
		}
	}
}

func wantCalls(t *testing.T, f *fake, want ...string) {
	t.Helper()
	if !slices.Equal(f.calls, want) {
		t.Errorf("calls:\n got %q\nwant %q", f.calls, want)
	}
}

func wantValue(t *testing.T, what string, got, want cty.Value) {
	t.Helper()
	if !got.RawEquals(want) {
		t.Errorf("%s:\n got %#v\nwant %#v", what, got, want)
	}
}
