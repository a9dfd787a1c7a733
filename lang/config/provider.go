package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
)

var providerSchema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{
		{Name: "alias"}, {Name: "version"}, {Name: "for_each"}, {Name: "count"}, {Name: "depends_on"}, {Name: "source"},
	},
	Blocks: []hcl.BlockHeaderSchema{{Type: "_"}, {Type: "lifecycle"}, {Type: "locals"}},
}

// provider decodes a provider block; nil if its name is invalid.
func (d *decoder) provider(b *hcl.Block) *ProviderConfig {
	c, rest := d.partial(b.Body, providerSchema)
	if !d.providerName(b.Labels[0], b.DefRange) {
		return nil
	}
	p := &ProviderConfig{Name: b.Labels[0], NameRange: b.LabelRanges[0], Config: rest, Range: b.DefRange}
	if d.constant(c, "alias", &p.Alias) {
		p.AliasExpr = expr(c, "alias")
		if !addr.ValidIdentifier(p.Alias) {
			d.err(p.AliasExpr.Range(), "Invalid provider configuration alias", nameRule)
		}
	}
	if attr, ok := c.Attributes["version"]; ok {
		d.warn(attr.Expr.Range(), "Version constraints inside provider configuration blocks are deprecated",
			"The version of a provider belongs into the required_providers block; later versions of the language "+
				"will refuse it here.")
		p.VersionRange = attr.Range
		if v, ok := d.versionAttribute(attr); ok {
			p.Version = v.String()
		}
	}
	p.ForEach = expr(c, "for_each")
	if p.ForEach != nil && p.Alias == "" {
		d.err(p.ForEach.Range(), `Alias required when using "for_each"`, "Several instances of a configuration need "+
			"an alias to be chosen by.")
	}
	for _, name := range []string{"count", "depends_on", "source"} {
		if attr, ok := c.Attributes[name]; ok {
			d.err(attr.NameRange, "Reserved argument name in provider block",
				"The argument %q is kept free for later versions of the language.", name)
		}
	}
	var escape *hcl.Block
	for _, b := range c.Blocks {
		if b.Type == "_" {
			d.escape(&escape, b, &p.Config)
		} else {
			d.reserved(b, "provider")
		}
	}
	return p
}

// requiredProviders is one required_providers block.
type requiredProviders struct {
	entries map[string]*RequiredProvider
	rng     hcl.Range
}

func (d *decoder) requiredProviders(b *hcl.Block) *requiredProviders {
	out := &requiredProviders{entries: map[string]*RequiredProvider{}, rng: b.DefRange}
	attrs, more := b.Body.JustAttributes()
	if d.add(more) {
		return out
	}
	before := len(d.diags)
	for _, attr := range inOrder(attrs) {
		if v, hclDiags := attr.Expr.Value(nil); hclDiags == nil && v.Type().IsPrimitiveType() {
			if r := d.requiredVersion(attr); r != nil {
				out.entries[r.Name] = r
			}
			continue
		}
		if r := d.requiredProvider(attr); r != nil && !d.diags[before:].HasErrors() {
			out.entries[r.Name] = r
		}
	}
	return out
}

// requiredVersion decodes the older form NAME = "CONSTRAINTS".
func (d *decoder) requiredVersion(attr *hcl.Attribute) *RequiredProvider {
	r := &RequiredProvider{Name: attr.Name, Range: attr.Expr.Range(), ConstraintsRange: attr.Range}
	if c, ok := d.versionAttribute(attr); ok {
		r.Constraints = c.String()
	}
	if !d.impliedSource(r) {
		return nil
	}
	return r
}

// impliedSource sets the default source of a provider without one.
func (d *decoder) impliedSource(r *RequiredProvider) bool {
	label, err := addr.ParseProviderLabel(r.Name)
	if err != nil {
		d.err(r.Range, "Invalid provider name", "%s", err)
		return false
	}
	r.Source = addr.DefaultProvider(label)
	return true
}

// requiredProvider decodes NAME = { source = ..., version = ..., configuration_aliases = [...] }.
func (d *decoder) requiredProvider(attr *hcl.Attribute) *RequiredProvider {
	const summary = "Invalid required_providers object"
	r := &RequiredProvider{Name: attr.Name, Range: attr.Expr.Range()}
	if !d.providerName(r.Name, r.Range) {
		return nil
	}
	pairs, more := hcl.ExprMap(attr.Expr)
	if more.HasErrors() {
		d.err(r.Range, summary, "An entry is an object with source and version, or a string with version constraints.")
		return nil
	}
	for _, pair := range pairs {
		key, more := pair.Key.Value(nil)
		if d.add(more) {
			continue
		}
		if key.Type() != cty.String || key.IsNull() {
			d.err(pair.Key.Range(), "Invalid Attribute", "The attributes of an entry are named by words.")
			continue
		}
		switch key.AsString() {
		case "version":
			text, ok := constantString(pair.Value)
			if !ok {
				d.err(pair.Value.Range(), "Invalid version constraint", "Version constraints are a string.")
				continue
			}
			if _, ok := d.versionText(text, pair.Value.Range()); ok {
				r.Constraints, r.ConstraintsRange = text, attr.Range
			}
		case "source":
			text, ok := constantString(pair.Value)
			if !ok {
				d.err(pair.Value.Range(), "Invalid source", "The source of a provider is a string.")
				continue
			}
			source, problems := addr.ParseProviderSource(text)
			d.diags = append(d.diags, problems.WithSubject(pair.Value.Range().Ptr())...)
			r.Source = source
		case "configuration_aliases":
			r.Aliases = append(r.Aliases, d.configurationAliases(r.Name, pair.Value)...)
		default:
			d.err(pair.Key.Range(), summary,
				"An entry has version, source and configuration_aliases, nothing else. A provider is configured by a "+
					"provider block.")
			return nil
		}
	}
	if r.Source.IsZero() && !d.impliedSource(r) {
		return nil
	}
	return r
}

func constantString(e hcl.Expression) (string, bool) {
	v, diags := e.Value(nil)
	if diags.HasErrors() || v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
		return "", false
	}
	return v.AsString(), true
}

func (d *decoder) configurationAliases(name string, e hcl.Expression) []addr.LocalProvider {
	const summary = "Invalid configuration_aliases value"
	list, more := hcl.ExprList(e)
	if d.add(more) {
		return nil
	}
	var out []addr.LocalProvider
	for _, item := range list {
		trav, more := hcl.AbsTraversalForExpr(item)
		if d.add(more) {
			continue
		}
		local, problems := addr.ParseLocalProvider(trav)
		switch {
		case problems.HasErrors():
			d.err(e.Range(), summary, "A configuration alias is written as the local name of the provider, a dot, "+
				"and the alias.")
		case local.Name != name:
			d.err(e.Range(), summary, "The aliases here are those of %q, and this one begins with %q.",
				name, local.Name)
		default:
			out = append(out, local)
		}
	}
	return out
}

// providerMeta is a provider_meta block before its provider is resolved.
type providerMeta struct {
	name string
	body hcl.Body
	rng  hcl.Range
	at   hcl.Range // of the name
}

func (d *decoder) providerMeta(b *hcl.Block) (providerMeta, bool) {
	attrs, more := b.Body.JustAttributes()
	if d.add(more) {
		return providerMeta{}, false
	}
	before := len(d.diags)
	for _, attr := range inOrder(attrs) {
		_, more := attr.Expr.Value(nil)
		d.add(more)
	}
	ok := d.providerName(b.Labels[0], b.DefRange) && !d.diags[before:].HasErrors()
	return providerMeta{b.Labels[0], b.Body, b.DefRange, b.LabelRanges[0]}, ok
}
