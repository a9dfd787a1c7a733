package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// checkProviders checks how provider configurations are declared, passed between modules and chosen.
func checkProviders(t *Tree) diag.List {
	d := &decoder{}
	d.providersOf(t.Root, nil)
	return d.diags
}

// providersOf checks one node after those below it. single is the range of a count, for_each, enabled or depends_on
// argument of the call of the node, or of a call above it; a module with provider blocks must not have one. It is
// nil if there is none.
func (d *decoder) providersOf(n *Node, single *hcl.Range) {
	for _, name := range slices.Sorted(maps.Keys(n.Children)) {
		call := n.Module.Calls[name]
		at := single
		switch {
		case call.Count != nil:
			at = call.Count.Range().Ptr()
		case call.ForEach != nil:
			at = call.ForEach.Range().Ptr()
		case call.Enabled != nil:
			at = call.Enabled.Range().Ptr()
		case len(call.DependsOn) > 0:
			at = call.DependsOn[0].SourceRange().Ptr()
		}
		d.providersOf(n.Children[name], at)
	}
	c := newProviderCheck(d, n)
	c.duplicates()
	c.implied()
	c.keys()
	c.outgoing()
	if n.Parent != nil {
		c.incoming(single)
		c.emptyBlocks()
	}
}

// providerCheck checks the provider configurations of one module.
type providerCheck struct {
	*decoder
	n *Node
	// configured are the non-empty blocks, empty the empty ones, both by NAME.ALIAS.
	configured, empty map[string]*ProviderConfig
	forEach           map[string]hcl.Expression
	// declared are the entries of required_providers, aliases its configuration_aliases.
	declared map[string]addr.Provider
	aliases  map[string]addr.Provider
	// passed are the configurations that the caller passes.
	passed map[string]*PassedProvider
}

func newProviderCheck(d *decoder, n *Node) *providerCheck {
	c := &providerCheck{
		decoder: d, n: n,
		configured: map[string]*ProviderConfig{}, empty: map[string]*ProviderConfig{},
		forEach:  map[string]hcl.Expression{},
		declared: map[string]addr.Provider{}, aliases: map[string]addr.Provider{}, passed: map[string]*PassedProvider{},
	}
	for local, p := range n.Module.Providers {
		if p.Version != "" || !isEmptyBody(p.Config) {
			c.configured[local.String()] = p
		} else {
			c.empty[local.String()] = p
		}
		c.forEach[local.String()] = p.ForEach
	}
	for name, r := range n.Module.Required {
		if r.Implied {
			continue
		}
		c.declared[name] = r.Source
		for _, alias := range r.Aliases {
			c.aliases[alias.String()] = r.Source
		}
	}
	if n.Call != nil {
		for i := range n.Call.Providers {
			p := &n.Call.Providers[i]
			c.passed[p.InChild.String()] = p
		}
	}
	return c
}

// where describes the module, and caller the one that calls it, in the details of problems.
func (c *providerCheck) where() string { return moduleText(c.n) }

func moduleText(n *Node) string {
	if n == nil || n.Path.IsRoot() {
		return "the root module"
	}
	return n.Path.String()
}

// typeOf returns the provider of a local name in a module, which may not be declared.
func typeOf(n *Node, name string) addr.Provider {
	if r, ok := n.Module.Required[name]; ok && !r.Implied {
		return r.Source
	}
	return addr.Provider{Host: addr.DefaultHost, Namespace: "hashicorp", Type: name}
}

func isDefault(p addr.Provider) bool { return p.Host == addr.DefaultHost && p.Namespace == "hashicorp" }

// duplicates warns about providers with two local names.
func (c *providerCheck) duplicates() {
	const summary = "Duplicate required provider"
	first := map[addr.Provider]string{}
	for _, name := range slices.Sorted(maps.Keys(c.declared)) {
		p, at := c.declared[name], c.n.Module.Required[name].Range
		if other, dup := first[p]; dup {
			c.warn(at, summary, "Provider %s has the local name %q here, and %q too. A module needs one name for a "+
				"provider.", p.Display(), name, other)
			continue
		}
		first[p] = name
		if !isDefault(p) || name == p.Type {
			continue
		}
		for local := range c.n.Module.Providers {
			if local.Name == p.Type {
				c.warn(at, summary, "Provider %s has the local name %q here, but there is a provider block that "+
					"calls it %q.", p.Display(), name, p.Type)
				break
			}
		}
	}
}

// implied checks the local names that are implied by the types of resources.
func (c *providerCheck) implied() {
	wrong := map[string]error{}         // invalid names of providers
	renamed := map[addr.Provider]bool{} // providers that required_providers declares
	for _, p := range c.declared {
		renamed[p] = true
	}
	seen := map[string]bool{} // names, and whether there is a problem to report
	for _, r := range c.resources(func(r *Resource) bool {
		name := r.Provider.Name
		if r.ProviderSet {
			return false
		}
		odd, known := seen[name]
		if !known {
			_, err := addr.ParseProviderLabel(name)
			_, declared := c.declared[name]
			odd = err != nil || !declared && renamed[addr.DefaultProvider(name)]
			wrong[name], seen[name] = err, odd
		}
		return odd
	}) {
		name := r.Provider.Name
		if err := wrong[name]; err != nil {
			c.err(r.Range, "Invalid provider local name", "The type of the resource implies that its provider is "+
				"called %q, which no provider can be: %s.", name, err)
			continue
		}
		implied := addr.DefaultProvider(name)
		for _, other := range slices.Sorted(maps.Keys(c.declared)) {
			if c.declared[other] == implied {
				c.warn(r.Range, "Duplicate required provider",
					"%s implies provider %s by its type, and required_providers calls that %q. Change the name "+
						"there, or write provider = %s in the resource.",
					r.Addr, implied.Display(), other, other)
			}
		}
	}
}

// resources returns the resources of the module that want selects, sorted. There can be very many, and mostly none
// is selected, so only the selected ones are sorted.
func (c *providerCheck) resources(want func(*Resource) bool) []*Resource {
	var out []*Resource
	for _, r := range c.n.Module.Resources {
		if want(r) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *Resource) int { return compareResources(a.Addr, b.Addr) })
	return out
}

// calls returns the module calls, sorted by name.
func (c *providerCheck) calls() []*ModuleCall {
	out := slices.Collect(maps.Values(c.n.Module.Calls))
	slices.SortFunc(out, func(a, b *ModuleCall) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// keys checks that an instance key is given for provider configurations with for_each, and only for these.
func (c *providerCheck) keys() {
	for _, call := range c.calls() {
		for _, p := range call.Providers {
			if p.inChildKey != nil {
				c.err(p.inChildKey.Range(), "Invalid module provider configuration", "The name of a configuration inside the "+
					"module has no key; the key of an instance belongs on the right.")
			}
			c.key("module", p.InParent, p.KeyExpr, p.InParentRange)
			if p.KeyExpr != nil {
				c.sameForEach("module", c.n.Path.Child(call.Name).String(), call.ForEach,
					c.forEach[p.InParent.String()])
			}
		}
	}
	for _, r := range c.resources(func(r *Resource) bool { return r.ProviderSet }) {
		c.key("resource", r.Provider, r.ProviderKeyExpr, r.ProviderRange)
		if r.ProviderKeyExpr != nil && r.Addr.Mode == addr.Managed {
			c.sameForEach("resource", r.Addr.In(c.n.Path).String(), r.ForEach, c.forEach[r.Provider.String()])
		}
	}
}

func (c *providerCheck) key(block string, p addr.LocalProvider, key hcl.Expression, at hcl.Range) {
	summary := "Invalid " + block + " provider configuration"
	_, configured := c.configured[p.String()]
	repeats := c.forEach[p.String()] != nil
	switch {
	case key == nil && repeats:
		c.err(at, summary, "%s has for_each, so one of its instances has to be chosen by a key. All of them together "+
			"cannot be used.", p)
	case key == nil || repeats:
	case configured:
		c.err(key.Range(), summary, "%s has no for_each, so there is nothing to choose by a key.", p)
	default:
		c.err(at, summary, "A key chooses among the instances of a provider block with for_each, and the module has "+
			"no such block for %s.", p)
	}
}

// sameForEach warns that a resource and its provider configuration would lose their instances together, although
// the provider is needed to destroy the resource.
func (c *providerCheck) sameForEach(block, target string, a, b hcl.Expression) {
	if a == nil || b == nil || len(a.Variables()) == 0 || len(b.Variables()) == 0 || !sameExpression(a, b) {
		return
	}
	c.warn(a.Range(), "Provider configuration for_each matches "+block,
		"The provider configuration has the same for_each. When an element is taken away, the instance of the "+
			"provider goes at once, and "+
			"nothing is left that could destroy what it made. Let the for_each of the provider keep an element for "+
			"one apply longer; "+
			"to get rid of these objects first, use apply -destroy -target=%s.", target)
}

// outgoing checks the configurations that the module passes to the modules that it calls.
func (c *providerCheck) outgoing() {
	for _, call := range c.calls() {
		for _, p := range call.Providers {
			if p.InParent.Alias != "" {
				continue
			}
			name := p.InParent.Name
			source := addr.Provider{Host: addr.DefaultHost, Namespace: "hashicorp", Type: name}
			_, configured := c.configured[name]
			_, declared := c.declared[name]
			_, passed := c.passed[name]
			switch {
			case !configured && !declared:
				c.warn(p.InParentRange, "Reference to undefined provider",
					"%s does not declare the provider %q, so it is assumed to be provider %s. Declare it in required_providers: "+
						"%s = { source = %q }.",
					c.where(), name, source.Display(), name, source.Display())
			case c.n.Parent != nil && !configured && !passed:
				c.warn(c.n.Call.Range, "Missing required provider configuration",
					"%s passes on a configuration of provider %s with the local name %q, which %s does not pass to "+
						"it. Add %s to the providers of this module block.",
					c.where(), source.Display(), name, moduleText(c.n.Parent), name)
			}
		}
	}
}

// incoming checks the configurations that the caller passes against those that the module accepts.
func (c *providerCheck) incoming(single *hcl.Range) {
	if len(c.configured) > 0 && single != nil {
		c.err(*single, "Module is incompatible with count, for_each, enabled and depends_on",
			"%s has provider blocks of its own, so it cannot be called with count, for_each, enabled or depends_on. "+
				"Let it take its provider configurations from its caller.", c.where())
	}
	for _, name := range slices.Sorted(maps.Keys(c.configured)) {
		if p, ok := c.passed[name]; ok {
			c.err(p.InChildRange, "Cannot override provider configuration",
				"%s configures %s itself, so %s cannot pass it another configuration.", c.where(), name,
				moduleText(c.n.Parent))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.aliases)) {
		_, configured := c.configured[name]
		_, passed := c.passed[name]
		if !configured && !passed {
			c.err(c.n.Call.Range, "Missing required provider configuration",
				"The module needs a configuration of provider %s under the name %s. Pass one: providers = { %s "+
					"= ... }.", c.aliases[name].Display(), name, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.passed)) {
		c.accepts(name, c.passed[name])
	}
}

// accepts checks one configuration that is passed in.
func (c *providerCheck) accepts(name string, p *PassedProvider) {
	wants := c.typeHere(p.InChild.Name)
	source, declared := c.declared[name]
	if declared {
		wants = source
	}
	aliased, isAlias := c.aliases[name]
	if isAlias {
		wants = aliased
	}
	if _, empty := c.empty[name]; !declared && !isAlias && !empty {
		if isDefault(wants) {
			c.warn(p.InChildRange, "Reference to undefined provider",
				"%s does not declare the provider %q, so it is assumed to be provider %s. The module should declare it in "+
					"required_providers: %s = { source = %q }.",
				c.where(), name, wants.Display(), name, wants.Display())
		} else {
			c.err(p.InChildRange, "Reference to undefined provider",
				"The module takes no provider configuration %q. It would need an entry %q in required_providers, "+
					"with the source %q.", name, name, wants.Display())
		}
	}
	gets := typeOf(c.n.Parent, p.InParent.Name)
	if r, ok := c.n.Parent.Module.Required[name]; ok && !r.Implied {
		gets = r.Source
	}
	if wants == gets {
		return
	}
	const summary = "Provider type mismatch"
	for _, other := range slices.Sorted(maps.Keys(c.declared)) {
		if c.declared[other] == gets {
			c.err(p.InChildRange, summary, "The configuration is one of provider %s, and in %s the name %q means %s. "+
				"Pass it as %q.",
				gets.Display(), c.where(), p.InChild.Name, wants.Display(), other)
			return
		}
	}
	c.err(p.InParentRange, summary, "In %s %q is provider %s, but in %s %q is provider %s. A configuration of the "+
		"one is of no use to the other.",
		moduleText(c.n.Parent), p.InParent.String(), gets.Display(), c.where(), p.InChild.String(), wants.Display())
}

// typeHere is typeOf for the module that is checked.
func (c *providerCheck) typeHere(name string) addr.Provider { return typeOf(c.n, name) }

// emptyBlocks warns about empty provider blocks, by which modules formerly declared which configurations they
// accept.
func (c *providerCheck) emptyBlocks() {
	byName := map[string][]string{}
	for name, p := range c.empty {
		byName[p.Name] = append(byName[p.Name], name)
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		locals := byName[name]
		slices.Sort(locals)
		at := c.empty[locals[0]].Range
		var aliases []string
		for _, l := range locals {
			if p := c.empty[l]; p.Range.String() < at.String() {
				at = p.Range
			}
			if l != name {
				aliases = locals
			}
		}
		entry := fmt.Sprintf("source = %q", typeOf(c.n, name).Display())
		if aliases != nil {
			entry += ", configuration_aliases = [" + strings.Join(aliases, ", ") + "]"
		}
		c.warn(at, "Redundant empty provider block",
			"In earlier versions of the language an empty provider block said that a module takes a configuration "+
				"from its caller. "+
				"Delete the empty blocks of %s, and write in required_providers instead:\n    %s = { %s }",
			name, name, entry)
	}
}

// checkImports checks that an import block and its target select the same provider configuration. Only the root
// module has import blocks.
func checkImports(t *Tree) diag.List {
	c := &decoder{}
	for _, i := range t.Root.Module.Imports {
		target := t.Root.Module.Resources[i.StaticTo.Resource]
		if !i.StaticTo.Module.IsRoot() || target == nil || !i.ProviderSet {
			continue
		}
		if !target.ProviderSet || target.Provider != i.Provider {
			c.err(i.ProviderRange, "Invalid import provider argument",
				"%s uses another provider configuration than this. Leave the argument out, or write the same in the "+
					"resource.", target.Addr)
		}
	}
	return c.diags
}
