package rpc

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
	"github.com/millipede-iac/millipede/wire"
)

// hostileAnswers has values that ended the host, or made it use gigabytes of memory.
var hostileAnswers = map[string]*tfplugin6.DynamicValue{
	"a map of 2^32-1 entries":       {Msgpack: []byte("\xdf\xff\xff\xff\xff")},
	"no attributes":                 {Msgpack: []byte("\x80")},
	"a text of 4 GiB":               {Msgpack: []byte("\x83\xa4name\xdb\xff\xff\xff\xff")},
	"5,000,000 lists in each other": {Msgpack: []byte(strings.Repeat("\x91", 5_000_000))},
	"JSON, as deep":                 {Json: []byte(strings.Repeat(`{"name":`, 5_000_000))},
	"JSON that is none":             {Json: []byte(`{"name":`)},
}

// A plugin's answer of under 100 bytes ended the process that received it: its values, and the types in its schemas,
// were decoded without bounds.
func TestHostileAnswersAreTheProvidersErrorsAndCostLittle(t *testing.T) {
	a := thing(cty.StringVal("a"), cty.StringVal("1"))
	for name, answer := range hostileAnswers {
		server := &thing6{
			read: func(*tfplugin6.ReadResource_Request) (*tfplugin6.ReadResource_Response, error) {
				return &tfplugin6.ReadResource_Response{NewState: answer}, nil
			},
			plan: func(*tfplugin6.PlanResourceChange_Request) (*tfplugin6.PlanResourceChange_Response, error) {
				return &tfplugin6.PlanResourceChange_Response{PlannedState: answer}, nil
			},
			apply: func(context.Context, *tfplugin6.ApplyResourceChange_Request) (
				*tfplugin6.ApplyResourceChange_Response, error) {
				return &tfplugin6.ApplyResourceChange_Response{NewState: answer}, nil
			},
			upgrade: func(*tfplugin6.UpgradeResourceState_Request) (*tfplugin6.UpgradeResourceState_Response, error) {
				return &tfplugin6.UpgradeResourceState_Response{UpgradedState: answer}, nil
			},
			open: func(*tfplugin6.OpenEphemeralResource_Request) (*tfplugin6.OpenEphemeralResource_Response, error) {
				return &tfplugin6.OpenEphemeralResource_Response{Result: answer}, nil
			},
			call: func(*tfplugin6.CallFunction_Request) (*tfplugin6.CallFunction_Response, error) {
				return &tfplugin6.CallFunction_Response{Result: answer}, nil
			},
		}
		p := plugin6(t, server, Options{})
		for call, do := range map[string]func() diag.List{
			"ReadResource": func() diag.List {
				_, diags := p.ReadResource(t.Context(), provider.ReadRequest{TypeName: "thing", Prior: a})
				return diags
			},
			"PlanResourceChange": func() diag.List {
				_, diags := p.PlanResourceChange(t.Context(), provider.PlanRequest{TypeName: "thing",
					Proposed: a, Config: a})
				return diags
			},
			"ApplyResourceChange": func() diag.List {
				_, diags := p.ApplyResourceChange(t.Context(), provider.ApplyRequest{TypeName: "thing",
					Planned: a, Config: a})
				return diags
			},
			"UpgradeResourceState": func() diag.List {
				_, diags := p.UpgradeResourceState(t.Context(), provider.UpgradeRequest{TypeName: "thing",
					JSON: []byte("{}")})
				return diags
			},
			"OpenEphemeralResource": func() diag.List {
				_, diags := p.OpenEphemeral(t.Context(), "thing", a)
				return diags
			},
			"CallFunction": func() diag.List {
				_, err := p.CallFunction(t.Context(), "join", []cty.Value{cty.StringVal(",")})
				var d *diag.Diagnostic
				if !errors.As(err, &d) {
					t.Fatalf("%s: the error of a function is %v", name, err)
				}
				return diag.List{d}
			},
		} {
			t.Run(call+", "+name, func(t *testing.T) {
				_, diags := p.Schemas(t.Context())
				noProblems(t, diags)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				diags = do()
				runtime.ReadMemStats(&after)
				d := onlyProblem(t, diags, invalidResponse)
				if !strings.Contains(d.Detail, "example.com/test/thing") || !strings.Contains(d.Detail, call) {
					t.Errorf("the provider is not blamed by name: %s", d.Detail)
				}
				size := uint64(len(answer.Msgpack) + len(answer.Json))
				if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20+20*size {
					t.Errorf("an answer of %d bytes allocated %d", size, took)
				}
			})
		}
	}
}

func TestImpossibleSchemasAreTheProvidersErrorsAndCostLittle(t *testing.T) {
	deepBlock := func(n int) *tfplugin6.Schema_Block {
		b := &tfplugin6.Schema_Block{}
		for range n {
			b = &tfplugin6.Schema_Block{BlockTypes: []*tfplugin6.Schema_NestedBlock{{TypeName: "nested",
				Nesting: tfplugin6.Schema_NestedBlock_SET, Block: b}}}
		}
		return b
	}
	deepType := func(n int) *tfplugin6.Schema_Block {
		a := &tfplugin6.Schema_Attribute{Name: "nested", Optional: true, Type: []byte(`"string"`)}
		for range n {
			a = &tfplugin6.Schema_Attribute{Name: "nested", Optional: true, NestedType: &tfplugin6.Schema_Object{
				Nesting: tfplugin6.Schema_Object_LIST, Attributes: []*tfplugin6.Schema_Attribute{a}}}
		}
		return &tfplugin6.Schema_Block{Attributes: []*tfplugin6.Schema_Attribute{a}}
	}
	typed := func(ty string) *tfplugin6.Schema_Block {
		return &tfplugin6.Schema_Block{Attributes: []*tfplugin6.Schema_Attribute{{Name: "a", Optional: true,
			Type: []byte(ty)}}}
	}
	for name, block := range map[string]*tfplugin6.Schema_Block{
		"blocks, 2,000 deep":       deepBlock(2_000),
		"nested types, 2,000 deep": deepType(2_000),
		"a type, 5,000 deep":       typed(strings.Repeat(`["list",`, 5_000) + `"string"` + strings.Repeat(`]`, 5_000)),
		"a type, 5,000,000 deep": typed(strings.Repeat(`["list",`, 5_000_000) + `"string"` +
			strings.Repeat(`]`, 5_000_000)),
	} {
		t.Run(name, func(t *testing.T) {
			p := plugin6(t, &thing6{schema: func(r *tfplugin6.GetProviderSchema_Response) {
				r.ResourceSchemas["thing"] = &tfplugin6.Schema{Block: block}
			}}, Options{})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, diags := p.Schemas(t.Context())
			runtime.ReadMemStats(&after)
			d := onlyProblem(t, diags, "Invalid provider schema")
			if !strings.Contains(d.Detail, "example.com/test/thing") || len(d.Detail) > 2_000 {
				t.Errorf("the provider is not blamed by name, in few words: %.2000s", d.Detail)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 512<<20 { // most of it for the message of 45 MB
				t.Errorf("%d bytes were allocated", took)
			}
		})
	}
	t.Run("but what is as deep as it may be travels", func(t *testing.T) {
		for _, block := range []*tfplugin6.Schema_Block{deepBlock(maxNesting - 1), deepType(maxNesting - 1)} {
			p := plugin6(t, &thing6{schema: func(r *tfplugin6.GetProviderSchema_Response) {
				r.ResourceSchemas["thing"] = &tfplugin6.Schema{Block: block}
			}}, Options{})
			s, diags := p.Schemas(t.Context())
			noProblems(t, diags)
			if _, err := wire.DecodeSchemas(wire.EncodeSchemas(s)); err != nil {
				t.Error(err)
			}
		}
	})
}

func FuzzDecodeValue(f *testing.F) {
	for _, v := range hostileAnswers {
		if len(v.Msgpack)+len(v.Json) < 1_000 {
			f.Add(v.Msgpack, v.Json)
		}
	}
	f.Fuzz(func(t *testing.T, msgpack, json []byte) {
		v, err := decodeValue(&tfplugin6.DynamicValue{Msgpack: msgpack, Json: json}, thingType)
		if err == nil && !v.Type().Equals(thingType) {
			t.Errorf("it was read as %#v", v)
		}
	})
}
