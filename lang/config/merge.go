package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/syntax"
)

// merge applies the declarations of an override file to those of the files before it.
func (a *assembler) merge(f *file) {
	m := a.m
	m.Engine = append(m.Engine, f.engine...)
	a.mergeSettings(f)
	for _, p := range f.providers {
		base, ok := m.Providers[p.Local()]
		switch {
		case ok:
			if p.Version != "" {
				base.Version, base.VersionRange = p.Version, p.VersionRange
			}
			base.Config = MergeBodies(base.Config, p.Config)
		case p.Alias == "":
			m.Providers[p.Local()] = p
		default:
			a.nothing(p.Range, "Missing base provider configuration for override", "provider configuration "+
				p.Local().String())
		}
	}
	for _, v := range f.variables {
		if base, ok := m.Variables[v.Name]; ok {
			a.mergeVariable(base, v)
		} else {
			a.nothing(v.Range, "Missing base variable declaration to override", "variable "+v.Name)
		}
	}
	for _, l := range f.locals {
		if base, ok := m.Locals[l.Name]; ok {
			base.Expr, base.Range = l.Expr, l.Range
		} else {
			a.nothing(l.Range, "Missing base local value definition to override", "local value "+l.Name)
		}
	}
	for _, o := range f.outputs {
		if base, ok := m.Outputs[o.Name]; ok {
			a.mergeOutput(base, o)
		} else {
			a.nothing(o.Range, "Missing base output definition to override", "output "+o.Name)
		}
	}
	for _, c := range f.calls {
		if base, ok := m.Calls[c.Name]; ok {
			a.mergeCall(base, c)
		} else {
			a.nothing(c.Range, "Missing module call to override", "module call "+c.Name)
		}
	}
	for _, r := range f.resources {
		if base, ok := m.Resources[r.Addr]; ok {
			a.mergeResource(base, r)
		} else {
			word := map[string]string{"data": "data resource"}[resourceWords[r.Addr.Mode]]
			if word == "" {
				word = resourceWords[r.Addr.Mode]
			}
			a.nothing(r.Range, "Missing "+word+" to override", r.Addr.String())
		}
	}
	for _, b := range f.moved {
		a.err(b.Range, "Cannot override 'moved' blocks", "A moved block cannot stand in an override file.")
	}
	for _, b := range f.imports {
		a.err(b.Range, "Cannot override 'import' blocks", "An import block cannot stand in an override file.")
	}
	for _, b := range f.removed {
		a.err(b.Range, "Cannot override 'Removed' blocks", "A removed block cannot stand in an override file.")
	}
}

// nothing reports that there is nothing to override.
func (a *assembler) nothing(at hcl.Range, summary, what string) {
	a.err(at, summary, "No other file declares %s, and an override file cannot add it.", what)
}

func (a *assembler) noDependsOn(list []hcl.Traversal) {
	if len(list) > 0 {
		a.err(list[0].SourceRange(), "Unsupported override", "An override file cannot change depends_on.")
	}
}

func (a *assembler) mergeSettings(f *file) {
	m := a.m
	switch len(f.backends) {
	case 0:
	case 1: // also replaces a cloud block
		m.Backend, m.Cloud = f.backends[0], nil
	default:
		a.err(f.backends[1].Range, "Duplicate backend configuration", "An override file has one backend block at "+
			"most. The first is at %s.", f.backends[0].Range)
	}
	switch len(f.clouds) {
	case 0:
	case 1:
		m.Cloud, m.Backend = f.clouds[0], nil
	default:
		a.err(f.clouds[1].Range, "Duplicate cloud configurations", "An override file has one cloud block at most. "+
			"The first is at %s.", f.clouds[0].Range)
	}
	switch len(f.encryption) {
	case 0:
	case 1:
		if m.Encryption == nil {
			m.Encryption, m.EncryptionRange = f.encryption[0].body, f.encryption[0].rng
		} else {
			m.Encryption = MergeEncryption(m.Encryption, f.encryption[0].body)
		}
	default:
		a.err(f.encryption[1].rng, "Duplicate encryption configuration", "An override file has one encryption block "+
			"at most. The first is at %s.", f.encryption[0].rng)
	}
}

func (a *assembler) mergeVariable(v, o *Variable) {
	if o.DescriptionSet {
		v.Description, v.DescriptionSet = o.Description, true
	}
	if o.SensitiveSet {
		v.Sensitive, v.SensitiveSet = o.Sensitive, true
	}
	if o.EphemeralSet {
		v.Ephemeral, v.EphemeralSet = o.Ephemeral, true
	}
	if o.NullableSet {
		v.Nullable, v.NullableSet = o.Nullable, true
	}
	if o.ConstSet {
		v.Const, v.ConstSet = o.Const, true
	}
	if o.Deprecated != "" {
		v.Deprecated = o.Deprecated
	}
	if o.TypeSet {
		v.Type, v.ConstraintType, v.TypeDefaults, v.ParseLiteral, v.TypeSet = o.Type, o.ConstraintType, o.TypeDefaults,
			o.ParseLiteral, true
	}
	if o.Default != cty.NilVal {
		v.Default = o.Default
	}
	if v.Default == cty.NilVal {
		return
	}
	const summary = "Invalid default value for variable"
	value, err := syntax.Convert(v.Default, v.ConstraintType)
	if err != nil {
		switch {
		case o.TypeSet && o.Default == cty.NilVal:
			a.err(o.Range, summary, "The default of the variable is not of the type that is set here: %s.",
				conversionText(err))
		case !o.TypeSet && o.Default != cty.NilVal:
			a.err(o.Range, summary, "The default that is set here is not of the variable's type: %s.",
				conversionText(err))
		default:
			a.err(o.Range, summary, "The default is not of the variable's type: %s.", conversionText(err))
		}
		return
	}
	v.Default = value
	if !v.Nullable && value.IsNull() {
		a.err(o.Range, summary, "The default cannot be null, because nullable is false.")
	}
}

func (a *assembler) mergeOutput(base, o *Output) {
	if o.Description != "" {
		base.Description = o.Description
	}
	if o.Expr != nil {
		base.Expr = o.Expr
	}
	if o.SensitiveSet {
		base.Sensitive, base.SensitiveSet = o.Sensitive, true
	}
	if o.EphemeralSet {
		base.Ephemeral, base.EphemeralSet = o.Ephemeral, true
	}
	if o.Deprecated != "" {
		base.Deprecated = o.Deprecated
	}
	a.noDependsOn(o.DependsOn)
}

func (a *assembler) mergeCall(base, c *ModuleCall) {
	if c.SourceExpr != nil {
		base.SourceExpr, base.SourceRange = c.SourceExpr, c.SourceRange
	}
	if c.VersionExpr != nil {
		base.VersionExpr, base.VersionRange = c.VersionExpr, c.VersionRange
	}
	if c.Count != nil {
		base.Count = c.Count
	}
	if c.ForEach != nil {
		base.ForEach = c.ForEach
	}
	if len(c.Providers) > 0 {
		base.Providers = c.Providers
	}
	base.Config = MergeBodies(base.Config, c.Config)
	a.noDependsOn(c.DependsOn)
}

func (a *assembler) mergeResource(base, r *Resource) {
	if r.Count != nil {
		base.Count = r.Count
	}
	if r.ForEach != nil {
		base.ForEach = r.ForEach
	}
	if r.ProviderSet {
		base.Provider, base.ProviderSet, base.ProviderKeyExpr, base.ProviderRange = r.Provider, true, r.ProviderKeyExpr,
			r.ProviderRange
		a.resourceSource(base)
	}
	if r.Connection != nil {
		base.Connection = r.Connection
	}
	if r.CreateBeforeDestroySet {
		base.CreateBeforeDestroy, base.CreateBeforeDestroySet = r.CreateBeforeDestroy, true
	}
	if len(r.IgnoreChanges) > 0 {
		base.IgnoreChanges = r.IgnoreChanges
	}
	base.IgnoreAll = base.IgnoreAll || r.IgnoreAll
	if r.PreventDestroy != nil {
		base.PreventDestroy = r.PreventDestroy
	}
	if r.Destroy != nil {
		base.Destroy = r.Destroy
	}
	if len(r.Provisioners) > 0 {
		base.Provisioners = r.Provisioners
	}
	if len(r.Triggers) > 0 {
		base.Triggers = r.Triggers
	}
	base.Config = MergeBodies(base.Config, r.Config)
	a.noDependsOn(r.DependsOn)
}

// overridden is a body that is partly overridden by another.
type overridden struct{ base, override hcl.Body }

// MergeBodies returns base overridden by override: an attribute replaces the one of the same name, blocks replace
// all blocks of the same type. Equal arguments give equal bodies.
func MergeBodies(base, override hcl.Body) hcl.Body { return overridden{base, override} }

// Content accepts arguments that the schema does not have, as OpenTofu does in overridden blocks.
func (b overridden) Content(schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Diagnostics) {
	content, _, diags := b.PartialContent(schema)
	return content, diags
}

func (b overridden) PartialContent(schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Body, hcl.Diagnostics) {
	base, baseRest, diags := b.base.PartialContent(withDynamic(schema))
	over, overRest, more := b.override.PartialContent(withDynamic(optional(schema)))
	return overlay(base, over), overridden{baseRest, overRest}, append(diags, more...)
}

func (b overridden) JustAttributes() (hcl.Attributes, hcl.Diagnostics) {
	base, diags := b.base.JustAttributes()
	over, more := b.override.JustAttributes()
	out := make(hcl.Attributes, len(base)+len(over))
	for name, a := range base {
		out[name] = a
	}
	for name, a := range over {
		out[name] = a
	}
	return out, append(diags, more...)
}

func (b overridden) MissingItemRange() hcl.Range { return b.base.MissingItemRange() }

func overlay(base, over *hcl.BodyContent) *hcl.BodyContent {
	out := &hcl.BodyContent{Attributes: make(hcl.Attributes, len(base.Attributes)+len(over.Attributes)),
		MissingItemRange: base.MissingItemRange}
	for name, a := range base.Attributes {
		out.Attributes[name] = a
	}
	for name, a := range over.Attributes {
		out.Attributes[name] = a
	}
	replaced := map[string]bool{}
	for _, b := range over.Blocks {
		replaced[producedType(b)] = true
	}
	for _, b := range base.Blocks {
		if !replaced[producedType(b)] {
			out.Blocks = append(out.Blocks, b)
		}
	}
	out.Blocks = append(out.Blocks, over.Blocks...)
	return out
}

// producedType returns the type of a block, or of the blocks that a dynamic block produces.
func producedType(b *hcl.Block) string {
	if b.Type == "dynamic" && len(b.Labels) > 0 {
		return b.Labels[0]
	}
	return b.Type
}

// withDynamic returns the schema extended by dynamic blocks, which can produce any of its block types.
func withDynamic(schema *hcl.BodySchema) *hcl.BodySchema {
	if slices.ContainsFunc(schema.Blocks, func(b hcl.BlockHeaderSchema) bool { return b.Type == "dynamic" }) {
		return schema
	}
	return &hcl.BodySchema{
		Attributes: schema.Attributes,
		Blocks: append(slices.Clone(schema.Blocks), hcl.BlockHeaderSchema{Type: "dynamic",
			LabelNames: []string{"type"}}),
	}
}
