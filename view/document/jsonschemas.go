package document

import (
	"encoding/json"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
)

type jsonProvider struct {
	Provider   *jsonSchema                    `json:"provider,omitempty"`
	Managed    map[string]*jsonSchema         `json:"resource_schemas,omitempty"`
	Data       map[string]*jsonSchema         `json:"data_source_schemas,omitempty"`
	Ephemeral  map[string]*jsonSchema         `json:"ephemeral_resource_schemas,omitempty"`
	Lists      map[string]*jsonSchema         `json:"list_resource_schemas,omitempty"`
	Actions    map[string]jsonAction          `json:"action_schemas,omitempty"`
	Functions  map[string]jsonFunction        `json:"functions,omitempty"`
	Identities map[string]*jsonIdentitySchema `json:"resource_identity_schemas,omitempty"`
}

type jsonSchema struct {
	Version int64      `json:"version"`
	Block   *jsonBlock `json:"block,omitempty"`
}

// jsonAction is the schema of an action, which has no version.
type jsonAction struct {
	Block *jsonBlock `json:"block,omitempty"`
}

type jsonBlock struct {
	Attributes         map[string]*jsonAttribute `json:"attributes,omitempty"`
	Blocks             map[string]*jsonNested    `json:"block_types,omitempty"`
	Description        string                    `json:"description,omitempty"`
	DescriptionKind    string                    `json:"description_kind,omitempty"`
	Deprecated         bool                      `json:"deprecated,omitempty"`
	DeprecationMessage string                    `json:"deprecation_message,omitempty"`
}

type jsonNested struct {
	Nesting  string     `json:"nesting_mode,omitempty"`
	Block    *jsonBlock `json:"block,omitempty"`
	MinItems int        `json:"min_items,omitempty"`
	MaxItems int        `json:"max_items,omitempty"`
}

type jsonAttribute struct {
	Type               json.RawMessage `json:"type,omitempty"`
	Nested             *jsonObject     `json:"nested_type,omitempty"`
	Description        string          `json:"description,omitempty"`
	DescriptionKind    string          `json:"description_kind,omitempty"`
	Deprecated         bool            `json:"deprecated,omitempty"`
	DeprecationMessage string          `json:"deprecation_message,omitempty"`
	Required           bool            `json:"required,omitempty"`
	Optional           bool            `json:"optional,omitempty"`
	Computed           bool            `json:"computed,omitempty"`
	Sensitive          bool            `json:"sensitive,omitempty"`
	WriteOnly          bool            `json:"write_only,omitempty"`
}

type jsonObject struct {
	Attributes map[string]*jsonAttribute `json:"attributes,omitempty"`
	Nesting    string                    `json:"nesting_mode,omitempty"`
}

type jsonIdentitySchema struct {
	Version    int64                            `json:"version"`
	Attributes map[string]jsonIdentityAttribute `json:"attributes,omitempty"`
}

type jsonIdentityAttribute struct {
	Type              json.RawMessage `json:"type,omitempty"`
	Description       string          `json:"description,omitempty"`
	RequiredForImport bool            `json:"required_for_import,omitempty"`
	OptionalForImport bool            `json:"optional_for_import,omitempty"`
}

type jsonFunction struct {
	Description       string          `json:"description"`
	Summary           string          `json:"summary"`
	Return            json.RawMessage `json:"return_type"`
	Parameters        []jsonParameter `json:"parameters,omitempty"`
	VariadicParameter *jsonParameter  `json:"variadic_parameter,omitempty"`
}

type jsonParameter struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Type        json.RawMessage `json:"type"`
	IsNullable  bool            `json:"is_nullable,omitempty"`
}

// ProviderSchemasJSON returns the output of `providers schema -json`.
func ProviderSchemasJSON(all map[addr.Provider]*provider.Schemas) ([]byte, error) {
	out := struct {
		FormatVersion string                  `json:"format_version"`
		Schemas       map[string]jsonProvider `json:"provider_schemas,omitempty"`
	}{schemasFormat, make(map[string]jsonProvider, len(all))}
	for p, s := range all {
		form := providerForm(s)
		if p.IsBuiltin() {
			form.Provider = &jsonSchema{} // has no configuration
		}
		out.Schemas[p.String()] = form
	}
	return line(out)
}

func providerForm(s *provider.Schemas) jsonProvider {
	out := jsonProvider{
		Provider: schemaForm(s.Provider), Managed: schemaForms(s.Managed), Data: schemaForms(s.Data),
		Ephemeral: schemaForms(s.Ephemeral), Lists: schemaForms(s.Lists), Actions: map[string]jsonAction{},
		Functions: make(map[string]jsonFunction, len(s.Functions)), Identities: map[string]*jsonIdentitySchema{},
	}
	for name, a := range s.Actions {
		out.Actions[name] = jsonAction{schemaForm(a).Block}
	}
	for name, f := range s.Functions {
		out.Functions[name] = functionFormOf(f)
	}
	for name, id := range s.Identities {
		form := &jsonIdentitySchema{Version: id.Version, Attributes: map[string]jsonIdentityAttribute{}}
		for attr, a := range id.Body.Attributes {
			form.Attributes[attr] = jsonIdentityAttribute{
				Type: typeForm(a.ImpliedType()), Description: a.Description, RequiredForImport: a.Required,
				OptionalForImport: a.Optional,
			}
		}
		out.Identities[name] = form
	}
	return out
}

func schemaForms(m map[string]schema.Schema) map[string]*jsonSchema {
	out := make(map[string]*jsonSchema, len(m))
	for name, s := range m {
		out[name] = schemaForm(s)
	}
	return out
}

func schemaForm(s schema.Schema) *jsonSchema {
	if s.Block == nil {
		return &jsonSchema{}
	}
	return &jsonSchema{Version: s.Version, Block: blockForm(s.Block)}
}

func blockForm(b *schema.Block) *jsonBlock {
	out := &jsonBlock{
		Attributes: attributeForms(b.Attributes), Blocks: make(map[string]*jsonNested, len(b.Blocks)),
		Description: b.Description, DescriptionKind: kindWord(b.DescriptionKind),
		Deprecated: b.Deprecated, DeprecationMessage: b.DeprecationMessage,
	}
	for name, nb := range b.Blocks {
		out.Blocks[name] = &jsonNested{Nesting: nestingWord(nb.Nesting), Block: blockForm(&nb.Block),
			MinItems: nb.MinItems, MaxItems: nb.MaxItems}
	}
	return out
}

func attributeForms(m map[string]*schema.Attribute) map[string]*jsonAttribute {
	out := make(map[string]*jsonAttribute, len(m))
	for name, a := range m {
		form := &jsonAttribute{
			Description: a.Description, DescriptionKind: kindWord(a.DescriptionKind),
			Deprecated: a.Deprecated, DeprecationMessage: a.DeprecationMessage,
			Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive,
			WriteOnly: a.WriteOnly,
		}
		if a.Nested != nil {
			form.Nested = &jsonObject{Attributes: attributeForms(a.Nested.Attributes),
				Nesting: nestingWord(a.Nested.Nesting)}
		} else if a.Type != cty.NilType {
			form.Type = typeForm(a.Type)
		}
		out[name] = form
	}
	return out
}

func functionFormOf(f provider.Function) jsonFunction {
	out := jsonFunction{Description: f.Description, Summary: f.Summary, Return: typeForm(f.Return)}
	for _, p := range f.Parameters {
		out.Parameters = append(out.Parameters, parameterForm(p))
	}
	if f.VariadicParameter != nil {
		p := parameterForm(*f.VariadicParameter)
		out.VariadicParameter = &p
	}
	return out
}

func parameterForm(p provider.Parameter) jsonParameter {
	return jsonParameter{Name: p.Name, Description: p.Description, Type: typeForm(p.Type), IsNullable: p.AllowNullValue}
}

func kindWord(k schema.StringKind) string {
	if k == schema.Markdown {
		return "markdown"
	}
	return "plain"
}

func nestingWord(n schema.Nesting) string {
	switch n {
	case schema.NestingSingle:
		return "single"
	case schema.NestingGroup:
		return "group"
	case schema.NestingList:
		return "list"
	case schema.NestingSet:
		return "set"
	case schema.NestingMap:
		return "map"
	default:
		return "invalid"
	}
}
