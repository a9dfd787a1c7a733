package tfstate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// legacyEngine is the last version that wrote the old formats.
const legacyEngine = "0.11.15"

// The structure of versions 1 to 3, in which attributes are flat maps. The versions differ in how outputs (plain
// strings in version 1) and the size of a map (as that of a list in versions 1 and 2) are written.
type (
	legacyFile struct {
		TerraformVersion string         `json:"terraform_version"`
		Serial           int64          `json:"serial"`
		Lineage          string         `json:"lineage"`
		Modules          []legacyModule `json:"modules"`
	}

	legacyModule struct {
		Path      []string                   `json:"path"` // "root", then the names of the calls
		Outputs   map[string]json.RawMessage `json:"outputs"`
		Resources map[string]legacyResource  `json:"resources"`
	}

	legacyOutput struct {
		Value     json.RawMessage `json:"value"`
		Sensitive bool            `json:"sensitive"`
	}

	legacyResource struct {
		Provider string           `json:"provider"`
		Primary  *legacyInstance  `json:"primary"`
		Deposed  []legacyInstance `json:"deposed"`
	}

	legacyInstance struct {
		ID         string                     `json:"id"`
		Attributes map[string]string          `json:"attributes"`
		Meta       map[string]json.RawMessage `json:"meta"`
		Tainted    bool                       `json:"tainted"`
	}
)

// parseLegacy reads versions 1 to 3. The objects keep their flat maps until a provider upgrades them.
func parseLegacy(src []byte, version uint64) (*state.State, diag.List) {
	var f legacyFile
	if err := json.Unmarshal(src, &f); err != nil {
		return nil, structureErrors(err)
	}
	u := upgrade{s: state.Empty(), version: version}
	if err := u.file(&f); err != nil {
		return nil, diag.Errors(upgradeFailed,
			fmt.Sprintf("Error upgrading state file format from version %d to version 4: %s.", version, err), nil)
	}
	return u.s, nil
}

// upgrade makes a state from an old file.
type upgrade struct {
	s       *state.State
	version uint64
}

func (u *upgrade) file(f *legacyFile) error {
	if f.Serial < 0 {
		return fmt.Errorf("the serial %d is less than zero", f.Serial)
	}
	// A file that does not say who wrote it is still one that somebody wrote.
	u.s.Lineage, u.s.Serial, u.s.EngineVersion = f.Lineage, uint64(f.Serial), cmp.Or(f.TerraformVersion, legacyEngine)
	if u.s.EngineVersion == "" {
		u.s.EngineVersion = "0.0.0"
	}
	for i := range f.Modules {
		if err := u.module(&f.Modules[i]); err != nil {
			return err
		}
	}
	return nil
}

func (u *upgrade) module(m *legacyModule) error {
	if len(m.Path) == 0 && u.version == 1 {
		m.Path = []string{"root"}
	}
	if len(m.Path) == 0 || m.Path[0] != "root" {
		return fmt.Errorf("%q is not the path of a module", m.Path)
	}
	at := addr.RootInstance
	for _, name := range m.Path[1:] {
		if !addr.ValidIdentifier(name) {
			return fmt.Errorf("the path %q of a module has %q, which is not an identifier; rename it in Terraform "+
				"0.11 before upgrading to Terraform 0.12", m.Path, name)
		}
		at = at.Child(name, addr.NoKey)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Resources)) {
		if err := u.resource(at, name, m.Resources[name]); err != nil {
			return err
		}
	}
	if !at.IsRoot() {
		return nil // the outputs of other modules are computed again
	}
	for name, raw := range m.Outputs {
		o := legacyOutput{Value: raw}
		if u.version > 1 {
			if err := json.Unmarshal(raw, &o); err != nil {
				return fmt.Errorf("the output %q: %w", name, err)
			}
		}
		value, err := impliedValue(o.Value)
		if err != nil {
			return fmt.Errorf("the output %q: %w", name, err)
		}
		u.s.Outputs[name] = &state.Output{Value: value, Sensitive: o.Sensitive}
	}
	return nil
}

func (u *upgrade) resource(at addr.ModuleInstance, name string, in legacyResource) error {
	r, key, err := legacyAddress(name)
	if err != nil {
		return err
	}
	abs := r.Absolute(at)
	provider, err := legacyProvider(abs, in.Provider)
	if err != nil {
		return err
	}
	if known := u.s.Resources[abs]; known != nil {
		provider = known.Provider // the current format has one for all instances: that of the first
	}
	put := func(deposed state.DeposedKey, in *legacyInstance) error {
		o, err := u.object(in)
		if err != nil {
			return fmt.Errorf("%s: %w", abs.Instance(key), err)
		}
		p := provider.Instance(addr.RootInstance, addr.NoKey)
		u.s.Apply(state.SetObject{Addr: abs.Instance(key), Deposed: deposed, Provider: p, Object: o})
		u.s.Resources[abs].Provider = provider
		return nil
	}
	if in.Primary != nil {
		if err := put(state.CurrentObject, in.Primary); err != nil {
			return err
		}
	}
	for i := range in.Deposed {
		// Deposed objects had no keys; they are numbered, so that the keys are deterministic.
		if err := put(state.DeposedKey(fmt.Sprintf("%08x", i+1)), &in.Deposed[i]); err != nil {
			return err
		}
	}
	return nil
}

func (u *upgrade) object(in *legacyInstance) (*state.Object, error) {
	o := &state.Object{Status: state.Ready, Flatmap: maps.Clone(in.Attributes)}
	if in.Tainted {
		o.Status = state.Tainted
	}
	if o.Flatmap == nil {
		o.Flatmap = map[string]string{}
	}
	if in.ID != "" && o.Flatmap["id"] == "" {
		o.Flatmap["id"] = in.ID
	}
	if u.version < 3 {
		markMaps(o.Flatmap)
	}
	// The providers' private data, which included the version of the schema.
	private := maps.Clone(in.Meta)
	if raw, ok := private["schema_version"]; ok {
		text := strings.Trim(string(raw), `"`)
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
			o.SchemaVersion = n
			delete(private, "schema_version")
		}
	}
	if len(private) > 0 {
		data, err := json.Marshal(private)
		if err != nil {
			return nil, fmt.Errorf("what its provider keeps: %w", err)
		}
		o.Private = data
	}
	return o, nil
}

// markMaps changes the size entry of collections that look like maps to that of a map, as in version 3, and removes
// the sizes of empty collections, whose type cannot be determined.
func markMaps(flat map[string]string) {
	sizes := slices.Sorted(maps.Keys(flat))
	for _, size := range sizes {
		prefix, ok := strings.CutSuffix(size, ".#")
		if !ok {
			continue
		}
		elements, words := 0, false
		for key := range flat {
			rest, ok := strings.CutPrefix(key, prefix+".")
			if !ok || rest == "#" || rest == "%" {
				continue
			}
			elements++
			first, _, _ := strings.Cut(rest, ".")
			if _, err := strconv.Atoi(first); err != nil {
				words = true
			}
		}
		switch {
		case elements == 0:
			delete(flat, size)
		case words:
			flat[prefix+".%"] = flat[size]
			delete(flat, size)
		}
	}
}

// legacyAddress parses [data.]TYPE.NAME[.INDEX].
func legacyAddress(text string) (addr.Resource, addr.Key, error) {
	bad := fmt.Errorf("%q is not the address of a resource", text)
	r := addr.Resource{Mode: addr.Managed}
	parts := strings.Split(text, ".")
	if len(parts) > 2 && parts[0] == "data" {
		r.Mode = addr.Data
		parts = parts[1:]
	}
	if len(parts) < 2 || len(parts) > 3 {
		return r, addr.NoKey, bad
	}
	r.Type, r.Name = parts[0], parts[1]
	if r.Type == "" || r.Name == "" {
		return r, addr.NoKey, bad
	}
	if len(parts) == 2 {
		return r, addr.NoKey, nil
	}
	n, err := strconv.Atoi(parts[2])
	if err != nil {
		return r, addr.NoKey, bad
	}
	return r, addr.IntKey(n), nil
}

// legacyProvider finds the provider configuration: with an absolute name, a name within the module, or implied by
// the type.
func legacyProvider(abs addr.AbsResource, text string) (addr.ProviderConfig, error) {
	if strings.Contains(text, "${") {
		return addr.ProviderConfig{}, fmt.Errorf("the provider %q of %s has a template in its alias, which had never "+
			"worked. "+
			"Rename the alias and apply the change with Terraform 0.11 before upgrading to Terraform 0.12", text, abs)
	}
	if strings.Contains(text, "provider.") {
		config, diags := addr.ParseProviderConfig(text)
		if diags.HasErrors() {
			return config, fmt.Errorf("the provider %q of %s: %w", text, abs, diags.Err())
		}
		return config, nil
	}
	local := addr.LocalProvider{Name: abs.Resource.ImpliedProvider()}
	if text != "" {
		var diags diag.List
		if local, diags = addr.ParseLocalProviderText(text); diags.HasErrors() {
			return addr.ProviderConfig{}, fmt.Errorf("the provider %q of %s: %w", text, abs, diags.Err())
		}
	}
	p := addr.Provider{Host: addr.DefaultHost, Namespace: addr.LegacyNamespace, Type: local.Name}
	if local.Name == "terraform" {
		p = addr.BuiltinTerraform
	}
	if _, diags := addr.ParseProviderSource(p.String()); diags.HasErrors() {
		return addr.ProviderConfig{}, fmt.Errorf("the provider of %s, as its type names it: %w", abs, diags.Err())
	}
	return addr.ProviderConfig{Module: abs.Module.Module(), Provider: p, Alias: local.Alias}, nil
}

// impliedValue decodes the value of an output whose type was not stored. The language only had collections then, so
// a value that can be one is.
func impliedValue(raw json.RawMessage) (cty.Value, error) {
	typ, err := ctyjson.ImpliedType(raw)
	if err != nil {
		return cty.NilVal, err
	}
	value, err := coding.DecodeJSON(raw, collection(typ))
	if err != nil {
		return cty.NilVal, err
	}
	return value, checkNumbers(value)
}

func collection(typ cty.Type) cty.Type {
	var elements []cty.Type
	switch {
	case typ.IsTupleType():
		elements = typ.TupleElementTypes()
	case typ.IsObjectType():
		elements = slices.Collect(maps.Values(typ.AttributeTypes()))
	}
	if len(elements) == 0 {
		return typ
	}
	for _, e := range elements[1:] {
		if !e.Equals(elements[0]) {
			return typ
		}
	}
	if typ.IsTupleType() {
		return cty.List(collection(elements[0]))
	}
	return cty.Map(collection(elements[0]))
}
