package addr

// DefaultHost is the registry of a provider source without a host. It is OpenTofu's default, and part of the
// addresses in existing states and lock files.
const DefaultHost = "registry.opentofu.org"

// PredecessorHost is the registry of a provider source without a host in Terraform. States and lock files that
// Terraform has written contain it; OpenTofu's registry has the same providers.
const PredecessorHost = "registry.terraform.io"

// BuiltinHost is the pseudo host of providers that need no plugin.
const BuiltinHost = "terraform.io"

// Provider is the source address of a provider.
type Provider struct{ Host, Namespace, Type string }

// BuiltinTerraform is the built-in provider of terraform_data and terraform_remote_state.
var BuiltinTerraform = Provider{BuiltinHost, "builtin", "terraform"}

// DefaultProvider returns the provider of a local name without an entry in required_providers.
func DefaultProvider(localName string) Provider {
	if localName == "terraform" {
		return BuiltinTerraform
	}
	return Provider{DefaultHost, "hashicorp", localName}
}

// String returns host/namespace/type.
func (p Provider) String() string { return p.Host + "/" + p.Namespace + "/" + p.Type }

// Display returns the shortest form: the default host is left out.
func (p Provider) Display() string {
	if p.Host == DefaultHost {
		return p.Namespace + "/" + p.Type
	}
	return p.String()
}

// IsBuiltin reports whether the provider needs no plugin.
func (p Provider) IsBuiltin() bool { return p.Host == BuiltinHost && p.Namespace == "builtin" }

// IsZero reports whether p is the zero value.
func (p Provider) IsZero() bool { return p == Provider{} }

// Less orders by the full text.
func (p Provider) Less(o Provider) bool { return p.String() < o.String() }

// LocalProvider identifies a provider configuration within a module: a local name, and optionally an alias.
type LocalProvider struct{ Name, Alias string }

func (l LocalProvider) String() string {
	if l.Alias == "" {
		return l.Name
	}
	return l.Name + "." + l.Alias
}

// ProviderConfig is the address of a provider configuration block in the static tree.
type ProviderConfig struct {
	Module   Module
	Provider Provider
	Alias    string
}

// String returns the form in state files: module.a.provider["host/ns/type"].alias.
func (p ProviderConfig) String() string {
	s := `provider["` + p.Provider.String() + `"]`
	if p.Alias != "" {
		s += "." + p.Alias
	}
	return join(p.Module.String(), s)
}

// Instance returns the address of one instance of the configuration (for_each on a provider block; NoKey else)
// in an instance of its module.
func (p ProviderConfig) Instance(m ModuleInstance, k Key) ProviderInstance {
	return ProviderInstance{m, p.Provider, p.Alias, k}
}

// ProviderInstance is the address of one configured provider, for which a plugin process is configured.
type ProviderInstance struct {
	Module   ModuleInstance
	Provider Provider
	Alias    string
	Key      Key
}

func (p ProviderInstance) String() string {
	s := `provider["` + p.Provider.String() + `"]`
	if p.Alias != "" {
		s += "." + p.Alias
	}
	return join(p.Module.text, s+p.Key.String())
}

// Config returns the static address of the configuration.
func (p ProviderInstance) Config() ProviderConfig {
	return ProviderConfig{p.Module.Module(), p.Provider, p.Alias}
}
