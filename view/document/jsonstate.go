package document

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

type jsonState struct {
	FormatVersion    string      `json:"format_version"`
	TerraformVersion string      `json:"terraform_version,omitempty"`
	Values           *jsonValues `json:"values,omitempty"`
	Checks           []jsonCheck `json:"checks,omitempty"`
}

type jsonValues struct {
	Outputs    map[string]jsonOutput `json:"outputs,omitempty"`
	RootModule jsonModule            `json:"root_module"`
}

type jsonOutput struct {
	Sensitive  bool            `json:"sensitive"`
	Deprecated string          `json:"deprecated,omitempty"`
	Value      json.RawMessage `json:"value,omitempty"`
	Type       json.RawMessage `json:"type,omitempty"`
}

type jsonModule struct {
	Resources    []jsonResource `json:"resources,omitempty"`
	Address      string         `json:"address,omitempty"`
	ChildModules []*jsonModule  `json:"child_modules,omitempty"`
}

type jsonResource struct {
	Address         string                     `json:"address,omitempty"`
	Mode            string                     `json:"mode,omitempty"`
	Type            string                     `json:"type,omitempty"`
	Name            string                     `json:"name,omitempty"`
	Index           json.RawMessage            `json:"index,omitempty"`
	ProviderName    string                     `json:"provider_name"`
	SchemaVersion   int64                      `json:"schema_version"`
	Values          map[string]json.RawMessage `json:"values,omitempty"`
	SensitiveValues json.RawMessage            `json:"sensitive_values,omitempty"`
	DependsOn       []string                   `json:"depends_on,omitempty"`
	Tainted         bool                       `json:"tainted,omitempty"`
	DeposedKey      string                     `json:"deposed_key,omitempty"`
	Identity        map[string]json.RawMessage `json:"identity,omitempty"`
	IdentityVersion *int64                     `json:"identity_schema_version,omitempty"`
}

// StateJSON returns the JSON form of a state, as `show -json` prints it. schemas may lack those of providers that
// the state does not use.
func StateJSON(s *state.State, schemas *values.Schemas, engineVersion string) ([]byte, error) {
	if s.IsEmpty() {
		return NoStateJSON()
	}
	form, err := stateForm(s, schemas, engineVersion)
	if err != nil {
		return nil, err
	}
	return line(form)
}

// SameSchemas returns errors for the current objects of a state that were stored with other schema versions than
// the providers have. As in OpenTofu, such a state is not shown: only the provider can upgrade its objects.
func SameSchemas(s *state.State, schemas *values.Schemas) diag.List {
	var diags diag.List
	for _, a := range s.Addrs() {
		sc := schemas.Resource(s.Resources[a.Abs()].Provider.Provider, a.Resource.Mode, a.Resource.Type)
		if o := s.Instance(a).Current; o != nil && sc != nil && o.SchemaVersion != sc.Version {
			diags = append(diags, diag.New(diag.Error, "Failed to marshal state to json",
				fmt.Sprintf("The object %s is stored with schema version %d, and the installed provider has %d. To "+
					"bring the state up to date, apply with a version of the provider that is at least as new as the "+
					"one that wrote it.", a, o.SchemaVersion, sc.Version), nil))
		}
	}
	return diags
}

// NoStateJSON returns the JSON form of an empty state.
func NoStateJSON() ([]byte, error) { return line(jsonState{FormatVersion: stateFormat}) }

func stateForm(s *state.State, schemas *values.Schemas, engineVersion string) (jsonState, error) {
	out := jsonState{FormatVersion: stateFormat, TerraformVersion: engineVersion}
	vals := &jsonValues{Outputs: map[string]jsonOutput{}}
	for name, o := range s.Outputs {
		vals.Outputs[name] = jsonOutput{Sensitive: o.Sensitive, Deprecated: o.Deprecated, Value: Raw(o.Value),
			Type: typeForm(o.Value.Type())}
	}
	tree := newModuleTree()
	for _, a := range s.Addrs() {
		i := s.Instance(a)
		provider := s.Resources[a.Abs()].Provider.Provider
		if i.Current != nil {
			r, err := stateResource(a, provider, i.Current, schemas)
			if err != nil {
				return out, err
			}
			tree.add(a.Module, r)
		}
		for _, key := range i.DeposedKeys() {
			r, err := stateResource(a, provider, i.Deposed[key], schemas)
			if err != nil {
				return out, err
			}
			r.DeposedKey = string(key)
			tree.add(a.Module, r)
		}
	}
	vals.RootModule = *tree.root
	out.Values = vals
	if !s.IsEmpty() { // as in OpenTofu, an otherwise empty state has no checks
		out.Checks = checkForms(s.Checks)
	}
	return out, nil
}

func newResource(a addr.Instance, provider addr.Provider) jsonResource {
	r := jsonResource{
		Address: a.String(), Mode: a.Resource.Mode.String(), Type: a.Resource.Type, Name: a.Resource.Name,
		ProviderName: provider.String(), Index: indexForm(a.Key),
	}
	return r
}

func indexForm(k addr.Key) json.RawMessage {
	if n, ok := k.Int(); ok {
		return Raw(cty.NumberIntVal(int64(n)))
	}
	if s, ok := k.Str(); ok {
		return Raw(cty.StringVal(s))
	}
	return nil
}

func stateResource(a addr.Instance, provider addr.Provider, o *state.Object, schemas *values.Schemas) (
	jsonResource, error) {
	r := newResource(a, provider)
	r.SchemaVersion = o.SchemaVersion
	r.Tainted = o.Status == state.Tainted
	r.DependsOn = slices.Collect(o.Dependencies.Texts())
	if o.Identity != nil {
		r.IdentityVersion = &o.IdentityVersion
		if err := json.Unmarshal(o.Identity, &r.Identity); err != nil {
			return r, err
		}
	}
	s := schemas.Resource(provider, a.Resource.Mode, a.Resource.Type)
	if s == nil || o.Attrs == nil {
		r.SensitiveValues = json.RawMessage("{}")
		return r, nil
	}
	v, err := values.DecodeStored(o, s)
	if err != nil {
		// Stored with another version of the schema: shown unchanged.
		r.SensitiveValues = json.RawMessage("{}")
		return r, json.Unmarshal(o.Attrs, &r.Values)
	}
	r.Values = attributesOf(v)
	r.SensitiveValues = sensitiveForm(v)
	return r, nil
}

// moduleTree groups resources by module, in the order in which they are added.
type moduleTree struct {
	root    *jsonModule
	modules map[addr.ModuleInstance]*jsonModule
}

func newModuleTree() *moduleTree {
	root := &jsonModule{}
	return &moduleTree{root: root, modules: map[addr.ModuleInstance]*jsonModule{addr.RootInstance: root}}
}

func (t *moduleTree) add(m addr.ModuleInstance, r jsonResource) {
	mod := t.module(m)
	mod.Resources = append(mod.Resources, r)
}

func (t *moduleTree) module(m addr.ModuleInstance) *jsonModule {
	if found := t.modules[m]; found != nil {
		return found
	}
	parentAddr, _ := m.Parent()
	parent := t.module(parentAddr)
	mod := &jsonModule{Address: m.String()}
	parent.ChildModules = append(parent.ChildModules, mod)
	t.modules[m] = mod
	return mod
}

// sortByText sorts the resources of each module, and the modules that the root calls, by address.
func (t *moduleTree) sortByText() {
	for _, m := range t.modules {
		slices.SortStableFunc(m.Resources, func(a, b jsonResource) int { return strings.Compare(a.Address, b.Address) })
	}
	slices.SortStableFunc(t.root.ChildModules,
		func(a, b *jsonModule) int { return strings.Compare(a.Address, b.Address) })
}

// OutputsJSON returns the output of `output -json`: all outputs with their types.
func OutputsJSON(s *state.State) ([]byte, error) {
	out := map[string]jsonOutputValue{}
	for name, o := range s.Outputs {
		out[name] = jsonOutputValue{Sensitive: o.Sensitive, Deprecated: o.Deprecated, Type: typeForm(o.Value.Type()),
			Value: Raw(o.Value)}
	}
	b, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

type jsonOutputValue struct {
	Sensitive  bool            `json:"sensitive"`
	Deprecated string          `json:"deprecated,omitempty"`
	Type       json.RawMessage `json:"type"`
	Value      json.RawMessage `json:"value"`
}

// ValueJSON returns the JSON of one value, as `output -json NAME` prints it.
func ValueJSON(v cty.Value) []byte { return append(Raw(v), '\n') }

type jsonCheck struct {
	Address   map[string]any      `json:"address"`
	Status    string              `json:"status"`
	Instances []jsonCheckInstance `json:"instances,omitempty"`
}

type jsonCheckInstance struct {
	Address  map[string]any `json:"address"`
	Status   string         `json:"status"`
	Problems []jsonProblem  `json:"problems,omitempty"`
}

type jsonProblem struct {
	Message string `json:"message"`
}

func checkForms(checks []state.CheckResult) []jsonCheck {
	var out []jsonCheck
	for _, c := range checks {
		kind := c.Kind
		if kind == "input_variable" {
			kind = "var"
		}
		jc := jsonCheck{Address: checkAddress(kind, c.Config), Status: string(c.Status)}
		for _, o := range c.Objects {
			ji := jsonCheckInstance{Address: instanceAddress(kind, o.Address), Status: string(o.Status)}
			for _, f := range o.Failures {
				ji.Problems = append(ji.Problems, jsonProblem{f})
			}
			jc.Instances = append(jc.Instances, ji)
		}
		out = append(out, jc)
	}
	return out
}

// checkAddress describes a configuration object that has conditions.
func checkAddress(kind, text string) map[string]any {
	out := map[string]any{"kind": kind, "to_display": text}
	if kind == "resource" {
		if t, diags := addr.ParseTarget(text); !diags.HasErrors() {
			r := t.ConfigResource()
			out["mode"], out["type"], out["name"] = r.Resource.Mode.String(), r.Resource.Type, r.Resource.Name
			if !r.Module.IsRoot() {
				out["module"] = r.Module.String()
			}
		}
		return out
	}
	module, name := splitLast(text)
	out["name"] = name
	if module != "" {
		out["module"] = module
	}
	return out
}

// splitLast separates module.a.output.b into module.a and b.
func splitLast(text string) (module, name string) {
	dot := lastDot(text, len(text))
	if dot < 0 {
		return "", text
	}
	name = text[dot+1:]
	if before := lastDot(text, dot); before >= 0 {
		module = text[:before]
	}
	return module, name
}

func lastDot(text string, end int) int {
	for i := end - 1; i >= 0; i-- {
		if text[i] == '.' {
			return i
		}
	}
	return -1
}

func instanceAddress(kind, text string) map[string]any {
	out := map[string]any{"to_display": text}
	if kind == "resource" {
		if a, diags := addr.ParseInstance(text); !diags.HasErrors() {
			if k := indexForm(a.Key); k != nil {
				out["instance_key"] = k
			}
			if !a.Module.IsRoot() {
				out["module"] = a.Module.String()
			}
		}
		return out
	}
	if module, _ := splitLast(text); module != "" {
		out["module"] = module
	}
	return out
}
