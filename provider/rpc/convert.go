package rpc

import (
	"fmt"
	"sort"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// converter converts a plugin's schemas and collects the problems. Schemas with problems must not be used: their
// implied types may be impossible.
type converter struct {
	name     string              // of the provider
	types    map[string]cty.Type // by JSON form: a provider has thousands of attributes and few types
	problems diag.List

	owner  string // a description of the converted object, for problems
	before int    // the number of problems before it
	loose  bool   // whether rules that are only recommendations are skipped
	depth  int    // the number of enclosing blocks and nested types
}

// maxNesting is the maximum depth of blocks and nested types. Deeper schemas cannot be transmitted
// (wire.DecodeSchemas), and computing their types takes time quadratic in their depth.
const maxNesting = 50

// enter reports whether the next nesting level may be converted; leave ends it.
func (c *converter) enter(at string) bool {
	if c.depth == maxNesting {
		c.report(at[:min(len(at), 100)], fmt.Sprintf("blocks and types are nested deeper than %d", maxNesting))
		return false
	}
	c.depth++
	return true
}

func (c *converter) leave() { c.depth-- }

func (c *converter) begin(owner string) { c.owner, c.before = owner, len(c.problems) }

func (c *converter) schemas(from *tfplugin6.GetProviderSchema_Response,
	identities map[string]*tfplugin6.ResourceIdentitySchema) *provider.Schemas {
	to := &provider.Schemas{
		Managed:      make(map[string]schema.Schema, len(from.ResourceSchemas)),
		Data:         make(map[string]schema.Schema, len(from.DataSourceSchemas)),
		Ephemeral:    make(map[string]schema.Schema, len(from.EphemeralResourceSchemas)),
		Lists:        make(map[string]schema.Schema, len(from.ListResourceSchemas)),
		Actions:      make(map[string]schema.Schema, len(from.ActionSchemas)),
		Identities:   make(map[string]schema.Identity, len(identities)),
		Functions:    make(map[string]provider.Function, len(from.Functions)),
		Capabilities: capabilities(from.ServerCapabilities),
	}
	c.loose = true
	c.begin("its configuration")
	if from.Provider == nil {
		c.problems = c.problems.Append(diag.New(diag.Error, "missing provider schema",
			fmt.Sprintf("Provider %s declares no schema for its configuration. This is a bug in the provider.", c.name),
			nil))
		return to
	}
	to.Provider = c.schema(from.Provider)
	to.Provider.Block.Ephemeral = true
	if from.ProviderMeta != nil {
		c.begin("its provider_meta blocks")
		to.ProviderMeta = c.schema(from.ProviderMeta)
	}
	c.loose = false
	for _, name := range sortedKeys(from.ResourceSchemas) {
		c.begin(fmt.Sprintf("resource type %q", name))
		to.Managed[name] = c.schema(from.ResourceSchemas[name])
	}
	for _, name := range sortedKeys(from.DataSourceSchemas) {
		c.begin(fmt.Sprintf("data source %q", name))
		to.Data[name] = c.schema(from.DataSourceSchemas[name])
	}
	for _, name := range sortedKeys(from.EphemeralResourceSchemas) {
		c.begin(fmt.Sprintf("ephemeral resource type %q", name))
		s := c.schema(from.EphemeralResourceSchemas[name])
		s.Block.Ephemeral = true
		to.Ephemeral[name] = s
	}
	for _, name := range sortedKeys(from.ListResourceSchemas) {
		c.begin(fmt.Sprintf("the list of resource type %q", name))
		to.Lists[name] = c.schema(from.ListResourceSchemas[name])
	}
	for _, name := range sortedKeys(from.ActionSchemas) {
		c.begin(fmt.Sprintf("action %q", name))
		if s := from.ActionSchemas[name].GetSchema(); s != nil {
			to.Actions[name] = c.schema(s)
		}
	}
	for _, name := range sortedKeys(from.Functions) {
		c.begin(fmt.Sprintf("function %q", name))
		to.Functions[name] = c.function(from.Functions[name])
	}
	for _, name := range sortedKeys(identities) {
		c.begin(fmt.Sprintf("the identity of resource type %q", name))
		if _, ok := to.Managed[name]; ok {
			to.Identities[name] = c.identity(identities[name])
		}
	}
	return to
}

func (c *converter) schema(from *tfplugin6.Schema) schema.Schema {
	if from.Version < 0 {
		c.rule("", "its version is negative")
	}
	return schema.Schema{Version: from.Version, Block: c.block(from.Block, "")}
}

// block converts a block; at is the path to it with a trailing dot, for problems.
func (c *converter) block(from *tfplugin6.Schema_Block, at string) *schema.Block {
	to := &schema.Block{}
	if from == nil {
		c.report(at, "there is no block")
		return to
	}
	if !c.enter(at) {
		return to
	}
	defer c.leave()
	to.Attributes = c.attributes(from.Attributes, at)
	to.Blocks = make(map[string]*schema.NestedBlock, len(from.BlockTypes))
	to.Description = from.Description
	to.DescriptionKind = stringKind(from.DescriptionKind)
	to.Deprecated = from.Deprecated
	to.DeprecationMessage = from.DeprecationMessage
	for _, nb := range from.BlockTypes {
		name := at + nb.TypeName
		if _, taken := to.Attributes[nb.TypeName]; taken {
			c.report(name, "the name is that of an attribute and that of a block type")
		}
		n := &schema.NestedBlock{
			Block:    *c.block(nb.Block, name+"."),
			Nesting:  blockNesting[nb.Nesting],
			MinItems: int(nb.MinItems),
			MaxItems: int(nb.MaxItems),
		}
		c.checkNesting(n, name)
		to.Blocks[nb.TypeName] = n
	}
	return to
}

// checkNesting reports invalid limits, as OpenTofu does, and nestings that have no implied type.
func (c *converter) checkNesting(nb *schema.NestedBlock, at string) {
	switch nb.Nesting {
	case schema.NestingInvalid:
		c.report(at, "the nesting mode is unknown")
	case schema.NestingSingle:
		if nb.MinItems > 1 || nb.MaxItems > 1 {
			c.rule(at, "a block that occurs at most once has other limits")
		}
	case schema.NestingGroup, schema.NestingMap:
		if nb.MinItems != 0 || nb.MaxItems != 0 {
			c.rule(at, "the nesting mode allows no limits, and there are some")
		}
	case schema.NestingList, schema.NestingSet:
		if nb.MaxItems != 0 && nb.MinItems > nb.MaxItems {
			c.rule(at, "the lower limit is above the upper one")
		}
		if nb.Nesting == schema.NestingSet && c.sound() && nb.Block.ImpliedType().HasDynamicTypes() {
			c.report(at, "a set has elements of a type that is not exact")
		}
	}
	if nb.MinItems < 0 || nb.MaxItems < 0 {
		c.rule(at, "a limit is negative")
	}
}

func (c *converter) attributes(from []*tfplugin6.Schema_Attribute, at string) map[string]*schema.Attribute {
	to := make(map[string]*schema.Attribute, len(from))
	for _, a := range from {
		to[a.Name] = c.attribute(a, at+a.Name)
	}
	return to
}

func (c *converter) attribute(from *tfplugin6.Schema_Attribute, at string) *schema.Attribute {
	to := &schema.Attribute{
		Required:           from.Required,
		Optional:           from.Optional,
		Computed:           from.Computed,
		Sensitive:          from.Sensitive,
		WriteOnly:          from.WriteOnly,
		Description:        from.Description,
		DescriptionKind:    stringKind(from.DescriptionKind),
		Deprecated:         from.Deprecated,
		DeprecationMessage: from.DeprecationMessage,
	}
	switch {
	case !from.Optional && !from.Required && !from.Computed:
		c.rule(at, "it is neither required, optional nor computed")
	case from.Required && (from.Optional || from.Computed):
		c.rule(at, "it is required and, at once, optional or computed")
	}
	switch {
	case from.NestedType == nil:
		to.Type = c.typ(from.Type, at)
	case len(from.Type) > 0:
		c.report(at, "it has both a type and a nested type")
	case !c.enter(at):
	default:
		defer c.leave()
		to.Nested = &schema.Object{
			Attributes: c.attributes(from.NestedType.Attributes, at+"."),
			Nesting:    objectNesting[from.NestedType.Nesting],
		}
		switch {
		case to.Nested.Nesting == schema.NestingInvalid:
			c.report(at, "the nesting mode is unknown")
		case to.Nested.Nesting == schema.NestingSet && c.sound() && to.Nested.ElementType().HasDynamicTypes():
			c.report(at, "a set has elements of a type that is not exact")
		}
	}
	return to
}

func (c *converter) identity(from *tfplugin6.ResourceIdentitySchema) schema.Identity {
	body := &schema.Object{
		Attributes: make(map[string]*schema.Attribute, len(from.IdentityAttributes)),
		Nesting:    schema.NestingSingle,
	}
	for _, a := range from.IdentityAttributes {
		body.Attributes[a.Name] = &schema.Attribute{
			Type:            c.typ(a.Type, a.Name),
			Required:        a.RequiredForImport,
			Optional:        a.OptionalForImport,
			Description:     a.Description,
			DescriptionKind: schema.Markdown,
		}
	}
	return schema.Identity{Version: from.Version, Body: body}
}

func (c *converter) function(from *tfplugin6.Function) provider.Function {
	to := provider.Function{
		Summary:            from.Summary,
		Description:        from.Description,
		DescriptionKind:    stringKind(from.DescriptionKind),
		DeprecationMessage: from.DeprecationMessage,
		Return:             c.typ(from.GetReturn().GetType(), "the result"),
	}
	for _, p := range from.Parameters {
		to.Parameters = append(to.Parameters, c.parameter(p))
	}
	if from.VariadicParameter != nil {
		p := c.parameter(from.VariadicParameter)
		to.VariadicParameter = &p
	}
	return to
}

func (c *converter) parameter(from *tfplugin6.Function_Parameter) provider.Parameter {
	return provider.Parameter{
		Name:               from.Name,
		Type:               c.typ(from.Type, from.Name),
		AllowNullValue:     from.AllowNullValue,
		AllowUnknownValues: from.AllowUnknownValues,
		Description:        from.Description,
		DescriptionKind:    stringKind(from.DescriptionKind),
	}
}

// typ decodes a type. An invalid type is reported and replaced by the dynamic one, so that the rest can be checked.
func (c *converter) typ(from []byte, at string) cty.Type {
	if ty, ok := c.types[string(from)]; ok {
		return ty
	}
	ty, err := coding.UnmarshalType(from)
	if err != nil {
		c.report(at, fmt.Sprintf("its type cannot be read: %s", err))
		return cty.DynamicPseudoType
	}
	c.types[string(from)] = ty
	return ty
}

// rule reports a violation that does not occur in providers that OpenTofu accepts.
func (c *converter) rule(at, what string) {
	if !c.loose {
		c.report(at, what)
	}
}

func (c *converter) report(at, what string) {
	if at != "" {
		at = " at " + at
	}
	c.problems = c.problems.Append(diag.New(diag.Error, "Invalid provider schema", fmt.Sprintf(
		"Provider %s declares an impossible schema for %s%s: %s.\n\nThis is a bug in the provider.", c.name, c.owner,
		at, what), nil))
}

// sound reports whether no problems have been found in the owner, so that its implied types can be computed.
func (c *converter) sound() bool { return len(c.problems) == c.before }

func capabilities(from *tfplugin6.ServerCapabilities) provider.Capabilities {
	return provider.Capabilities{
		PlanDestroy:               from.GetPlanDestroy(),
		GetProviderSchemaOptional: from.GetGetProviderSchemaOptional(),
		MoveResourceState:         from.GetMoveResourceState(),
		GenerateResourceConfig:    from.GetGenerateResourceConfig(),
	}
}

// Values that the maps do not contain give schema.NestingInvalid.
var (
	blockNesting = map[tfplugin6.Schema_NestedBlock_NestingMode]schema.Nesting{
		tfplugin6.Schema_NestedBlock_SINGLE: schema.NestingSingle,
		tfplugin6.Schema_NestedBlock_GROUP:  schema.NestingGroup,
		tfplugin6.Schema_NestedBlock_LIST:   schema.NestingList,
		tfplugin6.Schema_NestedBlock_SET:    schema.NestingSet,
		tfplugin6.Schema_NestedBlock_MAP:    schema.NestingMap,
	}
	objectNesting = map[tfplugin6.Schema_Object_NestingMode]schema.Nesting{
		tfplugin6.Schema_Object_SINGLE: schema.NestingSingle,
		tfplugin6.Schema_Object_LIST:   schema.NestingList,
		tfplugin6.Schema_Object_SET:    schema.NestingSet,
		tfplugin6.Schema_Object_MAP:    schema.NestingMap,
	}
)

func stringKind(from tfplugin6.StringKind) schema.StringKind {
	if from == tfplugin6.StringKind_MARKDOWN {
		return schema.Markdown
	}
	return schema.Plain
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
