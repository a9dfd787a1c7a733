package view_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view/document"
)

// The JSON form of schemas and plans, for decoding.
type (
	jsonSchemas struct {
		Schemas map[string]jsonProvider `json:"provider_schemas"`
	}
	jsonProvider struct {
		Provider   jsonSchema              `json:"provider"`
		Managed    map[string]jsonSchema   `json:"resource_schemas"`
		Data       map[string]jsonSchema   `json:"data_source_schemas"`
		Ephemeral  map[string]jsonSchema   `json:"ephemeral_resource_schemas,omitempty"`
		Functions  map[string]jsonFunction `json:"functions,omitempty"`
		Identities map[string]struct {
			Version    int64
			Attributes map[string]struct {
				Type        json.RawMessage
				Description string
				Required    bool `json:"required_for_import"`
				Optional    bool `json:"optional_for_import"`
			}
		} `json:"resource_identity_schemas,omitempty"`
	}
	jsonSchema struct {
		Version int64     `json:"version"`
		Block   jsonBlock `json:"block"`
	}
	jsonBlock struct {
		Attributes         map[string]jsonAttribute `json:"attributes,omitempty"`
		Blocks             map[string]jsonNested    `json:"block_types,omitempty"`
		Description        string                   `json:"description,omitempty"`
		DescriptionKind    string                   `json:"description_kind,omitempty"`
		Deprecated         bool                     `json:"deprecated,omitempty"`
		DeprecationMessage string                   `json:"deprecation_message,omitempty"`
	}
	jsonNested struct {
		Nesting  string    `json:"nesting_mode"`
		Block    jsonBlock `json:"block"`
		MinItems int       `json:"min_items,omitempty"`
		MaxItems int       `json:"max_items,omitempty"`
	}
	jsonAttribute struct {
		Type   json.RawMessage `json:"type,omitempty"`
		Nested *struct {
			Attributes map[string]jsonAttribute `json:"attributes"`
			Nesting    string                   `json:"nesting_mode"`
		} `json:"nested_type,omitempty"`
		Description        string `json:"description,omitempty"`
		DescriptionKind    string `json:"description_kind,omitempty"`
		Deprecated         bool   `json:"deprecated,omitempty"`
		DeprecationMessage string `json:"deprecation_message,omitempty"`
		Required           bool   `json:"required,omitempty"`
		Optional           bool   `json:"optional,omitempty"`
		Computed           bool   `json:"computed,omitempty"`
		Sensitive          bool   `json:"sensitive,omitempty"`
		WriteOnly          bool   `json:"write_only,omitempty"`
	}
	jsonFunction struct {
		Description, Summary string
		Return               json.RawMessage `json:"return_type"`
		Parameters           []jsonParameter
		Variadic             *jsonParameter `json:"variadic_parameter"`
	}
	jsonParameter struct {
		Name, Description string
		Type              json.RawMessage
		Nullable          bool `json:"is_nullable"`
	}
	jsonChanged struct {
		Actions         []string
		Before, After   any
		AfterUnknown    any     `json:"after_unknown"`
		BeforeSensitive any     `json:"before_sensitive"`
		AfterSensitive  any     `json:"after_sensitive"`
		ReplacePaths    [][]any `json:"replace_paths"`
		Importing       *struct {
			ID       string
			Identity map[string]any
		}
		GeneratedConfig string `json:"generated_config"`
		BeforeIdentity  any    `json:"before_identity"`
		AfterIdentity   any    `json:"after_identity"`
	}
	jsonResourceChanged struct {
		Address         string
		PreviousAddress string `json:"previous_address"`
		Mode, Type      string
		ProviderName    string `json:"provider_name"`
		Deposed         string
		Change          jsonChanged
		ActionReason    string `json:"action_reason"`
	}
)

func (b jsonBlock) schema() *schema.Block {
	out := &schema.Block{
		Attributes: attributes(b.Attributes), Blocks: map[string]*schema.NestedBlock{}, Description: b.Description,
		DescriptionKind: kinds[b.DescriptionKind], Deprecated: b.Deprecated, DeprecationMessage: b.DeprecationMessage,
	}
	for name, nb := range b.Blocks {
		out.Blocks[name] = &schema.NestedBlock{Block: *nb.Block.schema(), Nesting: nestings[nb.Nesting],
			MinItems: nb.MinItems, MaxItems: nb.MaxItems}
	}
	return out
}

var (
	kinds    = map[string]schema.StringKind{"plain": schema.Plain, "markdown": schema.Markdown}
	nestings = map[string]schema.Nesting{
		"single": schema.NestingSingle, "group": schema.NestingGroup, "list": schema.NestingList,
		"set": schema.NestingSet, "map": schema.NestingMap,
	}
)

func attributes(m map[string]jsonAttribute) map[string]*schema.Attribute {
	out := map[string]*schema.Attribute{}
	for name, a := range m {
		sa := &schema.Attribute{
			Description: a.Description, DescriptionKind: kinds[a.DescriptionKind], Deprecated: a.Deprecated,
			DeprecationMessage: a.DeprecationMessage,
			Required:           a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive,
			WriteOnly: a.WriteOnly,
		}
		if a.Nested != nil {
			sa.Nested = &schema.Object{Attributes: attributes(a.Nested.Attributes), Nesting: nestings[a.Nested.Nesting]}
		} else {
			sa.Type = typeOf(a.Type)
		}
		out[name] = sa
	}
	return out
}

func typeOf(form json.RawMessage) cty.Type {
	ty, err := ctyjson.UnmarshalType(form)
	if err != nil {
		panic(err)
	}
	return ty
}

// schemasOf reads the schemas of all providers from their JSON form.
func schemasOf(t *testing.T, form []byte) map[addr.Provider]*provider.Schemas {
	var js jsonSchemas
	if err := json.Unmarshal(form, &js); err != nil {
		t.Fatal(err)
	}
	resources := func(m map[string]jsonSchema) map[string]schema.Schema {
		out := map[string]schema.Schema{}
		for name, s := range m {
			out[name] = schema.Schema{Version: s.Version, Block: s.Block.schema()}
		}
		return out
	}
	parameter := func(p jsonParameter) provider.Parameter {
		return provider.Parameter{Name: p.Name, Description: p.Description, Type: typeOf(p.Type),
			AllowNullValue: p.Nullable}
	}
	out := map[addr.Provider]*provider.Schemas{}
	for name, p := range js.Schemas {
		s := &provider.Schemas{
			Provider: schema.Schema{Version: p.Provider.Version, Block: p.Provider.Block.schema()},
			Managed:  resources(p.Managed), Data: resources(p.Data), Ephemeral: resources(p.Ephemeral),
			Functions: map[string]provider.Function{}, Identities: map[string]schema.Identity{},
		}
		for n, f := range p.Functions {
			pf := provider.Function{Description: f.Description, Summary: f.Summary, Return: typeOf(f.Return)}
			for _, fp := range f.Parameters {
				pf.Parameters = append(pf.Parameters, parameter(fp))
			}
			if f.Variadic != nil {
				v := parameter(*f.Variadic)
				pf.VariadicParameter = &v
			}
			s.Functions[n] = pf
		}
		for n, id := range p.Identities {
			o := &schema.Object{Attributes: map[string]*schema.Attribute{}, Nesting: schema.NestingSingle}
			for an, a := range id.Attributes {
				o.Attributes[an] = &schema.Attribute{Type: typeOf(a.Type), Description: a.Description,
					Required: a.Required, Optional: a.Optional}
			}
			s.Identities[n] = schema.Identity{Version: id.Version, Body: o}
		}
		out[providerOf(name)] = s
	}
	return out
}

// The schemas of time, fleet and fleet5, as OpenTofu 1.12.6 wrote them, are reproduced exactly.
func TestSchemasInJSONAreAsOpenTofuWritesThem(t *testing.T) {
	want, err := os.ReadFile("testdata/tofu-schemas.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := document.ProviderSchemasJSON(schemasOf(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("-OpenTofu +Millipede\n%s", d)
	}
}

// planOf reads a plan from its JSON form, as far as its text needs it.
func planOf(t *testing.T, planJSON, schemasJSON []byte) (*plan.Plan, *values.Schemas) {
	schemas := values.NewSchemas(schemasOf(t, schemasJSON))
	var jp struct {
		ResourceChanges    []jsonResourceChanged  `json:"resource_changes"`
		ResourceDrift      []jsonResourceChanged  `json:"resource_drift"`
		OutputChanges      map[string]jsonChanged `json:"output_changes"`
		RelevantAttributes []struct {
			Resource  string
			Attribute []any
		} `json:"relevant_attributes"`
		Errored          bool
		TerraformVersion string `json:"terraform_version"`
	}
	d := json.NewDecoder(strings.NewReader(string(planJSON)))
	d.UseNumber()
	if err := d.Decode(&jp); err != nil {
		t.Fatal(err)
	}
	p := &plan.Plan{Errored: jp.Errored, EngineVersion: jp.TerraformVersion}
	for _, c := range jp.ResourceChanges {
		p.Changes = append(p.Changes, change(t, c, schemas))
	}
	for _, c := range jp.ResourceDrift {
		p.Drift = append(p.Drift, change(t, c, schemas))
	}
	for name, c := range jp.OutputChanges {
		p.Outputs = append(p.Outputs, &plan.OutputChange{
			Name: name, Action: action(c.Actions), Sensitive: c.AfterSensitive == true,
			BeforeSensitive: c.BeforeSensitive == true,
			Before:          value(cty.DynamicPseudoType, c.Before, nil, nil),
			After: value(cty.DynamicPseudoType, c.After,
				c.AfterUnknown, nil),
		})
	}
	for _, r := range jp.RelevantAttributes {
		p.Relevant = append(p.Relevant, plan.Relevant{Resource: instance(t, r.Resource), Attribute: path(r.Attribute)})
	}
	return p, schemas
}

func providerOf(name string) addr.Provider {
	parts := strings.Split(name, "/")
	return addr.Provider{Host: parts[0], Namespace: parts[1], Type: parts[2]}
}

func instance(t *testing.T, text string) addr.Instance {
	a, diags := addr.ParseInstance(text)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return a
}

func action(words []string) plan.Action {
	switch text := strings.Join(words, "-"); text {
	case "create-delete":
		return plan.CreateThenDelete
	default:
		return plan.Action(text)
	}
}

func change(t *testing.T, c jsonResourceChanged, schemas *values.Schemas) *plan.Change {
	out := &plan.Change{
		Addr: instance(t, c.Address), Deposed: state.DeposedKey(c.Deposed), Action: action(c.Change.Actions),
		Provider: addr.ProviderInstance{Provider: providerOf(c.ProviderName)}, Reason: plan.Reason(c.ActionReason),
		GeneratedConfig: c.Change.GeneratedConfig,
	}
	out.Previous = out.Addr
	if c.PreviousAddress != "" {
		out.Previous = instance(t, c.PreviousAddress)
	}
	s := schemas.Resource(out.Provider.Provider, out.Addr.Resource.Mode, out.Addr.Resource.Type)
	ty := s.Block.ImpliedType()
	out.SchemaVersion = s.Version
	out.Before = value(ty, c.Change.Before, nil, c.Change.BeforeSensitive)
	out.After = value(ty, c.Change.After, c.Change.AfterUnknown, c.Change.AfterSensitive)
	if c.Change.BeforeIdentity != nil {
		out.BeforeIdentity = value(cty.DynamicPseudoType, c.Change.BeforeIdentity, nil, nil)
	}
	if c.Change.AfterIdentity != nil {
		out.AfterIdentity, out.IdentityVersion = value(cty.DynamicPseudoType, c.Change.AfterIdentity, nil, nil), 1
	}
	for _, p := range c.Change.ReplacePaths {
		out.ReplacePaths = append(out.ReplacePaths, path(p))
	}
	if i := c.Change.Importing; i != nil {
		out.Importing = &plan.Importing{ID: i.ID}
		if i.Identity != nil {
			out.Importing.Identity = value(cty.DynamicPseudoType, i.Identity, nil, nil)
		}
	}
	return out
}

func path(steps []any) cty.Path {
	var out cty.Path
	for _, s := range steps {
		switch s := s.(type) {
		case string:
			out = append(out, cty.GetAttrStep{Name: s})
		case json.Number:
			out = append(out, cty.IndexStep{Key: cty.MustParseNumberVal(s.String())})
		}
	}
	return out
}

// value decodes a value from its JSON, with the forms that mark its unknown and sensitive parts.
func value(ty cty.Type, v, unknown, sensitive any) cty.Value {
	out := bareValue(ty, v, unknown, sensitive)
	if sensitive == true {
		out = out.Mark(marks.Sensitive)
	}
	return out
}

func bareValue(ty cty.Type, v, unknown, sensitive any) cty.Value {
	if unknown == true {
		return cty.UnknownVal(ty)
	}
	unknowns, _ := unknown.(map[string]any)
	hidden, _ := sensitive.(map[string]any)
	switch v := v.(type) {
	case nil:
		return cty.NullVal(ty)
	case bool:
		return cty.BoolVal(v)
	case json.Number:
		return cty.MustParseNumberVal(v.String())
	case string:
		return cty.StringVal(v)
	case map[string]any:
		names := map[string]bool{}
		for name := range v {
			names[name] = true
		}
		for name := range unknowns {
			names[name] = true
		}
		if ty.IsObjectType() {
			for name := range ty.AttributeTypes() {
				names[name] = true
			}
		}
		attrs := map[string]cty.Value{}
		for name := range names {
			aty := cty.DynamicPseudoType
			switch {
			case ty.IsObjectType():
				aty = ty.AttributeType(name)
			case ty.IsMapType():
				aty = ty.ElementType()
			}
			attrs[name] = value(aty, v[name], unknowns[name], hidden[name])
		}
		switch {
		case !ty.IsMapType():
			return cty.ObjectVal(attrs)
		case len(attrs) == 0:
			return cty.MapValEmpty(ty.ElementType())
		default:
			return cty.MapVal(attrs)
		}
	case []any:
		unknowns, _ := unknown.([]any)
		hidden, _ := sensitive.([]any)
		at := func(l []any, i int) any {
			if i < len(l) {
				return l[i]
			}
			return nil
		}
		var items []cty.Value
		for i, e := range v {
			ety := cty.DynamicPseudoType
			switch {
			case ty.IsTupleType():
				ety = ty.TupleElementType(i)
			case ty.IsCollectionType():
				ety = ty.ElementType()
			}
			items = append(items, value(ety, e, at(unknowns, i), at(hidden, i)))
		}
		switch {
		case ty.IsListType() && len(items) == 0:
			return cty.ListValEmpty(ty.ElementType())
		case ty.IsListType():
			return cty.ListVal(items)
		case ty.IsSetType() && len(items) == 0:
			return cty.SetValEmpty(ty.ElementType())
		case ty.IsSetType():
			return cty.SetVal(items)
		default:
			return cty.TupleVal(items)
		}
	}
	panic("a value of an unknown JSON type")
}
