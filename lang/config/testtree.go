package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// ForTest returns the configuration for a run of a test: with the providers of the file in place of its own, and
// without the blocks that the file or the run overrides. t is the tree of the module that the run tests; it is not
// changed.
//
// evaluate evaluates expressions of provider blocks in the file that refer to values which the module does not have. It
// returns ok false for expressions that the module can evaluate itself, unless all is set.
func (t *Tree) ForTest(f *TestFile, r *TestRun, evaluate func(e hcl.Expression, all bool) (v cty.Value, ok bool,
	diags hcl.Diagnostics)) (*Tree, diag.List) {
	v := &testVariant{tree: t.copy(), file: f, run: r, evaluate: evaluate}
	v.providers()
	v.resources()
	v.modules()
	return v.tree, v.diags
}

// copy returns a tree with copied nodes and modules; their maps are shared.
func (t *Tree) copy() *Tree {
	out := &Tree{Modules: make(map[addr.Module]*Node, len(t.Modules))}
	out.Root = out.copyNode(t.Root, nil)
	return out
}

func (t *Tree) copyNode(n, parent *Node) *Node {
	m := *n.Module
	out := &Node{
		Path: n.Path, Parent: parent, Call: n.Call, Module: &m, Children: make(map[string]*Node, len(n.Children)),
		SourceDir: n.SourceDir, Version: n.Version, ProviderInstances: n.ProviderInstances, static: n.static,
	}
	t.Modules[out.Path] = out
	for name, child := range n.Children {
		out.Children[name] = t.copyNode(child, out)
	}
	return out
}

// testVariant applies the changes.
type testVariant struct {
	tree     *Tree
	file     *TestFile
	run      *TestRun
	evaluate func(hcl.Expression, bool) (cty.Value, bool, hcl.Diagnostics)
	diags    diag.List
}

func (v *testVariant) err(at hcl.Range, summary, format string, args ...any) {
	v.diags = append(v.diags, diag.New(diag.Error, summary, text(format, args), &at))
}

// providers puts the provider blocks of the file into the root module.
func (v *testVariant) providers() {
	root := v.tree.Root
	used := v.tree.Requirements()
	wanted := func(name string) bool { // the file may have providers for other runs
		_, ok := used[root.Module.ProviderFor(name)]
		return ok
	}
	root.Module.Providers = maps.Clone(root.Module.Providers)
	root.ProviderInstances = maps.Clone(root.ProviderInstances)
	if len(v.run.Providers) > 0 {
		for _, p := range v.run.Providers {
			block := v.file.Provider(p.InParent)
			if block == nil {
				v.err(p.InParentRange, "Missing provider definition for "+p.InParent.String(),
					"The test file has no provider or mock_provider block %s.", p.InParent)
				continue
			}
			v.provider(block, p.InChild)
		}
		return
	}
	for _, blocks := range []map[addr.LocalProvider]*ProviderConfig{v.file.Providers, v.file.Mocks} {
		for l, block := range blocks {
			if wanted(l.Name) {
				v.provider(block, l)
			}
		}
	}
}

// provider puts one block into the root module, under the module's name for it.
func (v *testVariant) provider(block *ProviderConfig, as addr.LocalProvider) {
	root := v.tree.Root
	own := *block
	own.Name, own.Alias = as.Name, as.Alias
	own.Config = &testBody{Body: block.Config, variant: v}
	root.Module.Providers[as] = &own
	delete(root.ProviderInstances, as)
	if own.ForEach == nil {
		return
	}
	elements, diags := v.forEach(own.ForEach, as)
	v.diags = append(v.diags, diags...)
	if root.ProviderInstances == nil {
		root.ProviderInstances = map[addr.LocalProvider]map[string]cty.Value{}
	}
	root.ProviderInstances[as] = elements
}

func (v *testVariant) forEach(e hcl.Expression, as addr.LocalProvider) (map[string]cty.Value, diag.List) {
	use := StaticUse{"provider." + as.String() + ".for_each", e.Range()}
	value, _, more := v.evaluate(e, true)
	if more.HasErrors() {
		return nil, diag.List(nil).Append(more)
	}
	return v.tree.Root.static.ForEach(hcl.StaticExpr(value, e.Range()), use)
}

// resources marks the resources that are overridden.
func (v *testVariant) resources() {
	inRun := map[addr.ConfigResource]bool{}
	for _, o := range v.run.Overrides.Resources {
		inRun[o.Target] = true
		v.resource(o)
	}
	for _, o := range v.file.Overrides.Resources {
		if inRun[o.Target] {
			v.diags = append(v.diags, diag.New(diag.Warning, "Multiple `"+o.Block+"` blocks for the same address",
				fmt.Sprintf("The run overrides %s too, so what the file says of it has no effect there.", o.Target),
				&o.Range))
			continue
		}
		v.resource(o)
	}
}

func (v *testVariant) resource(o *ResourceOverride) {
	n := v.tree.Modules[o.Target.Module]
	if n == nil {
		v.err(o.Range, "Module not found: "+o.Target.Module.String(), "The target is in a module that the "+
			"configuration does not call.")
		return
	}
	r := n.Module.Resources[o.Target.Resource]
	if r == nil {
		v.err(o.Range, "Resource not found: "+o.Target.String(), "The configuration has no block for the target.")
		return
	}
	if r.Addr.Mode != o.Mode {
		word := "data"
		if o.Mode == addr.Data {
			word = "resource"
		}
		v.err(o.Range, fmt.Sprintf("Unsupported `%s` target in `%s` block", word, o.Block),
			"%s is a %s block, which is overridden by the other kind of block.", o.Target, word)
		return
	}
	if v.tree.overrides == nil {
		v.tree.overrides = map[addr.ConfigResource]*ResourceOverride{}
	}
	v.tree.overrides[o.Target] = o
}

// modules empties the modules that are overridden.
func (v *testVariant) modules() {
	inRun := map[addr.Module]bool{}
	for _, o := range v.run.Overrides.Modules {
		inRun[o.Target] = true
		v.module(o)
	}
	for _, o := range v.file.Overrides.Modules {
		if inRun[o.Target] {
			v.diags = append(v.diags, diag.New(diag.Warning, "Multiple `override_module` blocks for the same address",
				fmt.Sprintf("The run overrides %s too, so what the file says of it has no effect there.", o.Target),
				&o.Range))
			continue
		}
		v.module(o)
	}
}

// module removes everything from a module but its variables and its outputs, which get the values of the override.
func (v *testVariant) module(o *ModuleOverride) {
	n := v.tree.Modules[o.Target]
	if n == nil {
		v.err(o.Range, "Module not found: "+o.Target.String(), "The configuration does not call this module.")
		return
	}
	for name := range o.Outputs {
		if n.Module.Outputs[name] == nil {
			v.diags = append(v.diags, diag.New(diag.Warning, "Output not found: "+name,
				"The module has no such output, so its value has no effect.", &o.Range))
		}
	}
	outputs := make(map[string]*Output, len(n.Module.Outputs))
	for name, out := range n.Module.Outputs {
		value, ok := o.Outputs[name]
		if !ok {
			value = cty.NullVal(cty.DynamicPseudoType)
		}
		own := *out
		own.Expr, own.DependsOn, own.Preconditions = hcl.StaticExpr(value, o.Range), nil, nil
		outputs[name] = &own
	}
	m := n.Module
	m.Variables = selfContained(m.Variables)
	m.Outputs, m.Locals, m.Calls, m.Resources, m.Checks = outputs, nil, nil, nil, nil
	m.Moved, m.Removed, m.Imports = nil, nil, nil
	for path := range v.tree.Modules {
		if path != o.Target && o.Target.Contains(path) {
			delete(v.tree.Modules, path)
		}
	}
	n.Children = map[string]*Node{}
}

// selfContained returns variables without the validations that refer to more than variables.
func selfContained(all map[string]*Variable) map[string]*Variable {
	out := make(map[string]*Variable, len(all))
	for name, v := range all {
		own := *v
		own.Validations = slices.DeleteFunc(slices.Clone(v.Validations), func(r *CheckRule) bool {
			return slices.ContainsFunc(slices.Concat(r.Condition.Variables(), r.ErrorMessage.Variables()),
				func(t hcl.Traversal) bool { return t.RootName() != "var" })
		})
		out[name] = &own
	}
	return out
}

// testBody is the body of a provider block in a test file, in which the expressions that only the test can evaluate
// are replaced by values.
type testBody struct {
	hcl.Body
	variant *testVariant
}

// Content implements hcl.Body.
func (b *testBody) Content(schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Diagnostics) {
	c, diags := b.Body.Content(schema)
	c, more := b.evaluated(c)
	return c, append(diags, more...)
}

// PartialContent implements hcl.Body.
func (b *testBody) PartialContent(schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Body, hcl.Diagnostics) {
	c, rest, diags := b.Body.PartialContent(schema)
	c, more := b.evaluated(c)
	return c, &testBody{rest, b.variant}, append(diags, more...)
}

// JustAttributes implements hcl.Body.
func (b *testBody) JustAttributes() (hcl.Attributes, hcl.Diagnostics) {
	attrs, diags := b.Body.JustAttributes()
	attrs, more := b.attributes(attrs)
	return attrs, append(diags, more...)
}

func (b *testBody) evaluated(c *hcl.BodyContent) (*hcl.BodyContent, hcl.Diagnostics) {
	if c == nil {
		return nil, nil
	}
	out := *c
	var diags hcl.Diagnostics
	out.Attributes, diags = b.attributes(c.Attributes)
	out.Blocks = make(hcl.Blocks, len(c.Blocks))
	for i, block := range c.Blocks {
		own := *block
		own.Body = &testBody{block.Body, b.variant}
		out.Blocks[i] = &own
	}
	return &out, diags
}

func (b *testBody) attributes(attrs hcl.Attributes) (hcl.Attributes, hcl.Diagnostics) {
	out := make(hcl.Attributes, len(attrs))
	var diags hcl.Diagnostics
	for name, attr := range attrs {
		own := *attr
		v, ok, more := b.variant.evaluate(attr.Expr, false)
		diags = append(diags, more...)
		if ok {
			own.Expr = hcl.StaticExpr(v, attr.Expr.Range())
		}
		out[name] = &own
	}
	return out, diags
}
