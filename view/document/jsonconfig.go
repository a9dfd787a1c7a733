package document

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/install/lock"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider/provisioner"
)

type jsonConfig struct {
	Providers  map[string]jsonProviderConfig `json:"provider_config,omitempty"`
	RootModule jsonConfigModule              `json:"root_module"`
}

type jsonProviderConfig struct {
	Name              string         `json:"name,omitempty"`
	FullName          string         `json:"full_name,omitempty"`
	Alias             string         `json:"alias,omitempty"`
	VersionConstraint string         `json:"version_constraint,omitempty"`
	ModuleAddress     string         `json:"module_address,omitempty"`
	Expressions       map[string]any `json:"expressions,omitempty"`

	// parent is the key of the provider configuration in the calling module that is passed to this one.
	parent string
}

type jsonConfigModule struct {
	Outputs   map[string]jsonConfigOutput `json:"outputs,omitempty"`
	Resources []jsonConfigResource        `json:"resources,omitempty"`
	Calls     map[string]jsonModuleCall   `json:"module_calls,omitempty"`
	Variables map[string]jsonConfigInput  `json:"variables,omitempty"`
}

type jsonModuleCall struct {
	Source            string            `json:"source,omitempty"`
	Expressions       map[string]any    `json:"expressions,omitempty"`
	CountExpression   *jsonExpression   `json:"count_expression,omitempty"`
	ForEachExpression *jsonExpression   `json:"for_each_expression,omitempty"`
	Module            *jsonConfigModule `json:"module,omitempty"`
	VersionConstraint string            `json:"version_constraint,omitempty"`
	DependsOn         []string          `json:"depends_on,omitempty"`
}

type jsonConfigInput struct {
	Type        json.RawMessage `json:"type,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	Description string          `json:"description,omitempty"`
	Required    bool            `json:"required,omitempty"`
	Sensitive   bool            `json:"sensitive,omitempty"`
	Ephemeral   bool            `json:"ephemeral,omitempty"`
	Deprecated  string          `json:"deprecated,omitempty"`
}

type jsonConfigOutput struct {
	Sensitive   bool            `json:"sensitive,omitempty"`
	Ephemeral   bool            `json:"ephemeral,omitempty"`
	Deprecated  string          `json:"deprecated,omitempty"`
	Expression  *jsonExpression `json:"expression,omitempty"`
	DependsOn   []string        `json:"depends_on,omitempty"`
	Description string          `json:"description,omitempty"`
}

type jsonConfigResource struct {
	Address           string            `json:"address,omitempty"`
	Mode              string            `json:"mode,omitempty"`
	Type              string            `json:"type,omitempty"`
	Name              string            `json:"name,omitempty"`
	ProviderConfigKey string            `json:"provider_config_key,omitempty"`
	Provisioners      []jsonProvisioner `json:"provisioners,omitempty"`
	Expressions       map[string]any    `json:"expressions,omitempty"`
	SchemaVersion     *int64            `json:"schema_version,omitempty"`
	CountExpression   *jsonExpression   `json:"count_expression,omitempty"`
	ForEachExpression *jsonExpression   `json:"for_each_expression,omitempty"`
	DependsOn         []string          `json:"depends_on,omitempty"`
}

type jsonProvisioner struct {
	Type        string         `json:"type,omitempty"`
	Expressions map[string]any `json:"expressions,omitempty"`
}

// ConfigJSON returns the JSON form of a configuration with all of its modules, as `show -json -config` prints it.
func ConfigJSON(tree *config.Tree, schemas *values.Schemas) ([]byte, error) {
	return line(configurationForm(tree, schemas))
}

// ModuleJSON returns the JSON form of the root module alone, as `show -json -module=DIR` prints it: without
// schemas, called modules, and expressions.
func ModuleJSON(tree *config.Tree) ([]byte, error) {
	return line(configForm{schemas: values.NewSchemas(nil), alone: true}.of(tree))
}

// configurationForm returns the JSON form of a configuration, as plans contain it.
func configurationForm(tree *config.Tree, schemas *values.Schemas) jsonConfig {
	return configForm{schemas: schemas}.of(tree)
}

func (f configForm) of(tree *config.Tree) jsonConfig {
	f.providers = map[string]jsonProviderConfig{}
	f.providerConfigs(tree.Root)
	out := jsonConfig{RootModule: f.module(tree.Root), Providers: map[string]jsonProviderConfig{}}
	for key, p := range f.providers {
		if p.parent == "" {
			out.Providers[key] = p
		}
	}
	return out
}

type configForm struct {
	schemas *values.Schemas
	// providers are the provider configurations of all modules, by key.
	providers map[string]jsonProviderConfig
	// alone restricts the form to the content of the module itself.
	alone bool
}

// configKey returns the key of a provider configuration of a module, unique within the document.
func configKey(local string, m addr.Module) string {
	if m.IsRoot() {
		return local
	}
	return m.String() + ":" + local
}

// providerConfigs collects the provider configurations of a module and of the modules that it calls: written as
// blocks, declared, or only used.
func (f *configForm) providerConfigs(n *config.Node) {
	m := n.Module
	constraints := m.Requirements()
	add := func(key string, source addr.Provider, p jsonProviderConfig) {
		p.FullName, p.ModuleAddress, p.VersionConstraint = source.String(), n.Path.String(),
			constraintText(constraints[source])
		f.providers[key] = p
	}
	addMissing := func(local, name string, source addr.Provider, inherits bool) {
		key := configKey(local, n.Path)
		if _, there := f.providers[key]; there {
			return
		}
		p := jsonProviderConfig{Name: name}
		if inherits && n.Parent != nil {
			p.parent = f.origin(configKey(name, n.Parent.Path), source)
		}
		add(key, source, p)
	}
	for local, block := range m.Providers {
		source := m.ProviderFor(block.Name)
		p := jsonProviderConfig{Name: block.Name, Alias: block.Alias}
		if ps := f.schemas.Provider(source); ps != nil {
			p.Expressions = expressionForms(block.Config, ps.Provider.Block)
		}
		add(configKey(local.String(), n.Path), source, p)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Required)) {
		r := m.Required[name]
		if r.Implied {
			continue
		}
		for _, alias := range r.Aliases {
			addMissing(alias.String(), r.Name, r.Source, false)
		}
		addMissing(name, r.Name, r.Source, true)
	}
	for source := range constraints {
		addMissing(source.Type, source.Type, source, true)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Calls)) {
		child := n.Children[name]
		if child == nil {
			continue // not installed
		}
		for _, passed := range m.Calls[name].Providers {
			source := child.Module.ProviderFor(passed.InChild.Name)
			f.providers[configKey(passed.InChild.String(), child.Path)] = jsonProviderConfig{
				Name: passed.InChild.String(), FullName: source.String(), ModuleAddress: child.Path.String(),
				parent: f.origin(configKey(passed.InParent.String(), n.Path), source),
			}
		}
		f.providerConfigs(child)
	}
}

// origin returns the key of the configuration that is passed down to a provider configuration.
func (f *configForm) origin(key string, source addr.Provider) string {
	found := ""
	for key != "" {
		p, ok := f.providers[key]
		if !ok || p.FullName != source.String() {
			break
		}
		found, key = key, p.parent
	}
	return found
}

// constraintText returns version constraints in normalized form.
func constraintText(constraints []string) string {
	text, err := lock.Constraints(constraints)
	if err != nil {
		return strings.Join(constraints, ", ") // reported when the configuration was loaded
	}
	return text
}

// modes is the order in which the resources of a module are listed.
var modes = []string{"managed", "data", "ephemeral"}

func (f *configForm) module(n *config.Node) jsonConfigModule {
	m := n.Module
	out := jsonConfigModule{Outputs: map[string]jsonConfigOutput{}, Calls: map[string]jsonModuleCall{},
		Variables: map[string]jsonConfigInput{}}
	for _, r := range m.Resources {
		if r.Addr.Mode == addr.Action {
			continue // programs that know nothing of actions take all of these for resources
		}
		out.Resources = append(out.Resources, f.resource(r, n))
	}
	slices.SortFunc(out.Resources, func(a, b jsonConfigResource) int {
		return cmp.Or(slices.Index(modes, a.Mode)-slices.Index(modes, b.Mode), strings.Compare(a.Address, b.Address))
	})
	for name, o := range m.Outputs {
		form := jsonConfigOutput{
			Sensitive: o.Sensitive, Ephemeral: o.Ephemeral, Deprecated: o.Deprecated, Description: o.Description,
			DependsOn: dependencyForms(o.DependsOn),
		}
		if !f.alone {
			form.Expression = expressionForm(o.Expr)
		}
		out.Outputs[name] = form
	}
	for name, call := range m.Calls {
		out.Calls[name] = f.call(call, n.Children[name])
	}
	for name, v := range m.Variables {
		in := jsonConfigInput{
			Description: v.Description, Required: v.Required(), Sensitive: v.Sensitive, Ephemeral: v.Ephemeral,
			Deprecated: v.Deprecated,
		}
		if v.ConstraintType != cty.NilType && v.ConstraintType != cty.DynamicPseudoType {
			in.Type = typeForm(v.ConstraintType)
		}
		if !v.Required() {
			in.Default = Raw(v.Default)
		}
		out.Variables[name] = in
	}
	return out
}

func (f *configForm) call(call *config.ModuleCall, child *config.Node) jsonModuleCall {
	out := jsonModuleCall{Source: call.Source, DependsOn: dependencyForms(call.DependsOn)}
	if call.Version != "" {
		out.VersionConstraint = call.Version
	}
	if !f.alone {
		out.CountExpression, out.ForEachExpression = repetitionForms(call.Count, call.ForEach)
	}
	if child == nil {
		return out // not installed, or not needed
	}
	arguments := &schema.Block{Attributes: map[string]*schema.Attribute{}}
	for name := range child.Module.Variables {
		arguments.Attributes[name] = &schema.Attribute{Type: cty.DynamicPseudoType, Optional: true}
	}
	out.Expressions = expressionForms(call.Config, arguments)
	module := f.module(child)
	out.Module = &module
	return out
}

func (f *configForm) resource(r *config.Resource, n *config.Node) jsonConfigResource {
	out := jsonConfigResource{
		Address: r.Addr.String(), Mode: r.Addr.Mode.String(), Type: r.Addr.Type, Name: r.Addr.Name,
		ProviderConfigKey: f.keyOf(r.Provider, n), DependsOn: dependencyForms(r.DependsOn),
	}
	if f.alone {
		for _, p := range r.Provisioners {
			out.Provisioners = append(out.Provisioners, jsonProvisioner{Type: p.Type})
		}
		return out
	}
	out.CountExpression, out.ForEachExpression = repetitionForms(r.Count, r.ForEach)
	if s := f.schemas.Resource(r.Source, r.Addr.Mode, r.Addr.Type); s != nil {
		out.SchemaVersion = &s.Version
		out.Expressions = expressionForms(r.Config, s.Block)
	}
	for _, p := range r.Provisioners {
		out.Provisioners = append(out.Provisioners,
			jsonProvisioner{p.Type, expressionForms(p.Config, provisioner.Block(p.Type))})
	}
	return out
}

// keyOf returns the key of the provider configuration that a local name refers to after following module calls.
func (f *configForm) keyOf(l addr.LocalProvider, n *config.Node) string {
	key := configKey(l.String(), n.Path)
	if parent := f.providers[key].parent; parent != "" {
		if _, there := f.providers[parent]; there {
			return parent
		}
	}
	return key
}

func dependencyForms(list []hcl.Traversal) []string {
	var out []string
	for _, t := range list {
		// Invalid references were reported when the configuration was loaded.
		if r, diags := addr.ParseReference(t); !diags.HasErrors() {
			out = append(out, r.Subject.String())
		}
	}
	return out
}
