package rpc

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

func TestSchemasOfAPackageAreFetchedOnce(t *testing.T) {
	for claim, c := range map[string]struct {
		optional    bool
		askedSecond int
	}{
		"an old plugin's second process is asked once, because it insists":  {false, 1},
		"a plugin that need not be asked is not, when its package is known": {true, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			capable := func(r *tfplugin6.GetProviderSchema_Response) {
				r.ServerCapabilities = &tfplugin6.ServerCapabilities{GetProviderSchemaOptional: c.optional}
			}
			cache := NewSchemaCache()
			first, second := &thing6{schema: capable}, &thing6{schema: capable}
			p1, p2 := plugin6(t, first, Options{Schemas: cache}), plugin6(t, second, Options{Schemas: cache})
			s1, diags := p1.Schemas(t.Context())
			noProblems(t, diags)
			for range 3 {
				s2, diags := p2.Schemas(t.Context())
				noProblems(t, diags)
				if s1 != s2 {
					t.Error("the second process has schemas of its own")
				}
			}
			if first.asked != 1 || second.asked != c.askedSecond {
				t.Errorf("the first process was asked %d times, the second %d times", first.asked, second.asked)
			}
		})
	}
}

func TestFailedFetchIsNotKept(t *testing.T) {
	fail := true
	server := &thing6{schema: func(r *tfplugin6.GetProviderSchema_Response) {
		if fail {
			r.Diagnostics = []*tfplugin6.Diagnostic{{Severity: tfplugin6.Diagnostic_ERROR, Summary: "not now"}}
		}
	}}
	p := plugin6(t, server, Options{})
	_, diags := p.Schemas(t.Context())
	onlyProblem(t, diags, "not now")
	fail = false
	_, diags = p.Schemas(t.Context())
	noProblems(t, diags)
}

func TestNestedStructureIsConverted(t *testing.T) {
	size := []*tfplugin6.Schema_Attribute{{Name: "size", Type: []byte(`"number"`), Optional: true}}
	nested := func(name string, mode tfplugin6.Schema_Object_NestingMode) *tfplugin6.Schema_Attribute {
		return &tfplugin6.Schema_Attribute{Name: name, Optional: true,
			NestedType: &tfplugin6.Schema_Object{Nesting: mode, Attributes: size}}
	}
	block := func(name string, mode tfplugin6.Schema_NestedBlock_NestingMode) *tfplugin6.Schema_NestedBlock {
		return &tfplugin6.Schema_NestedBlock{TypeName: name, Nesting: mode,
			Block: &tfplugin6.Schema_Block{Attributes: size}}
	}
	p := plugin6(t, &thing6{schema: func(r *tfplugin6.GetProviderSchema_Response) {
		r.ResourceSchemas["all"] = &tfplugin6.Schema{Block: &tfplugin6.Schema_Block{
			Attributes: []*tfplugin6.Schema_Attribute{
				nested("a_single", tfplugin6.Schema_Object_SINGLE), nested("a_list", tfplugin6.Schema_Object_LIST),
				nested("a_set", tfplugin6.Schema_Object_SET), nested("a_map", tfplugin6.Schema_Object_MAP),
			},
			BlockTypes: []*tfplugin6.Schema_NestedBlock{
				block("b_single", tfplugin6.Schema_NestedBlock_SINGLE),
				block("b_group", tfplugin6.Schema_NestedBlock_GROUP),
				block("b_list", tfplugin6.Schema_NestedBlock_LIST), block("b_set", tfplugin6.Schema_NestedBlock_SET),
				block("b_map", tfplugin6.Schema_NestedBlock_MAP),
			},
		}}
	}}, Options{})
	s, diags := p.Schemas(t.Context())
	noProblems(t, diags)
	element := cty.Object(map[string]cty.Type{"size": cty.Number})
	want := cty.Object(map[string]cty.Type{
		"a_single": element, "a_list": cty.List(element), "a_set": cty.Set(element), "a_map": cty.Map(element),
		"b_single": element, "b_group": element, "b_list": cty.List(element), "b_set": cty.Set(element),
		"b_map": cty.Map(element),
	})
	if got := s.Managed["all"].Block.ImpliedType(); !got.Equals(want) {
		t.Errorf("the implied type is %#v", got)
	}
	if !s.Provider.Block.Ephemeral || !s.Ephemeral["thing"].Block.Ephemeral || s.Managed["thing"].Block.Ephemeral {
		t.Error("blocks of the provider and of ephemeral resources take ephemeral values, others do not")
	}
}

func TestImpossibleSchemaIsAComplaintThatNamesItsPlace(t *testing.T) {
	attr := func(a *tfplugin6.Schema_Attribute) func(*tfplugin6.Schema_Block) {
		return func(b *tfplugin6.Schema_Block) { b.Attributes = append(b.Attributes, a) }
	}
	dynamic := []*tfplugin6.Schema_Attribute{{Name: "any", Type: []byte(`"dynamic"`), Optional: true}}
	for claim, c := range map[string]struct {
		breakIt func(*tfplugin6.Schema_Block)
		place   string
	}{
		"an unreadable type": {attr(&tfplugin6.Schema_Attribute{Name: "x", Type: []byte(`"strong"`),
			Optional: true}), "at x: its type cannot be read"},
		"no type at all": {attr(&tfplugin6.Schema_Attribute{Name: "x", Optional: true}),
			"at x: its type cannot be read"},
		"required and computed": {attr(&tfplugin6.Schema_Attribute{Name: "x", Type: []byte(`"string"`),
			Required: true, Computed: true}), "at x: it is required and"},
		"neither of the three": {attr(&tfplugin6.Schema_Attribute{Name: "x", Type: []byte(`"string"`)}),
			"at x: it is neither"},
		"unknown nesting of objects": {attr(&tfplugin6.Schema_Attribute{Name: "x", Optional: true,
			NestedType: &tfplugin6.Schema_Object{Nesting: 9}}), "at x: the nesting mode"},
		"a set of inexact objects": {attr(&tfplugin6.Schema_Attribute{Name: "x", Optional: true,
			NestedType: &tfplugin6.Schema_Object{Nesting: tfplugin6.Schema_Object_SET, Attributes: dynamic}}),
			"at x: a set"},
		"unknown nesting of blocks": {func(b *tfplugin6.Schema_Block) {
			b.BlockTypes = append(b.BlockTypes, &tfplugin6.Schema_NestedBlock{TypeName: "y",
				Block: &tfplugin6.Schema_Block{}})
		}, "at y: the nesting mode"},
		"a set of inexact blocks": {func(b *tfplugin6.Schema_Block) {
			b.BlockTypes = append(b.BlockTypes, &tfplugin6.Schema_NestedBlock{TypeName: "y",
				Nesting: tfplugin6.Schema_NestedBlock_SET, Block: &tfplugin6.Schema_Block{Attributes: dynamic}})
		}, "at y: a set"},
		"one name twice": {func(b *tfplugin6.Schema_Block) {
			b.BlockTypes = append(b.BlockTypes, &tfplugin6.Schema_NestedBlock{TypeName: "name",
				Nesting: tfplugin6.Schema_NestedBlock_LIST, Block: &tfplugin6.Schema_Block{}})
		}, "at name: the name is"},
		"deep inside": {func(b *tfplugin6.Schema_Block) {
			b.BlockTypes = append(b.BlockTypes, &tfplugin6.Schema_NestedBlock{TypeName: "y",
				Nesting: tfplugin6.Schema_NestedBlock_LIST, Block: &tfplugin6.Schema_Block{
					Attributes: []*tfplugin6.Schema_Attribute{{Name: "z", Type: []byte("?"), Optional: true}},
				}})
		}, "at y.z: its type"},
	} {
		t.Run(claim, func(t *testing.T) {
			p := plugin6(t, &thing6{schema: func(r *tfplugin6.GetProviderSchema_Response) {
				c.breakIt(r.ResourceSchemas["thing"].Block)
			}}, Options{})
			s, diags := p.Schemas(t.Context())
			if s != nil {
				t.Error("there are schemas")
			}
			// The same message serves three kinds in thingSchema, so there are three complaints.
			if len(diags) != 3 || diags[0].Summary != "Invalid provider schema" {
				t.Fatalf("diagnostics: %v", diags)
			}
			if d := diags[0].Detail; !strings.Contains(d, c.place) || !strings.Contains(d, `resource type "thing"`) ||
				!strings.Contains(d, "example.com/test/thing") {
				t.Errorf("the detail does not name the place: %s", d)
			}
		})
	}
}

func TestProviderWithoutSchemaIsRefused(t *testing.T) {
	p := plugin6(t, &thing6{schema: func(r *tfplugin6.GetProviderSchema_Response) { r.Provider = nil }}, Options{})
	_, diags := p.Schemas(t.Context())
	onlyProblem(t, diags, "missing provider schema")
}

func TestIdentitiesAreOptional(t *testing.T) {
	t.Run("they are converted", func(t *testing.T) {
		p := plugin6(t, &thing6{identity: func() (*tfplugin6.GetResourceIdentitySchemas_Response, error) {
			return &tfplugin6.GetResourceIdentitySchemas_Response{IdentitySchemas: map[string]*tfplugin6.ResourceIdentitySchema{
				"thing": {Version: 7, IdentityAttributes: []*tfplugin6.ResourceIdentitySchema_IdentityAttribute{
					{Name: "id", Type: []byte(`"string"`), RequiredForImport: true},
					{Name: "zone", Type: []byte(`"string"`), OptionalForImport: true},
				}},
				"stranger": {},
			}}, nil
		}}, Options{})
		s, diags := p.Schemas(t.Context())
		noProblems(t, diags)
		id := s.Identities["thing"]
		if len(s.Identities) != 1 || id.Version != 7 || id.Body.Nesting != schema.NestingSingle ||
			!id.Body.Attributes["id"].Required || !id.Body.Attributes["zone"].Optional {
			t.Errorf("identities: %+v", s.Identities)
		}
	})
	t.Run("a plugin that fails to tell them is used without", func(t *testing.T) {
		var logged string
		p := plugin6(t, &thing6{identity: func() (*tfplugin6.GetResourceIdentitySchemas_Response, error) {
			return nil, errors.New("cannot")
		}}, Options{Log: func(message string, _ ...any) { logged = message }})
		s, diags := p.Schemas(t.Context())
		noProblems(t, diags)
		if len(s.Identities) != 0 || logged == "" {
			t.Errorf("identities %v, logged %q", s.Identities, logged)
		}
	})
}

func TestMetadataOfAPluginThatCannotTellItComesFromItsSchemas(t *testing.T) {
	p := plugin6(t, &thing6{}, Options{})
	m, diags := p.Metadata(t.Context())
	noProblems(t, diags)
	if strings.Join(m.Managed, " ") != "thing" || strings.Join(m.Ephemeral, " ") != "thing" ||
		strings.Join(m.Functions, " ") != "join" {
		t.Errorf("metadata: %+v", m)
	}
}

func TestUnknownProtocolVersionIsRefused(t *testing.T) {
	if _, err := New(nil, 7, Options{}); err == nil || !strings.Contains(err.Error(), "7") {
		t.Errorf("the error is %v", err)
	}
}

func TestWaitingForAnothersFetchEndsWithTheContext(t *testing.T) {
	p := plugin6(t, &thing6{}, Options{})
	p.options.Schemas.turn <- struct{}{} // somebody fetches, and never ends
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, diags := p.Schemas(ctx)
	onlyProblem(t, diags, "Request cancelled")
}
