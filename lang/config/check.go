package config

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Check checks the conditions for validating or planning a tree that was loaded without errors: every module block sets
// the required variables of its module and no undeclared ones, and every resource and every providers argument resolves
// to a provider configuration. It is not part of loading because modules and providers of a tree that fails here can
// still be installed.
func (t *Tree) Check() diag.List { return t.check(false) }

// CheckReusable is Check for a root module that others may call: the provider configurations that it expects from
// its caller count as present.
func (t *Tree) CheckReusable() diag.List { return t.check(true) }

func (t *Tree) check(called bool) diag.List {
	var diags diag.List
	for _, path := range slices.Sorted(maps.Keys(t.Modules)) {
		n := t.Modules[path]
		diags = append(diags, n.checkArguments()...)
		diags = append(diags, n.checkProviderUse(called)...)
	}
	return diags
}

// checkArguments checks the arguments of the module block that calls the node.
func (n *Node) checkArguments() diag.List {
	if n.Call == nil {
		return nil
	}
	schema := &hcl.BodySchema{}
	for _, name := range slices.Sorted(maps.Keys(n.Module.Variables)) {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name,
			Required: n.Module.Variables[name].Required()})
	}
	_, more := n.Call.Config.Content(schema)
	return diag.List(nil).Append(more)
}

func (n *Node) checkProviderUse(called bool) diag.List {
	var diags diag.List
	if n.Call != nil {
		for _, p := range n.Call.Providers {
			if called && n.Parent.wants(p.InParent) {
				continue
			}
			_, more := n.ResolveProvider(p.InChild)
			diags = append(diags, more.WithSubject(&p.Range)...)
		}
		if diags.HasErrors() {
			return diags // each resource of the module would repeat the error
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(n.Module.Resources), compareResources) {
		r := n.Module.Resources[a]
		if called && n.fromOutside(r.Provider) {
			continue
		}
		_, more := n.ResolveProvider(r.Provider)
		diags = append(diags, more.WithSubject(&r.Range).WithAddress(a.In(n.Path).String())...)
	}
	return diags
}

// wants reports whether the node is the root module and expects this provider configuration from a caller.
func (n *Node) wants(l addr.LocalProvider) bool {
	r := n.Module.Required[l.Name]
	return n.Parent == nil && r != nil && slices.Contains(r.Aliases, l)
}

// fromOutside reports whether a provider configuration is one that the root module expects from a caller and passes
// on.
func (n *Node) fromOutside(l addr.LocalProvider) bool {
	for n.Call != nil {
		i := slices.IndexFunc(n.Call.Providers, func(p PassedProvider) bool { return p.InChild == l })
		if i < 0 {
			return false
		}
		l, n = n.Call.Providers[i].InParent, n.Parent
	}
	return n.wants(l)
}
