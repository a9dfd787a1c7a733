package builtin

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"go.uber.org/goleak"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// under returns the provider with two state backends: "local" has a state in the workspace "default", and none
// elsewhere.
func under(read StateReader) provider.Provider {
	return New(Options{
		ReadState: read,
		CheckConfig: func(backend string, config cty.Value) diag.List {
			if backend != "local" {
				return diag.Errors("Invalid backend configuration", "unknown", nil)
			}
			if config.Type().HasAttribute("paht") {
				d := diag.New(diag.Error, "Invalid backend configuration", "misspelt", nil)
				d.Path = cty.GetAttrPath("paht")
				return diag.List{d}
			}
			return nil
		},
		NewID: func() string { return "id-1" },
	})
}

func readNothing(context.Context, string, cty.Value, string) (map[string]cty.Value, diag.List) {
	return nil, nil
}

func data(input, output, triggers, id cty.Value) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"input": input, "output": output, "triggers_replace": triggers, "id": id})
}

var (
	str     = cty.StringVal
	null    = cty.NullVal(cty.DynamicPseudoType)
	noID    = cty.NullVal(cty.String)
	newID   = cty.UnknownVal(cty.String).RefineNotNull()
	unknown = cty.UnknownVal(cty.DynamicPseudoType)
)

func TestPlanOfData(t *testing.T) {
	absent := cty.NullVal(dataObject)
	list := cty.ListVal([]cty.Value{str("a")})
	for claim, c := range map[string]struct {
		prior, proposed, planned cty.Value
		replace                  bool
	}{
		"a new object's output has the type of its input": {
			absent, data(list, null, null, noID), data(list, cty.UnknownVal(cty.List(cty.String)), null, newID), false},
		"a new object without input has no output": {
			absent, data(null, null, null, noID), data(null, null, null, newID), false},
		"a new object with an unknown input has an output of unknown type": {
			absent, data(unknown, null, null, noID), data(unknown, unknown, null, newID), false},
		"an unchanged object stays": {
			data(str("a"), str("a"), null, str("1")), data(str("a"), str("a"), null, str("1")),
			data(str("a"), str("a"), null, str("1")), false},
		"another input changes the output in place": {
			data(str("a"), str("a"), null, str("1")), data(list, str("a"), null, str("1")),
			data(list, cty.UnknownVal(cty.List(cty.String)), null, str("1")), false},
		"input that goes away changes the output in place": {
			data(str("a"), str("a"), null, str("1")), data(null, str("a"), null, str("1")),
			data(null, unknown, null, str("1")), false},
		"another trigger replaces the object": {
			data(str("a"), str("a"), str("x"), str("1")), data(str("a"), str("a"), str("y"), str("1")),
			data(str("a"), cty.UnknownVal(cty.String), str("y"), newID), true},
		"a trigger of another type replaces the object": {
			data(null, null, str("1"), str("1")), data(null, null, cty.NumberIntVal(1), str("1")),
			data(null, null, cty.NumberIntVal(1), newID), true},
		"an unknown trigger replaces the object": {
			data(null, null, str("x"), str("1")), data(null, null, cty.UnknownVal(cty.String), str("1")),
			data(null, null, cty.UnknownVal(cty.String), newID), true},
		"a destroyed object is gone": {
			data(str("a"), str("a"), null, str("1")), absent, absent, false},
	} {
		t.Run(claim, func(t *testing.T) {
			resp, diags := under(readNothing).PlanResourceChange(t.Context(), provider.PlanRequest{TypeName: dataType,
				Prior: c.prior, Proposed: c.proposed, Config: c.proposed})
			if diags != nil {
				t.Fatal(diags.Err())
			}
			if !resp.Planned.RawEquals(c.planned) {
				t.Errorf("planned %#v", resp.Planned)
			}
			if replace := len(resp.RequiresReplace) == 1 &&
				resp.RequiresReplace[0].Equals(cty.GetAttrPath("triggers_replace")); replace != c.replace {
				t.Errorf("replaced because of %v", resp.RequiresReplace)
			}
		})
	}
}

func TestApplyOfDataFillsInWhatIsUnknown(t *testing.T) {
	p := under(readNothing)
	apply := func(planned cty.Value) cty.Value {
		resp, diags := p.ApplyResourceChange(t.Context(), provider.ApplyRequest{TypeName: dataType, Planned: planned})
		if diags != nil {
			t.Error(diags.Err())
		}
		return resp.Object
	}
	if got := apply(data(str("a"), cty.UnknownVal(cty.String), null, newID)); !got.RawEquals(data(str("a"), str("a"),
		null, str("id-1"))) {
		t.Errorf("created %#v", got)
	}
	if got := apply(data(null, unknown, null, str("1"))); !got.RawEquals(data(null, null, null, str("1"))) {
		t.Errorf("updated to %#v", got)
	}
	if got := apply(cty.NullVal(dataObject)); !got.IsNull() {
		t.Errorf("destroyed to %#v", got)
	}
}

func TestComputedAttributesOfDataCannotBeSet(t *testing.T) {
	p := under(readNothing)
	diags := p.ValidateResourceConfig(t.Context(), dataType, data(null, str("o"), null, str("i")))
	if len(diags) != 2 || diags[0].Summary != `"id" attribute is read-only` ||
		diags[1].Summary != `"output" attribute is read-only` {
		t.Errorf("diagnostics: %v", diags)
	}
	if diags := p.ValidateResourceConfig(t.Context(), dataType, data(unknown, null, null, noID)); diags != nil {
		t.Error(diags.Err())
	}
}

func TestStoredDataIsReadWithItsTypes(t *testing.T) {
	p := under(readNothing)
	v, diags := p.UpgradeResourceState(t.Context(), provider.UpgradeRequest{TypeName: dataType,
		JSON: []byte(`{"id":"1","input":{"value":["a"],"type":["list","string"]},"output":null,"triggers_replace":null}`)})
	if diags != nil || !v.GetAttr("input").RawEquals(cty.ListVal([]cty.Value{str("a")})) {
		t.Errorf("read %#v, %v", v, diags)
	}
	if _, diags = p.UpgradeResourceState(t.Context(), provider.UpgradeRequest{TypeName: dataType,
		JSON: []byte(`{"id":[]}`)}); !diags.HasErrors() {
		t.Error("a broken object was read")
	}
}

func TestNullResourceBecomesData(t *testing.T) {
	p := under(readNothing)
	for claim, c := range map[string]struct {
		json string
		want cty.Value
	}{
		"with triggers": {`{"id":"1","triggers":{"a":"x"}}`,
			data(null, null, cty.ObjectVal(map[string]cty.Value{"a": str("x")}), str("1"))},
		"without triggers": {`{"id":"1","triggers":null}`, data(null, null, null, str("1"))},
	} {
		t.Run(claim, func(t *testing.T) {
			resp, diags := p.MoveResourceState(t.Context(), provider.MoveRequest{SourceType: "null_resource",
				TargetType: dataType, SourceJSON: []byte(c.json), SourcePrivate: []byte("p")})
			if diags != nil || !resp.Object.RawEquals(c.want) || string(resp.Private) != "p" {
				t.Errorf("moved to %#v, %v", resp, diags)
			}
		})
	}
	_, diags := p.MoveResourceState(t.Context(), provider.MoveRequest{SourceType: "time_static", TargetType: dataType})
	if len(diags) != 1 || !strings.HasPrefix(diags[0].Summary, "unsupported move: time_static -> terraform_data") {
		t.Errorf("diagnostics: %v", diags)
	}
}

func TestImportedDataHasItsIDAlone(t *testing.T) {
	imported, diags := under(readNothing).ImportResourceState(t.Context(),
		provider.ImportRequest{TypeName: dataType, ID: "7"})
	if diags != nil || len(imported) != 1 || !imported[0].Object.RawEquals(data(null, null, null, str("7"))) {
		t.Errorf("imported %#v, %v", imported, diags)
	}
}

func remote(backend, config, defaults, workspace cty.Value) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"backend": backend, "config": config, "defaults": defaults,
		"workspace": workspace, "outputs": null})
}

func TestRemoteStateHasItsOutputsOverTheDefaults(t *testing.T) {
	var asked string
	p := under(func(_ context.Context, backend string, config cty.Value, workspace string) (map[string]cty.Value,
		diag.List) {
		asked = backend + " " + config.GetAttr("path").AsString() + " " + workspace
		return map[string]cty.Value{"name": str("neo")}, nil
	})
	defaults := cty.MapVal(map[string]cty.Value{"name": str("unused"), "extra": str("default")})
	for workspace, want := range map[cty.Value]string{cty.NullVal(cty.String): "local s default",
		str("prod"): "local s prod"} {
		config := remote(str("_local"), cty.MapVal(map[string]cty.Value{"path": str("s")}), defaults, workspace)
		v, diags := p.ReadDataSource(t.Context(), remoteStateType, config, cty.NilVal)
		if diags != nil {
			t.Fatal(diags.Err())
		}
		if !v.GetAttr("outputs").RawEquals(cty.ObjectVal(map[string]cty.Value{"name": str("neo"),
			"extra": str("default")})) ||
			!v.GetAttr("workspace").RawEquals(workspace) || !v.GetAttr("config").RawEquals(config.GetAttr("config")) ||
			asked != want {
			t.Errorf("read %#v, having asked for %s", v, asked)
		}
	}
}

func TestRemoteStateThatCannotBeReadIsAnErrorWithItsAddress(t *testing.T) {
	ctx := provider.WithAddress(t.Context(), "data.terraform_remote_state.o")
	config := remote(str("local"), null, null, noID)
	summaries := func(read StateReader, config cty.Value) string {
		_, diags := under(read).ReadDataSource(ctx, remoteStateType, config, cty.NilVal)
		var all []string
		for _, d := range diags {
			all = append(all, d.Summary)
		}
		return strings.Join(all, "; ")
	}
	const last = "; data.terraform_remote_state.o: Unable to read remote state"
	if got := summaries(readNothing, config); got != "Unable to find remote state"+last {
		t.Errorf("without a state: %s", got)
	}
	broken := func(context.Context, string, cty.Value, string) (map[string]cty.Value, diag.List) {
		return nil, diag.Errors("broken", "", nil)
	}
	if got := summaries(broken, config); got != "broken"+last {
		t.Errorf("with a broken state: %s", got)
	}
	if got := summaries(readNothing, remote(str("nowhere"), null, null, noID)); got != "Invalid backend configuration"+
		last {
		t.Errorf("with an unknown backend: %s", got)
	}
}

func TestConfigurationOfRemoteStateIsCheckedAsFarAsItIsKnown(t *testing.T) {
	misspelt := cty.ObjectVal(map[string]cty.Value{"paht": str("x")})
	for claim, c := range map[string]struct {
		config  cty.Value
		summary string // empty: no problem
		path    cty.Path
	}{
		"a good one": {remote(str("local"), null, null, noID), "", nil},
		"an unknown backend": {remote(str("nowhere"), null, null, noID), "Invalid backend configuration",
			cty.GetAttrPath("config")},
		"an argument that does not exist": {remote(str("local"), misspelt, null, noID), "Invalid backend " +
			"configuration", cty.GetAttrPath("config").GetAttr("paht")},
		"a backend that is not known yet":  {remote(cty.UnknownVal(cty.String), misspelt, null, noID), "", nil},
		"arguments that are not known yet": {remote(str("nowhere"), unknown, null, noID), "", nil},
		"arguments that are no object": {remote(str("local"), str("x"), null, noID), "Invalid backend " +
			"configuration", cty.GetAttrPath("config")},
		"defaults that are no object": {remote(str("local"), null, cty.True, noID), "Invalid default values",
			cty.GetAttrPath("defaults")},
	} {
		t.Run(claim, func(t *testing.T) {
			diags := under(readNothing).ValidateDataConfig(t.Context(), remoteStateType, c.config)
			switch {
			case c.summary == "":
				if diags != nil {
					t.Error(diags.Err())
				}
			case len(diags) != 1 || diags[0].Summary != c.summary || !diags[0].Path.Equals(c.path):
				t.Errorf("diagnostics: %v", diags)
			}
		})
	}
}

func TestFunctionsConvertBetweenValuesAndSyntax(t *testing.T) {
	object := cty.ObjectVal(map[string]cty.Value{"a": str("x\"${y}"),
		"b": cty.TupleVal([]cty.Value{cty.NumberIntVal(1), cty.NullVal(cty.DynamicPseudoType)})})
	for claim, c := range map[string]struct {
		name      string
		arg, want cty.Value
	}{
		"variables to text":    {"encode_tfvars", object, str("a = \"x\\\"$${y}\"\nb = [1, null]\n")},
		"no variables to text": {"encode_tfvars", cty.EmptyObjectVal, str("")},
		"text to variables":    {"decode_tfvars", str("a = \"x\\\"$${y}\"\nb = [1, null]\n"), object},
		"a value to text":      {"encode_expr", object.GetAttr("b"), str("[1, null]")},
		"an unknown argument":  {"encode_expr", cty.TupleVal([]cty.Value{unknown}), cty.UnknownVal(cty.String)},
		"an unknown text":      {"decode_tfvars", cty.UnknownVal(cty.String), unknown},
		"a number to text": {"encode_expr", cty.MustParseNumberVal("7227701560655103598"),
			str("7227701560655103598")},
		"an object to text": {"encode_expr", cty.ObjectVal(map[string]cty.Value{"k": cty.True}),
			str("{\n  k = true\n}")},
		"an empty text to value": {"decode_tfvars", str(""), cty.EmptyObjectVal},
	} {
		t.Run(claim, func(t *testing.T) {
			got, err := under(readNothing).CallFunction(t.Context(), c.name, []cty.Value{c.arg})
			if err != nil || !got.RawEquals(c.want) {
				t.Errorf("the result is %#v, %v", got, err)
			}
		})
	}
}

func TestFunctionsRefuseWhatTheyCannotConvert(t *testing.T) {
	for claim, c := range map[string]struct {
		name  string
		args  []cty.Value
		words string
		blame bool // of the argument
	}{
		"text that is no syntax": {"decode_tfvars", []cty.Value{str("a = ")}, "failed to decode tfvars content\n",
			false},
		"text with a block": {"decode_tfvars", []cty.Value{str("b {}")}, "failed to decode tfvars content\n",
			false},
		"text with a reference": {"decode_tfvars", []cty.Value{str("a = b")}, "failed to decode tfvars " +
			"content\n", false},
		"variables that are a map": {"encode_tfvars", []cty.Value{cty.MapValEmpty(cty.String)},
			"must be an object", false},
		"a name that is no identifier": {"encode_tfvars",
			[]cty.Value{cty.ObjectVal(map[string]cty.Value{"1 a": cty.True})}, "1 a - must be a valid identifier",
			false},
		"null":                    {"encode_expr", []cty.Value{null}, "must not be null", true},
		"nothing":                 {"encode_expr", nil, "takes 1 arguments", false},
		"a function that is none": {"encode_all", nil, `no function "encode_all"`, false},
	} {
		t.Run(claim, func(t *testing.T) {
			_, err := under(readNothing).CallFunction(t.Context(), c.name, c.args)
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Fatalf("the error is %v", err)
			}
			var arg function.ArgError
			if errors.As(err, &arg) != c.blame {
				t.Errorf("the argument is blamed: %v", !c.blame)
			}
		})
	}
}

func TestNamesThatTheProviderDoesNotHaveAreRefused(t *testing.T) {
	p, ctx := under(readNothing), t.Context()
	_, read := p.ReadResource(ctx, provider.ReadRequest{TypeName: "x"})
	_, source := p.ReadDataSource(ctx, "x", cty.NilVal, cty.NilVal)
	_, opened := p.OpenEphemeral(ctx, "x", cty.NilVal)
	for want, diags := range map[string]diag.List{
		`unknown resource type "x"`:      read,
		`unknown data source "x"`:        source,
		`unknown ephemeral resource "x"`: opened,
	} {
		if len(diags) != 1 || diags[0].Summary != want {
			t.Errorf("diagnostics: %v", diags)
		}
	}
}

func TestMetadataNamesWhatTheSchemasHold(t *testing.T) {
	m, _ := under(readNothing).Metadata(t.Context())
	if got := strings.Join(append(append(m.Managed, m.Data...), m.Functions...), " "); got != "terraform_data "+
		"terraform_remote_state decode_tfvars encode_expr encode_tfvars" {
		t.Errorf("the names are %s", got)
	}
}
