package config

import "github.com/hashicorp/hcl/v2"

var (
	moduleSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{
			{Name: "source", Required: true}, {Name: "version"}, {Name: "count"}, {Name: "for_each"},
			{Name: "depends_on"}, {Name: "providers"},
		},
		Blocks: []hcl.BlockHeaderSchema{
			{Type: "_"}, {Type: "lifecycle"}, {Type: "locals"}, {Type: "provider", LabelNames: []string{"type"}},
		},
	}
	moduleLifecycleSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "enabled"}}}
)

// module decodes a module block. Its source and version are evaluated later, for each caller.
func (d *decoder) module(b *hcl.Block) *ModuleCall {
	m := &ModuleCall{Name: b.Labels[0], Range: b.DefRange}
	schema := moduleSchema
	if d.override {
		schema = optional(schema)
	}
	c, rest := d.partial(b.Body, schema)
	m.Config = rest
	d.label(b, 0, "Invalid module instance name")
	if attr, ok := c.Attributes["source"]; ok {
		m.SourceExpr, m.SourceRange = attr.Expr, attr.Expr.Range()
	}
	if attr, ok := c.Attributes["version"]; ok {
		m.VersionExpr, m.VersionRange = attr.Expr, attr.Range
	}
	m.Count, m.ForEach = expr(c, "count"), expr(c, "for_each")
	times := repetition{count: c.Attributes["count"], forEach: c.Attributes["for_each"]}
	m.DependsOn = d.dependsOn(c)
	if attr, ok := c.Attributes["providers"]; ok {
		m.Providers = d.passedProviders(attr)
	}
	var lifecycle, escape *hcl.Block
	for _, b := range c.Blocks {
		switch b.Type {
		case "lifecycle":
			if d.once(&lifecycle, b, "lifecycle") {
				c := d.content(b.Body, moduleLifecycleSchema)
				m.Enabled, times.enabled = expr(c, "enabled"), c.Attributes["enabled"]
			}
		case "_":
			d.escape(&escape, b, &m.Config)
		default:
			d.reserved(b, "module")
		}
	}
	times.check(d, "instances of the module")
	return m
}

// passedProviders decodes the providers argument, which maps local names of the child to configurations of the
// caller.
func (d *decoder) passedProviders(attr *hcl.Attribute) []PassedProvider {
	pairs, more := hcl.ExprMap(attr.Expr)
	d.add(more)
	var out []PassedProvider
	seen := map[string]hcl.Range{}
	for _, pair := range pairs {
		child, ok := d.providerReference(pair.Key, "providers")
		parent, ok2 := d.providerReference(pair.Value, "providers")
		if !ok || !ok2 {
			continue
		}
		name := child.local.String()
		if first, dup := seen[name]; dup {
			d.err(pair.Value.Range(), "Duplicate provider address",
				"The configuration for %s in the module is given already, at %s.", name, first)
			continue
		}
		rng := hcl.RangeBetween(pair.Key.Range(), pair.Value.Range())
		seen[name] = rng
		out = append(out, PassedProvider{
			InChild: child.local, InParent: parent.local, KeyExpr: parent.key, Range: rng,
			InChildRange: child.nameRange, InParentRange: parent.nameRange, inChildKey: child.key,
		})
	}
	return out
}
