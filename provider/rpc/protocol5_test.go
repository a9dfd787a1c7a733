package rpc

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin5"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// Version 5 uses the messages of version 6. That is correct as long as each pair of corresponding messages has the same
// fields: number, kind and cardinality.
func TestMessagesOfVersion5AndVersion6LookTheSameOnTheWire(t *testing.T) {
	service5 := tfplugin5.File_tfplugin5_proto.Services().ByName("Provider")
	service6 := tfplugin6.File_tfplugin6_proto.Services().ByName("Provider")
	if n5, n6 := service5.Methods().Len(), service6.Methods().Len(); n5 != n6 {
		t.Errorf("version 5 has %d methods, version 6 has %d", n5, n6)
	}
	c := comparison{seen: map[protoreflect.FullName]bool{}}
	for i := range service6.Methods().Len() {
		m6 := service6.Methods().Get(i)
		full := renamed("/tfplugin6.Provider/" + string(m6.Name()))
		m5 := service5.Methods().ByName(protoreflect.Name(full[strings.LastIndex(full, "/")+1:]))
		if m5 == nil {
			t.Errorf("version 5 has no %s", full)
			continue
		}
		if m6.Name() == "GetProviderSchema" {
			continue // fetched with the stub of version 5
		}
		c.messages(m6.Input(), m5.Input())
		c.messages(m6.Output(), m5.Output())
	}
	for _, difference := range c.differences {
		t.Error(difference)
	}
}

type comparison struct {
	seen        map[protoreflect.FullName]bool
	differences []string
}

func (c *comparison) messages(m6, m5 protoreflect.MessageDescriptor) {
	if c.seen[m6.FullName()] {
		return
	}
	c.seen[m6.FullName()] = true
	for i := range m6.Fields().Len() {
		f6 := m6.Fields().Get(i)
		f5 := m5.Fields().ByNumber(f6.Number())
		switch {
		case f5 == nil:
			c.differ(f6, "is not in version 5")
		case f5.Name() != f6.Name() || f5.Kind() != f6.Kind() || f5.Cardinality() != f6.Cardinality() ||
			f5.IsMap() != f6.IsMap():
			c.differ(f6, "is %s %s %s in version 5", f5.Cardinality(), f5.Kind(), f5.Name())
		case f6.Message() != nil:
			c.messages(f6.Message(), f5.Message())
		case f6.Enum() != nil:
			for j := range f6.Enum().Values().Len() {
				v6 := f6.Enum().Values().Get(j)
				if v5 := f5.Enum().Values().ByNumber(v6.Number()); v5 == nil || v5.Name() != v6.Name() {
					c.differ(f6, "has the value %s, which version 5 has not", v6.Name())
				}
			}
		}
	}
	for i := range m5.Fields().Len() {
		f5 := m5.Fields().Get(i)
		// A plugin's prepared configuration is not used, see ValidateProviderConfig.
		if m6.Fields().ByNumber(f5.Number()) == nil && f5.Name() != "prepared_config" {
			c.differ(f5, "is not in version 6")
		}
	}
}

func (c *comparison) differ(f protoreflect.FieldDescriptor, format string, args ...any) {
	c.differences = append(c.differences, fmt.Sprintf("%s %s", f.FullName(), fmt.Sprintf(format, args...)))
}

// thing5 is a plugin of version 5 that creates things and records its requests.
type thing5 struct {
	tfplugin5.UnimplementedProviderServer
	configured, stopped string
}

func (s *thing5) GetSchema(context.Context, *tfplugin5.GetProviderSchema_Request) (
	*tfplugin5.GetProviderSchema_Response, error) {
	return &tfplugin5.GetProviderSchema_Response{
		Provider: &tfplugin5.Schema{Block: &tfplugin5.Schema_Block{Attributes: []*tfplugin5.Schema_Attribute{
			{Name: "region", Type: []byte(`"string"`), Optional: true},
		}}},
		ResourceSchemas: map[string]*tfplugin5.Schema{"thing": {Version: 3, Block: &tfplugin5.Schema_Block{
			Attributes: []*tfplugin5.Schema_Attribute{
				{Name: "name", Type: []byte(`"string"`), Required: true, Description: "a *name*",
					DescriptionKind: tfplugin5.StringKind_MARKDOWN},
				{Name: "id", Type: []byte(`"string"`), Computed: true, Deprecated: true,
					DeprecationMessage: "use name"},
				{Name: "secret", Type: []byte(`"string"`), Optional: true, WriteOnly: true, Sensitive: true},
			},
		}}},
		DataSourceSchemas: map[string]*tfplugin5.Schema{"nested": {Block: &tfplugin5.Schema_Block{
			BlockTypes: []*tfplugin5.Schema_NestedBlock{{
				TypeName: "part", Nesting: tfplugin5.Schema_NestedBlock_LIST, MinItems: 1, MaxItems: 4,
				Block: &tfplugin5.Schema_Block{Attributes: []*tfplugin5.Schema_Attribute{{Name: "size",
					Type: []byte(`"number"`), Required: true}}},
			}},
		}}},
		Functions: map[string]*tfplugin5.Function{"twice": {
			Parameters: []*tfplugin5.Function_Parameter{{Name: "text", Type: []byte(`"string"`)}},
			Return:     &tfplugin5.Function_Return{Type: []byte(`"string"`)},
		}},
		Diagnostics: []*tfplugin5.Diagnostic{{
			Severity: tfplugin5.Diagnostic_WARNING, Summary: "old",
			Attribute: &tfplugin5.AttributePath{Steps: []*tfplugin5.AttributePath_Step{
				{Selector: &tfplugin5.AttributePath_Step_AttributeName{AttributeName: "region"}}}},
		}},
		ServerCapabilities: &tfplugin5.ServerCapabilities{PlanDestroy: true},
	}, nil
}

func (s *thing5) PrepareProviderConfig(_ context.Context, r *tfplugin5.PrepareProviderConfig_Request) (
	*tfplugin5.PrepareProviderConfig_Response, error) {
	return &tfplugin5.PrepareProviderConfig_Response{
		PreparedConfig: r.Config,
		Diagnostics:    []*tfplugin5.Diagnostic{{Severity: tfplugin5.Diagnostic_ERROR, Summary: "no such region"}},
	}, nil
}

func (s *thing5) Configure(_ context.Context, r *tfplugin5.Configure_Request) (*tfplugin5.Configure_Response, error) {
	v, err := msgpack.Unmarshal(r.Config.Msgpack, cty.Object(map[string]cty.Type{"region": cty.String}))
	if err != nil {
		return nil, err
	}
	s.configured = r.TerraformVersion + " " + v.GetAttr("region").AsString()
	return &tfplugin5.Configure_Response{}, nil
}

func (s *thing5) ValidateResourceTypeConfig(_ context.Context, r *tfplugin5.ValidateResourceTypeConfig_Request) (
	*tfplugin5.ValidateResourceTypeConfig_Response, error) {
	if !r.ClientCapabilities.GetWriteOnlyAttributesAllowed() {
		return nil, fmt.Errorf("the engine cannot handle write-only attributes")
	}
	return &tfplugin5.ValidateResourceTypeConfig_Response{Diagnostics: []*tfplugin5.Diagnostic{{
		Severity: tfplugin5.Diagnostic_ERROR, Summary: "bad " + r.TypeName, Detail: "very",
		Attribute: &tfplugin5.AttributePath{Steps: []*tfplugin5.AttributePath_Step{
			{Selector: &tfplugin5.AttributePath_Step_AttributeName{AttributeName: "parts"}},
			{Selector: &tfplugin5.AttributePath_Step_ElementKeyInt{ElementKeyInt: 2}},
			{Selector: &tfplugin5.AttributePath_Step_ElementKeyString{ElementKeyString: "k"}},
		}},
	}}}, nil
}

func (s *thing5) PlanResourceChange(_ context.Context, r *tfplugin5.PlanResourceChange_Request) (
	*tfplugin5.PlanResourceChange_Response, error) {
	return &tfplugin5.PlanResourceChange_Response{
		PlannedState:     r.ProposedNewState,
		PlannedPrivate:   []byte("planned"),
		LegacyTypeSystem: true,
		RequiresReplace: []*tfplugin5.AttributePath{{Steps: []*tfplugin5.AttributePath_Step{
			{Selector: &tfplugin5.AttributePath_Step_AttributeName{AttributeName: "name"}},
		}}},
	}, nil
}

func (s *thing5) Stop(context.Context, *tfplugin5.Stop_Request) (*tfplugin5.Stop_Response, error) {
	s.stopped = "yes"
	return &tfplugin5.Stop_Response{Error: "not at once"}, nil
}

func TestProviderOfVersion5IsUsedLikeOneOfVersion6(t *testing.T) {
	ctx := t.Context()
	server := &thing5{}
	p := plugin5(t, server, Options{})

	s, diags := p.Schemas(ctx)
	if d := onlyProblem(t, diags, "old"); d.Severity != diag.Warning || !d.Path.Equals(cty.GetAttrPath("region")) {
		t.Errorf("the warning of the schema became %#v", d)
	}
	if s.ProtocolVersion != 5 || !s.Capabilities.PlanDestroy || s.Managed["thing"].Version != 3 {
		t.Errorf("the schemas lack something: %+v", s)
	}
	attrs := s.Managed["thing"].Block.Attributes
	if a := attrs["name"]; !a.Required || a.Description != "a *name*" || a.DescriptionKind != schema.Markdown ||
		a.Type != cty.String {
		t.Errorf("attribute name: %+v", a)
	}
	if a := attrs["id"]; !a.Computed || !a.Deprecated || a.DeprecationMessage != "use name" {
		t.Errorf("attribute id: %+v", a)
	}
	if a := attrs["secret"]; !a.WriteOnly || !a.Sensitive || !a.Optional {
		t.Errorf("attribute secret: %+v", a)
	}
	if b := s.Data["nested"].Block.Blocks["part"]; b.Nesting != schema.NestingList || b.MinItems != 1 ||
		b.MaxItems != 4 || b.Attributes["size"].Type != cty.Number {
		t.Errorf("block part: %+v", b)
	}
	if f := s.Functions["twice"]; f.Return != cty.String || len(f.Parameters) != 1 || f.Parameters[0].Name != "text" {
		t.Errorf("function twice: %+v", f)
	}

	config := cty.ObjectVal(map[string]cty.Value{"region": cty.StringVal("north")})
	_, diags = p.ValidateProviderConfig(ctx, config)
	onlyProblem(t, diags, "no such region")
	noProblems(t, p.Configure(ctx, config, "1.12.6"))
	if server.configured != "1.12.6 north" {
		t.Errorf("the plugin was configured with %q", server.configured)
	}

	d := onlyProblem(t, p.ValidateResourceConfig(ctx, "thing", thing(cty.StringVal("a"), cty.NullVal(cty.String))),
		"bad thing")
	if want := cty.GetAttrPath("parts").IndexInt(2).IndexString("k"); !d.Path.Equals(want) || d.Detail != "very" {
		t.Errorf("the diagnostic became %#v", d)
	}

	proposed := thing(cty.StringVal("a"), cty.UnknownVal(cty.String))
	planned, diags := p.PlanResourceChange(ctx, provider.PlanRequest{TypeName: "thing", Proposed: proposed,
		Config: proposed})
	noProblems(t, diags)
	if !planned.Planned.RawEquals(proposed) || string(planned.Private) != "planned" || !planned.LegacyTypeSystem ||
		len(planned.RequiresReplace) != 1 {
		t.Errorf("the plan came back as %#v", planned)
	}

	if err := p.Stop(ctx); err == nil || err.Error() != "not at once" || server.stopped != "yes" {
		t.Errorf("stopping: %v, %q", err, server.stopped)
	}
}
