package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// ResolvedProvider is the provider configuration to which a local name resolves.
type ResolvedProvider struct {
	// Config is the address of the configuration: in the module with its block, or in the root module if there is
	// no block.
	Config addr.ProviderConfig
	// Block is its block; nil if there is none and the provider is used without configuration.
	Block *ProviderConfig
	// Key selects an instance of a block with for_each if a providers argument between the block and the resource
	// selects it; else nil. It is evaluated in the module that contains the call KeyCall, for the instance of that
	// call that contains the resource.
	Key     hcl.Expression
	KeyCall *Node
}

// providerKey is a provider configuration as one module sees it.
type providerKey struct {
	provider addr.Provider
	alias    string
}

// providerHome is the origin of a provider configuration of a module: a block of its own, or its caller.
type providerHome struct {
	block  *ProviderConfig
	passed *PassedProvider
}

// homes returns the index of the provider configurations of the module. It is built at first use; concurrent calls
// are allowed.
func (n *Node) homes() map[providerKey]providerHome {
	n.indexing.Do(n.indexProviders)
	return n.providers
}

func (n *Node) indexProviders() {
	n.providers = map[providerKey]providerHome{}
	if n.Parent == nil {
		for _, r := range n.Module.Required {
			if !r.Implied {
				n.providers[providerKey{r.Source, ""}] = providerHome{}
			}
		}
	}
	for _, p := range n.Module.sortedProviders() {
		key := providerKey{n.Module.ProviderFor(p.Name), p.Alias}
		if n.providers[key].block == nil {
			n.providers[key] = providerHome{block: p}
		}
	}
	if n.Parent == nil {
		return
	}
	for i := range n.Call.Providers {
		p := &n.Call.Providers[i]
		key := providerKey{n.Module.ProviderFor(p.InChild.Name), p.InChild.Alias}
		// An empty block only declares that the caller has to pass a configuration.
		if home, has := n.providers[key]; !has || home.block != nil && isEmptyBody(home.block.Config) {
			n.providers[key] = providerHome{passed: p}
		}
	}
}

func isEmptyBody(b hcl.Body) bool {
	_, diags := b.Content(&hcl.BodySchema{})
	return !diags.HasErrors()
}

// ResolveProvider returns the configuration to which a reference to a provider in this module resolves: one of the
// module, one that the caller passes, or, without an alias, that of an ancestor module.
func (n *Node) ResolveProvider(l addr.LocalProvider) (ResolvedProvider, diag.List) {
	provider := n.Module.ProviderFor(l.Name)
	for at := n; ; at = at.Parent {
		if _, ok := at.homes()[providerKey{provider, l.Alias}]; ok {
			return at.follow(provider, l.Alias)
		}
		if at.Parent == nil || l.Alias != "" {
			break
		}
	}
	if l.Alias == "" {
		return ResolvedProvider{Config: addr.ProviderConfig{Provider: provider}}, nil
	}
	return ResolvedProvider{}, diag.Errors("Provider configuration not present", fmt.Sprintf(
		"There is no provider configuration %s. If it was removed while objects of it still exist, put it back, "+
			"destroy them, and remove it then.",
		addr.ProviderConfig{Module: n.Path, Provider: provider, Alias: l.Alias}), nil)
}

// ProviderFor returns the configuration that ResolveProvider finds, or the zero value if there is none, which
// cannot happen if Check finds no errors.
func (n *Node) ProviderFor(l addr.LocalProvider) addr.ProviderConfig {
	r, _ := n.ResolveProvider(l)
	return r.Config
}

// follow goes from module to caller while the configuration is passed.
func (n *Node) follow(provider addr.Provider, alias string) (ResolvedProvider, diag.List) {
	var out ResolvedProvider
	for {
		out.Config = addr.ProviderConfig{Module: n.Path, Provider: provider, Alias: alias}
		home, ok := n.homes()[providerKey{provider, alias}]
		if !ok {
			return ResolvedProvider{}, diag.Errors("missing provider "+out.Config.String(), fmt.Sprintf(
				"A module block passes the provider configuration %s on, but that does not exist where the "+
					"block stands.", out.Config), nil)
		}
		if home.passed == nil {
			out.Block = home.block
			return out, nil
		}
		if home.passed.KeyExpr != nil {
			out.Key, out.KeyCall = home.passed.KeyExpr, n
		}
		alias, n = home.passed.InParent.Alias, n.Parent
	}
}

// Requirements returns the providers that the configuration uses, with all version constraints on each. Providers
// without constraints, built-in providers, and those of the tests are included.
func (t *Tree) Requirements() map[addr.Provider][]string {
	out := map[addr.Provider][]string{}
	add := func(p addr.Provider, constraints []string) { out[p] = append(out[p], constraints...) }
	for _, path := range slices.Sorted(maps.Keys(t.Modules)) {
		for p, constraints := range t.Modules[path].Module.Requirements() {
			add(p, constraints)
		}
	}
	t.testRequirements(add)
	for p, constraints := range out {
		slices.Sort(constraints)
		out[p] = slices.Compact(constraints)
	}
	return out
}

// Requirements returns the providers that the module itself uses, with its version constraints on each.
func (m *Module) Requirements() map[addr.Provider][]string {
	out := map[addr.Provider][]string{}
	use := func(p addr.Provider, constraint string) {
		if p.IsZero() {
			return
		}
		if constraint != "" {
			out[p] = append(out[p], constraint)
		} else if _, ok := out[p]; !ok {
			out[p] = nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Required)) {
		if r := m.Required[name]; !r.Implied {
			use(r.Source, r.Constraints)
		}
	}
	for _, r := range m.Resources {
		use(r.Source, "")
	}
	for _, i := range m.Imports {
		use(i.Source, "")
	}
	for _, p := range m.sortedProviders() {
		use(m.ProviderFor(p.Name), p.Version)
	}
	return out
}

// Inferred returns a resource whose provider is inferred only from its type, if no module declares that provider in
// required_providers, so that another one may have been meant. It is nil if there is none.
func (t *Tree) Inferred(p addr.Provider) *Resource {
	var found *Resource
	for _, path := range slices.Sorted(maps.Keys(t.Modules)) {
		m := t.Modules[path].Module
		for _, required := range m.Required {
			if !required.Implied && required.Source == p {
				return nil
			}
		}
		for _, at := range slices.SortedFunc(maps.Keys(m.Resources), compareResources) {
			if r := m.Resources[at]; found == nil && r.Source == p && !r.ProviderSet {
				found = r
			}
		}
	}
	return found
}

// compareResources sorts managed resources first, then data sources, then ephemeral ones; each by name.
func compareResources(a, b addr.Resource) int {
	const order = "MDEA"
	return cmp.Or(strings.IndexByte(order, byte(a.Mode))-strings.IndexByte(order, byte(b.Mode)),
		strings.Compare(a.Type, b.Type), strings.Compare(a.Name, b.Name))
}

func compareLocal(a, b addr.LocalProvider) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Alias, b.Alias))
}

// ProviderBlock returns the block of the module that configures a provider under an alias ("" for none), or nil.
func (n *Node) ProviderBlock(provider addr.Provider, alias string) *ProviderConfig {
	return n.homes()[providerKey{provider, alias}].block
}
